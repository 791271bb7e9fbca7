"""What a monitor may read of a running bot, on its loop: numbers, and why no order could be sent.

It exposes no secret, account number or price: how the bot is, not what it owns. The numbers are in
the text format of Prometheus (version 0.0.4).
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot import __version__
from bot.broker.broker import Broker
from bot.clock import boottime_s
from bot.domain.entry import MISSED_NOTE, Decision, Entry, Fill, Note, RunState, Transition
from bot.domain.instrument import Phase
from bot.domain.order import OrderState
from bot.domain.visible import visible
from bot.engine.risk.view import SILENT_PHASES
from bot.engine.status import BotStatus
from bot.runtime.health.heartbeat import Progress
from bot.runtime.parts import Parts
from bot.runtime.read_health import NAMED_AT_ONCE
from bot.runtime.watches import refused

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"'})

Samples = Mapping[tuple[tuple[str, str], ...], float]
LABELS_MAX: Final = 500
"""At most this many pairs of verdict and code are distinguished; further ones count as others."""
_OTHER: Final = "other"
_OTHERS: Final = (_OTHER, _OTHER)
_STATM: Final = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Metric:
    """One number, or one for each set of labels. `kind` is gauge or counter."""

    name: str
    kind: str
    help: str
    samples: Samples = field(default_factory=dict)


def gauge(name: str, text: str, value: float) -> Metric:
    return Metric(name, "gauge", text, {(): value})


def counter(name: str, text: str, value: float) -> Metric:
    return Metric(name, "counter", text, {(): value})


def labelled(name: str, kind: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return a metric with one label."""
    return Metric(name, kind, text, {((label, key),): value for key, value in values.items()})


def exposed(metrics: Iterable[Metric]) -> str:
    """Format metrics as a page."""
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in metric.samples.items():
        pairs = ",".join(f'{key}="{visible(text).translate(_ESCAPED)}"' for key, text in labels)
        yield f"{metric.name}{{{pairs}}} {value:.17g}" if pairs else f"{metric.name} {value:.17g}"


@dataclass(slots=True)
class Counts:
    """Counts of events since the start. It is a further consumer of a run's entries."""

    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    alerts: Counter[str] = field(default_factory=Counter)
    """By code."""
    moves: Counter[str] = field(default_factory=Counter)
    fills: int = 0

    def see(self, entry: Entry) -> None:
        """Count an entry."""
        if isinstance(entry, Decision):
            pair = (str(entry.verdict), entry.code)
            is_known = pair in self.decisions or len(self.decisions) < LABELS_MAX
            self.decisions[pair if is_known else _OTHERS] += 1
        elif isinstance(entry, Note):
            self.notes[entry.kind] += 1
            if entry.kind == "ALERT" or (entry.kind == MISSED_NOTE and "alert" in entry.numbers):
                code = str(entry.numbers.get("alert", _OTHER))
                is_known = code in self.alerts or len(self.alerts) < LABELS_MAX
                self.alerts[code if is_known else _OTHER] += 1
        elif isinstance(entry, Transition):
            self.moves[str(entry.to_state)] += 1
        elif isinstance(entry, Fill):
            self.fills += 1


@dataclass(frozen=True, slots=True)
class Readings:
    """Reads the parts of a run; every method belongs to its loop."""

    parts: Parts
    broker: Broker
    progress: Progress
    counts: Counts
    mode: str

    def objections(self) -> list[str]:
        """Return why no order could be placed now; empty if one could."""
        return list(self._objections(self.parts.engine.status()))

    def _objections(self, status: BotStatus) -> Iterator[str]:
        if status.state is not RunState.RUNNING:
            yield f"the bot is {status.state}" + (f": {status.reason}" if status.reason else "")
        yield from status.blocked_by
        yield from (each.text for each in refused(self.broker.breaker))
        if self.parts.trouble.text:
            yield self.parts.trouble.text
        for route, words in self._dead_routes():
            if route in NAMED_AT_ONCE:
                yield words
        if self.parts.brake.is_on:
            yield "the brake is on: halted"
        if not self.broker.two_factor.is_ready:
            yield "there is no 2FA token"
        if self.broker.offset.blocks_writes:
            yield "the clock is too far off the broker's"
        if all(phase in SILENT_PHASES for phase in status.phases.values()):
            yield "no exchange takes orders now"

    def _dead_routes(self) -> Iterator[tuple[str, str]]:
        """Return which kinds of read fail, and in words which, for how long and why."""
        for failing, for_s in self.parts.reads.health.dead():
            yield failing.kind, f"{failing.words} fails for {for_s:.0f} s ({failing.reason})"

    def remarks(self) -> list[str]:
        """Return what is ill although orders can be placed: reads of one symbol that fail."""
        return [words for kind, words in self._dead_routes() if kind not in NAMED_AT_ONCE]

    def metrics(self) -> list[Metric]:
        """Return all numbers."""
        status = self.parts.engine.status()
        return [*self._of_the_bot(status), *self._of_trading(status), *self._of_the_machine()]

    def _of_the_bot(self, status: BotStatus) -> Iterator[Metric]:
        info: Samples = {(("version", __version__), ("mode", self.mode)): 1.0}
        yield Metric("vnbot_info", "gauge", "Which program this is.", info)
        states = {each.value: float(each is status.state) for each in RunState}
        yield labelled("vnbot_state", "gauge", "1 for the state it is in.", "state", states)
        ready = float(not list(self._objections(status)))
        yield gauge("vnbot_ready", "1 while an order could be placed.", ready)
        is_open = any(phase not in SILENT_PHASES for phase in status.phases.values())
        yield gauge("vnbot_market_open", "1 while an exchange takes orders.", float(is_open))
        age_s = boottime_s() - self.progress.seen_s
        yield gauge("vnbot_progress_age_seconds", "Since the bot last got on.", age_s)
        until, ready_token = self.broker.two_factor.until, self.broker.two_factor.is_ready
        left = (until - self.broker.offset.now()).total_seconds() if until and ready_token else 0.0
        yield gauge("vnbot_2fa_ready", "1 with a token.", float(ready_token))
        yield gauge("vnbot_2fa_seconds_left", "Until the token ends.", left)
        offset = self.broker.offset.value.total_seconds()
        yield gauge("vnbot_clock_offset_seconds", "The broker's clock less ours.", offset)
        yield gauge("vnbot_standing_alerts", "What stays wrong.", len(status.standing))
        faults = sum(each.count for each in status.faults)
        yield gauge("vnbot_faults", "Faults since the last resume.", faults)

    def _of_trading(self, status: BotStatus) -> Iterator[Metric]:
        counts = self.counts
        decided: Samples = {
            (("verdict", verdict), ("code", code)): float(count)
            for (verdict, code), count in counts.decisions.items()
        }
        yield Metric("vnbot_decisions_total", "counter", "Of strategies.", decided)
        moves: dict[str, float] = dict(counts.moves)
        yield labelled("vnbot_order_moves_total", "counter", "Orders, by new state.", "to", moves)
        rejected = float(counts.moves[OrderState.REJECTED])
        yield counter("vnbot_rejects_total", "Orders rejected.", rejected)
        yield counter("vnbot_fills_total", "Fills.", counts.fills)
        working = Counter(str(each.state) for each in status.open_orders)
        open_orders: dict[str, float] = dict(working)
        yield labelled("vnbot_open_orders", "gauge", "Open now.", "state", open_orders)
        yield gauge("vnbot_unknown_orders", "Outcome not known.", len(status.unknown))
        yield gauge("vnbot_held_orders", "Waiting for a token.", len(status.held))
        yield gauge("vnbot_halted_symbols", "Halted by us.", len(status.halted_symbols))
        notes: dict[str, float] = dict(counts.notes)
        yield labelled("vnbot_notes_total", "counter", "Alerts and others.", "kind", notes)
        alerts: dict[str, float] = dict(counts.alerts)
        yield labelled("vnbot_alerts_total", "counter", "Alerts, by code.", "code", alerts)
        events: dict[str, float] = dict(status.counts)
        yield labelled("vnbot_today", "gauge", "Counted since the day began.", "what", events)
        phases = {
            f"{exchange}": float(phase is not Phase.CLOSED)
            for exchange, phase in status.phases.items()
        }
        yield labelled("vnbot_exchange_awake", "gauge", "1 unless closed.", "exchange", phases)

    def _of_the_machine(self) -> Iterator[Metric]:
        parts, budget, health = self.parts, self.broker.budget, self.parts.reads.health
        ages = {_route(kind): age_s for kind, age_s in health.ages_s().items()}
        text = "Since a read of the kind was answered last."
        yield labelled("vnbot_read_age_seconds", "gauge", text, "read", ages)
        failing: Samples = {
            (("read", _route(each.kind)), ("about", each.about)): for_s
            for each, for_s in health.dead()
        }
        yield Metric("vnbot_read_failing_seconds", "gauge", "Reads that fail.", failing)
        yield gauge("vnbot_requests_used", "Of this minute's quota.", budget.used)
        yield gauge("vnbot_requests_quota", "Requests a minute.", budget.per_minute)
        yield gauge("vnbot_requests_waiting", "For their turn.", budget.waiting)
        yield gauge("vnbot_polls_slowed", "How much seldomer than asked.", parts.polls.slower)
        yield gauge("vnbot_inbox_waiting", "Events.", sum(parts.inbox.waiting.values()))
        passed = parts.inbox.passed_over
        yield counter("vnbot_passed_over_total", "Made room for newer data.", passed)
        commits = parts.commits
        yield gauge("vnbot_journal_reachable", "1 while it answers.", float(not commits.is_cut))
        yield gauge("vnbot_journal_write_seconds", "The last write took.", commits.took_s)
        yield gauge("vnbot_journal_stalled_seconds", "The oldest write waits.", commits.stalled_s)
        yield gauge("vnbot_resident_bytes", "Memory of the process.", resident_bytes())


def _route(kind: str) -> str:
    """Turn `the day order book` into `day order book`."""
    return kind.removeprefix("the ")


def resident_bytes() -> int:
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
