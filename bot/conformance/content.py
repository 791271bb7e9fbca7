"""What the document says about an answer beyond its fields: order, sums, signs, and subject.

A rule takes the payload, the facts and the argument of its row, and returns what breaks it. The
rows are in `content.yaml`. Source: broker open API 0.2.0-preview.3.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from operator import getitem
from typing import Any, Final

from bot.conformance.data import ContentCase
from bot.conformance.facts import Facts, MissingFact
from bot.conformance.finding import Finding, Verdict, judged
from bot.conformance.raw_client import RawClient
from bot.conformance.reads import missing_finding

Rule = Callable[[Any, Facts, str], list[str]]
UNREADABLE: Final = (
    MissingFact,
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    ArithmeticError,
)
"""What a rule raises for an answer of another shape."""
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
    """Make every read of the table and check its content."""
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
        except UNREADABLE as error:
            broken = [f"not as documented: {type(error).__name__} {error}"]
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        found = f"{broken[0]}{more}" if broken else "as documented"
        yield judged(case.id, case.what, is_met=not broken, found=found, otherwise=case.otherwise)


def _falling(values: Iterable[Any]) -> list[str]:
    return [f"{a} before {b}" for a, b in pairwise(values) if b < a]


def _column(payload: Any, path: str) -> list[Any]:
    """Return a field of all elements: `results.detail.date`; `.type` if the payload is a list."""
    key, *names = path.split(".")
    return [reduce(getitem, names, each) for each in (payload[key] if key else payload)]


def _all_are(payload: Any, _: Facts, of: str) -> list[str]:
    path, wanted = of.split()
    return [f"{found} among {wanted}" for found in _column(payload, path) if found != wanted]


def _unequal(found: object, wanted: object) -> list[str]:
    return [] if found == wanted else [f"{found}, wanted {wanted}"]


def _page(payload: Any, _: Facts, of: str) -> list[str]:
    """Compare with the page and the size that `of` names."""
    number, size = map(int, of.split())
    items = len(payload["items"])
    wanted = max(0, min(size, payload["total"] - (number - 1) * size))
    if (payload["page"], payload["page_size"], items) == (number, size, wanted):
        return []
    return [f"page {payload['page']} of {payload['page_size']} with {items} items"]


def _uncrossed(payload: Any, facts: Facts, _: str) -> list[str]:
    """Bids and asks may cross only in an auction, which matches them at its end.

    A level of price 0 holds auction orders.
    """
    if facts["phase"] in AUCTIONS:
        return []
    bids, asks = (
        [each["price"] for each in payload[side] if each["price"] > 0] for side in ("bids", "asks")
    )
    is_crossed = bool(bids and asks) and max(bids) >= min(asks)
    return [f"bid {max(bids)} at ask {min(asks)}"] if is_crossed else []


def _scale(payload: Any, facts: Facts, of: str) -> list[str]:
    """Check that the last price has the scale of the quote's reference, divided as `of` says."""
    key, name, divisor = of.split()
    prices = [each[name] for each in payload[key] if each.get(name)]
    near = Decimal(facts["reference"]) / int(divisor)
    if not prices or near / SCALE_MAX < prices[-1] < near * SCALE_MAX:
        return []
    return [f"last close {prices[-1]}, wanted something near {near}"]


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
    "all are": _all_are,
    "ascends": lambda payload, _, path: _falling(_column(payload, path)),
    "default indicators": lambda payload, _, __: _unequal(
        sorted(_column(payload, "indicators.indicator")), _BY_DEFAULT
    ),
    "empty": lambda payload, _, __: [] if payload == [] else [f"{len(payload)} elements"],
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
    "newest first": lambda payload, _, path: _falling(reversed(_column(payload, path))),
    "no pe": lambda payload, _, __: [
        f"{each['symbol']} has a pe" for each in payload["items"] if each.get("pe") is not None
    ],
    "of exchange": lambda payload, _, wanted: _unequal(payload["exchange"], wanted),
    "one index": lambda payload, _, wanted: _unequal(_column(payload, ".index"), [wanted]),
    "page": _page,
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
    "room adds up": lambda payload, _, __: (
        [f"owned and available do not make max_volume {payload['max_volume']}"]
        if payload["owned"] + payload["available"] != payload["max_volume"]
        else []
    ),
    "scale of the quote": _scale,
    "shares add up": lambda payload, _, __: [
        f"{each['symbol']}: the parts do not make the total"
        for each in payload["portfolio"]
        if sum(each[name] for name in _SHARES) != each["total"]
    ],
    "uncrossed": _uncrossed,
    "upper case": lambda payload, facts, _: _unequal(payload["symbol"], facts["stock"].upper()),
}
"""By the names of `content.yaml`."""
