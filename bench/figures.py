"""The figures of the path from a quote to an order, each against its limit in one run.

    .venv/bin/python -m bench.figures [NAME …] [--rounds 5] [--check]

Bot and peers take turns in short rounds against the same mock, which has its own core if there are
two; a figure is a ratio of medians. `figures.yaml` has the targets and the values reached; with
--check the command fails if a figure is worse than half of the value reached in each of LOOKS_MAX
runs of its measure, as a single run may meet a busy machine.

A ratio that waits for the disk says more of the disk than of us: it is told as it is here, and
checked as it would be on a disk like the one on which it was reached (`SYNC_NS`).
"""

import asyncio
import gc
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import psycopg
from ruamel.yaml import YAML

from bench import backtest, footprint, peers, sandbox
from bench import project_adapters as project
from bot.cli.main import COLLECT_AFTER
from bot.config.shipped import DEMO, shipped
from tests.postgres_server import private_postgres

FIGURES: Final = Path(__file__).with_name("figures.yaml")
WORSE_BY: Final = 2.0
"""A figure worse than the value reached by this factor fails the check."""
LOOKS_MAX: Final = 3
CYCLES: Final = 40
WAITERS: Final = 64
CLOSED: Final = 4_000
OPEN: Final = 1_000
TURNS: Final = 100
"""Orders of an engine by itself between two turns of its loop."""
POLLS: Final = 32
PAUSE_MS: Final = 100
SYMBOLS: Final = 10
"""Of the bot whose memory is measured."""
SETTLES_S: Final = 5.0
SYNC_NS: Final = 500_000
"""A sync of the disk on which `figures.yaml` was reached. What the disk here takes less counts on
both sides of a ratio that waits for it.
"""
SYNCS: Final = 100
PAGE: Final = b"\0" * 4096


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table. `more`: whether more or less is better; `disk`: it is the disk's as
    much as ours, `told`: it is the moment's as much as ours, and not checked.
    """

    name: str
    what: str
    wanted: float
    goal: float
    reached: float
    more: bool = False
    disk: bool = False
    told: bool = False

    def is_met(self, found: float, limit: float) -> bool:
        """Return whether the figure is at least as good as `limit`."""
        return found >= limit if self.more else found <= limit

    def best(self, *found: float) -> float:
        """The best of several runs: noise never improves one."""
        return max(found) if self.more else min(found)

    @property
    def worst(self) -> float:
        """The value at which the check fails."""
        return self.reached / WORSE_BY if self.more else self.reached * WORSE_BY

    def is_allowed(self, found: float) -> bool:
        """Return whether the check takes it."""
        return self.disk or self.told or self.is_met(found, self.worst)


def load_figures() -> dict[str, Figure]:
    """Read the table."""
    found = YAML(typ="safe").load(FIGURES)
    return {name: Figure(name=name, **row) for name, row in found.items()}


@contextmanager
def mock() -> Iterator[str]:
    """Start the mock on the last core and stay on the first."""
    cores = sorted(os.sched_getaffinity(0))
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.mock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    os.sched_setaffinity(process.pid, cores[-1:])
    os.sched_setaffinity(0, cores[:1])
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        os.sched_setaffinity(0, cores)
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


async def rounds_of(
    rounds: int, cycles: int, *runs: Callable[[], Awaitable[float]]
) -> list[list[float]]:
    """Run each `cycles` times a round, in turns; return the times. The first round is a warm-up."""
    took: list[list[float]] = [[] for _ in runs]
    for number in range(rounds + 1):
        for run, mine in zip(runs, took, strict=True):
            found = [await run() for _ in range(cycles)]
            mine.extend(found if number else [])
    return took


def missing_sync_ns(folder: Path) -> float:
    """How much less than `SYNC_NS` a sync takes on the disk of `folder`: the median of `SYNCS`."""
    took = []
    with (folder / "syncs").open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            file.write(PAGE)
            begun = time.perf_counter_ns()
            os.fdatasync(file)
            took.append(time.perf_counter_ns() - begun)
    sync = statistics.median(took)
    click.echo(f"a sync takes {sync / 1e6:.2f} ms here, {SYNC_NS / 1e6} at what was reached")
    return max(0.0, SYNC_NS - sync)


# -------------------------------------------------------------------------------- tick to trade


async def tick_to_trade(base_url: str, folder: Path, rounds: int) -> dict[str, float]:
    """Measure whole ticks to trades against the limit and the plain stack, without load."""
    bot = await project.start(base_url, symbols=["FPT"])
    project.watch(bot)
    bare, plain = await peers.bare(base_url, folder), await peers.plain(base_url, folder)
    ours, limit, default = await rounds_of(
        rounds, CYCLES, lambda: project.tick_to_trade(bot), bare, plain
    )
    await bot.stop()
    found, least = statistics.median(ours), statistics.median(limit)
    more = missing_sync_ns(folder)  # each has one commit before its order leaves
    return {
        "tick_to_trade": (found + more) / (least + more),
        "tick_to_trade_here": found / least,
        "tick_to_trade_plain": found / statistics.median(default),
    }


async def watched(base_url: str, _: Path, rounds: int) -> dict[str, float]:
    """Measure ticks to trades with and without the invariants of an order, and these and the CPU
    of an order from its depth to its end with and without all that watches over orders, in turns.
    """
    bot = await project.start(base_url, symbols=["FPT"])
    project.watch(bot)
    cpu: dict[int, list[int]] = {}

    async def without(swapped: Sequence[project.Swapped]) -> float:
        begun = time.process_time_ns()
        with project.without(swapped):
            found = await project.tick_to_trade(bot)
        cpu.setdefault(len(swapped), []).append(time.process_time_ns() - begun)
        return found

    left_out = ((), project.INVARIANTS, project.SAFETY)
    runs = (partial(without, swapped) for swapped in left_out)
    ours, unchecked, unwatched = await rounds_of(rounds, CYCLES, *runs)
    await bot.stop()
    ratios = _by_round(ours, unwatched)
    found = statistics.median(ratios)
    spread = f"{found:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    click.echo(f"tick to trade / without what watches, of {rounds} rounds: {spread}")
    return {
        "invariants": statistics.median(ours) / statistics.median(unchecked),
        "watching": found,
        "safety": statistics.median(cpu[0]) / statistics.median(cpu[len(project.SAFETY)]),
    }


def _by_round(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """The ratio of the medians of each round: how far they differ is how far noise goes."""
    starts = range(0, len(first), CYCLES)
    rounds = [(first[at : at + CYCLES], second[at : at + CYCLES]) for at in starts]
    return [statistics.median(one) / statistics.median(other) for one, other in rounds]


async def recorded(base_url: str, _: Path, rounds: int) -> dict[str, float]:
    """Measure ticks to trades of a bot that records itself and of one that does not, in turns."""
    bots = [await project.start(base_url, symbols=["FPT"], record=on) for on in (True, False)]
    for bot in bots:
        project.watch(bot)
    with_it, without = await rounds_of(
        rounds, CYCLES, *(partial(project.tick_to_trade, bot) for bot in bots)
    )
    for bot in bots:
        await bot.stop()
    return {"recorded": statistics.median(with_it) / statistics.median(without)}


async def crowded(base_url: str, _: Path, rounds: int) -> dict[str, float]:
    """Measure an order while many polls wake strategies, against the same bot without polls."""
    medians = []
    for inflight in (0, POLLS):
        order, _count = await project.underload(base_url, inflight, is_awake=True)
        took = []
        for number in range((rounds + 1) * CYCLES // 2):
            await asyncio.sleep(0.005)
            begun = time.perf_counter_ns()
            await order(b"")
            took += [time.perf_counter_ns() - begun] if number >= CYCLES // 2 else []
        medians.append(statistics.median(took))
        await project.end_all()
    return {"crowded": medians[1] / medians[0]}


async def own_cpu(base_url: str, _: Path, rounds: int) -> dict[str, float]:
    """Measure the CPU of a depth's bytes → an order's bytes: no journal, no socket. Each order is
    followed by one without a bot, on the same core in the same state.
    """
    taken: dict[tuple[str, str], list[int]] = {}

    def add(what: str, kind: str, took: int, _: int | None) -> None:
        taken.setdefault((what, kind), []).append(took)

    gone = project.tap(add)
    if gone:
        raise click.ClickException(f"not measured, mend project_adapters.py: {gone}")
    bot = await project.start(base_url, symbols=["FPT"])
    project.watch(bot)
    depth: bytes = await (await peers.Socket.connect(base_url)).ask(
        peers.laid_out("GET", peers.DEPTH.format(symbol="FPT"), {"X-FH-APIKEY": peers.KEY})
    )
    limit = [peers.bare_cpu_ns(depth) for _ in range(2_000)]

    async def in_turns() -> float:
        await project.tick_to_trade(bot)
        return peers.bare_cpu_ns(depth)

    [cold] = await rounds_of(rounds, CYCLES, in_turns)
    await bot.stop()
    click.echo(f"{'CPU of a stage of an order, us':98}{'median':>8}{'least':>8}")
    for (what, kind), took in taken.items():
        if len(took) >= rounds * CYCLES:  # once per order, and not only at the start
            middle, least = statistics.median(took) / 1e3, min(took) / 1e3
            click.echo(f"{f'{what} {kind}':98}{middle:8.0f}{least:8.0f}")
    path = [taken[key] for key in project.PATH]
    own = sum(statistics.median(took) for took in path)
    least = sum(min(took) for took in path)
    return {"own_cpu": own / statistics.median(cold), "own_cpu_least": least / min(limit)}


async def poll_cpu(base_url: str, _: Path, rounds: int) -> dict[str, float]:
    """Measure the CPU of a depth polled by the client, against a bare socket with `json`."""
    poll = await project.poll(base_url, 1)
    socket = await peers.Socket.connect(base_url)
    get = peers.laid_out("GET", peers.DEPTH.format(symbol="FPT"), {"X-FH-APIKEY": peers.KEY})

    async def ours() -> float:
        begun = time.thread_time_ns()
        await poll("FPT")
        return time.thread_time_ns() - begun

    async def bare() -> float:
        begun = time.thread_time_ns()
        peers.decide(await socket.ask(get))
        return time.thread_time_ns() - begun

    own, limit = await rounds_of(rounds, CYCLES * 4, ours, bare)
    return {"poll_cpu": statistics.median(own) / statistics.median(limit)}


# ------------------------------------------------------------------------------------ the journal


async def durable(_: str, folder: Path, rounds: int) -> dict[str, float]:
    """Measure one durable row against sqlite3, and how many waiters share a commit."""
    append = await project.journal(str(folder))
    store = sqlite3.connect(folder / "rows.db", isolation_level=None)
    for pragma in peers.PRAGMAS:
        store.execute(f"PRAGMA {pragma}")
    store.execute("CREATE TABLE j (id INTEGER PRIMARY KEY, ts INTEGER, cid TEXT, body TEXT)")
    row = (1_700_000_000_000, "c1", "SUBMIT", "FPT", "BUY", 100, 25_050, '{"quantity":100}')

    async def ours() -> float:
        begun = time.perf_counter_ns()
        await append(*row)
        return time.perf_counter_ns() - begun

    async def theirs() -> float:
        begun = time.perf_counter_ns()
        store.execute("INSERT INTO j (ts, cid, body) VALUES (?, ?, ?)", (row[0], row[1], row[7]))
        return time.perf_counter_ns() - begun

    async def together() -> float:
        begun = time.perf_counter_ns()
        await asyncio.gather(*(append(*row) for _ in range(WAITERS)))
        return (time.perf_counter_ns() - begun) / WAITERS

    turns = await rounds_of(rounds, CYCLES, ours, theirs, together)
    alone, limit, shared = (statistics.median(turn) for turn in turns)
    more = missing_sync_ns(folder)  # of one commit, which the waiters share
    return {
        "append": (alone + more) / (limit + more),
        "append_here": alone / limit,
        "append_together": (alone + more) / (shared + more / WAITERS),
        "append_together_here": alone / shared,
    }


async def in_postgres(_: str, folder: Path, rounds: int) -> dict[str, float]:
    """Measure one row in PostgreSQL against psycopg alone, on the tests' server, which does not
    wait for its disk: what is left is ours.
    """
    with private_postgres() as server:
        url = f"{server}postgres"
        append = await project.journal(str(folder), url.replace(":", "+psycopg:", 1))
        row = (1_700_000_000_000, "c1", "SUBMIT", "FPT", "BUY", 100, 25_050, '{"quantity":100}')
        with psycopg.connect(url, autocommit=True) as store:
            store.execute("CREATE TABLE j (id SERIAL PRIMARY KEY, ts BIGINT, cid TEXT, body TEXT)")

            async def ours() -> float:
                begun = time.perf_counter_ns()
                await append(*row)
                return time.perf_counter_ns() - begun

            async def theirs() -> float:
                begun = time.perf_counter_ns()
                asked = "INSERT INTO j (ts, cid, body) VALUES (%s, %s, %s)"
                store.execute(asked, (row[0], row[1], row[7]))
                return time.perf_counter_ns() - begun

            alone, limit = await rounds_of(rounds, CYCLES, ours, theirs)
        await append.end()  # type: ignore[attr-defined]
    return {"append_postgres": statistics.median(alone) / statistics.median(limit)}


# --------------------------------------------------------------------------------- how cost grows


async def grown(base_url: str, _: Path, rounds: int) -> dict[str, float]:
    """Measure a tick's decision, and an order's attempt from its signature to its commit, late in a
    day of ended orders; and a decision with many open ones.
    """
    found, span = {}, 4 * rounds
    for name, count in (("ended_orders", CLOSED), ("open_orders", OPEN)):
        is_open = name == "open_orders"
        symbols = project.symbols_of(count + 2 * rounds + 1) if is_open else ["FPT"]
        engine = await project.EngineAlone.make(base_url, symbols, strategies=25 if is_open else 1)
        took, attempts = [], []
        for number in range(count + 2 * rounds):
            looked, intent = engine.look(symbols[number] if is_open else "FPT")
            assert intent is not None, "risk or a twin stopped it"
            took.append(looked)
            if not is_open and not 3 * span <= number < count - 2 * span:
                attempts.append(await engine.attempt(intent))
            answered = engine.sent_and_answered(intent)[2]
            if not is_open:
                engine.cancelled(answered)
            if number % TURNS == 0:
                await asyncio.sleep(0)  # a bot whose loop stands still for 5 s sends nothing
        found[name] = _growth(took, rounds)
        if attempts:
            found["ended_attempts"] = _growth(attempts, span)
        await engine.bot.stop()
    return found


def _growth(took: Sequence[float], span: int) -> float:
    """The last against the first; what warms up is left out."""
    first, last = took[span : 3 * span], took[-2 * span :]
    return statistics.median(last) / statistics.median(first)


# ----------------------------------------------------------------------------------- the sandbox


async def served(_: str, __: Path, rounds: int) -> dict[str, float]:
    """Measure signed requests against a bare application on the same server."""
    turns = await asyncio.to_thread(sandbox.one_round, 8 * rounds)
    return {f"sandbox_{what}": sandbox.ratio(found, "memory") for what, found in turns.items()}


# --------------------------------------------------------------------------------- the backtest


async def backtested(_: str, __: Path, rounds: int) -> dict[str, float]:
    """Measure bars on which next to nothing happens, and an order every 45 bars, against a bare
    loop; the best of each, as noise only adds to a bar's cost.
    """
    found = {}
    for name, bars, cross in (
        ("idle_bars", 60_000, backtest.IDLE),
        ("bars", 20_000, backtest.SPARSE),
    ):
        columns = backtest.walk(bars)
        ours = backtest.prepared([columns], cross)
        bare = partial(backtest.bare_loop, columns, cross)
        turns = [
            (backtest.rate(ours, bars)[0], backtest.rate(bare, bars)[0]) for _ in range(rounds)
        ]
        found[name] = max(turn[0] for turn in turns) / max(turn[1] for turn in turns)
    return found


# ---------------------------------------------------------------------------- a pause in a flood


async def paused(_: str, __: Path, rounds: int) -> dict[str, float]:
    """Measure the longest time from a pause under a flood of quotes to the last order begun,
    against the time that it may take.
    """
    asked = (sys.executable, "-m", "bench.pause", "--rounds", str(rounds), "--most")
    most_ms = await asyncio.to_thread(subprocess.check_output, asked)
    return {"pause": float(most_ms) / PAUSE_MS}


# -------------------------------------------------------------------------------- the command line


async def started(_: str, folder: Path, __: int) -> dict[str, float]:
    """Measure the CPU of a help page, of a look at a demo that never ran and of a status beside a
    running bot, against an import; and the memory of that bot.
    """
    nowhere = {"BOT_CONFIG": str(shipped(DEMO)), "XDG_STATE_HOME": str(folder)}
    base = footprint.cpu_s("-c", "import sqlalchemy")
    with (
        footprint.served(folder, SYMBOLS) as (config, keys),
        footprint.settled(config, SETTLES_S, **keys) as pid,
    ):
        resident, _shared = footprint.sizes(pid)
        status = footprint.cpu_s("-m", "bot", "status", "-c", str(config))
    return {
        "run_help": footprint.cpu_s("-m", "bot", "run", "--help") / base,
        "look": footprint.cpu_s("-m", "bot", **nowhere) / base,
        "status": status / base,
        "daemon_mb": resident,
    }


MEASURES: Final[Sequence[Callable[[str, Path, int], Awaitable[dict[str, float]]]]] = (
    tick_to_trade,
    watched,
    recorded,
    crowded,
    poll_cpu,
    durable,
    in_postgres,
    grown,
    served,
    backtested,
    paused,
    started,
    own_cpu,  # last, because its stop-watches stay installed
)


async def measure(
    names: Sequence[str], rounds: int, figures: dict[str, Figure], looks_max: int
) -> dict[str, float]:
    """Return every figure, or those of the named measures, each the best of its runs. A measure is
    repeated while one of its figures is worse than allowed.
    """
    found: dict[str, float] = {}
    with mock() as base_url:
        for each in MEASURES:
            if names and each.__name__ not in names:
                continue
            for _ in range(1 if each is own_cpu else looks_max):
                with tempfile.TemporaryDirectory() as folder:
                    seen = await each(base_url, Path(folder), rounds)
                for name, value in seen.items():
                    found[name] = figures[name].best(value, found.get(name, value))
                if all(figures[name].is_allowed(found[name]) for name in seen):
                    break
    return found


@click.command()
@click.argument("names", nargs=-1)
@click.option("--rounds", default=5, show_default=True)
@click.option("--check", "is_check", is_flag=True, help="Fail on a figure worse than half.")
def main(names: tuple[str, ...], rounds: int, is_check: bool) -> None:  # noqa: FBT001
    """Print the figures with their targets."""
    gc.set_threshold(*COLLECT_AFTER)  # as in a bot; the peers share it
    figures: dict[str, Figure] = load_figures()
    looks_max = LOOKS_MAX if is_check else 1
    found: dict[str, Any] = asyncio.run(measure(names, rounds, figures, looks_max))
    failed = []
    click.echo(f"{'':42}{'found':>8}{'reached':>9}{'wanted':>8}{'goal':>7}")
    for name, value in found.items():
        row = figures[name]
        met = "met" if row.is_met(value, row.wanted) else ""
        click.echo(
            f"{row.what:42}{value:8.2f}{row.reached:9.2f}{row.wanted:8.2f}{row.goal:7.2f}  {met}"
        )
        if not row.is_allowed(value):
            failed.append(f"{row.what}: {value:.2f}, worse than {row.worst:.2f}")
    load = os.getloadavg()[0]
    click.echo(f"load {load:.1f} on {os.cpu_count()} cores; ratios of medians, {rounds} rounds")
    if is_check and failed:
        raise click.ClickException("; ".join(failed))


if __name__ == "__main__":
    main()
