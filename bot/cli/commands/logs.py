"""`bot logs`: the newest lines of the process log, each in plain words.

The details of a line are in `bot logs --json`, and in the journal.
"""

import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import chain, count, islice
from pathlib import Path
from time import sleep
from typing import Final, TextIO

import click

from bot.cli.command import Invocation, define_command
from bot.cli.show import print_json, write_json, write_line
from bot.cli.target import readable
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import RunState
from bot.domain.instrument import EXCHANGE_TZ

LOOK_S: Final = 0.5
LEVELS: Final = ("debug", "info", "warning", "error")
_HEAD: Final = ("time", "level", "event")

Line = Mapping[str, object]


@define_command("logs", example="bot logs --level warning -f")
@click.option("-n", "--lines", type=click.IntRange(1, 100_000), default=50, show_default=True)
@click.option("--level", type=click.Choice(LEVELS), default="debug", help="This level and above.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until Ctrl-C.")
@click.option("--looks", type=click.IntRange(1), hidden=True)
@click.pass_obj
def command(
    invocation: Invocation, lines: int, level: str, follow: bool, looks: int | None
) -> None:
    """Show the process log: starts, alerts, faults, and everything that the journal keeps too.

    It exists even when the journal was out of reach, and after a failed start.
    """
    # The settings of a run are slow to import, and help pages do not need them.
    from bot.runtime.health.process_log import log_file

    loaded = readable(invocation)
    if loaded.settings.log.level == "off":
        text = "log.level is off in this configuration, so there is no log"
        raise OperatorMistake.of("E-LOG-001", text, ExitCode.CONFIG)
    file = log_file(loaded)
    if not file.exists():
        text = f"there is no log yet: {file}. To start one: bot run"
        raise OperatorMistake.of("E-LOG-001", text, ExitCode.NOT_RUNNING)
    least = LEVELS.index(level)
    with file.open(encoding="utf-8", errors="replace") as opened:
        before = lines_of(file.with_name(f"{file.name}.1"))
        newest = deque(that_fit(chain(before, opened), least), maxlen=lines)
        if invocation.json and not follow:
            print_json({"file": str(file), "lines": [*newest]})
            return
        for found in newest:
            show_line(invocation, found)
        if follow:
            for found in that_fit(followed(file, opened, looks), least):
                show_line(invocation, found)


def lines_of(file: Path) -> Iterator[str]:
    """The lines of the previous log file, if there is one."""
    with suppress(OSError), file.open(encoding="utf-8", errors="replace") as opened:
        yield from opened


def that_fit(texts: Iterator[str], least: int) -> Iterator[Line]:
    """Yield the complete lines of sufficient level. A crash may have truncated the last one."""
    for text in texts:
        with suppress(ValueError):
            found = json.loads(text)
            if isinstance(found, dict) and found.get("level") in LEVELS[least:]:
                yield found


def followed(file: Path, opened: TextIO, looks: int | None) -> Iterator[str]:
    """Yield each line written from here on, including in later files."""
    with opened:
        for _ in islice(count(), looks):
            while text := opened.readline():
                yield text
            sleep(LOOK_S)
            with suppress(FileNotFoundError):
                found, ours = file.stat(), os.fstat(opened.fileno())
                if (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino):
                    yield from opened
                    opened.close()
                    opened = file.open(encoding="utf-8", errors="replace")


def show_line(invocation: Invocation, line: Line) -> None:
    if invocation.json:
        write_json(json.dumps(line, ensure_ascii=False))
        return
    time, level, event = (str(line.get(name, "")) for name in _HEAD)
    with suppress(ValueError):
        time = f"{datetime.fromisoformat(time).astimezone(EXCHANGE_TZ):%m-%d %H:%M:%S}"
    write_line(f"{time} {level:<7} {event} {words_of(line)}")


Facts = Mapping[str, object]

WORDS: Final[Mapping[str, str]] = {
    "run_started": "{name}, {mode}, version {version}, process {pid}",
    "run_ended": "{why}",
    "start": "{step}: {text}",
    "recovered": "{orders} orders and {intents} requests from before",
    "trouble": "{text}",
    "library": "{logger}: {text}",
    "lines_lost": "{count} lines could not be written",
    "decision": "{strategy} {symbol} {verdict} {code}: {why}",
    "intent_recorded": "{intent[intent_id]} of {intent[strategy]}: {intent[side]} "
    "{intent[quantity]} {intent[symbol]}, {state} {reason}",
    "intent_moved": "{intent_id} {from_state} to {to_state}: {reason}",
    "attempt_started": "{intent_id} {verb} {order_id}",
    "attempt_finished": "{intent_id} {outcome}, HTTP {http_status} after {latency_ms} ms {code} "
    "{reason}",
    "order_result_seen": "{order_id} as the broker has it ({source})",
    "order_updated": "{order_id} {side} {quantity} {symbol} {state}, {executed_quantity} done "
    "{code} {reason} {note}",
    "transition": "{order_id} {intent_id} {from_state} to {to_state} ({source}) {note}",
    "fill": "{order_id} {side} {quantity:,} {symbol} at {price:,}: {amount:,} VND, fee {fee:,}, "
    "tax {tax:,}, holds {position:,}",
    "auth_event": "{kind} {code} {detail}",
    "state_changed": "{from_state} to {to_state} by {by}: {reason}",
    "strategy_switched": "{strategy} {state} by {by}: {reason}",
    "account_seen": "cash {snapshot[cash]:,}, net assets {snapshot[net_asset_value]:,}",
}
"""By event. A note, whose event is its own word, shows its text."""
_LATE: Final = " (not in the journal yet)"


def words_of(line: Facts) -> str:
    """Return a line's text, without time, level and event."""
    event, facts, end = str(line.get("event")), line, ""
    if isinstance(entry := line.get("entry"), Mapping):  # logged while the journal was out of reach
        facts, end = entry, _LATE
    if isinstance(facts.get("kind"), str) and "numbers" in facts:
        symbol = f"{facts['symbol']}: " if facts.get("symbol") else ""
        return f"{symbol}{facts.get('text')}{end}"
    template = WORDS.get(event)
    if event == "state_changed" and facts.get("from_state") == facts.get("to_state"):
        template = "{scope}: {reason}"
    elif event == "state_changed" and facts.get("scope") != "all":
        is_back = facts.get("to_state") == RunState.RUNNING
        moved = "no longer {from_state}" if is_back else "{from_state} to {to_state}"
        template = f"{{scope}} {moved} by {{by}}: {{reason}}"
    try:
        told = template.format_map(_Shown(facts)) if template else " ".join(_pairs(facts))
    except (KeyError, IndexError, TypeError, ValueError):  # of a later version, or truncated
        told = " ".join(_pairs(facts))
    return " ".join(told.split()).removesuffix(":") + end  # nothing may follow it


class _Shown(dict[str, object]):
    """The facts; empty text for None."""

    def __init__(self, facts: Facts) -> None:
        super().__init__({name: "" if value is None else value for name, value in facts.items()})


def _pairs(facts: Facts, before: str = "") -> Iterator[str]:
    for name, value in facts.items():
        if value is None or (not before and name in {"time", "level", "event", "at"}):
            continue
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{before}{name}.")
        elif isinstance(value, list):
            yield f"{before}{name}={','.join(map(str, value))}"
        else:
            yield f"{before}{name}={value}"
