"""T4: a proxy keeps places for up to two minutes and delivers them when we have given them up.

The nonce of each is used up meanwhile, so that the broker refuses what comes late; what came before
that is found by its row.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import rmtree

from bot.domain.entry import IntentMoved
from bot.domain.order import SendState
from bot.drill.oracle import faults_in, outcome_of
from tests.by_hand import tell_by_hand
from tests.faults.strikes import STRIKES, times
from tests.faults.test_s5_hidden_rows import SYMBOLS, written
from tests.simulation.weather import BehindWeather, Exchange, Weather
from tests.story import Story


@dataclass
class Keeping(Weather):
    """A proxy that keeps every place and delivers it later; it notes what the broker said then."""

    said: Counter[int] = field(default_factory=Counter)

    def _kind(self, exchange: Exchange) -> str:
        is_place = exchange.verb == "POST" and exchange.path.endswith("/orders")
        return "delayed" if is_place else "fine"

    async def _deliver_late(self) -> None:
        now = self.clock.now()
        due = [exchange for at, exchange in self.late if at <= now]
        self.late = [(at, exchange) for at, exchange in self.late if at > now]
        for exchange in due:
            answer = await exchange.put_to(self.app)
            self.said[int(answer[0]["status"])] += 1


async def _told(folder: Path, seed: int) -> tuple[Story, Keeping]:
    proxy = BehindWeather(Keeping, Random(f"proxy {seed}"))
    told = await tell_by_hand(written(folder), minutes=5, place_in=proxy)
    return told.story, proxy.made[0]


async def test_a_place_that_arrives_late_is_refused_or_found(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    said, ends, wanted, seed = Counter[int](), Counter[SendState](), times("T4", len(SYMBOLS)), 0
    while said.total() < wanted:
        folder, seed = tmp_path / str(seed), seed + 1

        story, proxy = await _told(folder, seed)

        assert proxy.late == [], f"seed {seed}"
        assert faults_in(outcome_of(story.loaded.state_dir)) == [], f"seed {seed}"
        assert proxy.said.total() == len(story.posts()) == len(set(story.posts())), f"seed {seed}"
        assert proxy.said[200] == len(story.broker_orders()), f"seed {seed}"
        said += proxy.said
        ends.update(
            {move.intent_id: move.to_state for move in story.shown.all(IntentMoved)}.values()
        )
        rmtree(folder)

    assert said.keys() <= {200, 401}
    assert said[401] == ends[SendState.NOT_PLACED] > 0
    record_property(STRIKES, said.total())
