"""What is exported is what is stored, described, and safe to open."""

import csv
import io
import json
from hashlib import sha256
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.domain.entry import Note
from bot.journal.database.engines import reading
from bot.journal.database.tables import v_timeline
from bot.journal.journal import Journal
from bot.journal.reading.export import COLUMNS, MEANINGS, export_directory, export_stream
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.values import DecisionRow, Format, What
from tests.journal.facts import EVERY_KIND, Story, after, but
from tests.journal.stored import url_of, written_once


async def fill(url: str) -> None:
    journal = Journal.open(url)
    await journal.write(EVERY_KIND)
    await journal.write([Story(9).recorded, Note(after(200), "ALERT", "Giá nằm ngoài biên độ")])
    await journal.close()


@pytest.fixture(scope="module")
def written(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return url_of(written_once(sqlite_template, tmp_path_factory.mktemp("written"), fill))


@pytest.mark.postgres
async def test_both_databases_export_the_same_bytes(
    written: str, postgres_url: str, tmp_path: Path
) -> None:
    await fill(postgres_url)

    for number, url in enumerate((written, postgres_url)):
        export_directory(url, tmp_path / str(number))

    contents = [{f.name: f.read_bytes() for f in files(tmp_path / name)} for name in ("0", "1")]
    assert contents[0] == contents[1]


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def timeline(url: str) -> list[int]:
    with reading(url) as connection:
        return list(connection.execute(sa.select(v_timeline.c.seq)).scalars())


def test_counts_and_sums_equal_the_journal(written: str, tmp_path: Path) -> None:
    counts = export_directory(written, tmp_path / "november")

    with JournalReader(written) as reader:
        with reader.decisions(DecisionRow) as page:
            decisions = page.count
        assert counts == {
            "orders.csv": len(reader.orders()),
            "fills.csv": len(reader.fills()),
            "events.csv": len(timeline(written)),
            "decisions.csv": decisions,
        }
        amounts = sum(row.amount for row in reader.fills())
    assert sum(int(row["amount"]) for row in read_csv(tmp_path / "november/fills.csv")) == amounts


def test_an_export_describes_itself(written: str, tmp_path: Path) -> None:
    export_directory(written, tmp_path / "out")

    text = (tmp_path / "out" / "README.txt").read_text("utf-8")
    assert text.startswith("vnbot journal export, columns version 1\n")
    for columns in COLUMNS.values():
        assert all(f"  {name:<20} {MEANINGS[name]}\n" in text for name in columns)


def test_its_sums_are_what_sha256sum_checks(written: str, tmp_path: Path) -> None:
    export_directory(written, tmp_path / "out")

    lines = (tmp_path / "out" / "sha256sums").read_text().splitlines()
    sums = {line[66:]: line[:64] for line in lines}
    assert sums == {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in files(tmp_path / "out")
        if path.name != "sha256sums"
    }


def files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def test_its_files_are_for_their_owner_alone(written: str, tmp_path: Path) -> None:
    export_directory(written, tmp_path / "out")

    modes = {path.stat().st_mode & 0o777 for path in files(tmp_path / "out")}
    assert modes == {0o600}
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


def test_an_export_never_writes_through_a_link(written: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "orders.csv").symlink_to(precious)

    with pytest.raises(OSError, match="symbolic"):
        export_directory(written, tmp_path / "out")

    assert precious.read_text() == "keep"


def test_csv_opens_in_a_spreadsheet_with_vietnamese_text(written: str, tmp_path: Path) -> None:
    export_directory(written, tmp_path, whats=[What.EVENTS])

    assert (tmp_path / "events.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    assert any("Giá nằm ngoài" in row["text"] for row in read_csv(tmp_path / "events.csv"))


def test_times_are_local_to_the_exchange(written: str) -> None:
    for what in What:
        stream = io.StringIO()
        export_stream(written, stream, what=what, form=Format.JSONL)
        times = {json.loads(line)["time"][-6:] for line in stream.getvalue().splitlines()}
        assert times == {"+07:00"}


def test_a_json_line_has_the_columns_in_order(written: str) -> None:
    stream = io.StringIO()

    assert export_stream(written, stream, what=What.FILLS, form=Format.JSONL) == 1

    row = json.loads(stream.getvalue())
    assert tuple(row) == COLUMNS["fills"]
    assert (row["time"], row["amount"]) == ("2026-11-19T09:22:30.202+07:00", 5_410_000)


def test_since_leaves_out_what_was_before(written: str) -> None:
    stream = io.StringIO()

    count = export_stream(written, stream, what=What.EVENTS, since=after(150))

    assert count == 1


async def test_a_text_that_a_spreadsheet_would_run_is_quoted(sqlite_url: str) -> None:
    journal = Journal.open(sqlite_url)
    for number, why in enumerate(["=1+1", "+1", "@x", "-x", "-900017"], start=1):
        await journal.write([but(Story(number).decision, why=why)])

    await journal.close()
    stream = io.StringIO()
    export_stream(sqlite_url, stream, what=What.DECISIONS)

    rows = csv.DictReader(io.StringIO(stream.getvalue()))
    assert [row["why"] for row in rows] == ["'=1+1", "'+1", "'@x", "'-x", "-900017"]


def test_every_column_has_a_meaning() -> None:
    assert {name for columns in COLUMNS.values() for name in columns} == set(MEANINGS)
