"""Exports a journal as CSV or JSON lines: a directory with its description, or one stream.

The columns are a contract (`CONTRACT` is its version), described in README.txt beside the files.
"""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, TextIO

import sqlalchemy as sa

from bot.domain.account import masked_account
from bot.domain.visible import csv_text, visible_json
from bot.journal.database.encoding import instant_text, local_text
from bot.journal.database.schema import reading_current
from bot.journal.database.tables import fills, v_decisions, v_orders, v_timeline
from bot.journal.reading.values import Format, What

CONTRACT: Final = 1
ROWS_AT_ONCE: Final = 500
HEADER: Final = f"""\
vnbot journal export, columns version {CONTRACT}
Money is whole VND, quantities are shares, times are ISO 8601 (+07:00).
In CSV, text that a spreadsheet would run as a formula has an apostrophe in front, and
control and format characters are written like \\x1b; JSON lines have every text exactly.
"""


_LISTED: Final[Mapping[str, str]] = {
    "orders": (
        "time id local_id order_id trading_date strategy account side symbol exchange quantity "
        "order_type price executed_quantity executed_amount average_price cancelled_quantity "
        "status state send_state fee tax code reason why"
    ),
    "fills": (
        "time fill_id trading_date order_id intent_id strategy account symbol side quantity price "
        "amount fee tax position realised broker_status"
    ),
    "events": "time kind local_id order_id strategy symbol text detail",
    "decisions": (
        "time strategy symbol verdict code why local_id order_id side quantity order_type price "
        "numbers saw checks"
    ),
}
COLUMNS: Final = {what: tuple(listed.split()) for what, listed in _LISTED.items()}
"""A contract with readers of the files; `MEANINGS` describes each column."""

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

    The directory is created if needed; the files are private.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    written: dict[str, int] = {}
    with reading_current(url) as connection:
        for what in whats:
            name = f"{what}.{form}"
            encoding = "utf-8-sig" if form is Format.CSV else "utf-8"
            with _private(directory / name, encoding) as stream:
                written[name] = _write(connection, stream, what, form, since)
    with _private(directory / "README.txt", "utf-8") as stream:
        stream.write(HEADER)
        for what in whats:
            stream.write(f"\n{what}.{form}\n")
            stream.writelines(f"  {name:<20} {MEANINGS[name]}\n" for name in COLUMNS[what])
    with _private(directory / "sha256sums", "utf-8") as stream:
        for name in (*written, "README.txt"):  # lines in the format of `sha256sum --check`
            digest = sha256((directory / name).read_bytes()).hexdigest()
            stream.write(f"{digest}  {name}\n")
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
    with reading_current(url) as connection:
        return _write(connection, stream, what, form, since)


def _private(path: Path, encoding: str) -> TextIO:
    """Open a private file for writing, and never through a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "w", encoding=encoding, newline="")


def _write(
    connection: sa.Connection, stream: TextIO, what: What, form: Format, since: datetime | None
) -> int:
    source, names = _SOURCES[what], COLUMNS[what]
    query = sa.select(source).order_by(
        *(source.c[name] for name in ("seq", "part") if name in source.c)
    )
    if since is not None:
        query = query.where(source.c.at >= instant_text(since))
    found = connection.execute(query, execution_options={"yield_per": ROWS_AT_ONCE})
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    if form is Format.CSV:
        writer.writeheader()
    count = 0
    for stored in found.mappings():
        row = {"time": local_text(stored["at"]), **stored}
        if row.get("account"):
            row["account"] = masked_account(row["account"])
        shown = {name: row[name] for name in names}
        if form is Format.CSV:
            writer.writerow(
                {name: csv_text(it) if isinstance(it, str) else it for name, it in shown.items()}
            )
        else:
            stream.write(visible_json(json.dumps(shown, ensure_ascii=False)) + "\n")
        count += 1
    return count


MEANINGS: Final[Mapping[str, str]] = {
    "account": "the last characters of the sub-account's id; the journal has it whole",
    "amount": "exact money of the fill",
    "average_price": "money per share of what was executed, rounded down",
    "broker_status": "the broker's own word",
    "cancelled_quantity": "shares cancelled",
    "checks": "every check made, as JSON",
    "code": "the broker's, or the check's, code",
    "detail": "raw text or JSON behind the event; secrets are masked",
    "exchange": "where it trades",
    "executed_amount": "exact money executed",
    "executed_quantity": "shares executed",
    "fee": "trading fee",
    "fill_id": "number of the fill",
    "id": "the broker's id of the order, else the local one",
    "intent_id": "local id of the order",
    "kind": "what kind of event",
    "local_id": "local id of the order",
    "numbers": "the figures of the decision, as JSON",
    "order_id": "the broker's id of the order",
    "order_type": "LO is a limit order; else the broker's market price code",
    "position": "the strategy's shares of the symbol after the fill",
    "price": "price per share: of an order its limit, of a fill the average rounded down",
    "quantity": "shares",
    "realised": "result of a sale against the average cost, before fee and tax",
    "reason": "the broker's, or our, reason",
    "saw": "the quote or depth at the moment of the decision, as JSON",
    "send_state": "what is known about the sending",
    "side": "BUY or SELL",
    "state": "our reading of the status",
    "status": "the broker's own word, or BLOCKED (never sent), or UNKNOWN (nobody knows)",
    "strategy": "the strategy's name; empty for an order that is not the bot's",
    "symbol": "what is traded",
    "tax": "tax on a sale",
    "text": "what happened",
    "time": "when, local to the exchange",
    "trading_date": "the trading day",
    "verdict": "what became of the request",
    "why": "the reason that the strategy gave",
}
