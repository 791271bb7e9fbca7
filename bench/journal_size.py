"""How fast a journal grows: an hour of the virtual day, and the size of each table.

    .venv/bin/python -m bench.journal_size [--minutes 60] [--quota 600] [--refused]

The bot, the sandbox and the clock of `bench.virtual_day`; a strategy looks at the depth of 25
symbols every five seconds, and with `--refused` it requests an order each time that a limit
refuses. A table's bytes are those of its values; pages, indexes and free space are included in the
file's size.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import sqlalchemy as sa

from bench.virtual_day import Counted, Day, live
from bot.journal.database import tables
from bot.journal.database.engines import reading


def weigh(url: str) -> dict[str, tuple[int, int]]:
    """Return rows and bytes of every non-empty table."""
    found = {}
    with reading(url) as connection:
        for table in tables.metadata.sorted_tables:
            lengths = [
                sa.func.coalesce(sa.func.length(sa.cast(column, sa.Text())), 0)
                for column in table.c
            ]
            query = sa.select(sa.func.count(), sa.func.sum(sum(lengths[1:], lengths[0])))
            rows, size = connection.execute(query.select_from(table)).one()
            if rows:
                found[table.name] = (rows, size)
    return found


@click.command()
@click.option("--minutes", default=60.0, show_default=True, help="Of market time.")
@click.option("--quota", default=600, show_default=True, help="Requests a minute.")
@click.option("--refused", "is_refused", is_flag=True, help="A limit refuses every order.")
def main(minutes: float, quota: int, *, is_refused: bool) -> None:
    """Run, and print what is in the journal."""
    with TemporaryDirectory() as name:
        folder, screen = Path(name), Counted()
        day = Day(folder, "market", False, quota, 25, "5s", is_refused=is_refused)
        config = day.write()
        end = asyncio.run(live(config, screen, minutes))
        path = folder / "state" / "journal.db"
        click.echo(f"{end.seconds:.1f} s, {screen.polls:,} polls, {path.stat().st_size:,} bytes")
        weighed = weigh(f"sqlite:///{path}")
    for table, (rows, size) in sorted(weighed.items(), key=lambda each: -each[1][1]):
        click.echo(f"{table:<18} {rows:>9,} rows {size:>12,} bytes")


if __name__ == "__main__":
    main()
