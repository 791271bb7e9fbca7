"""Combines fills into round trips: what was bought, what its sale brought, and why. Also writes all
fills to a file, CSV or Parquet, for spreadsheets and analysis.

Costs are averages, as in the engine's positions: a sale takes its share of the position's cost,
buying fees included, rounded down to the VND; the last sale takes the rest, so no VND is lost
between trips. One sell order is one trip, however many fills it had.

The file has one row for each fill, in time order; times are local to the exchange, money is whole
VND.
"""

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from bot.config.problems import OperatorMistake
from bot.domain.entry import Decision, Fill
from bot.domain.local_time import day_and_clock_of
from bot.domain.order import Side
from bot.domain.visible import csv_text
from bot.runtime.history.backtest.result import BacktestResult

COLUMNS: Final = (
    "time",
    "strategy",
    "symbol",
    "side",
    "quantity",
    "price",
    "amount",
    "fee",
    "tax",
    "position",
    "realised",
    "order_id",
    "why",
)
ENDINGS: Final = (".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Shares bought and sold again by one sell order. VND; `fee` and `tax` are the sale's own.

    `cost` includes the buying fees. `opened` is when the position of these shares began.
    """

    strategy: str
    symbol: str
    opened: datetime
    closed: datetime
    quantity: int
    cost: int
    amount: int
    fee: int
    tax: int
    entry_why: str
    exit_why: str

    @property
    def result(self) -> int:
        return self.amount - self.fee - self.tax - self.cost


@dataclass(frozen=True, slots=True)
class OpenPosition:
    """Shares bought and still held at the end; `cost` includes the buying fees."""

    strategy: str
    symbol: str
    opened: datetime
    quantity: int
    cost: int
    entry_why: str


@dataclass(frozen=True, slots=True)
class Trips:
    """All round trips in the order of their sales, what is still open, and sold shares that no fill
    had bought (held from the start, or received without a purchase), which are in no trip.
    """

    closed: tuple[RoundTrip, ...]
    open: tuple[OpenPosition, ...]
    unmatched: int


def whys(decisions: Iterable[Decision]) -> Mapping[str, Decision]:
    """Return the decision behind each intent, by its id: the first one, as later ones are about
    cancels.
    """
    found: dict[str, Decision] = {}
    for each in decisions:
        if each.request_id is not None:
            found.setdefault(each.request_id, each)
    return found


def round_trips(fills: Iterable[Fill], decisions: Iterable[Decision]) -> Trips:
    """Combine fills, in order, into round trips and what is left open."""
    behind = whys(decisions)
    held: dict[tuple[str, str], OpenPosition] = {}
    closed: dict[str, RoundTrip] = {}
    unmatched = 0
    for fill in fills:
        strategy = fill.strategy or ""
        key = strategy, fill.symbol
        decision = behind.get(fill.intent_id or "")
        why = decision.why if decision else ""
        position = held.get(key)
        if fill.side is Side.BUY:
            before = position or OpenPosition(strategy, fill.symbol, fill.at, 0, 0, why)
            held[key] = replace(
                before,
                quantity=before.quantity + fill.quantity,
                cost=before.cost + fill.amount + fill.fee,
            )
            continue
        taken = min(fill.quantity, position.quantity) if position else 0
        unmatched += fill.quantity - taken
        if position is None:
            continue
        trip = _sold(position, fill, taken, why)
        earlier = closed.get(fill.order_id)
        closed[fill.order_id] = trip if earlier is None else _joined(earlier, trip)
        left = position.quantity - taken
        if left:
            held[key] = replace(position, quantity=left, cost=position.cost - trip.cost)
        else:
            del held[key]
    return Trips(tuple(closed.values()), tuple(held.values()), unmatched)


def _sold(position: OpenPosition, fill: Fill, taken: int, why: str) -> RoundTrip:
    """Return the trip of one sale; for a sale larger than the position, of the covered part."""
    return RoundTrip(
        strategy=position.strategy,
        symbol=fill.symbol,
        opened=position.opened,
        closed=fill.at,
        quantity=taken,
        cost=position.cost * taken // position.quantity,
        amount=fill.amount * taken // fill.quantity,
        fee=fill.fee * taken // fill.quantity,
        tax=fill.tax * taken // fill.quantity,
        entry_why=position.entry_why,
        exit_why=why,
    )


def _joined(earlier: RoundTrip, later: RoundTrip) -> RoundTrip:
    return replace(
        earlier,
        closed=later.closed,
        quantity=earlier.quantity + later.quantity,
        cost=earlier.cost + later.cost,
        amount=earlier.amount + later.amount,
        fee=earlier.fee + later.fee,
        tax=earlier.tax + later.tax,
    )


def require_writable(path: Path) -> None:
    """Raise OperatorMistake for an unknown file type, a missing folder, or missing polars."""
    if path.suffix not in ENDINGS:
        text = f"--trades {path}: wanted a name that ends in {' or '.join(ENDINGS)}"
        raise OperatorMistake.of("E-BT-007", text)
    if not path.absolute().parent.is_dir():
        text = f"--trades {path}: there is no folder {path.parent}; make it first"
        raise OperatorMistake.of("E-BT-007", text)
    if path.suffix == ".parquet" and find_spec("polars") is None:
        text = "Parquet is written by polars, which is not installed: pip install 'vnbot[data]', or"
        raise OperatorMistake.of("E-BT-007", f"--trades {path}: {text} name a .csv file")
    with written(f"--trades {path}"):
        TemporaryFile(dir=path.absolute().parent).close()


@contextmanager
def written(what: str) -> Iterator[None]:
    """Turn what the system refuses into an OperatorMistake that names the option."""
    try:
        yield
    except OSError as error:
        text = f"{what}: it can't be written ({(error.strerror or str(error)).lower()}). Make room"
        raise OperatorMistake.of("E-BT-007", f"{text}, or name a place of yours") from error


def write_trades(path: Path, result: BacktestResult) -> int:
    """Write all fills, completely or not at all; return how many."""
    rows = list(_rows(result))
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.suffix == ".parquet":
            import polars as pl  # an extra, needed for Parquet only

            columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
            packed = BytesIO()  # so that a full disk raises OSError and not a polars error
            pl.DataFrame(dict(zip(COLUMNS, columns, strict=True))).write_parquet(packed)
            beside.write_bytes(packed.getvalue())
        else:
            with beside.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(COLUMNS)
                writer.writerows([csv_text(str(each)) for each in row] for row in rows)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return len(rows)


def _rows(result: BacktestResult) -> Iterator[tuple[str | int, ...]]:
    behind = whys(result.decisions)
    for fill in result.fills:
        yield (
            day_and_clock_of(fill.at),
            fill.strategy or "",
            fill.symbol,
            fill.side.value,
            fill.quantity,
            fill.price,
            fill.amount,
            fill.fee,
            fill.tax,
            fill.position,
            fill.realised,
            fill.order_id,
            decision.why if (decision := behind.get(fill.intent_id or "")) else "",
        )
