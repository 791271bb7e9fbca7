"""Which committed entries are a notice. A table of kinds of entries; it decides nothing else.

It remembers why an order was placed, so that a fill can say it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from bot.domain.entry import (
    DAY_NOTE,
    Entry,
    Fill,
    IntentMoved,
    IntentRecorded,
    Note,
    RunState,
    StateChanged,
    Transition,
)
from bot.domain.notice import Notice, NoticeKind
from bot.domain.order import Intent, OrderState, SendState
from bot.runtime.notices.kinds import KINDS
from bot.runtime.notices.wording import Wording

Told = Callable[[str, str, str, Mapping[str, object]], str]
"""Says an alert in a language: language, English text, code, facts."""
INTENTS_MAX: Final = 2_000
_STATES: Final = {
    RunState.HALTED: NoticeKind.HALTED,
    RunState.NEEDS_2FA: NoticeKind.TWO_FACTOR,
    RunState.DEGRADED: NoticeKind.TROUBLE,
}
_SIDES: Final = {"vi": {"BUY": "MUA", "SELL": "BÁN"}}


class Picker:
    """Makes notices of entries."""

    def __init__(self, wording: Wording, told: Told) -> None:
        self._wording = wording
        self._told = told
        self._intents: dict[str, Intent] = {}

    def pick(self, entry: Entry) -> list[Notice]:
        """Return what an entry is worth telling."""
        match entry:
            case Note():
                return self.of_note(entry)
            case StateChanged(scope="all"):
                return self.of_state(entry)
            case Fill():
                return [self.of_fill(entry)]
            case IntentRecorded(intent=intent):
                self.keep(intent)
            case IntentMoved(to_state=SendState.REFUSED):
                order = self._order(entry.intent_id)
                text = self._wording.said("refused", order=order, reason=entry.reason)
                return [self._wording.notice(entry.at, NoticeKind.REJECTION, text)]
            case Transition(to_state=OrderState.REJECTED):
                order = self._order(entry.intent_id or "") or str(entry.order_id)
                reason = entry.note or entry.broker_status or ""
                text = self._wording.said("rejected", order=order, reason=reason)
                return [self._wording.notice(entry.at, NoticeKind.REJECTION, text)]
        return []

    def of_note(self, entry: Note) -> list[Notice]:
        """Return what an alert is worth, or the sum of a day."""
        if entry.kind == DAY_NOTE:
            return [self._wording.notice(entry.at, NoticeKind.SUMMARY, entry.text)]
        code = str(entry.numbers.get("alert") or "")
        if not code:
            return []
        kind = KINDS.get(code, NoticeKind.TROUBLE)
        text = self._told(self._wording.language, entry.text, code, entry.numbers)
        group = kind if kind is NoticeKind.HALTED else code
        if code.startswith("TWO_FACTOR_"):  # it is asked at bounded times, and each is a reminder
            group = f"{code} {entry.numbers.get('asked')}"
        return [self._wording.notice(entry.at, kind, text, group=group, has_do=False)]

    def of_state(self, entry: StateChanged) -> list[Notice]:
        """Return what a change of the bot's state is worth."""
        kind = _STATES.get(entry.to_state, NoticeKind.STATE)
        if kind is NoticeKind.TWO_FACTOR:
            return []  # its alert says it, now and at bounded times again
        text = self._wording.said("state", state=entry.to_state, reason=entry.reason)
        group = entry.to_state.value if kind is NoticeKind.STATE else kind
        return [self._wording.notice(entry.at, kind, text, group=group)]

    def of_fill(self, entry: Fill) -> Notice:
        """Return the notice of a fill, with why it was wanted."""
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

    def keep(self, intent: Intent) -> None:
        """Remember why an order is placed."""
        if len(self._intents) >= INTENTS_MAX:
            del self._intents[next(iter(self._intents))]
        self._intents[intent.intent_id] = intent

    def _order(self, intent_id: str) -> str:
        intent = self._intents.get(intent_id)
        if intent is None:
            return intent_id
        side = _SIDES.get(self._wording.language, {}).get(intent.side, intent.side.value)
        price = f" {intent.limit_price:,}" if intent.limit_price else f" {intent.order_type}"
        return f"{intent_id} {side} {intent.quantity:,} {intent.symbol}{price}"
