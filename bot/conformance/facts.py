"""What has to be known before anything can be asked about: a stock, a fund, an account, the time.

Each fact is read from the server itself. One that is missing because its list is empty has its
checks skipped; one that is missing because its list could not be read makes them fail.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from bot.conformance.talk import Reply, Talker, target_of
from bot.domain.instrument import EXCHANGE_TZ

LIKED: Final[Mapping[str, tuple[str, ...]]] = {
    "stock": ("FPT", "HPG", "VNM", "VCB"),
    "index": ("VNINDEX", "VN30"),
    "forex": ("USDVND",),
    "crypto": ("BTC", "BTCUSDT"),
}
"""Which of a catalogue is taken when it is there; else the first."""
US_STOCKS: Final = ("AAPL", "MSFT", "NVDA", "TSLA", "GOOGL", "AMZN", "META")
YIELD_ONLY: Final = ("VN10Y", "US10Y", "JP10Y", "DE10Y")
DEALT_TRIED_MAX: Final = 12
_FACT: Final = re.compile(r"\{(\w+)\}")
_PAYLOAD: Final = ("data", "result")


class MissingFact(Exception):
    """A check cannot be made. `is_failure`: because the server failed to tell."""

    def __init__(self, name: str, why: str, *, is_failure: bool) -> None:
        super().__init__(why)
        self.name = name
        self.why = why
        self.is_failure = is_failure


@dataclass(slots=True)
class Facts:
    """Known facts by name, and why others are not known."""

    known: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, MissingFact] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    """What paths begin with that this server does not have at all, and why that is thought."""

    def __getitem__(self, name: str) -> str:
        if name in self.known:
            return self.known[name]
        raise self.unknown.get(name) or MissingFact(name, f"no {name}", is_failure=False)

    def target(self, path: str, query: Mapping[str, str]) -> str:
        """Return the target with every fact in its place. Raises MissingFact."""
        for start, why in self.absent.items():
            if path.startswith(start):
                raise MissingFact(start, why, is_failure=False)
        filled = _FACT.sub(lambda found: quote(self[found[1]], safe=""), path)
        return target_of(filled, {name: self.fill(value) for name, value in query.items()})

    def fill(self, text: str) -> str:
        """Return a text with every fact in its place. Raises MissingFact."""
        return _FACT.sub(lambda found: self[found[1]], text)

    def learn(self, name: str, value: object, reply: Reply) -> None:
        """Keep a value that was found, or why there was none."""
        if value not in {None, ""}:
            self.known[name] = str(value)
        elif reply.status == 200:
            why = f"the server has no {name}"
            self.unknown[name] = MissingFact(name, why, is_failure=False)
        else:
            why = f"{name} could not be found out: {reply}"
            self.unknown[name] = MissingFact(name, why, is_failure=True)


async def find_facts(talker: Talker, *, account: str, stock: str | None) -> Facts:
    """Find out everything that the checks need; `account` is an id, a suffix or a type."""
    facts = Facts()
    await _find_account(talker, facts, account)
    for kind, step in _CATALOGUES.items():
        reply = await talker.get(f"/market/quotes/{step}")
        symbols = [str(each.get("symbol") or "") for each in rows(reply)]
        facts.learn(kind, _liked(kind, symbols), reply)
        _find_specials(facts, kind, symbols, reply)
        if kind == "commodity":
            await _find_dealer(talker, facts, symbols)
    if stock is not None:
        facts.known["stock"] = stock.upper()
    if "stock" in facts.known:
        facts.known["stock_lower"] = facts["stock"].lower()
    await _find_time(talker, facts)
    for name, path, query, read in _LISTS:
        await _find_first(talker, facts, name, path, query, read)
    reply = await talker.get(FUND_COMPANIES)
    if reply.status == HTTPStatus.NOT_FOUND:
        facts.absent[FUND_PATHS] = f"this server has no fund paths: {FUND_COMPANIES} is {reply}"
    return facts


async def _find_account(talker: Talker, facts: Facts, wanted: str) -> None:
    reply = await talker.get("/users/v1/users/me")
    facts.learn("user_id", payload(reply, {}).get("user_id"), reply)
    if "user_id" not in facts.known:
        return
    reply = await talker.get(f"/users/v1/users/{facts['user_id']}/sub-accounts")
    found = [each for each in rows(reply) if _is_wanted(each, wanted)]
    chosen = found[0] if found else {}
    facts.learn("account", chosen.get("id"), reply)
    facts.learn("extended", chosen.get("sub_account_ext"), reply)


def _is_wanted(each: Mapping[str, Any], wanted: str) -> bool:
    extended, kind = str(each.get("sub_account_ext")), str(each.get("type"))
    return (
        wanted in {each.get("id"), extended}
        or extended.endswith(wanted)
        or kind.lower() == wanted.lower()
    )


def _liked(kind: str, symbols: Sequence[str]) -> str | None:
    """Choose from a catalogue; a bond that has a yield alone, without depth, only at last."""
    liked = [symbol for symbol in LIKED.get(kind, ()) if symbol in symbols]
    priced = [symbol for symbol in symbols if symbol not in YIELD_ONLY]
    return next(iter([*liked, *priced, *symbols]), None)


def _find_specials(facts: Facts, kind: str, symbols: Sequence[str], reply: Reply) -> None:
    for special, of, names in (
        ("us_stock", "stock", US_STOCKS),
        ("yield_bond", "bond", YIELD_ONLY),
    ):
        if kind == of:
            facts.learn(special, next((name for name in names if name in symbols), None), reply)


async def _find_dealer(talker: Talker, facts: Facts, symbols: Sequence[str]) -> None:
    reply = Reply(200, {}, {}, b"")
    for symbol in symbols[:DEALT_TRIED_MAX]:
        reply = await talker.get(f"/market/quotes/commodities/{quote(symbol)}/dealer-products")
        if products := rows(reply):
            facts.learn("dealt", symbol, reply)
            facts.learn("product", products[0].get("code"), reply)
            return
    facts.learn("dealt", None, reply)
    facts.learn("product", None, reply)


# ----------------------------------------------------------------------------------------- the time


async def _find_time(talker: Talker, facts: Facts) -> None:
    """Market time by the stock's quote: a sandbox may play another day than the wall's."""
    now = talker.offset.now()
    if "stock" in facts.known:
        reply = await talker.get(f"/market/quotes/stocks/{quote(facts['stock'])}")
        quoted = payload(reply, {})
        for name in ("floor", "ceiling", "exchange", "reference"):
            facts.learn(name, quoted.get(name), reply)
        now = _instant(quoted.get("updated_at")) or now
        await _find_phase(talker, facts)
    today = now.astimezone(EXCHANGE_TZ).date()
    facts.known |= _days(today)
    for name, back in (("now_s", 0), ("day_ago_s", 1), ("month_ago_s", 30)):
        facts.known[name] = str(int((now - timedelta(days=back)).timestamp()))
    facts.known["closed_day"] = await _closed_day(talker, facts, today)


async def _find_phase(talker: Talker, facts: Facts) -> None:
    if "exchange" in facts.known:
        query = {"exchange": facts["exchange"]}
        reply = await talker.get(target_of("/trading/market/session", query))
        facts.learn("phase", payload(reply, {}).get("exchange_session"), reply)


def _days(today: date) -> dict[str, str]:
    last_month = today.replace(day=1) - timedelta(days=1)
    return {
        "today": today.isoformat(),
        "tomorrow": (today + timedelta(days=1)).isoformat(),
        "month_ago": (today - timedelta(days=30)).isoformat(),
        "six_years_ago": (today - timedelta(days=6 * 366)).isoformat(),
        "this_month": f"{today:%Y-%m}",
        "last_month": f"{last_month:%Y-%m}",
    }


async def _closed_day(talker: Talker, facts: Facts, today: date) -> str:
    """The last trading day before today by the stock's own bars, else the last weekday."""
    if "stock" in facts.known:
        path = f"/market/quotes/stocks/{quote(facts['stock'])}/history"
        query = {"from": facts["month_ago_s"], "to": facts["now_s"]}
        bars = payload(await talker.get(target_of(path, query)), {}).get("series")
        starts = [each.get("t") for each in bars or [] if isinstance(each, dict)]
        days = {_day_of(start) for start in starts if isinstance(start, int)}
        if before := [day for day in days if day < today]:
            return max(before).isoformat()
    return next(
        day.isoformat()
        for day in (today - timedelta(days=back) for back in range(1, 4))
        if day.weekday() < 5
    )


def _day_of(seconds: int) -> date:
    return datetime.fromtimestamp(seconds, EXCHANGE_TZ).date()


def _instant(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else None


# --------------------------------------------------------------------------------- firsts of lists


async def _find_first(
    talker: Talker,
    facts: Facts,
    name: str,
    path: str,
    query: Mapping[str, str],
    read: Callable[[Reply], object],
) -> None:
    try:
        reply = await talker.get(facts.target(path, query))
    except MissingFact as missing:
        facts.unknown[name] = missing
        return
    facts.learn(name, read(reply), reply)


def payload(reply: Reply, default: Any) -> Any:
    """Return what stands under `data` or `result`; `default` when there is no such."""
    body = reply.body or {}
    found = next((body[key] for key in _PAYLOAD if body.get(key) is not None), default)
    return found if isinstance(found, type(default)) else default


def rows(reply: Reply) -> list[dict[str, Any]]:
    """Return the objects of a list payload."""
    return [each for each in payload(reply, []) if isinstance(each, dict)]


def _first(name: str) -> Callable[[Reply], object]:
    return lambda reply: next((each.get(name) for each in rows(reply)), None)


def _first_result(reply: Reply) -> object:
    found = payload(reply, {}).get("results") or [{}]
    return found[0].get("id") if isinstance(found[0], dict) else None


_CATALOGUES: Final[Mapping[str, str]] = {
    "stock": "stocks",
    "index": "indices",
    "forex": "forex",
    "crypto": "cryptos",
    "commodity": "commodities",
    "fund": "funds",
    "bond": "bonds",
    "etf": "etfs",
}
FUND_PATHS: Final = "/fund-trading/public/"
FUND_COMPANIES: Final = FUND_PATHS + "fund-companies"
_CERTIFICATES: Final = FUND_PATHS + "fund-certificates"
_NONE: Final[Mapping[str, str]] = {}
_LISTS: Final[tuple[tuple[str, str, Mapping[str, str], Callable[[Reply], object]], ...]] = (
    ("order_id", "/trading/v1/accounts/{account}/order-book", _NONE, _first("orderid")),
    ("news_id", "/market/market-news", _NONE, _first_result),
    ("indicator", "/market/macro/indicators", _NONE, _first("indicator")),
    ("certificate", _CERTIFICATES, {"fund-type": "STOCK_FUND"}, _first("name")),
)
