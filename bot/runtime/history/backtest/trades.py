"""The fills of a backtest as a file, CSV or Parquet: for a spreadsheet, or for somebody's own look.

Times are local to the exchange, money whole VND; one row for each fill, in the order of time.
"""

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from bot.config.problems import OperatorMistake
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.visible import csv_text
from bot.runtime.history.backtest.result import BacktestResult
from bot.runtime.history.backtest.trips import whys

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


def require_writable(path: Path) -> None:
    """Raise OperatorMistake for a file of another kind, a folder that is not there, no polars."""
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
    """Raise OperatorMistake for what the system refuses, and say of which option that is."""
    try:
        yield
    except OSError as error:
        text = f"{what}: it can't be written ({(error.strerror or str(error)).lower()}). Make room"
        raise OperatorMistake.of("E-BT-007", f"{text}, or name a place of yours") from error


def write_trades(path: Path, result: BacktestResult) -> int:
    """Write all fills, whole or not at all; return how many."""
    rows = list(_rows(result))
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.suffix == ".parquet":
            import polars as pl  # an extra: only those who want Parquet have it

            columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
            packed = BytesIO()  # what a disk refuses is then an OSError, not one of polars
            pl.DataFrame(dict(zip(COLUMNS, columns, strict=True))).write_parquet(packed)
            beside.write_bytes(packed.getbuffer())
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
            f"{fill.at.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M:%S}",
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
