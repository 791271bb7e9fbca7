"""What the document says of an answer beyond its fields: orders, sums, signs, and who is asked.

A judge gets the payload, the facts and the argument of its row, and returns what is wrong, or
nothing. The rows are in `sense.yaml`. Source: broker open API 0.2.0-preview.3.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from bot.conformance.data import Sense, sense_rows
from bot.conformance.facts import Facts, MissingFact
from bot.conformance.finding import Finding, Verdict, judged
from bot.conformance.reads import missing_finding
from bot.conformance.talk import Talker

Judge = Callable[[Any, Facts, str], str]
SCALE_MAX: Final = 30
DAY_S: Final = 86_400
ROUNDING: Final = 1
AUCTIONS: Final = frozenset({"OPEN", "PRE_CLOSED", "CA"})
_PERCENT: Final = re.compile(r"-?[0-9]+([.,][0-9]+)? ?%")
_SHARES: Final = (
    "available",
    "mortgage",
    "vsd_mortgage",
    "restrict",
    "blocked",
    "receiving_right",
    "receiving_t0",
    "receiving_t1",
    "receiving_t2",
    "matching_amount",
    "withdraw",
)
_ALIGNED: Final = ("values", "volumes", "times")
_BY_DEFAULT: Final = ["BBANDS", "EMA", "MACD", "RSI", "SMA", "SMA", "VOLUME_SMA"]


async def check_sense(talker: Talker, facts: Facts) -> AsyncIterator[Finding]:
    """Make every read of the table and judge it."""
    for row in sense_rows():
        yield await _judged(talker, facts, row)


async def _judged(talker: Talker, facts: Facts, row: Sense) -> Finding:
    try:
        target = facts.target(row.path, row.query)
    except MissingFact as missing:
        return missing_finding(row.id, row.what, missing)
    reply = await talker.get(target)
    body = reply.body or {}
    payload = body.get("data", body.get("result"))
    if reply.status != 200 or payload is None:
        return Finding(row.id, row.what, Verdict.FAIL, str(reply))
    try:
        trouble = JUDGES[row.judge](payload, facts, row.of)
    except (MissingFact, KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        trouble = f"not as documented: {type(error).__name__} {error}"
    otherwise = Verdict.FAIL if row.is_shown else Verdict.DRIFT
    found = trouble or "so it is"
    return judged(row.id, row.what, is_met=not trouble, found=found, otherwise=otherwise)


# ------------------------------------------------------------------------------- orders of things


def _rising(values: Iterable[Any]) -> str:
    return next((f"{a} before {b}" for a, b in pairwise(values) if b < a), "")


def _newest_first(way: str, name: str) -> Judge:
    return lambda payload, _, __: _rising(each[name] for each in reversed(payload[way]))


def _oldest_first(way: str, name: str) -> Judge:
    return lambda payload, _, __: _rising(each[name] for each in payload[way])


def _calendar_ascends(payload: Any, _: Facts, __: str) -> str:
    return _rising(each["detail"]["date"] for each in payload["results"])


# ------------------------------------------------------------------------------ what was asked for


def _only_of(name: str, way: str) -> Judge:
    def judge(payload: Any, _: Facts, wanted: str) -> str:
        rows = payload[way] if way else payload
        other = [each[name] for each in rows if each[name] != wanted]
        return f"{other[0]} among {wanted}" if other else ""

    return judge


def _upper_case(payload: Any, facts: Facts, _: str) -> str:
    wanted = facts["stock"].upper()
    return "" if payload["symbol"] == wanted else f"{payload['symbol']} for {wanted.lower()}"


def _of_exchange(payload: Any, _: Facts, wanted: str) -> str:
    return "" if payload["exchange"] == wanted else f"{payload['exchange']} for {wanted}"


def _one_index(payload: Any, _: Facts, wanted: str) -> str:
    names = [each["index"] for each in payload]
    return "" if names == [wanted] else f"{names} for {wanted} and one that is none"


def _empty(payload: Any, _: Facts, __: str) -> str:
    return "" if payload == [] else f"{len(payload)} elements"


def _inside_the_range(payload: Any, facts: Facts, _: str) -> str:
    low, high = int(facts["month_ago_s"]) - DAY_S, int(facts["now_s"]) + DAY_S
    outside = [each["t"] for each in payload["series"] if not low <= each["t"] <= high]
    return f"{len(outside)} bars outside, {outside[0]} for one" if outside else ""


def _above_1000(payload: Any, _: Facts, __: str) -> str:
    low = [each["symbol"] for each in payload["items"] if each["price"] <= 1000]
    return f"{low[0]} is not above 1000" if low else ""


def _no_pe(payload: Any, _: Facts, __: str) -> str:
    there = [each["symbol"] for each in payload["items"] if each.get("pe") is not None]
    return f"{there[0]} has a pe" if there else ""


def _points_at_most(payload: Any, _: Facts, number: str) -> str:
    points = len(payload["series"])
    return "" if points <= int(number) else f"{points} points"


def _default_indicators(payload: Any, _: Facts, __: str) -> str:
    found = sorted(each["indicator"] for each in payload["indicators"])
    return "" if found == _BY_DEFAULT else f"{', '.join(found)}"


# ------------------------------------------------------------------------------------------ pages


def _page(number: int, size: int) -> Judge:
    def judge(payload: Any, _: Facts, __: str) -> str:
        items = len(payload["items"])
        wanted = max(0, min(size, payload["total"] - (number - 1) * size))
        if (payload["page"], payload["page_size"], items) == (number, size, wanted):
            return ""
        return f"page {payload['page']} of {payload['page_size']} with {items} items"

    return judge


def _page_turns(payload: Any, _: Facts, __: str) -> str:
    if payload["previous_page"] != 1:
        return f"previous_page {payload['previous_page']} on the first page"
    wanted = 1 if payload["total"] <= payload["page_size"] else 2
    return "" if payload["next_page"] == wanted else f"next_page {payload['next_page']}"


# ---------------------------------------------------------------------------------- sums and signs


def _shares_add_up(payload: Any, _: Facts, __: str) -> str:
    wrong = [
        each["symbol"]
        for each in payload["portfolio"]
        if sum(each[name] for name in _SHARES) != each["total"]
    ]
    return f"{wrong[0]}: the parts do not make the total" if wrong else ""


def _room_adds_up(payload: Any, _: Facts, __: str) -> str:
    total = payload["owned"] + payload["available"]
    return "" if total == payload["max_volume"] else f"{total} and {payload['max_volume']}"


def _net_is_the_difference(payload: Any, _: Facts, __: str) -> str:
    buy, sell, net = (payload[name]["total"] for name in ("buy", "sell", "net"))
    wrong = [name for name in ("volume", "value") if buy[name] - sell[name] != net[name]]
    return f"net {wrong[0]} is not buy less sell" if wrong else ""


def _flow_is_the_difference(payload: Any, _: Facts, __: str) -> str:
    wrong = [
        each["fund_name"]
        for each in payload
        if abs(each["fund_flow"] - (each["fund_inflow"] - each["fund_outflow"])) > ROUNDING
    ]
    return f"{wrong[0]}: flow is not in less out" if wrong else ""


def _bars_hold_together(payload: Any, _: Facts, __: str) -> str:
    for bar in payload["series"]:
        prices = [bar[name] for name in "ohlc" if bar.get(name) is not None]
        if len(prices) == len("ohlc") and (min(prices), max(prices)) != (bar["l"], bar["h"]):
            return f"bar {bar['t']}: low and high do not hold open and close"
    return ""


def _inside_the_band(payload: Any, _: Facts, __: str) -> str:
    low, high = payload["floor"], payload["ceiling"]
    is_inside = all(low <= payload[name] <= high for name in ("price", "reference"))
    return "" if is_inside else f"price {payload['price']} outside {low} to {high}"


def _uncrossed(payload: Any, facts: Facts, _: str) -> str:
    """In an auction bids and asks may cross: they are matched at its end."""
    if facts["phase"] in AUCTIONS:
        return ""
    bids, asks = (_prices(payload[side]) for side in ("bids", "asks"))
    is_crossed = bool(bids and asks) and max(bids) >= min(asks)
    return f"bid {max(bids)} at ask {min(asks)}" if is_crossed else ""


def _prices(levels: Sequence[Mapping[str, Any]]) -> list[Any]:
    """A level of price 0 is that of an auction order."""
    return [each["price"] for each in levels if each["price"] > 0]


def _equal_lengths(payload: Any, _: Facts, __: str) -> str:
    uneven = [each["index"] for each in payload if len({len(each[n]) for n in _ALIGNED}) > 1]
    return f"those of {uneven[0]} differ" if uneven else ""


# ------------------------------------------------------------------------------------------- units


def _scale_of_the_quote(payload: Any, facts: Facts, _: str) -> str:
    closes = [bar["c"] for bar in payload["series"] if bar.get("c")]
    return _scale(closes, Decimal(facts["reference"]))


def _in_thousands(payload: Any, facts: Facts, _: str) -> str:
    closes = [each["close"] for each in payload["prices"] if each.get("close")]
    return _scale(closes, Decimal(facts["reference"]) / 1000)


def _scale(closes: Sequence[Decimal | int], near: Decimal) -> str:
    if not closes or near / SCALE_MAX < closes[-1] < near * SCALE_MAX:
        return ""
    return f"last close {closes[-1]}, wanted is something like {near}"


def _milliseconds(payload: Any, facts: Facts, _: str) -> str:
    since = int(facts["month_ago_s"]) * 900
    wrong = [stamp for each in payload for stamp in each["times"] if stamp < since]
    return f"{wrong[0]} is no Unix ms" if wrong else ""


def _percent_signs(payload: Any, _: Facts, __: str) -> str:
    said = [rate["percent"] for bank in payload["bank_interest_rates"] for rate in bank["rates"]]
    wrong = [text for text in said if text is not None and not _PERCENT.fullmatch(text)]
    return f"{wrong[0]!r}" if wrong else ""


JUDGES: Final[Mapping[str, Judge]] = {
    "above 1000": _above_1000,
    "bars hold together": _bars_hold_together,
    "by symbol": _oldest_first("items", "symbol"),
    "calendar ascends": _calendar_ascends,
    "days newest first": _newest_first("data", "date"),
    "default indicators": _default_indicators,
    "default page": _page(1, 20),
    "empty": _empty,
    "entries ascend": _oldest_first("entries", "taken_at"),
    "equal lengths": _equal_lengths,
    "flow is the difference": _flow_is_the_difference,
    "in thousands": _in_thousands,
    "inside the band": _inside_the_band,
    "inside the range": _inside_the_range,
    "milliseconds": _milliseconds,
    "net is the difference": _net_is_the_difference,
    "news newest first": _newest_first("results", "published_at"),
    "no pe": _no_pe,
    "of exchange": _of_exchange,
    "one index": _one_index,
    "only of the country": _only_of("country", "results"),
    "only of the exchange": _only_of("exchange", "items"),
    "only of the topic": _only_of("topic", "results"),
    "only of the type": _only_of("type", ""),
    "page 2 of 1": _page(2, 1),
    "page turns": _page_turns,
    "percent signs": _percent_signs,
    "points at most": _points_at_most,
    "points newest first": _newest_first("series", "period"),
    "room adds up": _room_adds_up,
    "scale of the quote": _scale_of_the_quote,
    "series ascends": _oldest_first("series", "t"),
    "shares add up": _shares_add_up,
    "uncrossed": _uncrossed,
    "upper case": _upper_case,
}
"""By the names of `sense.yaml`."""
