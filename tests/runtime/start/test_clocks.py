"""By a clock that is far off the broker's no run begins."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from bot.broker.broker import Broker
from bot.broker.clock_offset import ClockOffset
from bot.broker.errors import Unreachable
from bot.cli.commands.service import NO_RESTART
from bot.cli.telling.languages import catalogue
from bot.clock import Clock, SimulatedClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.start.clocks import clocks_fault, require_near_clock
from bot.runtime.start.retry import BrokerRetry
from tests.broker.loopback import JumpingWaiter
from tests.engine.stage import START
from tests.rows import every_row


@dataclass
class Machine:
    """A machine whose process has read its clock when it was off; the wall clock may be set."""

    off: timedelta
    set_after: int = 1_000
    told: list[str] = field(default_factory=list)
    looks: int = 0

    def __post_init__(self) -> None:
        self.wire = SimulatedClock(START)

    def now(self) -> datetime:
        """Its wall clock, by which this is one look more."""
        self.looks += 1
        return self.wire.now() + (self.off if self.looks > self.set_after else timedelta())

    async def start(self, *, is_needed: bool) -> None:
        retry = BrokerRetry(JumpingWaiter(self.wire), self.told.append, is_needed)
        offset = cast(ClockOffset, SimpleNamespace(applied=self.off))
        await require_near_clock(offset, self.wire, retry, self.ask, self)

    async def ask(self) -> None:
        """The broker accepts what is signed by its time, and shows the same again."""


@every_row("off_s", [0, 45, -60, 60])
@every_row("is_needed", [True, False])
async def test_a_clock_that_is_off_by_a_minute_at_most_begins_a_run(
    off_s: int, *, is_needed: bool
) -> None:
    machine = Machine(timedelta(seconds=off_s))

    await machine.start(is_needed=is_needed)

    assert (machine.told, machine.wire.now()) == ([], START)


@every_row(("off_s", "words"), [(61, "61 s behind"), (-25_200, "25200 s ahead of")])
async def test_a_start_that_is_watched_ends_and_names_the_clock(off_s: int, words: str) -> None:
    machine = Machine(timedelta(seconds=off_s))

    with pytest.raises(OperatorMistake, match=f"our clock is {words} the broker's") as ended:
        await machine.start(is_needed=False)

    assert "Set this machine's clock (timedatectl), then start again" in str(ended.value)
    assert (ended.value.problems[0].code, ended.value.exit_code) == ("E-NET-004", 6)


@every_row("off_s", [61, -25_200, 86_400])
async def test_a_service_waits_for_its_clock_to_be_set_and_starts_again_by_it(off_s: int) -> None:
    machine = Machine(timedelta(seconds=off_s), set_after=3)

    with pytest.raises(OperatorMistake, match="clock was set while the bot started") as ended:
        await machine.start(is_needed=True)

    assert (machine.looks, machine.wire.now()) == (4, START + timedelta(seconds=15))
    [told] = machine.told
    assert "the bot waits for that" in told
    assert catalogue("vi").sentence(told) != told
    assert ended.value.exit_code == ExitCode.UNREACHABLE
    assert str(int(ended.value.exit_code)) not in NO_RESTART.split(), "systemd starts it again"


async def test_a_clock_that_was_set_wrong_is_waited_for_further() -> None:
    wire, off = SimulatedClock(START), timedelta(minutes=10)
    waiter = JumpingWaiter(wire)
    steps = iter([timedelta(), timedelta(hours=1), -off, off])
    wall = cast(Clock, SimpleNamespace(now=lambda: wire.now() + next(steps)))
    offset = cast(ClockOffset, SimpleNamespace(applied=off))

    retry = BrokerRetry(waiter, print, is_needed=True)
    with pytest.raises(OperatorMistake, match="clock was set"):
        await require_near_clock(offset, wire, retry, Machine(off).ask, wall)

    assert len(waiter.waits) == 3


@every_row("is_refused", [True, False])
async def test_a_clock_that_comes_near_while_a_service_waits_begins_its_run(
    *, is_refused: bool
) -> None:
    waiter, told = JumpingWaiter(SimulatedClock(START)), list[str]()
    offset = SimpleNamespace(applied=timedelta(seconds=100))
    retry = BrokerRetry(waiter, told.append, is_needed=True)

    async def ask() -> None:
        offset.applied -= timedelta(seconds=15)
        if is_refused:
            raise Unreachable("user", "the connection was lost")

    looks = iter([START] * 5)
    wall = cast(Clock, SimpleNamespace(now=lambda: next(looks)))
    await require_near_clock(cast(ClockOffset, offset), SimulatedClock(START), retry, ask, wall)

    assert (len(waiter.waits), len(told), retry.trouble) == (2, 1, "")


@every_row(
    ("seen_s", "has_refusal", "said"),
    [
        (600, False, "our clock is 600 s behind the broker's, which refuses what is signed by it"),
        (-7, False, "our clock is 7 s ahead of the broker's, which refuses what is signed by it"),
        (4, False, ""),
        (600, True, ""),
    ],
)
def test_a_clock_explains_a_401_only_if_it_is_off_and_the_key_is_not_what_is_refused(
    seen_s: int, said: str, *, has_refusal: bool
) -> None:
    offset = SimpleNamespace(seen=timedelta(seconds=seen_s))
    breaker = SimpleNamespace(has_refusal=has_refusal)
    broker = cast(Broker, SimpleNamespace(offset=offset, breaker=breaker))

    assert clocks_fault(broker) == said
