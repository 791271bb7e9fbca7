"""The doctor's checks of this machine: program, files, journal, disk, calendar.

It contacts only the journal's database, and changes nothing.
"""

import os
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bot.clock import Clock
from bot.config.masking import masked_url
from bot.config.problems import OperatorMistake
from bot.config.rulebook import rulebook_of
from bot.config.settings.load import Loaded
from bot.config.settings.sources import process_environment
from bot.config.strategies.load import load_strategies
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.local_time import minute_of
from bot.engine.health import LOW_BYTES
from bot.engine.settings import LoadedStrategy
from bot.journal.database.engines import folders_of
from bot.journal.database.schema import check, why_unwritable
from bot.journal.errors import JournalError
from bot.journal.upkeep.copying import backups_in
from bot.journal.upkeep.verify import ANY_EPOCH, damage_of
from bot.journal.writing.heads import read_heads_file
from bot.runtime.brake import flags_in
from bot.runtime.control.socket import NoBotRunning, ask
from bot.runtime.journal_file import require_unmixed
from bot.runtime.state_dir import kept_token
from bot.runtime.timetable.feeds import SLOWER_MAX, polls_of, slowed_by, slowness_of
from bot.runtime.timetable.morning import calendar_row, disk_row
from bot.runtime.watches import free_on

PYTHON_MIN: Final = (3, 11)
SQLITE_MIN: Final = (3, 37, 0)
"""Needed for STRICT tables."""
WAL_RESET_SINCE: Final = (3, 51, 3)
"""Before, a write-ahead log that is reset under several writers may be damaged. We are one writer,
so it is only mentioned.
"""
ROOM_SOON: Final = 4
"""A warning begins at this multiple of the space at which the bot stops entries."""
BACKUP_DAYS: Final = 8
"""A backup older than this is reported: one a week is not much."""
OF_ITS_OWN: Final = "set another state_dir, or what was there before: bot docs upgrade"
_TO_RESTORE: Final = (
    "bot journal verify says where; move the file away with any -wal and -shm beside it, then put "
    "the last backup in place"
)
_TO_COMPARE: Final = (
    "put the newest journal back; if this one is it, start: its orders are held until you have "
    "compared (bot reconcile) and accepted it: bot reconcile --accept JOURNAL --reason TEXT"
)
"""About a journal that is whole, and differs from the heads beside it."""
_DAY_S: Final = 86_400
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MEGABYTE: Final = 1_000_000


class Verdict(StrEnum):
    """The result of a check. FAIL: a run is refused or soon in trouble; WARN is for a person to
    judge.
    """

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"
    """Not checked: offline, or something that it needs has failed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row. `fix` is empty if nothing has to be done."""

    name: str
    verdict: Verdict
    found: str
    fix: str = ""


def ok(name: str, found: str) -> Finding:
    return Finding(name, Verdict.OK, found)


def warn(name: str, found: str, *, fix: str) -> Finding:
    return Finding(name, Verdict.WARN, found, fix)


def fail(name: str, found: str, *, fix: str) -> Finding:
    return Finding(name, Verdict.FAIL, found, fix)


def skipped(name: str, why: str) -> Finding:
    return Finding(name, Verdict.SKIPPED, why)


@dataclass(frozen=True, slots=True)
class Machine:
    """What is read from the machine; tests pass another one."""

    python: Sequence[int] = tuple(sys.version_info[:3])
    sqlite: Sequence[int] = sqlite3.sqlite_version_info
    free_bytes: Callable[[Path], int] = free_on
    has_module: Callable[[str], bool] = lambda name: find_spec(name) is not None
    answer_s: float = 2.0
    """How long a running bot may take to answer."""


def look_here(loaded: Loaded, machine: Machine, clock: Clock) -> Iterator[Finding]:
    """Yield a row for each check."""
    today = clock.now().astimezone(EXCHANGE_TZ).date()
    yield of_python(machine)
    yield of_libraries(loaded, machine)
    yield of_sqlite(loaded, machine)
    strategies, found = of_strategies(loaded)
    yield found
    yield (
        skipped("quota", "the strategies can't be read")
        if found.verdict is Verdict.FAIL
        else of_quota(loaded, strategies)
    )
    yield of_secrets(loaded)
    yield of_state_dir(loaded.state_dir)
    yield of_disk(loaded, machine)
    yield of_journal_line(loaded)
    yield from of_journal(loaded)
    yield of_backups(loaded, clock)
    yield of_running(loaded, machine)
    yield of_brake(loaded)
    yield of_calendar(loaded, today)
    yield of_token(loaded, clock)
    yield of_log(loaded)
    yield of_notices(loaded, machine)


def of_python(machine: Machine) -> Finding:
    version = ".".join(map(str, machine.python))
    if tuple(machine.python) < PYTHON_MIN:
        return fail("python", version, fix="install Python 3.11 or later, then vnbot into it")
    return ok("python", version)


def of_libraries(loaded: Loaded, machine: Machine) -> Finding:
    if loaded.journal_url.startswith("postgresql") and not machine.has_module("psycopg"):
        text = "the journal is in Postgres, and its library is missing"
        return fail("extras", text, fix="pip install 'vnbot[postgres]'")
    if loaded.settings.record and not machine.has_module("polars"):
        text = "recordings go into SQLite, as Polars is missing: ten times as large"
        return warn("extras", text, fix="pip install 'vnbot[data]'")
    return ok("extras", "all that this configuration needs")


def of_sqlite(loaded: Loaded, machine: Machine) -> Finding:
    version = ".".join(map(str, machine.sqlite))
    if not loaded.journal_url.startswith("sqlite"):
        return ok("sqlite", f"{version}, not used by this journal")
    if tuple(machine.sqlite) < SQLITE_MIN:
        text = f"{version}; the journal's tables need 3.37 or later"
        return fail("sqlite", text, fix="use a Python that is built with a later SQLite")
    if tuple(machine.sqlite) < WAL_RESET_SINCE:
        text = f"{version}; before 3.51.3 several writers may damage a journal, the bot is one"
        return ok("sqlite", f"{text}: let no other program write to it")
    return ok("sqlite", version)


def of_strategies(loaded: Loaded) -> tuple[Sequence[LoadedStrategy], Finding]:
    try:
        found = load_strategies(loaded)
    except OperatorMistake as mistake:
        first = mistake.problems[0].head
        more = f" and {len(mistake.problems) - 1} more" if len(mistake.problems) > 1 else ""
        return (), fail("strategies", f"{first}{more}", fix="bot strategy check says each place")
    names = ", ".join(each.plan.name for each in found)
    return found, ok("strategies", f"{len(found)}: {names}")


def of_quota(loaded: Loaded, strategies: Sequence[LoadedStrategy]) -> Finding:
    per_minute = loaded.settings.broker.requests_per_minute
    plans = [each.plan for each in strategies]
    quote_age_max = timedelta(seconds=loaded.settings.risk.max_quote_age_s)
    if words := slowness_of(plans, per_minute, quote_age_max):
        slower = slowed_by(polls_of(plans), per_minute)
        tell = fail if slower > SLOWER_MAX else warn  # as before the opening
        fix = "wake seldomer, trade fewer symbols, or set broker.requests_per_minute to your key's"
        return tell("quota", f"the polls {words}", fix=fix)
    return ok("quota", f"{per_minute} requests a minute are enough for all polls")


def of_secrets(loaded: Loaded) -> Finding:
    if loaded.settings.is_embedded:
        return ok("secrets", "none needed: the broker is simulated here")
    broker = loaded.settings.broker
    missing = [key for key in ("api_key", "api_secret") if getattr(broker, key) is None]
    if missing:
        names = " and ".join(key.replace("_", "-") for key in missing)
        return fail("secrets", f"{names} missing", fix=f"bot secret set {names.split()[0]}")
    return ok("secrets", "key and secret are here, for their owner alone")


def of_state_dir(folder: Path) -> Finding:
    place = folder
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        fix = f"chown or chmod {place}, or set state_dir in bot.yaml"
        return fail("state folder", f"{folder}: {place} can't be written to", fix=fix)
    if place != folder:
        return ok("state folder", f"{folder}: the first run makes it")
    if folder.stat().st_mode & _OTHERS:
        text = f"{folder} is open to others (mode {stat.S_IMODE(folder.stat().st_mode):04o})"
        return fail("state folder", text, fix=f"chmod 700 {folder}")
    return ok("state folder", str(folder))


def of_disk(loaded: Loaded, machine: Machine) -> Finding:
    places = [*folders_of(loaded.state_dir, loaded.journal_url)]
    for number, place in enumerate(places):
        places[number] = next(each for each in (place, *place.parents) if each.exists())
    free, place = min((machine.free_bytes(place), place) for place in places)
    row, text = disk_row(free), f"{free // _MEGABYTE:,} MB free at {place}"
    if not row.is_ok:
        return fail("disk", text, fix=row.fix)
    if free < ROOM_SOON * LOW_BYTES:
        return warn("disk", text, fix="make room soon: old logs, recordings, journal prune")
    return ok("disk", text)


def of_journal_line(loaded: Loaded) -> Finding:
    if loaded.warnings:
        fix = "add ?sslmode=verify-full&sslrootcert=FILE to journal.url; in live mode it must be"
        return warn("journal line", loaded.warnings[0].message, fix=fix)
    return ok("journal line", "the journal is on this machine, or its host is verified")


def of_journal(loaded: Loaded) -> Iterator[Finding]:
    url, shown = loaded.journal_url, masked_url(loaded.journal_url)
    if url.startswith("sqlite") and not Path(url.removeprefix("sqlite:///")).exists():
        yield ok("journal", f"{shown}: the first run makes it")
        yield skipped("chain", "there is no journal yet")
        return
    try:
        state = check(url)
        why = why_unwritable(url) if state.is_current else ""
    except JournalError as error:
        yield fail("journal", f"{error}", fix="see that the database runs; bot db check says more")
        yield skipped("chain", "the journal can't be read")
        return
    if not state.is_current:
        found = f"{shown}: schema {state.found or 'none'}, this program needs {state.wanted}"
        fix = "bot db migrate" if state.is_known else "use the program that wrote it"
        yield fail("journal", found, fix=fix)
        yield skipped("chain", "the journal has another schema")
        return
    if why:
        fix = "mend that: no order leaves while the journal can't be written"
        yield fail("journal", f"{shown} can be read, but not written: {why}", fix=fix)
    else:
        yield of_mode(loaded) or ok("journal", f"{shown}, schema {state.found}")
    kept = read_heads_file(loaded.state_dir, url).kept
    fix = _TO_RESTORE
    try:
        damage = damage_of(url, kept[-1] if kept else None, ANY_EPOCH)
        if damage and not damage_of(url, None, ANY_EPOCH):
            fix = _TO_COMPARE
    except JournalError as error:
        damage = (str(error),)
    if damage:
        yield fail("chain", damage[0], fix=fix)
    else:
        yield ok("chain", f"whole, as kept at {kept[-1].at:%Y-%m-%d %H:%M}" if kept else "whole")


def of_mode(loaded: Loaded) -> Finding | None:
    """Return what a start would refuse in a journal of another mode. What can't be read is left to
    the row of the chain.
    """
    try:
        require_unmixed(loaded.journal_url, loaded.settings.mode)
    except OperatorMistake as mistake:
        return fail("journal", mistake.problems[0].head, fix=OF_ITS_OWN)
    except JournalError:
        pass
    return None


def of_backups(loaded: Loaded, clock: Clock) -> Finding:
    folder = loaded.backups_dir
    if folder is None:
        text = "journal.backups names no folder: what is old goes, whether a backup holds it or not"
        if loaded.settings.mode == "live":
            return warn(
                "backups", text, fix="set journal.backups; then, each week: bot journal backup"
            )
        return ok("backups", text)
    try:
        newest = backups_in(folder, loaded.journal_url)[:1]
    except FileNotFoundError:
        newest = []
    except OSError as error:
        fix = f"mount or mend {folder}, or set journal.backups"
        return fail("backups", f"{folder}: {(error.strerror or str(error)).lower()}", fix=fix)
    if not newest:
        return warn("backups", f"{folder} holds none", fix="bot journal backup")
    age_days = (clock.now().timestamp() - newest[0].stat().st_mtime) // _DAY_S
    text = f"{newest[0]}, {age_days:.0f} {'day' if age_days == 1 else 'days'} old"
    if age_days > BACKUP_DAYS:
        return warn("backups", text, fix="bot journal backup, and see why none is made")
    return ok("backups", text)


def of_running(loaded: Loaded, machine: Machine) -> Finding:
    try:
        answer = ask(loaded.state_dir, {"do": "status"}, timeout_s=machine.answer_s)
    except NoBotRunning:
        return ok("running", "no bot runs on this state folder")
    except (OSError, OperatorMistake) as error:
        fix = "if it stays so: bot halt --yes, then look at bot logs"
        return fail("running", f"a bot runs and does not answer ({error})", fix=fix)
    found = answer.get("status")
    status: Mapping[str, Any] = found if isinstance(found, dict) else {}
    state = status.get("state", "STARTING")
    if state not in {"RUNNING", "STARTING"}:
        return warn("running", f"this bot runs and is {state}", fix="bot status says why")
    held = [each["reason"] for each in status.get("causes", ()) if each["by"] == "reconcile"]
    if why := "; ".join((*held, *status.get("blocked_by", ()))):
        text = f"this bot runs and is {state}, and no order leaves: {why}"
        return warn("running", text, fix="bot status says what to do")
    return ok("running", f"this bot runs: {state}")


def of_brake(loaded: Loaded) -> Finding:
    if flags := flags_in(loaded.state_dir):
        fix = "when it is right to trade again, with the bot running: bot resume --reason …"
        return warn("halt file", f"{flags[0]} is there: no order leaves", fix=fix)
    return ok("halt file", "none")


def of_calendar(loaded: Loaded, today: date) -> Finding:
    calendar = rulebook_of(loaded).calendar
    row = calendar_row(calendar, today)
    if not row.is_ok:
        is_over = not calendar.covers(today)
        return (fail if is_over else warn)("calendar", row.found, fix=row.fix)
    return ok("calendar", row.found)


def of_token(loaded: Loaded, clock: Clock) -> Finding:
    if loaded.settings.mode != "live":
        return ok("2FA", f"{loaded.settings.mode} mode needs no code of yours")
    kept = kept_token(loaded.state_dir, clock.now())
    if kept is None:
        return warn("2FA", "no token of today: no order leaves without", fix="bot otp")
    return ok("2FA", f"token until {minute_of(kept[1])}")


def of_log(loaded: Loaded) -> Finding:
    if loaded.settings.log.level == "off":
        fix = "take log.level: off out of bot.yaml"
        return warn("log", "no log of the process is kept", fix=fix)
    return ok("log", f"level {loaded.settings.log.level}")


def of_notices(loaded: Loaded, machine: Machine) -> Finding:
    try:
        channels = loaded.channels(process_environment())
    except OperatorMistake as mistake:
        fix = "bot notify list, when that is put right: docs/notices.md"
        return fail("notices", mistake.problems[0].head, fix=fix)
    if not channels:
        text = "no channel: who does not look at the screen is told nothing"
        if loaded.settings.mode == "live":
            return warn("notices", text, fix="write notify.yaml: docs/notices.md")
        return ok("notices", text)
    if not machine.has_module("apprise"):
        text = "channels are named, and the library that tells them is missing"
        return fail("notices", text, fix="pip install 'vnbot[notify]'")
    return ok("notices", f"{', '.join(each.name for each in channels)}; try: bot notify test")
