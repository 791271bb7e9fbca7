"""The page on the journal is true: its tables, its columns and its queries, on both databases."""

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.journal.database.engines import reading_engine
from bot.journal.database.tables import metadata, v_decisions, v_orders, v_pnl, v_timeline
from tests.staging import QUIET
from tests.story import once, tell, write_project

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "journal.md").read_text("utf-8")
QUERIES = re.findall(r"^```sql\n(.*?);\n```$", PAGE, re.DOTALL | re.MULTILINE)
MEASURED = {"least_ms", "most_ms"}
"""Columns of the wall clock."""
DESCRIBED = [*metadata.tables.values(), v_orders, v_timeline, v_decisions, v_pnl]


async def played(folder: Path, url: str) -> str:
    """A journal in which every query finds something: filled, rejected, blocked, open, paused."""
    place = {"verb": "POST", "path": "*/orders"}
    reject = {"do": "reject", "code": "-900017", "reason": "Giá nằm ngoài biên độ"}
    config = write_project(
        folder,
        scenario={**QUIET, "faults": [{"match": {**place, "nth": 3}, "action": reject}]},
        strategies=[
            once("filled"),
            once("rejected", params={"price": 27_500, "shares": 200}),
            once("open", params={"price": 25_200}, order=limit_order()),
            once("blocked", limits={"max_order_value": 1_000_000}),
        ],
        journal_url=url,
    )
    await tell(config, minutes=1)
    return url


def limit_order() -> dict[str, object]:
    return {"size": {"shares": 100}, "type": "LIMIT"}


def answers(url: str) -> list[list[tuple[object, ...]]]:
    with reading_engine(url).connect() as connection:
        found = []
        for query in QUERIES:
            result = connection.execute(sa.text(query))
            rows = result.mappings().all()
            found.append([tuple(row[name] for name in row if name not in MEASURED) for row in rows])
        return found


async def test_the_ten_queries_answer_on_sqlite(sqlite_url: str, tmp_path: Path) -> None:
    await played(tmp_path / "story", sqlite_url)

    found = answers(sqlite_url)

    assert len(QUERIES) == 10
    assert [query for query, rows in zip(QUERIES, found, strict=True) if not rows] == []


@pytest.mark.postgres
async def test_the_ten_queries_answer_alike_on_both(
    sqlite_url: str, postgres_url: str, tmp_path: Path
) -> None:
    await played(tmp_path / "one", sqlite_url)
    await played(tmp_path / "other", postgres_url)

    assert answers(postgres_url) == answers(sqlite_url)


@pytest.mark.parametrize("table", DESCRIBED, ids=lambda table: table.name)
def test_every_column_is_on_the_page(table: sa.TableClause) -> None:
    [entry] = re.findall(rf"^- `{table.name}`:(.*?)(?=^- `|^#|^$)", PAGE, re.DOTALL | re.MULTILINE)

    assert set(table.c.keys()) - set(re.findall(r"`(\w+)`", entry)) == set()


@pytest.mark.parametrize("page", ["journal.md", "upgrade.md"])
def test_a_page_that_puts_a_copy_back_moves_the_log_away_first(page: str) -> None:
    """SQLite would write the log that a kill has left into the copy."""
    text = (DOCS / page).read_text("utf-8")
    [paragraph] = [each for each in text.split("\n\n") if "`journal.db-wal`" in each]

    assert "`journal.db-shm`" in paragraph
    assert "move" in paragraph
