"""What a bot takes at rest: its memory once it has settled, and the time of commands beside it.

    .venv/bin/python -m bench.footprint [--symbols 10] [--after 30]

`bot run` as a user starts it, with one strategy that wants bars; its broker is `bot paper serve`
in a process of its own, then the sandbox that it plays itself. Printed are the resident size (what
`ps` shows) and the proportional one (shared pages divided among those who share them), in MB; and
the least CPU of nine calls of two commands beside the running bot, and of Python alone.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from bench.thirty_days import write_project
from bench.virtual_day import SMA

PLAN: dict[str, Any] = {**SMA, "wake": {"bar": "1m", "quote": "2s"}}
START_S = 120
ENDS_S = 30
CALLS = 9
COMMANDS = (("-m", "bot", "run", "--help"), ("-m", "bot", "status", "-c"), ("-c", "pass"))


@contextmanager
def begun(*words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run `bot` with these words; end it afterwards."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "bot", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=ENDS_S)


def sizes(pid: int) -> tuple[float, float]:
    """Return the resident and the proportional size of a process, in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()[1:]
    kb = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kb["Rss"] / 1024, kb["Pss"] / 1024


def cpu_s(*words: str, **environment: str) -> float:
    """Return the CPU time of a command that ends by itself, the least of several calls."""
    its = {**os.environ, **environment}

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], check=True, capture_output=True, env=its)  # noqa: S603
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(CALLS))


@contextmanager
def served(folder: Path, symbols: int) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Run a sandbox; yield the configuration of a bot whose broker it is, and the bot's keys."""
    scenes, elsewhere = folder / "scenes", folder / "served"
    for each in (scenes, elsewhere):
        each.mkdir()
    write_project(scenes, symbols, PLAN)
    scene = ("--scenario", str(scenes / "scenario.yaml"), "--now", "2026-09-03T09:30")
    with begun("paper", "serve", "--port", "0", "--speed", "1", *scene) as server:
        assert server.stdout is not None
        given = json.loads(server.stdout.readline())
        broker = {"base_url": given["base_url"], "requests_per_minute": 3_000}
        config = write_project(elsewhere, symbols, PLAN, **broker)
        named = ("api_key", "api_secret")
        yield config, {f"BOT_BROKER__{each.upper()}": given[each] for each in named}


@contextmanager
def settled(config: Path, after_s: float, **environment: str) -> Iterator[int]:
    """Run a bot; yield its process once it has started, and some time has passed."""
    with begun("-q", "run", "-c", str(config), **environment) as bot:
        waiting = ("status", "--wait", "NEEDS_2FA", "--timeout", str(START_S), "-c", str(config))
        subprocess.run([sys.executable, "-m", "bot", *waiting], check=True, capture_output=True)  # noqa: S603
        time.sleep(after_s)
        assert bot.poll() is None, "it has ended"
        yield bot.pid


def tell(where: str, config: Path, after_s: float, **environment: str) -> None:
    """Run a bot for a while; print its sizes, and how long commands beside it take."""
    with settled(config, after_s, **environment) as pid:
        resident, proportional = sizes(pid)
        click.echo(f"{where}: resident {resident:.0f}, proportional {proportional:.0f} MB")
        for words in COMMANDS:
            its = [*words, str(config)] if words[-1] == "-c" else words
            click.echo(f"  {cpu_s(*its):.2f} s of CPU: {' '.join(words[1:])}")


@click.command()
@click.option("--symbols", default=10, show_default=True)
@click.option("--after", "after_s", default=30.0, show_default=True, help="Seconds to settle.")
def main(symbols: int, after_s: float) -> None:
    """Measure both, and print them."""
    with TemporaryDirectory() as name:
        folder, inside = Path(name), Path(name) / "inside"
        inside.mkdir()
        with served(folder, symbols) as (config, keys):
            tell("broker elsewhere", config, after_s, **keys)
        tell("sandbox inside", write_project(inside, symbols, PLAN), after_s)


if __name__ == "__main__":
    main()
