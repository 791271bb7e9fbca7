"""The desk where codes come in: wrong ones, old ones, and what the operator is told."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from bot.broker.broker import Broker, open_broker
from bot.broker.budget import RequestBudget
from bot.broker.signer import Credentials
from bot.broker.waiter import SystemWaiter
from bot.clock import SimulatedClock
from bot.domain.message import Event, TwoFactorReady
from bot.protocol.secret import Secret
from bot.runtime.rulebook import load_rulebook
from bot.runtime.second_factor import TICKET_LIFE, TRIES_PER_TICKET, Reply, TwoFactorDesk
from bot.sandbox.sandbox import Sandbox
from tests.staging import START, scenario

WRONG = Secret("000001")


@dataclass
class Office:
    """A desk before the sandbox, on one simulated clock."""

    desk: TwoFactorDesk
    clock: SimulatedClock
    right: Secret
    events: list[Event] = field(default_factory=list)

    def wait(self, span: timedelta) -> None:
        self.clock.advance_to(self.clock.now() + span)

    @property
    def has_token(self) -> bool:
        return any(isinstance(event, TwoFactorReady) for event in self.events)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    clock = SimulatedClock(START)
    sandbox = Sandbox(scenario(), load_rulebook(), clock=clock, wire=clock)
    broker = _broker(sandbox, clock)
    events: list[Event] = []
    desk = TwoFactorDesk(broker.client, broker.two_factor, (clock, clock), events.append, tmp_path)
    yield Office(desk, clock, Secret(sandbox.credentials.otp_code), events)
    await broker.close()


def _broker(sandbox: Sandbox, clock: SimulatedClock) -> Broker:
    given, waiter = sandbox.credentials, SystemWaiter(clock)
    return open_broker(
        "http://127.0.0.1:1",
        Credentials(Secret(given.api_key), Secret(given.api_secret), "desk"),
        wire=clock,
        waiter=waiter,
        budget=RequestBudget(per_minute=3_000, waiter=waiter, jitter=Random(1)),
        app=sandbox.app,
    )


def code_of(reply: Reply) -> object:
    return None if reply["ok"] else reply["code"]


async def test_the_first_code_has_a_ticket_asked_for_before_it(office: Office) -> None:
    reply = await office.desk.take(office.right)

    assert (reply["is_ready"], office.has_token) == (True, True)


async def test_a_wrong_code_leaves_the_ticket_for_the_right_one(office: Office) -> None:
    refused = await office.desk.take(WRONG)

    assert code_of(refused) == "E-2FA-003"
    assert code_of(await office.desk.take(office.right)) is None


async def test_after_too_many_wrong_codes_a_new_one_is_sent_and_named(office: Office) -> None:
    for _ in range(TRIES_PER_TICKET):
        assert code_of(await office.desk.take(WRONG)) == "E-2FA-003"

    anew = await office.desk.take(office.right)

    assert code_of(anew) == "E-2FA-005"
    assert "type that one" in str(anew["message"])
    assert code_of(await office.desk.take(office.right)) is None


async def test_a_code_whose_ticket_is_too_old_is_not_tried(office: Office) -> None:
    await office.desk.take(WRONG)
    office.wait(TICKET_LIFE + timedelta(seconds=1))

    anew = await office.desk.take(office.right)

    assert code_of(anew) == "E-2FA-005"
    assert code_of(await office.desk.take(office.right)) is None


async def test_a_code_given_by_command_says_how_to_get_a_new_one(office: Office) -> None:
    await office.desk.request()
    office.wait(TICKET_LIFE + timedelta(seconds=1))

    reply = await office.desk.submit(office.right)

    assert code_of(reply) == "E-2FA-001"
    assert "bot otp request" in str(reply["message"])
    assert office.desk.state()["has_ticket"] is False
