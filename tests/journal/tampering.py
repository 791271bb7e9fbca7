"""Tampers with a journal and checks that `bot journal verify` reports it, and where.

    python -m tests.journal.tampering [trials] [seed]      200 trials on each database, seed 7

Each trial takes a chained table and edits, deletes, inserts or swaps a row, or cuts the end off, as
one who has the database but not our code. The finding has to name the table, and the row's number
where there is a row.
"""

import asyncio
import random
import shutil
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psycopg
import sqlalchemy as sa

from bot.journal.database import tables
from bot.journal.database.engines import reading
from bot.journal.database.schema import migrate
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import verify
from tests.journal.facts import EVERY_KIND, Story, after, but
from tests.journal.forging import without_guards
from tests.journal.stored import close_day_in
from tests.postgres_server import private_postgres
from tests.proofs import undone

TRIALS: Final = 200
WAYS: Final = ("edit", "delete", "insert", "truncate", "reorder")
LISTED: Final = frozenset(
    [
        "hash",
        "prev_hash",
        "seal",
        "verb",
        "outcome",
        "exchange",
        "side",
        "order_type",
        "state",
        "source",
        "machine",
        "to_state",
        "verdict",
    ]
)
"""The links, and columns that take words of a list only."""
FAR: Final = 900_000
"""A number that no row has."""


async def fill(url: str) -> None:
    """Write a journal in which every chained table has rows."""
    journal = Journal.open(url)
    await journal.write([but(entry) for entry in EVERY_KIND])
    for number in range(11, 15):
        story = Story(number, price=27_000 + 50 * number, start=60.0 * number)
        for entries in story.placed():
            await journal.write(entries)
        await journal.write(story.filled(500, position=500 * (number - 10)))
    names = {"AuthEvent", "Note", "StateChanged", "AccountSeen", "StrategySwitched"}
    again = [each for each in EVERY_KIND if type(each).__name__ in names]
    for step in range(3):
        await journal.write([but(each, at=after(900 + step)) for each in again])
    await close_day_in(journal, at=after(999))
    await journal.close()


def tamper(url: str, dice: random.Random) -> tuple[str, str, int]:
    """Do one thing to one table; return what, the table, and the number of a row concerned."""
    table = dice.choice(tables.CHAINED)
    with reading(url) as connection:
        seqs = list(connection.execute(sa.select(table.c.seq).order_by(table.c.seq)).scalars())
    ways = WAYS if len(seqs) > 2 else ("edit", "truncate")
    way, seq = dice.choice(ways), dice.choice(seqs[:-1] or seqs)
    row = table.c.seq == seq
    with without_guards(url) as connection:
        if way == "edit":
            texts = [
                each for each in table.c if isinstance(each.type, sa.Text) and not each.nullable
            ]
            free = [each for each in texts if each.name not in LISTED]
            column = dice.choice([each for each in free if not each.foreign_keys])
            connection.execute(table.update().where(row).values({column: column + "x"}))
        elif way == "delete":
            connection.execute(table.delete().where(row))
        elif way == "truncate":
            seq = dice.choice(seqs)
            connection.execute(table.delete().where(table.c.seq >= seq))
        elif way == "reorder":
            other = dice.choice([each for each in seqs if each != seq])
            for here, there in ((seq, FAR), (other, seq), (FAR, other)):
                connection.execute(table.update().where(table.c.seq == here).values(seq=there))
        else:
            found = dict(connection.execute(sa.select(table).where(row)).mappings().one())
            new: dict[str, Any] = {**found, "seq": FAR, "prev_hash": "f" * 64}
            unique = [each for each in table.c if each.name.endswith(("_id", "nonce", "_date"))]
            new |= {each.name: f"{found[each.name]}y" for each in unique if found[each.name]}
            if table is tables.attempts:
                new |= {"intent_id": found["intent_id"], "verb": "PUT"}
            connection.execute(table.insert().values(**new))
            seq = FAR
    return way, table.name, seq


def judged(url: str, done: tuple[str, str, int]) -> str:
    """Return what is wrong with the output of `verify`; empty if it names the table,
    and the row.
    """
    way, name, seq = done
    found = [each for each in verify(url).problems if each.startswith(name)]
    if not found:
        return f"{way} of {name} {seq} was not found"
    with reading(url) as connection:
        table = tables.metadata.tables[name]
        after_it = sa.select(sa.func.min(table.c.seq)).where(table.c.seq >= seq)
        place = connection.execute(after_it).scalar()
    if way == "truncate" or place is None or any(f"{name} {place}:" in each for each in found):
        return ""
    return f"{way} of {name} {seq}: {found[0]}"


def main(trials: int = TRIALS, seed: int = 7) -> int:
    """Run the trials on SQLite and on PostgreSQL; 0 when all was found, and nothing else."""
    missed = undone(tamperings=trials)
    with TemporaryDirectory() as name, private_postgres() as server:
        whole = Path(name) / "whole.db"
        migrate(f"sqlite:///{whole}")
        asyncio.run(fill(f"sqlite:///{whole}"))
        address = server.replace("postgresql://", "postgresql+psycopg://", 1)
        with psycopg.connect(f"{server}postgres", autocommit=True) as admin:
            admin.execute("CREATE DATABASE whole")
            migrate(f"{address}whole")
            asyncio.run(fill(f"{address}whole"))
            for url in (f"sqlite:///{whole}", f"{address}whole"):
                missed += [f"nothing was done to it: {each}" for each in verify(url).problems]
            for kind in ("sqlite", "postgresql"):
                dice, counts = random.Random(seed), Counter[str]()
                for _ in range(trials):
                    url = f"sqlite:///{shutil.copy(whole, Path(name) / 'spoilt.db')}"
                    if kind == "postgresql":
                        admin.execute("DROP DATABASE IF EXISTS spoilt WITH (FORCE)")
                        admin.execute("CREATE DATABASE spoilt TEMPLATE whole")
                        url = f"{address}spoilt"
                    done = tamper(url, dice)
                    counts[done[0]] += 1
                    if wrong := judged(url, done):
                        missed.append(f"{kind}: {wrong}")
                sys.stdout.write(f"{kind}: {trials} tamperings, {dict(sorted(counts.items()))}\n")
    sys.stdout.write("".join(f"  MISSED {each}\n" for each in missed) or "  all found, and where\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
