"""What the document says of an answer beyond its fields: orders, sums, signs, and who is asked.

A rule gets the payload, the facts and the argument of its row, and returns what breaks it. The rows
are in `content.yaml`. Source: broker open API 0.2.0-preview.3.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from bot.conformance.data import ContentCase
from bot.conformance.facts import Facts, MissingFact
from bot.conformance.finding import Finding, Verdict, judged
from bot.conformance.raw_client import RawClient
from bot.conformance.reads import missing_finding

Rule = Callable[[Any, Facts, str], list[str]]
SCALE_MAX: Final = 30
DAY_S: Final = 86_400
ROUNDING: Final = 1
AUCTIONS: Final = frozenset({"OPEN", "PRE_CLOSED", "CA"})
_PERCENT: Final = re.compile(r"-?[0-9]+([.,][0-9]+)? ?%")
_SHARES: Final = (
    *("available", "mortgage", "vsd_mortgage", "restrict", "blocked", "receiving_right"),
    *("receiving_t0", "receiving_t1", "receiving_t2", "matching_amount", "withdraw"),
)
_OHLC: Final = ("o", "h", "l", "c")
_ALIGNED: Final = ("values", "volumes", "times")
_BY_DEFAULT: Final = ["BBANDS", "EMA", "MACD", "RSI", "SMA", "SMA", "VOLUME_SMA"]


async def check_content(client: RawClient, facts: Facts) -> AsyncIterator[Finding]:
    """Make every read of the table and judge its content."""
    for case in ContentCase.rows():
        try:
            target = facts.target(case.path, case.query)
        except MissingFact as missing:
            yield missing_finding(case.id, case.what, missing)
            continue
        reply = await client.get(target)
        body = reply.body or {}
        payload = body.get("data", body.get("result"))
        if reply.status != 200 or payload is None:
            yield Finding(case.id, case.what, Verdict.FAIL, str(reply))
            continue
        try:
            broken = RULES[case.rule](payload, facts, case.of)
        except (MissingFact, KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            broken = [f"not as documented: {type(error).__name__} {error}"]
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        found = f"{broken[0]}{more}" if broken else "as documented"
        yield judged(case.id, case.what, is_met=not broken, found=found, otherwise=case.otherwise)


def _falling(values: Iterable[Any]) -> list[str]:
    return [f"{a} before {b}" for a, b in pairwise(values) if b < a]


def _newest_first(key: str, name: str) -> Rule:
    return lambda payload, _, __: _falling(each[name] for each in reversed(payload[key]))


def _oldest_first(key: str, name: str) -> Rule:
    return lambda payload, _, __: _falling(each[name] for each in payload[key])


def _every(key: str, name: str) -> Rule:
    """Return the rule that `name` of all elements is what was asked for."""
    return lambda payload, _, wanted: [
        f"{each[name]} among {wanted}"
        for each in (payload[key] if key else payload)
        if each[name] != wanted
    ]


def _equal(what: Callable[[Any], object], wanted: Callable[[Facts, str], object]) -> Rule:
    def rule(payload: Any, facts: Facts, of: str) -> list[str]:
        found, expected = what(payload), wanted(facts, of)
        return [] if found == expected else [f"{found}, wanted {expected}"]

    return rule


def _page(number: int, size: int) -> Rule:
    def rule(payload: Any, _: Facts, __: str) -> list[str]:
        items = len(payload["items"])
        wanted = max(0, min(size, payload["total"] - (number - 1) * size))
        if (payload["page"], payload["page_size"], items) == (number, size, wanted):
            return []
        return [f"page {payload['page']} of {payload['page_size']} with {items} items"]

    return rule


def _uncrossed(payload: Any, facts: Facts, _: str) -> list[str]:
    """In an auction bids and asks may cross: they are matched at its end.

    A level of price 0 is that of an auction order.
    """
    if facts["phase"] in AUCTIONS:
        return []
    bids, asks = (
        [each["price"] for each in payload[side] if each["price"] > 0] for side in ("bids", "asks")
    )
    is_crossed = bool(bids and asks) and max(bids) >= min(asks)
    return [f"bid {max(bids)} at ask {min(asks)}"] if is_crossed else []


def _near(key: str, name: str, divisor: int) -> Rule:
    """Return the rule that the last price has the scale of the quote's reference."""

    def rule(payload: Any, facts: Facts, _: str) -> list[str]:
        prices = [each[name] for each in payload[key] if each.get(name)]
        near = Decimal(facts["reference"]) / divisor
        if not prices or near / SCALE_MAX < prices[-1] < near * SCALE_MAX:
            return []
        return [f"last close {prices[-1]}, wanted something near {near}"]

    return rule


RULES: Final[Mapping[str, Rule]] = {
    "above 1000": lambda payload, _, __: [
        f"{each['symbol']} is not above 1000" for each in payload["items"] if each["price"] <= 1000
    ],
    "bars hold together": lambda payload, _, __: [
        f"bar {bar['t']}: open or close lies outside low and high"
        for bar in payload["series"]
        if all(bar.get(name) is not None for name in _OHLC)
        and (bar["l"], bar["h"]) != (min(map(bar.get, _OHLC)), max(map(bar.get, _OHLC)))
    ],
    "by symbol": _oldest_first("items", "symbol"),
    "calendar ascends": lambda payload, _, __: _falling(
        each["detail"]["date"] for each in payload["results"]
    ),
    "days newest first": _newest_first("data", "date"),
    "default indicators": _equal(
        lambda payload: sorted(each["indicator"] for each in payload["indicators"]),
        lambda _, __: _BY_DEFAULT,
    ),
    "default page": _page(1, 20),
    "empty": lambda payload, _, __: [] if payload == [] else [f"{len(payload)} elements"],
    "entries ascend": _oldest_first("entries", "taken_at"),
    "equal lengths": lambda payload, _, __: [
        f"those of {each['index']} differ"
        for each in payload
        if len({len(each[name]) for name in _ALIGNED}) > 1
    ],
    "flow is the difference": lambda payload, _, __: [
        f"{each['fund_name']}: flow is not inflow less outflow"
        for each in payload
        if abs(each["fund_flow"] - (each["fund_inflow"] - each["fund_outflow"])) > ROUNDING
    ],
    "in thousands": _near("prices", "close", 1_000),
    "inside the band": lambda payload, _, __: [
        f"{name} {payload[name]} outside {payload['floor']} to {payload['ceiling']}"
        for name in ("price", "reference")
        if not payload["floor"] <= payload[name] <= payload["ceiling"]
    ],
    "inside the range": lambda payload, facts, _: [
        f"a bar at {bar['t']} is outside"
        for bar in payload["series"]
        if not int(facts["month_ago_s"]) - DAY_S <= bar["t"] <= int(facts["now_s"]) + DAY_S
    ],
    "milliseconds": lambda payload, facts, _: [
        f"{stamp} is not in Unix ms"
        for each in payload
        for stamp in each["times"]
        if stamp < int(facts["month_ago_s"]) * 900
    ],
    "net is the difference": lambda payload, _, __: [
        f"net {name} is not buy less sell"
        for name in ("volume", "value")
        if payload["buy"]["total"][name] - payload["sell"]["total"][name]
        != payload["net"]["total"][name]
    ],
    "news newest first": _newest_first("results", "published_at"),
    "no pe": lambda payload, _, __: [
        f"{each['symbol']} has a pe" for each in payload["items"] if each.get("pe") is not None
    ],
    "of exchange": _equal(lambda payload: payload["exchange"], lambda _, wanted: wanted),
    "one index": _equal(
        lambda payload: [each["index"] for each in payload], lambda _, wanted: [wanted]
    ),
    "only of the country": _every("results", "country"),
    "only of the exchange": _every("items", "exchange"),
    "only of the topic": _every("results", "topic"),
    "only of the type": _every("", "type"),
    "page 2 of 1": _page(2, 1),
    "page turns": lambda payload, _, __: [
        f"{name} {payload[name]}"
        for name, wanted in (
            ("previous_page", 1),
            ("next_page", 1 if payload["total"] <= payload["page_size"] else 2),
        )
        if payload[name] != wanted
    ],
    "percent signs": lambda payload, _, __: [
        repr(rate["percent"])
        for bank in payload["bank_interest_rates"]
        for rate in bank["rates"]
        if rate["percent"] is not None and not _PERCENT.fullmatch(rate["percent"])
    ],
    "points at most": lambda payload, _, number: (
        [f"{len(payload['series'])} points"] if len(payload["series"]) > int(number) else []
    ),
    "points newest first": _newest_first("series", "period"),
    "room adds up": lambda payload, _, __: (
        [f"owned and available do not make max_volume {payload['max_volume']}"]
        if payload["owned"] + payload["available"] != payload["max_volume"]
        else []
    ),
    "scale of the quote": _near("series", "c", 1),
    "series ascends": _oldest_first("series", "t"),
    "shares add up": lambda payload, _, __: [
        f"{each['symbol']}: the parts do not make the total"
        for each in payload["portfolio"]
        if sum(each[name] for name in _SHARES) != each["total"]
    ],
    "uncrossed": _uncrossed,
    "upper case": _equal(
        lambda payload: payload["symbol"], lambda facts, _: facts["stock"].upper()
    ),
}
"""By the names of `content.yaml`."""
