"""Whatever befalls the row, the list and the DELETE: while an order is open, its cancel goes on.

A broker is simulated in the engine's own time, from one seed: for stretches of up to some minutes
each route is well, silent, broken or late, and the row's flag says no. The order ends only by a
DELETE that is carried out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

import pytest

from bot.domain.message import (
    CancelAnswered,
    CancelOrder,
    Event,
    OrderRead,
    ReadOrder,
    ReadTodaysOrders,
    TodaysOrdersRead,
)
from bot.domain.operations import Action, CancelAsked, OperatorActed
from bot.domain.order import Intent, OrderReport, OrderState
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused, Unknown
from tests.engine.stage import ACCOUNT, START, Stage, report_of, result_of

MINUTES = 5
ANSWER_S = (0.0, 0.1, 1.0, 9.5)
GAP_MAX = timedelta(seconds=30 + 2 + 30)
"""The distance, the wait for a row, and the longest wait for an answer."""
SEEDS = 300


@dataclass
class PlayedBroker:
    """One order, and three routes to it, each with moods of its own."""

    stage: Stage
    intent: Intent
    chance: Random
    is_open: bool = True
    coming: list[tuple[datetime, Event]] = field(default_factory=list)
    sent_at: list[datetime] = field(default_factory=list)
    in_flight: int = 0
    in_flight_max: int = 0
    moods: dict[str, tuple[str, datetime]] = field(default_factory=dict)

    def mood(self, route: str) -> str:
        """What the route does now; a mood lasts from moments to minutes."""
        mood, until = self.moods.get(route, ("", self.stage.now))
        if until <= self.stage.now:
            mood = self.chance.choice(("well", "well", "silent", "broken", "absent", "late"))
            lasts = self.chance.choice((1, 5, 20, 60, 200))
            self.moods[route] = mood, self.stage.now + timedelta(seconds=lasts)
        return mood

    def row(self, asked_at: datetime) -> OrderReport:
        """The truth, but for a flag that says no for a while."""
        may_cancel = self.mood("flag") != "absent"
        if self.is_open:
            return report_of(self.intent, may_cancel=may_cancel, requested_at=asked_at)
        return report_of(
            self.intent,
            cancelled=100,
            state=OrderState.CANCELLED,
            status="CANCELLED",
            may_cancel=False,
            requested_at=asked_at,
        )

    def post(self, event: Event, *, late: bool) -> None:
        delay = self.chance.choice(ANSWER_S) if late else 0.05
        self.coming.append((self.stage.now + timedelta(seconds=delay), event))

    def take(self, command: object) -> None:
        """Carry out a command of the engine as the route's mood allows."""
        now = self.stage.now
        if isinstance(command, ReadOrder) and (mood := self.mood("detail")) != "silent":
            shown = self.row(now) if mood in {"well", "late"} else None
            event = OrderRead(now, "ORD1", shown, is_unreadable=mood == "broken")
            self.post(event, late=mood == "late")
        elif isinstance(command, ReadTodaysOrders) and (mood := self.mood("list")) in {
            "well",
            "late",
        }:
            rows = TodaysOrdersRead(now, ACCOUNT, (self.row(now),), now, ())
            self.post(rows, late=mood == "late")
        elif isinstance(command, CancelOrder):
            self.delete()

    def delete(self) -> None:
        self.sent_at.append(self.stage.now)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        mood = self.mood("delete")
        outcome: Outcome
        if mood in {"well", "late"}:
            self.is_open = False
            outcome = Accepted(result_of(self.intent, state=OrderState.CANCELLED))
        elif mood == "silent":
            self.is_open = self.is_open and self.chance.random() < 0.5
            outcome = Unknown("deadline")
        elif mood == "broken":
            outcome = Refused("-1", "no", 400)
        else:
            outcome = self.chance.choice(
                (NotSent("no room"), Refused("429", "slow", 429, retry_after_s=7.0))
            )
        self.post(CancelAnswered(self.stage.now, "ORD1", outcome, None), late=mood == "late")

    def next(self, until: datetime) -> Event | None:
        """Take out the next event, if it comes by then."""
        due = [one for one in self.coming if one[0] <= until]
        if not due:
            return None
        first = min(due, key=lambda one: one[0])
        self.coming.remove(first)
        self.stage.now = max(self.stage.now, first[0])
        event = first[1]
        self.in_flight -= isinstance(event, CancelAnswered)
        return event


def _play(seed: int) -> Iterator[PlayedBroker]:
    """Yield the broker after each step of a story that lasts some minutes."""
    stage = Stage()
    broker = PlayedBroker(stage, stage.working(), Random(seed))
    ends_at = stage.now + timedelta(minutes=MINUTES)
    wish: Event = broker.chance.choice(
        (
            CancelAsked(stage.now, "ORD1", "me", "by hand"),
            OperatorActed(stage.now, Action.HALT, "by hand", "me"),
            OperatorActed(stage.now, Action.PAUSE, "by hand", "me", cancel_open=True),
        )
    )
    commands = stage.handle(wish)
    while stage.now < ends_at:
        for command in commands:
            broker.take(command)
        yield broker
        if not stage.engine.status().open_orders:
            return
        due = min(stage.engine.next_due() or ends_at, ends_at)
        event = broker.next(due)
        if event is None:
            stage.now = due
        commands = stage.handle(event) if event is not None else stage.pass_time(0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_cancel_is_missing_while_the_order_is_open(seed: int) -> None:
    *_, last = _play(seed)

    status = last.stage.engine.status()
    assert last.in_flight_max <= 1
    assert bool(status.cancels) is bool(status.open_orders)
    assert not (last.is_open and not status.open_orders)
    assert last.sent_at
    # From one DELETE to the next never more than a moment, whatever the rows say.
    seen = sorted([START, *last.sent_at, last.stage.now])
    assert max(later - earlier for earlier, later in pairwise(seen)) <= GAP_MAX
