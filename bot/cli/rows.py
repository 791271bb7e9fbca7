"""Journal rows as a table, CSV or JSON, as chosen by `-o` and `--json`."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import Invocation
from bot.cli.show import print_json_rows, write_json, write_line
from bot.domain.account import masked_account, masked_scope
from bot.domain.visible import csv_text, visible_json

if TYPE_CHECKING:
    from bot.journal.reading.reader import JournalReader

BYTE_ORDER_MARK: Final = "\ufeff"
"""Precedes CSV, as in an export: spreadsheets then read Vietnamese text as UTF-8."""
PAPER: Final = "PAPER: no order went to the exchange; these were matched here ({model})"

Plain = dict[str, object]


def fields_of(row: object) -> Plain:
    """A frozen row as JSON-ready fields; instants are ISO 8601 in UTC, an account is masked."""
    assert is_dataclass(row), "rows are frozen values"
    assert not isinstance(row, type), "a row, not its class"
    found = {field.name: plain(getattr(row, field.name)) for field in fields(row)}
    for name, masked in (("account", masked_account), ("scope", masked_scope)):
        if isinstance(value := found.get(name), str):
            found[name] = masked(value)
    return found


def plain(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return fields_of(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value


def print_machine(
    invocation: Invocation,
    found: Iterable[object],
    form: str,
    *,
    what: str,
    kind: type,
    more: Sequence[str] = (),
    also: Mapping[str, object] | None = None,
) -> bool:
    """Print rows of a `kind` as JSON or CSV if requested; return whether it was.

    `what` is the key of the rows in the JSON object, `also` further fields of it; `more` names
    properties to print too. Each row is written before the next is read.
    """
    if invocation.json and form != "table":
        raise click.UsageError(f"--json and -o {form} contradict each other: use one of them")
    rows = ({**fields_of(row), **{name: getattr(row, name) for name in more}} for row in found)
    if invocation.json:
        print_json_rows(what, rows, also or {})
    elif form == "jsonl":
        for row in rows:
            write_json(json.dumps(row, ensure_ascii=False, default=str))
    elif form == "csv":
        names = [*(field.name for field in fields(kind)), *more]
        print_csv(csv_lines(rows, names))
    return invocation.json or form in {"jsonl", "csv"}


def print_csv(lines: Iterable[str]) -> None:
    """Print lines of CSV, the first with the byte order mark."""
    for number, line in enumerate(lines):
        mark = "" if number else BYTE_ORDER_MARK
        write_line(line, limit=len(line), dye=mark.__add__)


def csv_lines(rows: Iterable[Plain], names: Sequence[str]) -> Iterator[str]:
    """Rows as lines of CSV under a header; anything but texts and numbers is JSON."""

    def cell(value: object) -> object:
        if isinstance(value, dict | list):
            return visible_json(json.dumps(value, ensure_ascii=False))
        return csv_text(value) if isinstance(value, str) else value

    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    yield stream.getvalue().rstrip("\n")
    for row in rows:
        stream.seek(0)
        stream.truncate()
        writer.writerow({name: cell(value) for name, value in row.items()})
        yield stream.getvalue().rstrip("\n")


def paper_line(reader: "JournalReader") -> Sequence[str]:
    """Return the line under a list of paper results, empty under one of a real broker."""
    stamp = reader.fidelity()
    return () if stamp is None else (PAPER.format(model=stamp.partition(" · ")[0]),)
