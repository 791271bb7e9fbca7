"""`bot reconcile` without a running bot: journal and a served sandbox, which has its own time."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.clock import SimulatedClock, SystemClock
from bot.config.settings.load import load_settings
from bot.runtime.without_bot import compare_without_bot
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.sandbox.client import RULEBOOK
from tests.staging import QUIET, scenario
from tests.story import once, tell, write_project


@pytest.mark.wire
async def test_an_order_that_the_broker_does_not_list_is_missing_in_the_broker_s_own_day(
    tmp_path: Path,
) -> None:
    resting = once(params={"price": 26_000})
    story = await tell(write_project(tmp_path, scenario=QUIET, strategies=[resting]), minutes=1)
    played = scenario()
    clock = SimulatedClock(played.starts_at + timedelta(minutes=10))
    sandbox = Sandbox(played, RULEBOOK, clock=clock, wire=SystemClock())

    async with serve(sandbox) as base_url:
        broker = {"base_url": base_url}
        config = write_project(tmp_path, scenario=QUIET, strategies=[resting], broker=broker)
        key, secret = sandbox.credentials.api_key, sandbox.credentials.api_secret
        names = {"BOT_BROKER__API_KEY": key, "BOT_BROKER__API_SECRET": secret}
        found = await compare_without_bot(load_settings(config, environment=names))
    sandbox.close()

    [order_id] = story.broker_orders()
    missing = found["not_listed"]
    assert isinstance(missing, list)
    assert [each["order_id"] for each in missing] == [order_id]
    assert str(found["book_read_at"]).startswith("2026-11-19T02:30:00")
