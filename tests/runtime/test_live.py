"""The live loop when a command cannot be begun."""

from pathlib import Path

from bot.clock import SimulatedClock
from bot.domain.message import Command, ReadAccount, ReadTodaysOrders, Recovered
from bot.domain.recovery import Recovery
from bot.engine.engine import Engine, EngineSettings, invoke_plainly
from bot.runtime.activity import Activity, TimeSlice
from bot.runtime.faults import FaultGuard
from bot.runtime.inbox import Inbox
from bot.runtime.live import LiveLoop
from bot.runtime.pulse import Trouble
from tests.engine.stage import RULEBOOK
from tests.staging import DAY, START, set_stage


async def test_a_command_that_raises_is_a_fault_and_the_others_are_begun(
    tmp_path: Path, sqlite_url: str
) -> None:
    stage = await set_stage(tmp_path, sqlite_url)
    engine = Engine(
        rulebook=RULEBOOK, strategies=[], settings=EngineSettings(), invoke=invoke_plainly
    )
    begun: list[Command] = []
    inbox = Inbox(Activity())

    def carry_out(command: Command) -> None:
        if isinstance(command, ReadTodaysOrders):
            raise OSError(28, "no space", str(command))
        begun.append(command)

    loop = LiveLoop(
        engine=engine,
        journal=stage.journal,
        inbox=inbox,
        time_slice=TimeSlice(1),
        carry_out=carry_out,
        guard=FaultGuard(tmp_path).guard,
        wake_at=lambda _: None,
        mark=lambda entry: entry,
        show=(),
        trouble=Trouble(SimulatedClock(START), print),
    )

    inbox.post(Recovered(START, Recovery(DAY)))
    await loop.step()
    assert inbox.has_more
    await loop.step()

    assert [type(each) for each in begun] == [ReadAccount]
    assert engine.status().faults[0].where == "ReadTodaysOrders"
    assert engine.status().reason == "engine fault"
    await stage.strike()
