"""The bot's behaviour, learned from the bot: the reaction of one intent to every event in every
state.

Nothing here says what is right. The code's own `classify` reads answers and burns; then the real
engine is put into each state of a send and given each event, and its final state is the reaction.
So the model explores the code as it is. Every move is the engine's own, which asks `SEND_MOVES` and
raises where the table has none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from functools import cache
from typing import Final

from bot.domain.entry import IntentMoved
from bot.domain.message import NonceBurnt, PlaceOrder, Reconciled, TradingDayStarted
from bot.domain.operations import EarlierOrdersRead, VerdictAsked
from bot.domain.order import Intent, SendState
from bot.domain.outcome import LACKS_2FA, Accepted, NotSent, Outcome, Refused
from bot.domain.recovery import Recovery, StoredIntent
from bot.engine.settings import EngineSettings, UnknownPolicy
from bot.protocol.classify import BurnVerdict, classify_burn, classify_place
from bot.protocol.endpoints.trading import PLACE_ORDER, USER
from bot.protocol.envelope import Answer, NoAnswer
from tests.engine.stage import DAY, PLAN, Stage, attempt_of, report_of, result_of
from tests.protocol.samples import ACCOUNT, INTENT, RESULT_JSON, TODAY, refused, sealed


class News(StrEnum):
    """What the bot may learn about one intent."""

    TOO_LATE = "its time to leave is over"
    GATE_CLOSED = "the answer to another POST is 403, no 2FA token"
    BYTES_LEAVE = "the POST leaves"
    NOTHING_WRITTEN = "no byte of the POST was written"
    LOST = "the answer to the POST is lost"
    ACCEPTED = "the POST is answered: accepted"
    REJECTED = "the POST is answered: rejected"
    REFUSED = "the POST is answered: refused at the door"
    QUOTA = "the POST is answered: 429"
    REUSED = "the POST is answered: nonce reused"
    NO_TOKEN = "the POST is answered: 403, no 2FA token"
    TOKEN = "a new 2FA token comes"
    TOKEN_TOO_LATE = "no 2FA token comes in time"
    BURN_FRESH = "the burn's answer: nonce unused"
    BURN_REUSED = "the burn's answer: nonce reused"
    BURN_OVER = "no burn was answered in time"
    ABSENT = "the day order book has no row"
    ABSENT_LATE = "the day order book has no row, the horizon is over"
    ONE_ROW = "the day order book has one row that fits"
    TWO_ROWS = "the day order book has two rows that fit"
    SAID_ABSENT = "a person who has looked says that there is none"
    SAID_OVERDUE = "a person who has looked says that there is none, the horizon is over"
    SAID_ROW = "a person who has looked names the row"
    RESTART = "crash and restart"
    DAY_END = "the day ends"


ANSWERS: Final[Mapping[News, Answer | NoAnswer]] = {
    News.NOTHING_WRITTEN: NoAnswer("connect", is_sent=False),
    News.LOST: NoAnswer("reset", is_sent=True),
    News.ACCEPTED: sealed(PLACE_ORDER, [RESULT_JSON]),
    News.REJECTED: sealed(PLACE_ORDER, [{**RESULT_JSON, "code": "-1", "order_status": "REJECTED"}]),
    News.REFUSED: refused(401, "AUTH_TIMESTAMP_INVALID"),
    News.QUOTA: refused(429, "RATE_LIMIT_EXCEEDED"),
    News.REUSED: refused(401, "AUTH_NONCE_REUSED"),
    News.NO_TOKEN: refused(403, "OTP_SESSION_EXPIRED"),
}
BURNS: Final[Mapping[News, Answer | NoAnswer]] = {
    News.BURN_FRESH: sealed(USER, {"user_id": 7}),
    News.BURN_REUSED: refused(401, "AUTH_NONCE_REUSED"),
    News.BURN_OVER: refused(503, "BUSY"),
}


def burn_verdict(news: News) -> BurnVerdict:
    """Return how the code reads a burn's answer."""
    return classify_burn(BURNS[news])


_BESIDE: Final = (replace(PLAN, name="other"),)
"""A strategy whose POST is refused for lack of a 2FA token while ours waits."""


@dataclass
class Rehearsal:
    """An engine with one intent, which is given events one after another."""

    settings: EngineSettings
    stage: Stage = field(init=False)
    intent: Intent = field(init=False)
    moves: list[tuple[SendState, SendState]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stage = Stage(settings=self.settings, beside=_BESIDE)
        self.intent = self.stage.buy()
        self.sent_at = self.stage.now

    @property
    def state(self) -> SendState:
        return self.moves[-1][1] if self.moves else SendState.READY

    def tell(self, news: News) -> None:
        """Give the engine an event and record the resulting moves."""
        self.stage.entries.clear()
        if news in ANSWERS:
            self._answer(classify_place_of(news))
        elif news in BURNS:
            verdict = burn_verdict(news)
            event = NonceBurnt(
                self.stage.now, self.intent.intent_id, verdict.resolution, verdict.detail
            )
            self.stage.handle(event)
        else:
            _TOLD[news](self)
        moves = [move for move in self.stage.all(IntentMoved) if self._is_ours(move)]
        self.moves += [(move.from_state, move.to_state) for move in moves]

    def _is_ours(self, move: IntentMoved) -> bool:
        return move.intent_id == self.intent.intent_id

    def _answer(self, outcome: Outcome) -> None:
        if isinstance(outcome, Accepted | Refused) and outcome.result is not None:
            outcome = replace(outcome, result=replace(result_of(self.intent, "ORD7")))
        self.stage.answer(self.intent, outcome)

    def leave(self) -> None:
        self.sent_at = self.stage.now
        self.stage.send(self.intent)
        self.moves.append((SendState.READY, SendState.SENDING))

    def close_gate(self) -> None:
        self.stage.request(lambda other: other.buy(100, limit=26_950, why="first"), by="other")
        self.stage.block_for_token(self.stage.last(PlaceOrder).intent)
        self._answer(NotSent(f"{LACKS_2FA}: it was signed with another token"))

    def say(self, order_id: str | None) -> None:
        ask = VerdictAsked(self.stage.now, self.intent.intent_id, order_id, "operator", "I looked")
        self.stage.handle(ask)

    def say_absent(self) -> None:
        self.read(0)  # while no list could have shown it, no verdict is accepted
        self.say(None)

    def say_late(self) -> None:
        self._let_the_horizon_pass()
        self.say(None)

    def token(self) -> None:
        self.stage.quote()
        self.stage.token()

    def read(self, rows: int) -> None:
        ids = ("ORD7", "ORD8")[:rows]
        self.stage.after(1).book(*(report_of(self.intent, order_id) for order_id in ids))

    def _let_the_horizon_pass(self) -> None:
        self.stage.after((self.settings.horizon + timedelta(seconds=1)).total_seconds())

    def read_late(self) -> None:
        self._let_the_horizon_pass()
        for _ in range(self.settings.absent_reads):
            self.read(0)

    def restart(self) -> None:
        attempt = None
        if self.state is not SendState.READY:
            attempt = attempt_of(self.intent, self.sent_at, "ORD0")
        stored = StoredIntent(self.intent, self.state, None, attempt)
        recovery = Recovery(DAY, next_intent_number=2, intents=(stored,))
        self.stage = Stage(settings=self.settings, recovery=recovery)

    def end_day(self) -> None:
        self.stage.handle(TradingDayStarted(self.stage.now, DAY + timedelta(days=1)))
        self.stage.handle(EarlierOrdersRead(self.stage.now, ()))
        self.stage.handle(Reconciled(self.stage.now))


_TOLD: Final[Mapping[News, Callable[[Rehearsal], object]]] = {
    News.TOO_LATE: lambda one: one._answer(classify_place_of(News.NOTHING_WRITTEN)),
    News.BYTES_LEAVE: Rehearsal.leave,
    News.GATE_CLOSED: Rehearsal.close_gate,
    News.SAID_ABSENT: Rehearsal.say_absent,
    News.SAID_OVERDUE: Rehearsal.say_late,
    News.SAID_ROW: lambda one: one.say("ORD7"),
    News.TOKEN: Rehearsal.token,
    News.TOKEN_TOO_LATE: lambda one: one.stage.pass_time(600),
    News.ABSENT: lambda one: one.read(0),
    News.ABSENT_LATE: Rehearsal.read_late,
    News.ONE_ROW: lambda one: one.read(1),
    News.TWO_ROWS: lambda one: one.read(2),
    News.RESTART: Rehearsal.restart,
    News.DAY_END: Rehearsal.end_day,
}

_BEFORE: Final = {News.BYTES_LEAVE, News.TOO_LATE, News.GATE_CLOSED, News.RESTART}
_HELD: Final = {News.TOKEN, News.TOKEN_TOO_LATE, News.RESTART}
_BOOKS: Final = {News.ABSENT, News.ABSENT_LATE, News.ONE_ROW, News.TWO_ROWS}
_SAID: Final = {News.SAID_ABSENT, News.SAID_ROW}
_ASKED: Final = {*BURNS, *_BOOKS, *_SAID, News.RESTART, News.DAY_END}
HEARD: Final[Mapping[SendState, set[News]]] = {
    SendState.READY: _BEFORE,
    SendState.SENDING: {*ANSWERS, News.RESTART},
    SendState.HELD: _HELD,
    SendState.UNKNOWN: _ASKED,
    SendState.FRESH: {*_ASKED, News.SAID_OVERDUE},
    SendState.REACHED: _ASKED,
    SendState.AMBIGUOUS: _ASKED,
}
"""By state, what can be learned in it. A missing state is final."""


def classify_place_of(news: News) -> Outcome:
    """Return how the code reads the answer to a POST."""
    return classify_place(
        INTENT, ANSWERS[news], today=TODAY, known_ids=frozenset(), account=ACCOUNT
    )


@dataclass(frozen=True, slots=True)
class Reaction:
    """Where a news leads, by which moves."""

    to: SendState
    moves: tuple[tuple[SendState, SendState], ...]


Reactions = Mapping[tuple[SendState, News], Reaction]


@cache
def reactions_of(policy: UnknownPolicy) -> Reactions:
    """Return the engine's reaction to each event in each reachable state."""
    settings = EngineSettings(unknown_policy=policy)
    found: dict[tuple[SendState, News], Reaction] = {}
    ways: dict[SendState, tuple[News, ...]] = {SendState.READY: ()}
    waiting = [SendState.READY]
    while waiting:
        state = waiting.pop(0)
        for news in sorted(HEARD.get(state, ())):
            rehearsal = Rehearsal(settings)
            for earlier in ways[state]:
                rehearsal.tell(earlier)
            assert rehearsal.state is state, f"{ways[state]} leads to {rehearsal.state}"
            before = len(rehearsal.moves)
            rehearsal.tell(news)
            found[state, news] = Reaction(rehearsal.state, tuple(rehearsal.moves[before:]))
            if rehearsal.state not in ways:
                ways[rehearsal.state] = (*ways[state], news)
                waiting.append(rehearsal.state)
    return found
