"""The consumer of committed entries that notifies people: pick, decide, pass to the channels.

All of it runs on the loop and takes microseconds; only the channels' threads wait for a network.
The result of each message is journalled as a note, and a channel that fails repeatedly raises an
alert.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from bot.clock import SystemClock, monotonic_s
from bot.config.problems import OperatorMistake
from bot.config.settings.load import Loaded, load_without_secrets, name_of
from bot.config.settings.notify import ChannelPlan, NotifySettings, find_channels
from bot.config.settings.places import DEFAULT
from bot.config.settings.sources import process_environment
from bot.domain.entry import (
    MUTE_NOTE,
    NOTICE_NOTE,
    PULSE_NOTE,
    Entry,
    Note,
    Numbers,
    StateChanged,
)
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.local_time import minute_of
from bot.domain.message import Noted
from bot.domain.notice import MUTE_MAX, SEVERITIES, Notice, NoticeKind, Severity, Volume
from bot.engine.account_status import LimitUse
from bot.engine.control_state import Standing
from bot.engine.settings import Guard
from bot.journal.upkeep.verify import last_note
from bot.journal.writing.thread import in_time
from bot.runtime.activity import Post
from bot.runtime.control.socket import Handler, Reply, Request, refused
from bot.runtime.journal_file import answer, crashed, journal_errors
from bot.runtime.notices.channels import Message, open_channels
from bot.runtime.notices.policy import Policy, Ready
from bot.runtime.notices.sender import Result, Sender
from bot.runtime.notices.standby import BlindNotices
from bot.runtime.notices.wording import Picker, Told, Wording, fails, refuses, safe
from bot.runtime.parts import Parts

NEAR_PERCENT: Final = 80
_FLOOR: Final = "min_cash"
ALIVE_AT: Final = time(8, 45)
ALIVE_UNTIL: Final = time(9, 0)
"""Local to the exchange: a bot that starts later sends a notice that it runs."""
TICK_S: Final = 0.5
"""How often to check what has waited long enough (wall clock)."""
STOP_S: Final = 2.0
"""How long the end of a run waits for messages under way, for all channels together."""
BUSY_MAX_S: Final = 30.0
"""A service that takes this long for one message, or for its name, counts as failing: an alert."""
FAILS_MAX: Final = 3
"""Messages in a row that a channel has not accepted, before an alert is raised; a critical one is
enough.
"""
ALL_S: Final = 8.0
"""Less than a service manager waits for an end, and enough for two tries."""
WAITS_S: Final = 10.0
"""A start that waits for longer than this for its broker is reported, and so is a journal that is
out of reach for longer (wall clock).
"""
KIND: Final = NoticeKind.HALTED
"""A missing bot sends no orders either: as urgent, and sent on the same channels."""


def is_near(limit: LimitUse) -> bool:
    """Return whether 80 % of a limit is used; a required minimum is not such a limit."""
    if limit.used is None or not limit.allowed or limit.key == _FLOOR:
        return False
    return limit.used * 100 >= NEAR_PERCENT * limit.allowed


class Notices:
    """Sends notices if channels are set up; else it does nothing.

    `told` words an alert in a language, `trouble` gets what could not be sent when a run ends.
    Raises OperatorMistake for a bad address.
    """

    def __init__(self, loaded: Loaded, told: Told, trouble: Callable[[str], object]) -> None:
        settings = loaded.settings.notify
        language = settings.language or loaded.settings.language
        self._journal_url, self._origin = loaded.journal_url, loaded.origin_of("journal.url")
        self._wording = Wording(language, loaded.name, loaded.settings.mode)
        self.of_blind = BlindNotices(loaded, self._wording)
        self._told, self._picker = told, Picker(self._wording, told)
        self._trouble = trouble
        group = timedelta(seconds=settings.group_s)
        self._policy = Policy(group=group, quiet_hours=settings.quiet_hours.of)
        self._channels = open_channels(loaded.channels(process_environment()))
        self._plans = {each.plan.name: each.plan for each in self._channels}
        self._fails = dict.fromkeys(self._plans, 0)
        self._refused = dict[str, tuple[str, str]]()
        """The last critical one that a channel did not take: its title, and why."""
        self._senders = dict[str, Sender]()
        self._has_fault = False
        self._parts: Parts | None = None
        self._near = set[tuple[date, str]]()
        self._alive_on: date | None = None
        self._standing = dict[str, Standing]()
        self._waits_since_s: float | None = None
        self._has_told_wait = False
        self._told_ahead = dict[int, Entry]()
        """By identity: what was told before the journal had it."""
        self._journal_told = set[str]()
        """What was told of the journal since it is out of reach."""

    async def begin(
        self,
        stack: AsyncExitStack,
        guard: Guard,
        now: Callable[[], datetime],
        post: Post,
        waits: Callable[[], Sequence[Standing]],
    ) -> None:
        """Begin to send, before the broker is asked and the journal's new run begins. `now` is
        market time, `waits` the alerts of a start that waits.
        """
        self._guard, self._now, self._post, self._waits = guard, now, post, waits
        if not self._channels:
            return
        self._loop = asyncio.get_running_loop()
        url = self._journal_url
        with journal_errors(self._origin):
            has_crashed = await answer(url, in_time(partial(crashed, url)))
            muted = await answer(url, in_time(partial(last_note, url, MUTE_NOTE)))
        for each in self._channels:
            dropped = partial(self._wording.said, "dropped")
            sender = Sender(each.plan.name, each.send, self._report, dropped_words=dropped)
            self._senders[each.plan.name] = sender
            sender.start()
        ends = str(muted.get("until") or "")
        if ends and (until := datetime.fromisoformat(ends)) > now():
            self._policy.mute(until)
            text = f"still muted until {minute_of(until)}. To end it: bot notify mute 0s"
            self._note(MUTE_NOTE, text, {"until": ends})
        ticking = asyncio.create_task(self._tick())
        stack.callback(self.stop)
        stack.callback(ticking.cancel)
        if has_crashed:
            text = self._wording.said("crash")
            self._take([self._wording.notice(now(), NoticeKind.RESTART, text)])

    def follow(self, parts: Parts) -> Mapping[str, Handler]:
        """Watch these parts from now on; return the handlers for an operator's requests."""
        self._parts = parts
        return {"notify_mute": self.mute}

    def standing(self) -> tuple[Standing, ...]:
        """Return the alerts that hold now: channels that fail."""
        return tuple(self._standing.values())

    async def mute(self, request: Request) -> Reply:
        """Hold back all but critical notices for a while; 0 seconds end it."""
        seconds = request.get("seconds")
        is_length = isinstance(seconds, int | float) and 0 <= seconds <= MUTE_MAX.total_seconds()
        if not is_length or not self._senders:
            return refused("E-CTL-002", "no channel is set up, or the request lacks its seconds")
        span = timedelta(seconds=float(str(seconds)))
        until = self._now() + span if span else None
        self._policy.mute(until)
        by = str(request.get("by") or "operator")
        text = f"muted until {minute_of(until)}" if until else "no longer muted"
        ends = until.isoformat() if until else ""
        self._note(MUTE_NOTE, f"{text}, by {by}", {"until": ends})
        return {"ok": True, "until": ends or None}

    def see(self, entry: Entry) -> None:
        """Process a committed entry. A bug of ours is reported once, and delays nothing."""
        if self._told_ahead.pop(id(entry), None) is None and self._senders:
            self._safely(lambda: self._take(self._picker.pick(entry)))
            if isinstance(entry, Note) and entry.kind == PULSE_NOTE:
                self._safely(self._look_at_limits)

    def ahead(self, entry: Entry) -> None:
        """Tell of a halt or an alert that waits for a journal out of reach: it holds already."""
        is_alert = isinstance(entry, Note) and "alert" in entry.numbers
        if self._senders and (is_alert or isinstance(entry, StateChanged)):
            self._told_ahead[id(entry)] = entry
            self._safely(lambda: self._take(self._picker.pick(entry)))

    def _take(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            self._hand_over(self._policy.take(notice))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._safely(self._look)

    def _look(self) -> None:
        now = self._now()
        local = now.astimezone(EXCHANGE_TZ)
        is_time = ALIVE_AT <= local.time() < ALIVE_UNTIL and self._alive_on != local.date()
        if is_time and self._parts is not None:
            self._alive_on = local.date()
            if self._parts.rulebook.calendar.is_trading_day(local.date()):
                status = self._parts.engine.status()
                say = partial(self._told, self._wording.language)
                why = (say(each, "", {}) for each in status.blocked_by)
                text = self._wording.said("alive", state="; ".join((status.state, *why)))
                self._take([self._wording.notice(now, NoticeKind.ALIVE, text)])
        self._look_at_start(now)
        self._look_at_journal(now)
        self._hand_over(self._policy.due(now))
        for name, sender in self._senders.items():
            if sender.busy_s() > BUSY_MAX_S and not self._has_failed(name):
                self._alert(name, sender.waiting + 1, f"no answer for {BUSY_MAX_S:g} s")

    def _look_at_start(self, now: datetime) -> None:
        """Report a start that waits for long, and the end of that wait."""
        waits = self._waits()
        if not waits:
            if self._has_told_wait:
                text = self._wording.said("waits_no_more")
                kind, group = NoticeKind.TROUBLE, "START_GOES_ON"
                self._take([self._wording.notice(now, kind, text, group=group)])
            self._waits_since_s, self._has_told_wait = None, False
            return
        if self._waits_since_s is None:
            self._waits_since_s = monotonic_s()
        if not self._has_told_wait and monotonic_s() - self._waits_since_s >= WAITS_S:
            self._has_told_wait = True
            for each in waits:
                alert = Note(now, "ALERT", each.text, {"alert": each.code, **each.facts})
                self._take(self._picker.pick(alert))

    def _look_at_journal(self, now: datetime) -> None:
        """Report a journal that is out of reach for long, what else that prevents, and its end."""
        if self._parts is None:
            return
        commits, told, found = self._parts.commits, self._journal_told, dict[str, str | None]()
        if commits.is_cut:
            found["journal_away"] = commits.why if commits.cut_s >= WAITS_S else None
            found["nothing_kept"], found["maybe_taken"] = commits.unkept, commits.objection()
        elif told:
            told.clear()
            text = self._wording.said("journal_back")
            self._take([self._wording.notice(now, NoticeKind.STATE, text, group="journal_back")])
        for name in [name for name, why in found.items() if why and name not in told]:
            told.add(name)
            why = self._told(self._wording.language, str(found[name]), "", {})
            text = self._wording.said(name, why=why)
            self._take([self._wording.notice(now, NoticeKind.HALTED, text, group=name)])

    def _look_at_limits(self) -> None:
        """Report each limit of which 80 % is used, once a day."""
        if self._parts is None:
            return
        now = self._now()
        for each in self._parts.engine.limits():
            name = f"{each.scope} {each.of} {each.key}"
            day = now.astimezone(EXCHANGE_TZ).date()
            if is_near(each) and (day, name) not in self._near:
                self._near = {(on, which) for on, which in self._near if on == day} | {(day, name)}
                used, allowed = f"{each.used:,}", f"{each.allowed:,} {each.unit}"
                scope = each.scope if each.scope == "account" else f"{each.scope} {each.of}"
                text = self._wording.said(
                    "limit", scope=scope, key=each.key, used=used, allowed=allowed
                )
                self._take([self._wording.notice(now, NoticeKind.LIMIT, text, group=name)])

    def _safely(self, step: Callable[[], object]) -> None:
        fault = self._guard(step)
        if fault is not None and not self._has_fault:
            self._has_fault = True
            text = (
                f"a bug in the notices ({fault.error}): some may be missing from now on. Trading "
                f"goes on. Look at the report: {fault.report}"
            )
            facts: Numbers = {"error": fault.error, "report": fault.report}
            self._note("ALERT", text, {"alert": "NOTICE_FAULT", **facts})

    def _hand_over(self, ready: Sequence[Ready]) -> None:
        for each in ready:
            for name, plan in self._plans.items():
                if (volume := plan.volume(each.kind)) is not Volume.OFF:
                    self._senders[name].put(self._wording.message(each, volume))

    def stop(self) -> None:
        """Pass on what waits, and give the channels a moment to send it."""
        self._safely(lambda: self._hand_over(self._policy.all_left(self._now())))
        until_s = monotonic_s() + STOP_S
        for sender in self._senders.values():
            sender.stop()
        for sender in self._senders.values():
            sender.join(max(0.0, until_s - monotonic_s()))
        untold = {each.name: each.untold for each in self._senders.values()}
        if listed := ", ".join(f"{name} {count:,}" for name, count in untold.items() if count):
            text = "the run ends before all notices were taken. Not told, by channel"
            self._trouble(f"{text}: {listed}. What happened: bot events")

    # ----------------------------------------------------------------------- what came of a message

    def _report(self, result: Result) -> None:
        """Called on a channel's thread."""
        with suppress(RuntimeError):  # the loop has ended, so nobody can be told
            self._loop.call_soon_threadsafe(self._journal, result)

    def _journal(self, result: Result) -> None:
        name, sent = result.channel, result.sent
        head = result.message.title
        facts: Numbers = {
            "channel": name,
            "is_taken": sent.is_taken,
            "tries": result.tries,
            "dropped": result.dropped,
        }
        if sent.is_taken:
            text = f"{name} took: {head}"
            if result.kept:
                self._standing[name] = refuses(name, result.kept, *self._refused[name])
            elif self._standing.pop(name, None) is not None:
                self._note("RESUME", f"channel {name} takes notices again", {"channel": name})
            self._fails[name] = 0
        else:
            text = f"{name} did not take: {head} ({sent.words})"
            self._fails[name] += 1
        self._note(NOTICE_NOTE, text, facts)
        is_grave = result.message.severity is Severity.CRITICAL and not sent.is_taken
        if is_grave:
            self._refused[name] = head, sent.words
        is_dead = self._fails[name] >= FAILS_MAX and not self._has_failed(name)
        if is_dead or (is_grave and name not in self._standing):
            self._alert(name, self._fails[name], sent.words)

    def _has_failed(self, name: str) -> bool:
        """Return whether nothing arrives over a channel, as far as is known."""
        return name in self._standing and self._standing[name].code == "NOTICE_FAILS"

    def _alert(self, name: str, count: int, why: str) -> None:
        alert = self._standing[name] = fails(name, count, why)
        self._note("ALERT", alert.text, {"alert": alert.code, **alert.facts})

    def _note(self, kind: str, text: str, facts: Numbers) -> None:
        now = self._now()
        self._post(Noted(now, Note(now, kind, text, facts)))


def tell_end(loaded: Loaded, mistake: OperatorMistake) -> None:
    """Tell each channel why the service is not running."""
    settings = loaded.settings
    wording = Wording(settings.notify.language or settings.language, loaded.name, settings.mode)
    _tell_all(lambda: loaded.channels(process_environment()), wording, mistake)


def tell_unread(config: Path, language: str, mistake: OperatorMistake) -> None:
    """Tell that a configuration can't be read: each channel whose address does not depend on it.

    Which mode it is, and what it says of the channels, nobody knows then.
    """
    environment = process_environment()
    try:
        loaded = load_without_secrets(config, environment=environment)
    except OperatorMistake:
        plain = partial(find_channels, NotifySettings(), config=config, origin=DEFAULT)
        channels = partial(plain, is_live=True, environment=environment)
        _tell_all(channels, Wording(language, name_of(config), ""), mistake)
    else:  # only the broker's key can't be read
        tell_end(loaded, mistake)


def _tell_all(
    channels: Callable[[], Sequence[ChannelPlan]], wording: Wording, mistake: OperatorMistake
) -> None:
    first, *others = mistake.problems
    lines = [wording.said("ended", at=minute_of(SystemClock().now()), what=safe(first.head))]
    if others:
        lines.append(wording.said("more_wrong", count=len(others)))
    lines.append(wording.said("ended_do"))
    title, body = wording.title(wording.said("ended_title")), "\n".join(lines)
    senders = list[Sender]()
    # A bad address is named on the screen; where no thread is left, nobody can be told.
    with suppress(OperatorMistake, RuntimeError):
        for channel in open_channels(channels()):
            volume = channel.plan.volume(KIND)
            if volume is not Volume.OFF:
                words = partial(wording.said, "dropped")
                sender = Sender(channel.plan.name, channel.send, _ignore, dropped_words=words)
                sender.put(Message(SEVERITIES[KIND], volume, title, body))
                sender.start()
                senders.append(sender)
    until_s = monotonic_s() + ALL_S
    for sender in senders:
        sender.stop(is_patient=True)
    for sender in senders:
        sender.join(max(0.0, until_s - monotonic_s()))


def _ignore(_: Result) -> None:
    """Nobody is left to use the result."""
