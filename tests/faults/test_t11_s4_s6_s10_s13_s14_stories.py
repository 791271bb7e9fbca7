"""T11, S4, S6, S10, S13, S14: what befalls reads and writes of a whole run.

Judged as `order-safety` wants it, when all is fine again: every order of the broker's ledger has
one intent, no intent has two, and executed quantity and money are the ledger's.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from bot.broker import broker
from bot.broker.link import Bounds, HttpRequest, Link
from bot.clock import Clock, SystemClock
from bot.domain.entry import Note
from bot.drill.oracle import faults_in, outcome_of
from bot.protocol.envelope import Answer, NoAnswer
from bot.runtime.worlds.environment import EnvironmentSpec
from tests.faults.strikes import STRIKES
from tests.staging import QUIET
from tests.story import InProcessEnvironment, Story, in_process, once, tell, write_project

PLACES = {"verb": "POST", "path": "*/orders"}
CANCELS = {"verb": "DELETE", "path": "*/orders/*"}
ROWS = {"verb": "GET", "path": "/trading/*/order-book*"}
DETAILS = {"verb": "GET", "path": "/trading/*/order-book/*"}
EVERYTHING = {"at": "09:20:08", "until": "09:22:00"}
RESTING = once(
    params={"price": 26_000},
    order={"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "30s"},
)
FILLED = once()


class Case(NamedTuple):
    """Faults, the strategy, and how many orders the broker then has."""

    faults: tuple[dict[str, Any], ...]
    strategy: Mapping[str, object] = FILLED
    orders: int = 1


def _late(action: Mapping[str, Any], match: Mapping[str, Any], point: str | None = None) -> Any:
    return {"match": match, "point": point, "action": action}


CASES = {
    "T11 nothing gets through for two minutes": Case(
        (_late({"do": "rst"}, EVERYTHING, "accept"),), RESTING
    ),
    "T11 nothing comes back for two minutes": Case(
        (_late({"do": "rst"}, EVERYTHING, "after_apply"),), RESTING
    ),
    "S4 a cancel": Case((_late({"do": "too_many", "reset_s": 5}, CANCELS),), RESTING),
    "S4 a reset long ago": Case(
        (
            _late(
                {"do": "status", "status": 429, "headers": {"X-RateLimit-Reset": "1"}},
                {**ROWS, "times": 3},
            ),
        )
    ),
    "S4 a reset far ahead": Case(
        (
            _late(
                {"do": "status", "status": 429, "headers": {"X-RateLimit-Reset": "9999999999"}},
                {**ROWS, "times": 1},
            ),
        )
    ),
    "S6 a day order book of a while ago": Case(
        (_late({"do": "stale_read", "seconds": 20}, {**ROWS, "until": "09:22:00"}),)
    ),
    "S10 no detail before the cancel": Case(
        (_late({"do": "status", "status": 404}, {**DETAILS, "times": 3}),), RESTING
    ),
    "S13 a new header is required": Case(
        (_late({"do": "status", "status": 400}, {**PLACES, "times": 0}),), orders=0
    ),
    "S14 the holdings are gone once": Case(
        (
            _late(
                {"do": "set_fields", "fields": {"is_snapshot": True, "portfolio": []}},
                {"path": "*/portfolio", "nth": 3},
            ),
        )
    ),
}


async def _told(folder: Path, case: Case) -> Story:
    config = write_project(
        folder, scenario={**QUIET, "faults": case.faults}, strategies=[case.strategy]
    )
    return await tell(config, minutes=4)


@pytest.mark.scripted
@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_nothing_is_lost_or_doubled(tmp_path: Path, case: Case) -> None:
    story = await _told(tmp_path, case)

    assert faults_in(outcome_of(story.loaded.state_dir)) == []
    assert len(story.broker_orders()) == case.orders
    assert len(story.posts()) == 1
    assert max(int(str(line["struck"])) for line in story.ledger() if line["kind"] == "fault") > 0


CUT_AT: Final = datetime(2026, 11, 19, 2, 22, tzinfo=UTC)
BACK_AT: Final = datetime(2026, 11, 19, 2, 26, tzinfo=UTC)


@dataclass(eq=False)
class Outage:
    """A network over which not one byte leaves for four minutes, or no answer comes back, and what
    it let through after.
    """

    is_sent: bool = False
    clock: Clock = field(default_factory=SystemClock)
    link: Link | None = None
    kept: int = 0
    after: list[tuple[timedelta, str, str]] = field(default_factory=list)

    def make(self, spec: EnvironmentSpec) -> InProcessEnvironment:
        made = in_process(spec)
        self.clock = made.market
        return made

    async def exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        now = self.clock.now()
        if CUT_AT <= now < BACK_AT:
            self.kept += 1
            return NoAnswer("nothing comes back", is_sent=self.is_sent)
        if now >= BACK_AT:
            self.after.append((now - BACK_AT, request.method, request.target))
        assert self.link is not None
        return await self.link.exchange(request, bounds)

    async def close(self) -> None:
        assert self.link is not None
        await self.link.close()

    @property
    def deletes(self) -> list[tuple[timedelta, str]]:
        return [(at, to) for at, verb, to in self.after if verb == "DELETE"]

    def first(self, method: str, suffix: str) -> timedelta:
        """When the first such request left after the outage, counted from its end."""
        return next(at for at, verb, to in self.after if verb == method and to.endswith(suffix))


@contextmanager
def over(outage: Outage) -> Iterator[None]:
    """Put the outage between the bot and its broker."""
    connect_lanes = broker.connect_lanes

    def connect(*where: Any, **how: Any) -> Mapping[object, Link]:
        links = connect_lanes(*where, **how)
        [outage.link] = {*links.values()}
        return dict.fromkeys(links, outage)

    setattr(broker, "connect_lanes", connect)  # noqa: B010
    try:
        yield
    finally:
        setattr(broker, "connect_lanes", connect_lanes)  # noqa: B010


async def _told_over(folder: Path, outage: Outage, orders: int) -> Story:
    """The orders' time is over during the outage, and the quota is small."""
    buys = [
        once(
            f"buys_{number}",
            params={"price": 26_900 - 100 * number},
            order={"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "150s"},
            wake={"quote": "10s"},
        )
        for number in range(orders)
    ]
    account = {"id": "0009000011", "suffix": ".1", "type": "Normal", "cash": 500_000_000}
    config = write_project(
        folder,
        scenario={**QUIET, "quota": "FREE", "accounts": [account]},
        strategies=buys,
        broker={"requests_per_minute": 60},
    )

    with over(outage):
        story = await tell(config, minutes=10, make=outage.make)

    ended = story.broker_orders()
    assert faults_in(outcome_of(story.loaded.state_dir)) == []
    assert [line["status"] for line in ended.values()] == ["CANCELLED"] * orders
    assert sorted(to.rpartition("/")[2] for _, to in outage.deletes) == sorted(ended)
    return story


@pytest.mark.parametrize("orders", [8, 16])
async def test_an_outage_uses_up_nothing_of_the_quota(
    tmp_path: Path, orders: int, record_property: Callable[[str, object], None]
) -> None:
    """T11: the cancels leave, once each, as soon as the network is back."""
    outage = Outage()

    story = await _told_over(tmp_path, outage, orders)

    assert max(at for at, _ in outage.deletes) <= timedelta(seconds=5)
    assert outage.first("GET", "/order-book") <= timedelta(seconds=10)
    assert outage.first("GET", "/stocks/HPG") <= timedelta(seconds=10)
    alerts = [note.text for note in story.shown.all(Note) if note.kind == "ALERT"]
    assert len(alerts) > orders
    assert not [text for text in alerts if "no request may leave" in text]
    record_property(STRIKES, outage.kept)


async def test_with_a_full_quota_the_cancels_leave_once_each_and_then_the_list_is_read(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """T11: all that was sent may have counted, so that the quota is full when answers come again.
    Reads before cancels that have left meanwhile must not keep the list back.
    """
    outage = Outage(is_sent=True)

    await _told_over(tmp_path, outage, 16)

    assert max(at for at, _ in outage.deletes) <= timedelta(seconds=30)
    assert outage.first("GET", "/order-book") <= timedelta(seconds=70)
    record_property(STRIKES, outage.kept)
