"""The cost of recording a day of 30 symbols, and the size of the recording.

    .venv/bin/python -m bench.recorder [--minutes 361] [--rounds 3]

A virtual day (`bench/virtual_day.py`) is run and recorded. Then its calls are repeated, on an
engine that keeps a tape and on one that does not, in turns; and its rows are written again as the
recorder's thread writes them. CPU of one core, medians of the rounds.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from bench.virtual_day import Counted, Day, live
from bot.engine.engine import Engine
from bot.runtime.history.recording.recordings import (
    Codecs,
    Head,
    OpenPart,
    Row,
    days_of,
    parts_of,
    read_head,
    rows_of,
    runs_of,
    sealed,
)
from bot.runtime.history.recording.replay import Player, Script, make_again, strategies_of
from bot.runtime.history.recording.tape import RecordedEngine, Tape

BLOCK_ROWS = 40
"""Roughly one second's rows."""


def cpu_of(work: Callable[[], object], calls: int) -> float:
    """Return the microseconds of CPU of this thread for each of so many calls."""
    begun = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - begun) / 1e3 / calls


def engines(head: Head) -> tuple[tuple[Engine, Player], tuple[RecordedEngine, Player]]:
    """Make an engine of a recorded run, and one that keeps a tape."""
    plain, taped = Player(), Player()
    tape = Tape(taped.invoke, taped.guard, taped.must_yield, room=10**9)
    made = {
        "rulebook": head.rulebook,
        "strategies": strategies_of(head),
        "settings": head.settings,
    }
    bare = Engine(
        **made,  # type: ignore[arg-type]
        invoke=plain.invoke,
        guard=plain.guard,
        must_yield=plain.must_yield,
    )
    return (bare, plain), (RecordedEngine(**made, tape=tape), taped)  # type: ignore[arg-type]


def handled(engine: Engine, player: Player, rows: Sequence[Row], ways: Codecs) -> float:
    """Return the CPU time of a call, without that of reading its event."""
    took = 0
    for row in rows:
        script, event = Script.of(row), ways.event.read(row.event) if row.event else None
        begun = time.thread_time_ns()
        make_again(engine, player, script, row.kind, event)
        took += time.thread_time_ns() - begun
        if isinstance(engine, RecordedEngine):
            engine.tape.calls.clear()
    return took / 1e3 / len(rows)


def written(rows: Sequence[Row], ways: Codecs, folder: Path, *, parquet: bool) -> int:
    """Write rows as the recorder does; return the bytes on disk."""
    part, seal, block = OpenPart(folder, 1), "", list[Row]()
    for row in rows:
        event = ways.event.write(ways.event.read(row.event)) if row.event else ""
        commands = ways.commands.write(ways.commands.read(row.commands)) if row.commands else ""
        seal = sealed(seal, row, commands)
        block.append(row._replace(event=event, commands=commands, seal=seal))
        if len(block) == BLOCK_ROWS:
            part.add(block)
            block = []
    part.add(block)
    part.close(parquet=parquet)
    return sum(path.stat().st_size for path in folder.iterdir())


def read(rows: Sequence[Row], ways: Codecs) -> None:
    """Read what `written` reads: its own share of the time."""
    for row in rows:
        _ = ways.event.read(row.event) if row.event else ""
        _ = ways.commands.read(row.commands) if row.commands else ""


@click.command()
@click.option("--minutes", default=361.0, show_default=True, help="Of market time.")
@click.option("--rounds", default=3, show_default=True)
def main(minutes: float, rounds: int) -> None:
    """Run the day, and print what recording it costs."""
    with TemporaryDirectory() as name:
        state = Path(name) / "state"
        asyncio.run(live(Day(Path(name), "market", record=True).write(), Counted(), minutes))
        [run] = runs_of(state, days_of(state)[0])
        head, ways = read_head(run)
        kept = sum(path.stat().st_size for path in run.iterdir())
        rows = [row for part in parts_of(run) for row in rows_of(part)][:-1]
        bare, taped, write = list[float](), list[float](), list[float]()
        sizes = {}
        for number in range(rounds):
            plain, recorded = engines(head)
            bare.append(handled(*plain, rows, ways))
            taped.append(handled(*recorded, rows, ways))
            reading = cpu_of(lambda: read(rows, ways), len(rows))
            for parquet in (True, False):
                folder = Path(name) / f"{number}-{parquet}"
                folder.mkdir()
                begun = time.thread_time_ns()
                sizes[parquet] = written(rows, ways, folder, parquet=parquet)
                if not parquet:
                    took = (time.thread_time_ns() - begun) / 1e3 / len(rows)
                    write.append(took - reading)
    calls = len(rows)
    middle = [statistics.median(each) for each in (bare, taped, write)]
    click.echo(f"{calls:,} calls of the engine in {minutes:g} minutes of market")
    click.echo(f"a call: {middle[0]:.0f} us, with a tape {middle[1]:.0f} us of CPU")
    click.echo(f"to write it, on the other thread: {middle[2]:.0f} us")
    click.echo(f"Parquet {sizes[True] / 1e6:.1f} MB, SQLite {sizes[False] / 1e6:.1f} MB a day")
    click.echo(f"as the run left it, in parts of half an hour: {kept / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
