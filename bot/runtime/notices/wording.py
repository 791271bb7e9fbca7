"""Selects the committed entries that become notices, and words them.

A notice gives the mode, what happened, what it means in money, and what to type. It contains no
account number or secret: every text passes the wire's redaction, and text from outside is made
visible.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final

from bot.domain.entry import (
    DAY_NOTE,
    FLATTEN_NOTE,
    Decision,
    Entry,
    Fill,
    IntentMoved,
    IntentRecorded,
    Note,
    Numbers,
    RunState,
    StateChanged,
    Transition,
    Verdict,
)
from bot.domain.local_time import minute_of
from bot.domain.notice import SEVERITIES, Notice, NoticeKind, Volume
from bot.domain.order import Intent, OrderState, SendState
from bot.domain.visible import visible
from bot.engine.control_state import BY_JOURNAL, Standing
from bot.protocol.secret import redact
from bot.runtime.notices.channels import Message
from bot.runtime.notices.policy import Ready

TEXT_MAX: Final = 900
Told = Callable[[str, str, str, Mapping[str, object]], str]
"""Words an alert in a language: language, English text, code, facts."""
INTENTS_MAX: Final = 2_000
_BROKER_AWAY: Final = "BROKER_AWAY"
_HELD: Final = "order_held"
"""The group of all that is told of an order that waits for a token: it stays in order of time."""
_APART: Final = {
    "SYMBOL_HALTED": "symbol_halted",
    "NONCE_BROKEN": "nonce_broken",
    "NONCES_NOT_TRUSTED": "nonce_broken",
}
"""The groups of alerts that are as urgent as a halt, while the bot's orders go on."""
_STATES: Final = {
    RunState.HALTED: NoticeKind.HALTED,
    RunState.NEEDS_2FA: NoticeKind.TWO_FACTOR,
    RunState.DEGRADED: NoticeKind.TROUBLE,
}
_SIDES: Final = {"vi": {"BUY": "MUA", "SELL": "BÁN"}}
_K = NoticeKind
_CODES: Final[Mapping[NoticeKind, str]] = {
    _K.TWO_FACTOR: "CANCEL_NEEDS_TOKEN TWO_FACTOR_NEEDED TWO_FACTOR_ENDING TOKEN_FILE_REFUSED",
    _K.HALTED: (
        "SYMBOL_HALTED ORDERS_HALTED LOSS_HALT API_CHANGED ORDER_REDIRECTED ENGINE_FAULT "
        "INVARIANT_BROKEN JOURNAL_LOST NONCE_BROKEN NONCES_NOT_TRUSTED JOURNAL_DAMAGED CRASH_LOOP"
    ),
    _K.UNKNOWN_ORDER: (
        "UNKNOWN_OPEN NEVER_ARRIVED ABSENCE_UNPROVED ORDER_REACHED ORDER_AMBIGUOUS ORDER_ABSENT "
        "REFUSED_AND_REACHED GHOST_ORDER TWIN_ORDER OTHER_ID ACCEPTED_NOT_LISTED"
    ),
    _K.DIFFERENCE: "BREAK BREAK_NOT_ACCEPTED DAY_NOT_COMPARED DAY_UNSETTLED ROW_CONTRADICTS "
    "ROW_CORRECTED ORDER_LIVES ORDER_REOPENED HISTORY_UNREAD ACCOUNT_OLD ACCOUNT_IN_DOUBT "
    "SHARES_GONE FILLS_UNSHOWN ENDED_SHOWN_OPEN START_HELD",
    _K.HELD_DATA: "HELD_DATA",
    _K.LIMIT: "ENTRIES_STOPPED REDUCING ENTRIES_PAUSED STRATEGY_REPEATS",
    _K.REJECTION: "STRATEGY_REFUSED",
    _K.TROUBLE: (
        "ANSWER_NOT_AWAITED CANCEL_OPEN CANCEL_LATE CANCEL_STUCK CANCEL_QUEUED STOP_LEAVES_OPEN "
        "AMEND_OPEN AMEND_TWO_IDS AMEND_DIFFERS AMEND_AMBIGUOUS CANCEL_LEAVES STATUS_IMPOSSIBLE "
        "MOVE_IMPOSSIBLE STATUS_UNKNOWN STALE_ROW ROWS_STAY_OLD ROW_AMBIGUOUS ROW_UNREADABLE "
        "DAY_RESULT STATUS_FAULT START_WAITS WARMING_POSITION BARS_UNREAD READ_FAILS CLOCK_OFFSET "
        "CLOCK_STEPPED STOOD_STILL DISK_LOW NO_SUCH_STRATEGY SYMBOL_RESUME RESUME_NEEDS_REASON "
        "STRATEGY_STUCK STRATEGY_BROKEN STRATEGY_GONE SYMBOL_GONE OTHER_ACCOUNT MORNING_CHECK "
        "SHARES_LEFT SYMBOL_LEFT ORDERS_UNKNOWN_HERE "
        "FLATTEN FLATTEN_LEAVES FLATTEN_ENDED NOTICE_FAILS NOTICE_REFUSED NOTICE_FAULT "
        "LOG_UNWRITTEN LIMITS_CHANGED RATE_LIMITED BOOK_OF_BEFORE PLACES_ILL JOURNAL_AWAY "
        "BROKER_AWAY STRATEGY_RUNAWAY STRATEGY_DISABLED PRICE_DIFFERS PHASE_DIFFERS KEY_REFUSED "
        "TIMER_MISSED STRATEGY_HALF_STARTED"
    ),
}
KINDS: Final[Mapping[str, NoticeKind]] = {
    code: kind for kind, codes in _CODES.items() for code in codes.split()
}
"""The kind of every alert code; a new code needs one too."""


@cache
def texts(language: str) -> Mapping[str, Mapping[str, str]]:
    """Read the texts of a language."""
    from ruamel.yaml import YAML  # imported only if notices are sent, as it slows a start

    found = YAML(typ="safe").load(Path(__file__).with_name("texts.yaml").read_text("utf-8"))
    return found[language]  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Wording:
    """Turns notices into messages. `bot` is the name of the bot and `mode` its mode."""

    language: str
    bot: str
    mode: str

    def said(self, name: str, **facts: object) -> str:
        """Return one of the sentences, with its facts filled in."""
        return texts(self.language)["said"][name].format_map(facts)

    def notice(
        self, at: datetime, kind: NoticeKind, text: str, *, group: str = "", has_do: bool = True
    ) -> Notice:
        """Make a notice. `has_do` False: the text itself says what to do."""
        found, about = texts(self.language), group.partition(" ")[0]  # a reminder's has a number
        return Notice(
            at=at,
            kind=kind,
            group=group or kind,
            text=text,
            money=found["money"].get(about, found["money"].get(kind, "")),
            do=found["do"].get(kind, "") if has_do else "",
        )

    def title(self, words: str) -> str:
        """Return the title: first the mode, if it is known, then the bot."""
        return f"{self.mode.upper()} {self.bot}: {visible(words)}".lstrip()

    def message(self, ready: Ready, volume: Volume) -> Message:
        last = ready.notices[-1]
        titles = texts(self.language)["titles"]
        title = self.title(titles.get(last.group, titles[ready.kind]).format(state=last.group))
        lines = [line_of(each) for each in ready.notices]
        if ready.is_late:
            lines.insert(0, self.said("late", count=ready.count))
        elif ready.count > 1:
            since = minute_of(ready.notices[0].at)
            lines.insert(0, self.said("group", count=ready.count, since=since))
        if (others := ready.count - len(ready.notices)) > 0:
            lines.append(self.said("more", count=others))
        lines += [text for text in (last.money, f"→ {last.do}" if last.do else "") if text]
        return Message(
            severity=SEVERITIES[ready.kind],
            volume=volume,
            title=title,
            body="\n".join(lines),
        )


def fails(channel: str, count: int, why: str) -> Standing:
    """Return the alert of a channel over which nothing arrives, as far as is known."""
    last = f"last {count} notices" if count > 1 else "last notice"
    text = (
        f"channel {channel} has not taken the {last} ({why}): nobody is notified over it. "
        f"Trading goes on. Look at its address and service: bot notify test {channel}"
    )
    return Standing("NOTICE_FAILS", text, {"channel": channel, "count": count, "detail": why})


def refuses(channel: str, count: int, title: str, why: str) -> Standing:
    """Return the alert of a channel that takes others, but not these critical ones."""
    which = "a critical notice" if count == 1 else f"{count} critical notices, the last one"
    text = (
        f"channel {channel} has not taken {which}, {title} ({why}): it is tried again. Others "
        "arrive over it. Trading goes on. What it says is here: bot status, bot logs"
    )
    facts: Numbers = {"channel": channel, "count": count, "notice": title, "detail": why}
    return Standing("NOTICE_REFUSED", text, facts)


def line_of(notice: Notice) -> str:
    return f"{minute_of(notice.at)} {safe(notice.text)}"


def safe(text: str) -> str:
    """Return a text without account numbers and secrets, and without control characters."""
    return visible(redact(text), TEXT_MAX)


class Picker:
    """Makes notices from entries. It remembers why an order was placed, so that a
    fill can say so, and whether it has told of a trouble whose end is to be told too.
    """

    def __init__(self, wording: Wording, told: Told) -> None:
        self._wording = wording
        self._told = told
        self._intents: dict[str, Intent] = {}
        self._held_now = ""
        self._is_ill = False

    def pick(self, entry: Entry) -> list[Notice]:
        match entry:
            case Note():
                return self.of_note(entry)
            case StateChanged(scope="all"):
                return self.of_state(entry)
            case Fill():
                return [self.of_fill(entry)]
            case IntentRecorded(intent=intent):
                self.keep(intent)
                if intent.follows is not None:
                    return [self.of_follower(entry)]
            case IntentMoved(to_state=SendState.HELD):
                self._held_now = entry.intent_id  # its refusal, which comes next, is no end
            case Decision(verdict=Verdict.HELD):
                until = minute_of(datetime.fromisoformat(str(entry.numbers["until"])))
                return [self._of_held(entry.at, entry.request_id or "", "held", until=until)]
            case IntentMoved(from_state=SendState.HELD, to_state=SendState.EXPIRED_LOCAL):
                reason = self._told(self._wording.language, entry.reason, "", {})
                return [self._of_held(entry.at, entry.intent_id, "held_ended", reason=reason)]
            case IntentMoved(from_state=SendState.HELD):
                pass  # it is requested again, as an intent that follows it
            case IntentMoved(to_state=SendState.REFUSED):
                order = self._order(entry.intent_id)
                text = self._wording.said("refused", order=order, reason=entry.reason)
                return [self._wording.notice(entry.at, NoticeKind.REJECTION, text)]
            case Transition(to_state=OrderState.REJECTED) if entry.intent_id != self._held_now:
                order = self._order(entry.intent_id or "") or str(entry.order_id)
                reason = entry.note or entry.broker_status or ""
                text = self._wording.said("rejected", order=order, reason=reason)
                return [self._wording.notice(entry.at, NoticeKind.REJECTION, text)]
        return []

    def of_note(self, entry: Note) -> list[Notice]:
        """Return the notices for an alert, the day's summary, or the course of a flatten."""
        if entry.kind == DAY_NOTE:
            return [self._wording.notice(entry.at, NoticeKind.SUMMARY, entry.text)]
        if entry.kind == FLATTEN_NOTE:
            told = self._told(self._wording.language, entry.text, "", {})
            text = self._wording.said("flatten", text=told)
            return [self._wording.notice(entry.at, NoticeKind.HALTED, text, group="flatten")]
        code = str(entry.numbers.get("alert") or "")
        if not code:
            return []
        self._is_ill |= code == _BROKER_AWAY
        kind = KINDS.get(code, NoticeKind.TROUBLE)
        text = self._told(self._wording.language, entry.text, code, entry.numbers)
        group = _APART.get(code, kind if kind is NoticeKind.HALTED else code)
        # it is repeated at limited intervals, each time as a reminder
        if code.startswith("TWO_FACTOR_"):
            group = f"{code} {entry.numbers.get('asked')}"
        return [self._wording.notice(entry.at, kind, text, group=group, has_do=False)]

    def of_state(self, entry: StateChanged) -> list[Notice]:
        """Return the notices for a change of the bot's state."""
        kind = _STATES.get(entry.to_state, NoticeKind.STATE)
        if kind is NoticeKind.TWO_FACTOR:
            return []  # its alert says so, now and again at limited intervals
        is_end = self._is_ill and entry.to_state is RunState.RUNNING
        if entry.by == BY_JOURNAL and not is_end:
            return []  # it may be stored long after: who looks at the journal itself tells
        self._is_ill = entry.to_state is RunState.DEGRADED
        reason = self._told(self._wording.language, entry.reason, "", {})
        text = self._wording.said("state", state=entry.to_state, reason=reason)
        group = entry.to_state.value if kind is NoticeKind.STATE else kind
        return [self._wording.notice(entry.at, kind, text, group=group)]

    def of_fill(self, entry: Fill) -> Notice:
        """Return the notice of a fill, with the reason for the order."""
        said, intent = self._wording.said, self._intents.get(entry.intent_id or "")
        text = said(
            "fill",
            side=_SIDES.get(self._wording.language, {}).get(entry.side, entry.side.value),
            quantity=f"{entry.quantity:,}",
            symbol=entry.symbol,
            price=f"{entry.price:,}",
            amount=f"{entry.amount:,}",
            costs=f"{entry.fee + entry.tax:,}",
            executed=f"{entry.order_executed:,}",
            ordered=f"{entry.order_quantity:,}",
        )
        if entry.realised:
            text += f". {said('realised', realised=f'{entry.realised:+,}')}"
        if intent is not None and intent.why:
            text += f". {said('why', why=intent.why)}"
        return self._wording.notice(entry.at, NoticeKind.FILL, text)

    def of_follower(self, entry: IntentRecorded) -> Notice:
        """Return the notice of what became of a held order once there was a token."""
        again, first = entry.intent.intent_id, entry.intent.follows or ""
        if entry.state is SendState.DENIED:
            return self._of_held(entry.at, first, "held_ended", reason=entry.reason)
        return self._of_held(entry.at, first, "held_sent", again=again)

    def keep(self, intent: Intent) -> None:
        """Remember why an order is placed."""
        if len(self._intents) >= INTENTS_MAX:
            del self._intents[next(iter(self._intents))]
        self._intents[intent.intent_id] = intent

    def _of_held(self, at: datetime, intent_id: str, said: str, **facts: object) -> Notice:
        text = self._wording.said(said, order=self._order(intent_id), **facts)
        kind = NoticeKind.REJECTION
        return self._wording.notice(at, kind, text, group=_HELD, has_do=False)

    def _order(self, intent_id: str) -> str:
        intent = self._intents.get(intent_id)
        if intent is None:
            return intent_id
        side = _SIDES.get(self._wording.language, {}).get(intent.side, intent.side.value)
        price = f" {intent.limit_price:,}" if intent.limit_price else f" {intent.order_type}"
        return f"{intent_id} {side} {intent.quantity:,} {intent.symbol}{price}"
