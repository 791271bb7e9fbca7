"""The small made-up tables of the library, and what is known of each listed company for good.

A line of a table that begins with `#` says something about it and is no row. Of the symbols in
`stocks.csv`, the facts are what it says; of any other, something made from the seed.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from typing import Final

from bot.sandbox.library.walk import stream
from bot.sandbox.scenario import Scenario, SymbolScript

_MILLION: Final = 1_000_000
_FIRST_LISTING: Final = date(2006, 1, 2)
_LISTING_DAYS: Final = 5_000

Row = Mapping[str, str]


@cache
def table(name: str) -> tuple[Row, ...]:
    """Return the rows of a table in their order, read when first asked for."""
    text = (files("bot.sandbox.library") / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def sector_names() -> Mapping[str, str]:
    """Return the sectors: slug to name."""
    return {row["slug"]: row["name"] for row in table("sectors")}


@dataclass(frozen=True, slots=True)
class Facts:
    """`…_pct` are percent of all shares; `eps` and `book_value` are VND a share."""

    name_en: str
    sector: str
    shares: int
    state_pct: float
    foreign_pct: float
    room_pct: float
    float_pct: float
    eps: int
    book_value: int
    listed: date
    first_price: int

    def part(self, pct: float) -> int:
        return int(self.shares * pct / 100)

    @property
    def foreign_max(self) -> int:
        return self.part(self.room_pct)


def facts_of(script: SymbolScript, scenario: Scenario) -> Facts:
    rows = (row for row in table("stocks") if row["symbol"] == script.symbol)
    row = next(rows, None) or _made_up(script, scenario.seed)
    return Facts(
        name_en=row["name_en"],
        sector=row["sector"],
        shares=int(row["shares"]),
        state_pct=float(row["state_pct"]),
        foreign_pct=float(row["foreign_pct"]),
        room_pct=float(row["room_pct"]),
        float_pct=float(row["float_pct"]),
        eps=max(1, round(script.reference / float(row["pe"]))),
        book_value=max(1, round(script.reference / float(row["pb"]))),
        listed=date.fromisoformat(row["listed"]),
        first_price=int(row["first_price"]),
    )


def _made_up(script: SymbolScript, seed: int) -> Row:
    source = stream(seed, "facts", script.symbol)
    state, foreign = source.randrange(0, 40), source.randrange(3, 30)
    listed = _FIRST_LISTING + timedelta(days=source.randrange(_LISTING_DAYS))
    facts = {
        "name_en": f"{script.name or script.symbol} (made up)",
        "sector": source.choice(sorted(sector_names())),
        "shares": source.randrange(200, 3_000) * _MILLION,
        "state_pct": state,
        "foreign_pct": foreign,
        "room_pct": 49,
        "float_pct": source.randrange(20, 100 - state),
        "pe": source.randrange(6, 25),
        "pb": source.randrange(1, 5),
        "listed": listed.isoformat(),
        "first_price": script.reference,
    }
    return {name: str(value) for name, value in facts.items()}
