"""Takes a journal out as CSV or JSON lines: a directory with its description, or one stream.

The columns are a contract (`CONTRACT` is its version), described in README.txt beside the files.
"""

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final, TextIO

import sqlalchemy as sa

from bot.domain.account import masked_account
from bot.domain.visible import csv_text, visible_json
from bot.journal.encoding import Plain, instant_text, local_text
from bot.journal.engines import database_errors, reading_engine
from bot.journal.export_columns import COLUMNS, MEANINGS
from bot.journal.schema import require_schema
from bot.journal.tables import fills
from bot.journal.views import v_decisions, v_orders, v_timeline

CONTRACT: Final = 1
ROWS_AT_ONCE: Final = 500


class What(StrEnum):
    """What can be exported."""

    ORDERS = "orders"
    FILLS = "fills"
    EVENTS = "events"
    DECISIONS = "decisions"


class Format(StrEnum):
    """How it is written: CSV with a byte order mark (for spreadsheets), or JSON lines."""

    CSV = "csv"
    JSONL = "jsonl"


_SOURCES: Final[Mapping[What, sa.FromClause]] = {
    What.ORDERS: v_orders,
    What.FILLS: fills,
    What.EVENTS: v_timeline,
    What.DECISIONS: v_decisions,
}


def export_directory(
    url: str,
    directory: Path,
    *,
    whats: Sequence[What] = tuple(What),
    form: Format = Format.CSV,
    since: datetime | None = None,
) -> dict[str, int]:
    """Write a file for each of `whats`, README.txt and sha256sums; returns rows by file name.

    The directory is made if it is new; the files are for their owner alone.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    written: dict[str, int] = {}
    with _connected(url) as connection:
        for what in whats:
            name = f"{what}.{form}"
            encoding = "utf-8-sig" if form is Format.CSV else "utf-8"
            with _private(directory / name, encoding) as stream:
                written[name] = _write(connection, stream, what, form, since)
    with _private(directory / "README.txt", "utf-8") as stream:
        stream.write(_description(whats, form))
    with _private(directory / "sha256sums", "utf-8") as stream:
        stream.writelines(_sums(directory, [*written, "README.txt"]))
    return written


def export_stream(
    url: str,
    stream: TextIO,
    *,
    what: What,
    form: Format = Format.CSV,
    since: datetime | None = None,
) -> int:
    """Write one kind to a stream; returns how many rows."""
    with _connected(url) as connection:
        return _write(connection, stream, what, form, since)


@contextmanager
def _connected(url: str) -> Iterator[sa.Connection]:
    engine = reading_engine(url)
    try:
        with database_errors(url), engine.connect() as connection:
            require_schema(connection)
            yield connection
    finally:
        engine.dispose()


def _private(path: Path, encoding: str) -> TextIO:
    """Open a file for writing that only its owner may read, and never through a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "w", encoding=encoding, newline="")


def _write(
    connection: sa.Connection, stream: TextIO, what: What, form: Format, since: datetime | None
) -> int:
    rows = _rows(connection, what, since)
    if form is Format.JSONL:
        return _write_lines(stream, rows)
    writer = csv.DictWriter(stream, COLUMNS[what], lineterminator="\n")
    writer.writeheader()
    count = 0
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
        count += 1
    return count


def _write_lines(stream: TextIO, rows: Iterator[Mapping[str, Plain]]) -> int:
    count = 0
    for row in rows:
        stream.write(visible_json(json.dumps(row, ensure_ascii=False)) + "\n")
        count += 1
    return count


def _rows(
    connection: sa.Connection, what: What, since: datetime | None
) -> Iterator[Mapping[str, Plain]]:
    source = _SOURCES[what]
    order = (source.c.seq, source.c.part) if what is What.EVENTS else (source.c.seq,)
    query = sa.select(source).order_by(*order)
    if since is not None:
        query = query.where(source.c.at >= instant_text(since))
    found = connection.execute(query, execution_options={"yield_per": ROWS_AT_ONCE})
    for stored in found.mappings():
        row = {"time": local_text(stored["at"]), **stored}
        account = row.get("account")
        shown = {"account": masked_account(account)} if account else {}
        yield {name: {**row, **shown}[name] for name in COLUMNS[what]}


def _cell(value: Plain) -> Plain:
    return csv_text(value) if isinstance(value, str) else value


def _description(whats: Sequence[What], form: Format) -> str:
    lines = [
        f"vnbot journal export, columns version {CONTRACT}",
        "Money is whole VND, quantities are shares, times are ISO 8601 (+07:00).",
        "In CSV, text that a spreadsheet would run as a formula has an apostrophe in front, and",
        "control and format characters are written like \\x1b; JSON lines have every text exactly.",
    ]
    for what in whats:
        lines += ["", f"{what}.{form}"]
        lines += [f"  {name:<20} {MEANINGS[name]}" for name in COLUMNS[what]]
    return "\n".join(lines) + "\n"


def _sums(directory: Path, names: Sequence[str]) -> Iterator[str]:
    """Lines as `sha256sum --check` reads them."""
    for name in names:
        yield f"{sha256((directory / name).read_bytes()).hexdigest()}  {name}\n"
