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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from bench.thirty_days import write_project
from bench.virtual_day import SMA

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


def tell(where: str, config: Path, after_s: float, **environment: str) -> None:
    """Run a bot for a while; print its sizes, and how long commands beside it take."""
    with begun("-q", "run", "-c", str(config), **environment) as bot:
        time.sleep(after_s)
        assert bot.poll() is None, "it has ended"
        resident, proportional = sizes(bot.pid)
        click.echo(f"{where}: resident {resident:.0f}, proportional {proportional:.0f} MB")
        for words in COMMANDS:
            its = [*words, str(config)] if words[-1] == "-c" else words
            click.echo(f"  {cpu_s(*its):.2f} s of CPU: {' '.join(words[1:])}")


@click.command()
@click.option("--symbols", default=10, show_default=True)
@click.option("--after", "after_s", default=30.0, show_default=True, help="Seconds to settle.")
def main(symbols: int, after_s: float) -> None:
    """Measure both, and print them."""
    plan: dict[str, Any] = {**SMA, "wake": {"bar": "1m", "quote": "2s"}}
    with TemporaryDirectory() as name:
        scenes, elsewhere, inside = (Path(name) / each for each in ("scenes", "served", "inside"))
        for folder in (scenes, elsewhere, inside):
            folder.mkdir()
        write_project(scenes, symbols, plan)
        scene = ("--scenario", str(scenes / "scenario.yaml"), "--now", "2026-09-03T09:30")
        with begun("paper", "serve", "--port", "0", "--speed", "1", *scene) as server:
            assert server.stdout is not None
            given = json.loads(server.stdout.readline())
            config = write_project(
                elsewhere, symbols, plan, base_url=given["base_url"], requests_per_minute=3_000
            )
            keys = {
                f"BOT_BROKER__{each.upper()}": given[each] for each in ("api_key", "api_secret")
            }
            tell("broker elsewhere", config, after_s, **keys)
        tell("sandbox inside", write_project(inside, symbols, plan), after_s)


if __name__ == "__main__":
    main()
