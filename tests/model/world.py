"""The world around one intent: network, server, clocks and the bot, as numbers to be explored.

One state is one integer; its digits are the fields below, so that a step is an addition. A tick is
20 s, as far as our clock may be off while orders leave; what lasts no whole ticks lasts longer
here. What is explored: each copy of the POST arrives at any later time or never, a proxy makes a
copy, the server queues, creates, refuses, and shows the row early, late or never; answers are lost;
the bot dies and starts again at any step; burns and their answers are late or lost; the bot's clock
is off; a person places an equal order by hand, or says what became of ours. Equal states are one:
copies are counted, a nonce that the server has forgotten is one that it never saw, and what is over
is not followed.

Facts about the broker: API 0.2.0-preview.3, authentication (timestamp 30 s, nonce 300 s). Facts
about the bot come from the code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import Final

from bot.broker.link import ORDER_BOUNDS
from bot.domain.order import SendState
from bot.engine.settings import EngineSettings, UnknownPolicy
from bot.runtime.fence import BURN_WINDOW_S
from bot.runtime.order_manager import SIGNED_AGE_MAX_S
from tests.model.client import News, Reaction, burn_verdict, reactions_of

TICK_S: Final = 20
LIFE: Final = ceil(30 / TICK_S)
"""A timestamp is taken for this long, to either side of the server's clock."""
MEMORY: Final = 300 // TICK_S
DAY_END: Final = 360 // TICK_S
"""Ticks after the send; later than any nonce is remembered."""
LAG: Final = 60 // TICK_S
"""A row is in the day order book after this long, where its lag is bounded."""
SENDING_TICKS_MAX: Final = ceil((SIGNED_AGE_MAX_S + ORDER_BOUNDS.deadline_s) / TICK_S)
"""By then the bot has an answer or has given up waiting for one."""
_SKEW_MAX: Final = ceil(EngineSettings().clock_max_offset.total_seconds() / TICK_S)
SKEWS: Final = tuple(range(-_SKEW_MAX, _SKEW_MAX + 1))
"""How far our clock may be off while orders leave, in ticks."""

# The order at the server, and the answer to a burn that is on its way.
NONE, QUEUED, LIVE, TURNED_DOWN = range(4)
NO_REPLY, FRESH, REUSED, BROKEN = range(4)
REPLIES: Final = {FRESH: News.BURN_FRESH, REUSED: News.BURN_REUSED, BROKEN: News.BURN_OVER}

# The fields, each with what one more of it adds to the state; the comment has its largest value.
T = 1  # 31: ticks since the send
SKEW = T << 5  # 3: index into SKEWS
COPIES = SKEW << 2  # 3: copies of the POST in the network
RECORDED = COPIES << 2  # 31: tick + 1 at which the server recorded the nonce; 0 never, or forgotten
ORDER = RECORDED << 5  # 3
DUE = ORDER << 2  # 7: ticks until the row must be visible, where the lag is bounded
SHOWN = DUE << 3  # 1: the day order book shows the row
TWIN = SHOWN << 1  # 1: it shows an equal order, placed by hand
TOKENLESS = TWIN << 1  # 1: the 2FA token of the POST is dead
BURNS = TOKENLESS << 1  # 3: burns sent
SIGNED = BURNS << 2  # 31: tick + 1 at which the burn on its way was signed; 0 there is none
REPLY = SIGNED << 5  # 3
READS = REPLY << 2  # 7: reads without a row, for the policy that counts them
ORDERS = READS << 3  # 3: orders that live for this one intent
CLIENT = ORDERS << 2  # the last field: index into STATES

STATES: Final = tuple(SendState)
NUMBER: Final = {state: number for number, state in enumerate(STATES)}
ORDERS_AGAIN: Final = frozenset(
    {SendState.REFUSED, SendState.NOT_SENT, SendState.EXPIRED_LOCAL, SendState.NOT_PLACED}
)
"""The bot is certain that there is no order: the strategy is told and orders again."""
AGAIN: Final = ", and the strategy orders again"

Step = tuple[str, int]


@dataclass(frozen=True)
class Policy:
    """What is done about an unknown POST. `base` is the code's own policy; `rules` add what a worse
    bot would do: in a state, at a news, it is certain that there is no order.
    """

    name: str
    base: UnknownPolicy = UnknownPolicy.FENCE
    rules: frozenset[tuple[SendState, News]] = frozenset()
    burns: bool = True
    has_window: bool = True
    horizon: timedelta = EngineSettings().horizon
    reads_needed: int = 0

    def reactions(self) -> Mapping[tuple[SendState, News], Reaction]:
        worse = {(state, news): Reaction(SendState.NOT_PLACED, ()) for state, news in self.rules}
        return {**reactions_of(self.base), **worse}


@dataclass(frozen=True)
class Assumptions:
    """What holds of the broker, and how much of the world is explored."""

    sound_nonces: bool = True
    """The nodes of the broker share one store of nonces."""
    timestamps: bool = True
    """A request whose timestamp is too old is refused."""
    bounded_lag: bool = False
    """A row is in the day order book within a minute."""
    quota_spares_copies: bool = True
    """The quota never refuses one copy of a request and takes another."""
    age_spares_copies: bool = True
    """No copy of a request is answered as too old after another one was taken."""
    hasty_about: frozenset[SendState] = frozenset()
    """Who says that there is no order has seen that none is there and none can come any more, but
    where the place is in one of these states.
    """
    copies: int = 2
    burns: int = 3
    by_hand: bool = True


@dataclass
class World:
    """Gives the steps that can follow a state. `heard` is all that has led to another state."""

    policy: Policy
    holds: Assumptions
    heard: set[tuple[int, News]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._reactions: dict[tuple[int, News], tuple[int, str]] = {}
        """By client and news: what is added to the state, and the words for it."""
        for (state, news), reaction in self.policy.reactions().items():
            added, words = (NUMBER[reaction.to] - NUMBER[state]) * CLIENT, str(news.value)
            if reaction.to is not state:
                words += f" -> {reaction.to}"
            if reaction.to in ORDERS_AGAIN and state is not SendState.READY:
                added, words = added + ORDERS, words + AGAIN
            self._reactions[NUMBER[state], news] = added, words
        self._horizon_s = self.policy.horizon.total_seconds()
        self._window_s = BURN_WINDOW_S if self.policy.has_window else DAY_END * TICK_S
        self._verdicts = {reply: burn_verdict(news) for reply, news in REPLIES.items()}

    def moves(self) -> frozenset[tuple[SendState, SendState]]:
        """Return the moves of a send that were made so far."""
        reactions = self.policy.reactions()
        made = (reactions[STATES[client], news].moves for client, news in self.heard)
        return frozenset(move for moves in made for move in moves)

    def start(self) -> list[int]:
        """Return the states in which the POST is about to leave."""
        ready = NUMBER[SendState.READY] * CLIENT
        return [
            ready + skew * SKEW + tokenless * TOKENLESS
            for skew in range(len(SKEWS))
            for tokenless in (0, 1)
        ]

    def steps(self, state: int) -> list[Step]:
        """Return what can happen next."""
        found: list[Step] = []
        client = STATES[state // CLIENT]
        if client is SendState.READY:
            self._send(state, found)
            return found
        order, copies, t = state // ORDER & 3, state // COPIES & 3, state & 31
        is_over = client not in _WAITING and order != QUEUED and not copies
        if is_over:
            return found
        if copies:
            self._deliver(state, found)
        if order == QUEUED:
            self._work_off(state, found)
        if order == LIVE and not state // SHOWN & 1:
            found.append(("the row becomes visible", _undue(state) + SHOWN))
        if client is SendState.SENDING:
            self._hear(state, News.LOST, found)
            self._hear(state, News.RESTART, found)
            if order == NONE and copies == self.holds.copies and not t:
                kept = state - copies * COPIES
                self._hear(kept, News.NOTHING_WRITTEN, found)
        elif client is SendState.HELD:
            for news in (News.TOKEN, News.TOKEN_TOO_LATE, News.RESTART):
                self._hear(state, news, found)
        elif client in _WAITING:
            self._ask(state, client, found)
        is_up = client is SendState.SENDING and t >= SENDING_TICKS_MAX
        if t < DAY_END and not is_up:
            self._tick(state, found)
        return found

    # ------------------------------------------------------------------------- network and server

    def _send(self, state: int, found: list[Step]) -> None:
        for news in (News.TOO_LATE, News.GATE_CLOSED, News.RESTART):
            self._hear(state, news, found)
        self._hear(state + self.holds.copies * COPIES, News.BYTES_LEAVE, found)

    def _deliver(self, state: int, found: list[Step]) -> None:
        """One copy of the POST is lost, or comes to the server's door."""
        t, left = state & 31, state - COPIES
        found.append(("a copy of the POST is lost", left))
        if not self.holds.quota_spares_copies and _client(state) is SendState.SENDING:
            self._hear(left, News.QUOTA, found)
        if self.holds.timestamps and abs(t - SKEWS[state // SKEW & 3]) > LIFE:
            found.append(("a copy of the POST is refused: timestamp", left))
            is_first = state // ORDER & 3 in {NONE, TURNED_DOWN}
            if is_first or not self.holds.age_spares_copies:
                self._hear(left, News.REFUSED, found)
        elif state // RECORDED & 31 if self.holds.sound_nonces else state // ORDER & 3:
            found.append(("a copy of the POST is refused: nonce reused", left))
            self._hear(left, News.REUSED, found)
        elif state // TOKENLESS & 1:
            left = self._record(left)
            found.append(("a copy of the POST is refused: no 2FA token", left))
            self._hear(left, News.NO_TOKEN, found)
        else:
            left = self._record(left) - (left // ORDER & 3) * ORDER
            due = LAG * DUE if self.holds.bounded_lag else 0
            is_shown = left // SHOWN & 1
            words = "a copy of the POST passes the door"
            queued = _undue(left) - is_shown * SHOWN + due + QUEUED * ORDER
            found.append((words, queued))

    def _record(self, state: int) -> int:
        """The server remembers the nonce from now on."""
        return state + ((state & 31) + 1 - (state // RECORDED & 31)) * RECORDED

    def _work_off(self, state: int, found: list[Step]) -> None:
        """What has passed the door becomes an order, or is turned down inside."""
        live = state + (LIVE - QUEUED) * ORDER + ORDERS
        found.append(("the order is created", live))
        self._hear(live, News.ACCEPTED, found)
        turned_down = _undue(state) + (TURNED_DOWN - QUEUED) * ORDER
        found.append(("the order is turned down inside", turned_down))
        self._hear(turned_down, News.REJECTED, found)

    def _tick(self, state: int, found: list[Step]) -> None:
        due = state // DUE & 7
        is_hidden = not state // SHOWN & 1 and state // ORDER & 3 in {QUEUED, LIVE}
        if self.holds.bounded_lag and is_hidden:
            if due == 0:
                return  # the row must be there first
            state -= DUE
        state += T
        recorded = state // RECORDED & 31
        if recorded and (state & 31) - (recorded - 1) > MEMORY:
            state -= recorded * RECORDED
        found.append(("", state))

    # ------------------------------------------------------------------------------------ the bot

    def _hear(self, state: int, news: News, found: list[Step]) -> None:
        """The bot learns something; in a final state, nothing comes of it."""
        what = state // CLIENT, news
        reaction = self._reactions.get(what)
        if reaction is not None and reaction[0]:
            self.heard.add(what)
            found.append((reaction[1], _forgotten(state + reaction[0])))

    def _ask(self, state: int, client: SendState, found: list[Step]) -> None:
        """The bot finds out about its unknown POST: by its nonce, and by the day order book."""
        seconds = (state & 31) * TICK_S
        self._read_book(state, client, seconds, found)
        self._ask_person(state, client, seconds, found)
        if self.holds.by_hand and not state // TWIN & 1:
            found.append(("an equal order is placed by hand", state + TWIN))
        if self.policy.burns:
            self._burn(state, client, seconds, found)
        if seconds == DAY_END * TICK_S and state // ORDER & 3 != QUEUED:
            self._hear(state - (state // COPIES & 3) * COPIES, News.DAY_END, found)

    def _read_book(self, state: int, client: SendState, seconds: int, found: list[Step]) -> None:
        rows = (state // SHOWN & 1) + (state // TWIN & 1)
        if rows:
            self._hear(state, News.ONE_ROW if rows == 1 else News.TWO_ROWS, found)
            return
        needed = self.policy.reads_needed
        if needed and state // READS & 7 < needed:
            found.append(("the day order book has no row", state + READS))
        elif (client, News.ABSENT) in self.policy.rules or not needed:
            self._hear(state, News.ABSENT, found)
        if seconds > self._horizon_s:
            self._hear(state, News.ABSENT_LATE, found)

    def _ask_person(self, state: int, client: SendState, seconds: int, found: list[Step]) -> None:
        """A person says what became of the POST; of one that never arrived, by its nonce, they are
        asked once its horizon is over.
        """
        if state // SHOWN & 1:
            self._hear(state, News.SAID_ROW, found)
        is_so = state // ORDER & 3 in {NONE, TURNED_DOWN} and not state // COPIES & 3
        if is_so or client in self.holds.hasty_about:
            self._hear(state, News.SAID_ABSENT, found)
            if seconds > self._horizon_s:
                self._hear(state, News.SAID_OVERDUE, found)

    def _burn(self, state: int, client: SendState, seconds: int, found: list[Step]) -> None:
        signed, reply = state // SIGNED & 31, state // REPLY & 3
        in_time = seconds < self._window_s
        if client is SendState.UNKNOWN and not signed and not reply:
            if state // BURNS & 3 < self.holds.burns and in_time:
                t = state & 31
                found.append(("a burn is sent", state + BURNS + (t + 1) * SIGNED))
            else:
                self._hear(state, News.BURN_OVER, found)
        if signed:
            gone = state - signed * SIGNED
            found.append(("the burn is lost", gone))
            self._deliver_burn(gone, signed - 1, found)
        if reply:
            heard = state - reply * REPLY
            verdict = self._verdicts[reply]
            found.append(("the burn's answer is lost, or the bot restarts", heard))
            if verdict.is_conclusive:
                self._hear(heard, REPLIES[reply] if in_time else News.BURN_OVER, found)

    def _deliver_burn(self, state: int, signed: int, found: list[Step]) -> None:
        """A burn comes to the server's door."""
        if abs((state & 31) - (signed + SKEWS[state // SKEW & 3])) > LIFE:
            return
        found.append(("the burn is answered: 503", state + BROKEN * REPLY))
        if not self.holds.sound_nonces:
            found.append(("the burn is answered: nonce unused", state + FRESH * REPLY))
        elif state // RECORDED & 31:
            found.append(("the burn is answered: nonce reused", state + REUSED * REPLY))
        else:
            recorded = self._record(state) + FRESH * REPLY
            found.append(("the burn is answered: nonce unused", recorded))


def _client(state: int) -> SendState:
    return STATES[state // CLIENT]


def _undue(state: int) -> int:
    return state - (state // DUE & 7) * DUE


def _forgotten(state: int) -> int:
    """Leave out what no longer matters once the bot asks nothing more."""
    if _client(state) in {SendState.UNKNOWN, *_KEEPS_ASKING}:
        return state
    state -= (state // SIGNED & 31) * SIGNED + (state // REPLY & 3) * REPLY
    return state - (state // BURNS & 3) * BURNS - (state // READS & 7) * READS


_KEEPS_ASKING: Final = (SendState.FRESH, SendState.REACHED, SendState.AMBIGUOUS)
_WAITING: Final = frozenset({SendState.SENDING, SendState.HELD, SendState.UNKNOWN, *_KEEPS_ASKING})
