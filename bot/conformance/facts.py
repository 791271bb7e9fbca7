"""Finds what the requests need: a stock, a fund, an account, the time.

Each fact is read from the server itself. If it is missing because a list is empty, its checks are
skipped; if a list could not be read, they fail.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from bot.config.problems import ExitCode, OperatorMistake
from bot.conformance.raw_client import RawClient, Reply, target_of
from bot.domain.instrument import EXCHANGE_TZ

PREFERRED: Final[Mapping[str, tuple[str, ...]]] = {
    "stock": ("FPT", "HPG", "VNM", "VCB"),
    "index": ("VNINDEX", "VN30"),
    "forex": ("USDVND",),
    "crypto": ("BTC", "BTCUSDT"),
}
"""Preferred entries of a catalogue; else the first is taken."""
US_STOCKS: Final = ("AAPL", "MSFT", "NVDA", "TSLA", "GOOGL", "AMZN", "META")
YIELD_ONLY: Final = ("VN10Y", "US10Y", "JP10Y", "DE10Y")
DEALT_TRIED_MAX: Final = 12
YEARS_MAX: Final = 50
"""How far a market may be from our clock."""
_FACT: Final = re.compile(r"\{(\w+)\}")
_PAYLOAD: Final = ("data", "result")
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
_SPECIAL: Final = {"stock": ("us_stock", US_STOCKS), "bond": ("yield_bond", YIELD_ONLY)}
"""Further facts looked up in a catalogue."""
MARKET_PHASE: Final = ("/trading/market/session", {"exchange": "{exchange}"})
FUND_PATHS: Final = "/fund-trading/public/"
FUND_COMPANIES: Final = FUND_PATHS + "fund-companies"
_LISTS: Final = (
    ("order_id", "/trading/v1/accounts/{account}/order-book", "", "orderid"),
    ("news_id", "/market/market-news", "results", "id"),
    ("indicator", "/market/macro/indicators", "", "indicator"),
    ("certificate", FUND_PATHS + "fund-certificates?fund-type=STOCK_FUND", "", "name"),
)
"""Facts that are the first of a list: the path, the key, and the column."""


class MissingFact(Exception):
    """A check cannot be made. `is_failure`: because the server failed to answer."""

    def __init__(self, why: str, *, is_failure: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.is_failure = is_failure


@dataclass(slots=True)
class Facts:
    """Known facts by name, and why others are not known."""

    known: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, MissingFact] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    """Prefixes of paths that this server does not have, and the evidence."""

    def __getitem__(self, name: str) -> str:
        if name in self.known:
            return self.known[name]
        raise self.unknown.get(name) or MissingFact(f"no {name}")

    def price(self, name: str) -> int:
        """Return a price in VND. Raises MissingFact, also if it is none."""
        try:
            price = int(float(self[name]))
        except (ValueError, OverflowError):
            price = 0
        if price <= 0:
            raise MissingFact(f"{name} {self[name]} is no price", is_failure=True)
        return price

    def target(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """Return the target with every fact in its place. Raises MissingFact."""
        for start, why in self.absent.items():
            if path.startswith(start):
                raise MissingFact(why)
        filled = _FACT.sub(lambda found: quote(self[found[1]], safe=""), path)
        return target_of(filled, {name: self.fill(value) for name, value in (query or {}).items()})

    def fill(self, text: str) -> str:
        """Return a text with every fact in its place. Raises MissingFact."""
        return _FACT.sub(lambda found: self[found[1]], text)

    def learn(self, name: str, value: object, reply: Reply) -> None:
        """Store a value that was found, or why there was none: an object or a list is none."""
        is_one = isinstance(value, str | int | float)
        if is_one and value != "":
            self.known[name] = str(value)
        elif value not in (None, ""):
            why = f"{name} is neither a text nor a number"
            self.unknown[name] = MissingFact(why, is_failure=True)
        elif reply.status == 200:
            self.unknown[name] = MissingFact(f"the server has no {name}")
        else:
            why = f"{name} could not be found out: {reply}"
            self.unknown[name] = MissingFact(why, is_failure=True)


async def find_facts(client: RawClient, *, account: str, stock: str | None) -> Facts:
    """Find everything that the checks need; `account` is an id, a suffix or a type.

    Raises OperatorMistake if the server lists sub-accounts, and none is that, or several are.
    """
    facts = Facts()
    await _find_account(client, facts, account)
    for kind, step in _CATALOGUES.items():
        reply = await client.get(f"/market/quotes/{step}")
        symbols = [str(each.get("symbol") or "") for each in rows(reply)]
        preferred = [symbol for symbol in PREFERRED.get(kind, ()) if symbol in symbols]
        with_depth = [symbol for symbol in symbols if symbol not in YIELD_ONLY]
        facts.learn(kind, next(iter([*preferred, *with_depth, *symbols]), None), reply)
        if kind in _SPECIAL:
            name, wanted = _SPECIAL[kind]
            facts.learn(name, next((each for each in wanted if each in symbols), None), reply)
        if kind == "commodity":
            await _find_dealer(client, facts, symbols)
    if stock is not None:
        facts.known["stock"] = stock.upper()
    if "stock" in facts.known:
        facts.known["stock_lower"] = facts["stock"].lower()
    await _find_time(client, facts)
    for name, path, key, column in _LISTS:
        try:
            reply = await client.get(facts.target(path))
        except MissingFact as missing:
            facts.unknown[name] = missing
            continue
        listed = payload(reply, {}).get(key) or [] if key else payload(reply, [])
        found = (each.get(column) for each in listed if isinstance(each, dict))
        facts.learn(name, next(found, None), reply)
    reply = await client.get(FUND_COMPANIES)
    if reply.status == HTTPStatus.NOT_FOUND:
        facts.absent[FUND_PATHS] = f"this server has no fund paths: {FUND_COMPANIES} is {reply}"
    return facts


async def _find_account(client: RawClient, facts: Facts, wanted: str) -> None:
    reply = await client.get("/users/v1/users/me")
    facts.learn("user_id", payload(reply, {}).get("user_id"), reply)
    if "user_id" not in facts.known:
        return
    reply = await client.get(f"/users/v1/users/{facts['user_id']}/sub-accounts")
    listed = rows(reply)
    found = _named(listed, wanted)
    if listed and len(found) != 1:
        suffixes = (str(each.get("sub_account_ext")).rpartition(".")[2] for each in listed)
        named = ", ".join(f"'.{suffix}'" for suffix in suffixes)
        how_many = "more than one sub-account matches" if found else "no sub-account matches"
        text = f"{how_many} '{wanted}' (--account, or broker.account)"
        message = f"{text}. The server lists those ending in {named}"
        raise OperatorMistake.of("E-ACC-001", message, ExitCode.CONFIG)
    chosen = found[0] if found else {}
    facts.learn("account", chosen.get("id"), reply)
    facts.learn("extended", chosen.get("sub_account_ext"), reply)


def _named(listed: list[dict[str, Any]], wanted: str) -> list[dict[str, Any]]:
    """Return the accounts that `wanted` names, as for a bot: an exact id goes before a type."""
    exact = [each for each in listed if wanted in (each.get("id"), each.get("sub_account_ext"))]
    return exact or [
        each
        for each in listed
        if str(each.get("type")).lower() == wanted.lower()
        or str(each.get("sub_account_ext")).endswith(wanted)
    ]


async def _find_dealer(client: RawClient, facts: Facts, symbols: list[str]) -> None:
    """Find a commodity that dealers sell, and one of their products."""
    reply, dealt, product = Reply(200, {}, {}, b""), None, None
    for symbol in symbols[:DEALT_TRIED_MAX]:
        reply = await client.get(f"/market/quotes/commodities/{quote(symbol)}/dealer-products")
        if products := rows(reply):
            dealt, product = symbol, products[0].get("code")
            break
    facts.learn("dealt", dealt, reply)
    facts.learn("product", product, reply)


async def _find_time(client: RawClient, facts: Facts) -> None:
    """Market time according to the stock's quote: a sandbox may be on another day than the wall
    clock.
    """
    now = client.offset.now()
    if "stock" in facts.known:
        reply = await client.get(f"/market/quotes/stocks/{quote(facts['stock'])}")
        quoted = payload(reply, {})
        for name in ("floor", "ceiling", "exchange", "reference"):
            facts.learn(name, quoted.get(name), reply)
        try:
            updated = datetime.fromisoformat(str(quoted.get("updated_at")))
        except ValueError:
            updated = None
        is_near = updated is not None and abs(updated.year - now.year) <= YEARS_MAX
        now = updated if updated and updated.tzinfo and is_near else now
        if "exchange" in facts.known:
            reply = await client.get(facts.target(*MARKET_PHASE))
            facts.learn("phase", payload(reply, {}).get("exchange_session"), reply)
    today = now.astimezone(EXCHANGE_TZ).date()
    facts.known |= {
        "today": today.isoformat(),
        "tomorrow": (today + timedelta(days=1)).isoformat(),
        "month_ago": (today - timedelta(days=30)).isoformat(),
        "six_years_ago": (today - timedelta(days=6 * 366)).isoformat(),
        "this_month": f"{today:%Y-%m}",
        "last_month": f"{today.replace(day=1) - timedelta(days=1):%Y-%m}",
        "now_s": str(int(now.timestamp())),
        "day_ago_s": str(int((now - timedelta(days=1)).timestamp())),
        "month_ago_s": str(int((now - timedelta(days=30)).timestamp())),
    }
    latest = (today - timedelta(days=back) for back in range(1, 4))
    closed_day = next(day for day in latest if day.weekday() < 5)
    if "stock" in facts.known:  # its own bars tell the last trading day, the weekday only guesses
        query = {"from": "{month_ago_s}", "to": "{now_s}"}
        reply = await client.get(facts.target("/market/quotes/stocks/{stock}/history", query))
        bars = payload(reply, {}).get("series") or []
        starts = [each.get("t") for each in bars if isinstance(each, dict)]
        moments = [start for start in starts if isinstance(start, int)]
        days = [datetime.fromtimestamp(moment, EXCHANGE_TZ).date() for moment in moments]
        closed_day = max([day for day in days if day < today], default=closed_day)
    facts.known["closed_day"] = closed_day.isoformat()


def payload(reply: Reply, default: Any) -> Any:
    """Return what is under `data` or `result`; `default` if that is missing or of another type."""
    body = reply.body or {}
    found = next((body[key] for key in _PAYLOAD if body.get(key) is not None), default)
    return found if isinstance(found, type(default)) else default


def rows(reply: Reply) -> list[dict[str, Any]]:
    """Return the objects of a list payload."""
    return [each for each in payload(reply, []) if isinstance(each, dict)]
