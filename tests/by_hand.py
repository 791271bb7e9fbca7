"""Stories with people in them: requests over the run's control socket, and orders in the broker's
own app, at set market times.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from pydantic import JsonValue

from bot.config.settings.load import load_settings
from bot.runtime.control.socket import ask
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.worlds.environment import EnvironmentSpec
from bot.sandbox.sandbox import Sandbox
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


@dataclass(frozen=True)
class Elsewhere:
    """An order that somebody places in the broker's own app, `after` the start of the story."""

    after: timedelta
    symbol: str
    side: str
    quantity: int
    limit: int


@dataclass
class Stranger:
    """Makes the environment of a story in which somebody trades elsewhere. `placed` has, by the id
    that each order got, what was ordered; one that the broker refused has none.
    """

    orders: Sequence[Elsewhere]
    placed: dict[str, Elsewhere] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __call__(self, spec: EnvironmentSpec) -> InProcessEnvironment:
        environment = in_process(spec)
        self.tasks = [
            asyncio.create_task(self._place(environment, spec, each)) for each in self.orders
        ]
        return environment

    async def _place(
        self, environment: InProcessEnvironment, spec: EnvironmentSpec, order: Elsewhere
    ) -> None:
        async with _at(environment, spec, order.after):
            order_id = place_elsewhere(
                environment._sandbox, order.symbol, order.side, order.quantity, order.limit
            )
            if order_id is not None:
                self.placed[order_id] = order


def place_elsewhere(
    sandbox: Sandbox, symbol: str, side: str, quantity: int, limit: int
) -> str | None:
    """Place an order of the first account as another client of the broker; return its id, None if
    the broker refuses it.
    """
    account = sandbox.scenario.accounts[0]
    body: dict[str, JsonValue] = {
        "sub_account": account.extended_id,
        "symbol": symbol,
        "side": side,
        "quantity": quantity,
        "order_type": "LO",
        "limit_price": limit,
    }
    at = sandbox.now.isoformat()
    change = sandbox._carry_out(
        {"kind": "place", "at": at, "wire": at, "account": account.id, "body": body}
    )
    assert change is not None, "an order input changes an order"
    return change.result.order_id or None


async def _ask(
    environment: InProcessEnvironment,
    spec: EnvironmentSpec,
    each: Ask,
    replies: list[Mapping[str, object]],
) -> None:
    async with _at(environment, spec, each.after):
        replies.append(await asyncio.to_thread(ask, spec.loaded.state_dir, each.request))


@asynccontextmanager
async def _at(
    environment: InProcessEnvironment, spec: EnvironmentSpec, after: timedelta
) -> AsyncIterator[None]:
    """Act at a time while the stepped clock stands: what is done there counts as under way."""
    at = environment.market.now() + after
    await environment.turn.take()
    spec.activity.begin()
    try:
        await environment.waiter.sleep_until(at)
        yield
    finally:
        environment.turn.give_back()
        spec.activity.end()
