"""What other strategies would have decided on a recorded day.

They see the market, the phases, the second factor and the operator of that day, and its account as
it was at the start of each run. Nothing of the recorded orders reaches them, and nothing that they
order leaves: who would have filled it is not in the recording. So each order ends unsent, and a
strategy goes on as if it had none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final

from bot.config.strategies.load import check_files, market_of
from bot.domain.entry import Decision
from bot.domain.message import (
    AccountRead,
    AmendAnswered,
    CancelAnswered,
    Event,
    FaultFound,
    NonceBurnt,
    Noted,
    OrderRead,
    PlaceAnswered,
    PlaceOrder,
    Recovered,
    SendStarted,
    TodaysOrdersRead,
)
from bot.domain.operations import (
    AmendAsked,
    BreakAccepted,
    CancelAsked,
    EarlierOrdersRead,
    ReconcileAsked,
    VerdictAsked,
)
from bot.domain.outcome import NotSent
from bot.engine.engine import Engine
from bot.engine.settings import LoadedStrategy
from bot.runtime.history.recording.recordings import (
    GAP,
    Codecs,
    Head,
    Row,
    Unusable,
    parts_of,
    read_head,
)
from bot.runtime.history.recording.replay import (
    Player,
    Progress,
    day_of,
    decisions_in,
    folders_of,
    recorded_runs,
    sealed_rows,
)

OF_ORDERS: Final = (
    *(SendStarted, PlaceAnswered, CancelAnswered, AmendAnswered, NonceBurnt, OrderRead),
    *(AmendAsked, CancelAsked, VerdictAsked, BreakAccepted, ReconcileAsked, EarlierOrdersRead),
    *(FaultFound, Noted),
)
"""Events of the recorded orders, and of our own bugs of that day."""
UNSENT: Final = "a replay sends nothing"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What was decided on a day, and what would have been; `damage` where a recording ends."""

    day: date
    recorded: tuple[Decision, ...]
    now: tuple[Decision, ...]
    damage: tuple[str, ...]


def load_strategies_from(files: Sequence[Path], day: date) -> tuple[LoadedStrategy, ...]:
    """Load strategy files by the rules of a day. Raises OperatorMistake with all their mistakes."""
    market = market_of(day)
    return tuple(
        LoadedStrategy(each.plan, each.factory, market.instruments(each.plan))
        for each in check_files(files, market=market)
    )


def what_if(
    state_dir: Path,
    day: date,
    strategies: Sequence[LoadedStrategy],
    progress: Progress = lambda _: None,
) -> WhatIf:
    """Feed a recorded day to other strategies. Raises Unusable when nothing of it can be read."""
    folders = recorded_runs(state_dir, day)
    recorded, now, damage = list[Decision](), list[Decision](), list[str]()
    for at, folder in enumerate(folders):

        def show(done: float, at: int = at) -> None:
            progress((at + done) / len(folders))

        try:
            head, ways = read_head(folder)
            other = Other(head, strategies)
            parts = [part for each in folders_of(state_dir, head, day) for part in parts_of(each)]
            for row in sealed_rows(parts, show):
                if row.kind == GAP:
                    raise Unusable(f"run {head.run}: events are missing after {row.number:,}")
                decided = other.decisions_at(row, ways)
                if day_of(row) == day:
                    recorded += decisions_in(ways.commands.read(row.commands or "[]"))
                    now += decided
        except Unusable as error:
            damage.append(str(error))
    return WhatIf(day, tuple(recorded), tuple(now), tuple(damage))


class Other:
    """An engine of other strategies in the place of a recorded one."""

    def __init__(self, head: Head, strategies: Sequence[LoadedStrategy]) -> None:
        player = Player()
        accounts = [each.plan.account for each in head.strategies]
        of_account = [
            replace(each, plan=replace(each.plan, account=accounts[0])) for each in strategies
        ]
        self._engine = Engine(
            rulebook=head.rulebook,
            strategies=of_account,
            settings=head.settings,
            invoke=player.invoke,
            guard=player.guard,
        )
        self._account: AccountRead | None = None

    def decisions_at(self, row: Row, ways: Codecs) -> list[Decision]:
        """Take in what a row says of the market, and return what is decided on it."""
        event = self._other(ways.event.read(row.event)) if row.event else None
        if event is None:
            return []
        decided, waiting = list[Decision](), [event]
        for each in waiting:
            commands = self._engine.handle(each)
            decided += decisions_in(commands)
            waiting += [
                PlaceAnswered(event.at, command.intent.intent_id, NotSent(UNSENT), None)
                for command in commands
                if isinstance(command, PlaceOrder)
            ]
        return decided

    def _other(self, event: Event) -> Event | None:
        """Return an event without what the recorded orders have to do with it."""
        if isinstance(event, OF_ORDERS):
            return None
        if isinstance(event, Recovered):
            without = replace(
                event.recovery, intents=(), orders=(), amends=(), later_ids={}, cancels={}
            )
            return replace(event, recovery=without)
        if isinstance(event, TodaysOrdersRead):
            return replace(event, reports=(), set_aside=())
        if isinstance(event, AccountRead):
            self._account = self._account or event
            return replace(self._account, at=event.at)
        return event
