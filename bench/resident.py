"""How much memory a settled bot takes: with its broker elsewhere, and with the sandbox inside.

    .venv/bin/python -m bench.resident [--symbols 10] [--after 30]

`bot run` as a user starts it, with one strategy that wants bars; its broker is `bot paper serve`
in a process of its own, then the sandbox that it plays itself. Printed are the resident size (what
`ps` shows) and the proportional one (shared pages divided among those who share them), in MB.
"""

import json
import os
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


def measured(config: Path, after_s: float, **environment: str) -> tuple[float, float]:
    """Return the sizes of a bot that has run for a while."""
    with begun("-q", "run", "-c", str(config), **environment) as bot:
        time.sleep(after_s)
        assert bot.poll() is None, "it has ended"
        return sizes(bot.pid)


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
            found = measured(config, after_s, **keys)
            click.echo("broker elsewhere: resident {:.0f}, proportional {:.0f} MB".format(*found))
        found = measured(write_project(inside, symbols, plan), after_s)
        click.echo("sandbox inside:   resident {:.0f}, proportional {:.0f} MB".format(*found))


if __name__ == "__main__":
    main()
