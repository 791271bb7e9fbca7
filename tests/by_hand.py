"""Stories with a person in them: requests over the run's control socket, at set market times."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bot.config.settings.load import load_settings
from bot.runtime.control.socket import ask
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.worlds.environment import EnvironmentSpec
from tests.story import InProcessEnvironment, Shown, Story, in_process

MakeInProcess = Callable[[EnvironmentSpec], InProcessEnvironment]


@dataclass(frozen=True)
class Ask:
    """What a person requests, `after` the start of the market's story."""

    after: timedelta
    request: Mapping[str, object]


@dataclass(frozen=True)
class HandStory:
    """What a run leaves behind, and its answers, in the order of the requests."""

    story: Story
    replies: list[Mapping[str, object]]


async def tell_by_hand(
    config: Path,
    *asks: Ask,
    minutes: float,
    place_in: MakeInProcess = in_process,
    may_fault: bool = False,
    **options: object,
) -> HandStory:
    """Run a project for some minutes of market time, with a person who makes requests."""
    loaded = load_settings(config)
    shown = Shown()
    replies: list[Mapping[str, object]] = []
    people: list[asyncio.Task[None]] = []

    def make(spec: EnvironmentSpec) -> InProcessEnvironment:
        environment = place_in(spec)
        people.extend(asyncio.create_task(_ask(environment, spec, each, replies)) for each in asks)
        return environment

    run_options = RunOptions(run_for=timedelta(minutes=minutes), **options)  # type: ignore[arg-type]
    end = await run_bot(loaded, run_options, shown, make=make)
    for person in people:
        person.cancel()
        with suppress(asyncio.CancelledError):
            await person
    if not may_fault:
        shown.require_no_fault()
    return HandStory(Story(end, shown, loaded), replies)


async def _ask(
    environment: InProcessEnvironment,
    spec: EnvironmentSpec,
    each: Ask,
    replies: list[Mapping[str, object]],
) -> None:
    """Ask while the stepped clock stands: the request counts as under way."""
    at = environment.market.now() + each.after
    await environment.turn.take()
    spec.activity.begin()
    try:
        await environment.waiter.sleep_until(at)
        replies.append(await asyncio.to_thread(ask, spec.loaded.state_dir, each.request))
    finally:
        environment.turn.give_back()
        spec.activity.end()
