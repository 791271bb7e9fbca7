"""What holds for every send, broken once each: nothing leaves, and it is a fault that halts."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.broker.link import HttpRequest
from bot.broker.signer import Signer
from bot.domain.entry import RunState
from bot.domain.errors import InvariantBroken
from bot.domain.message import FaultFound, NonceBurnt
from bot.domain.outcome import Resolution
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.endpoints.trading import PLACE_ORDER
from bot.runtime.commits import Committed
from bot.runtime.supervisor import FaultGuard
from tests.engine.stage import ACCOUNT
from tests.engine.stage import Stage as EngineStage
from tests.staging import START, Stage, intent, scenario, set_stage

NOT_STORED = Committed(is_stored=False)
LOST = [
    {"match": {"verb": "POST", "path": "*/orders"}, "point": "before_auth", "action": {"do": "rst"}}
]


@pytest.fixture
async def stage(
    request: pytest.FixtureRequest, tmp_path: Path, sqlite_url: str
) -> AsyncIterator[Stage]:
    made = await set_stage(tmp_path, sqlite_url, scenario(faults=getattr(request, "param", [])))
    yield made
    await made.strike()


class Trading(Signer):
    """A signer whose harmless read is none."""

    def sign_read(
        self,
        endpoint: Endpoint,  # noqa: ARG002
        target: str,
        *,
        body: bytes = b"",
        nonce: str | None = None,
    ) -> HttpRequest:
        return super().sign_read(PLACE_ORDER, target, body=body, nonce=nonce)


async def test_i1_nothing_leaves_whose_attempt_is_not_stored(stage: Stage) -> None:
    wanted = await stage.ready(intent())
    signed = stage.orders._writer.prepare_place(stage.orders._account, wanted)

    with pytest.raises(InvariantBroken, match="I1: "):
        await stage.orders._send_once(signed, NOT_STORED, lambda: None)

    assert stage.placed() == []


@pytest.mark.parametrize("stage", [LOST], indirect=True)
async def test_i15_a_nonce_that_is_too_old_proves_nothing(stage: Stage) -> None:
    wanted = await stage.ready(intent())
    await stage.orders.place(wanted)
    stage.clock.advance_to(START + timedelta(seconds=271))

    await stage.fence.burn(wanted.intent_id)

    [burnt] = [event for event in stage.events if isinstance(event, NonceBurnt)]
    assert burnt.resolution is Resolution.REACHED


async def test_i16_a_nonce_is_never_tried_by_what_could_trade(stage: Stage) -> None:
    writer = stage.orders._writer
    writer._signer = Trading(writer._signer._credentials, stage.clock)

    with pytest.raises(InvariantBroken, match="I16: "):
        await writer.burn("nonce")

    assert stage.placed() == []


async def test_i18_other_bytes_than_were_signed_never_leave(stage: Stage) -> None:
    wanted = await stage.ready(intent())
    writer = stage.orders._writer
    signed = writer.prepare_place(stage.orders._account, wanted)

    with pytest.raises(InvariantBroken, match="I18: "):
        await writer.send(replace(signed, body=signed.body.replace(b"100", b"900")))

    assert stage.placed() == []


def test_the_state_is_reported_wherever_an_invariant_is_found_broken(tmp_path: Path) -> None:
    guard, engine = FaultGuard(tmp_path), EngineStage()
    engine.working()
    guard.dump = engine.engine.dump

    fault = guard.fault_of(InvariantBroken("I1", "an attempt is not stored"))

    state = "order ORD1 of L-0001 ACCEPTED (SENT) BUY 100 HPG at 27000, 0 done"
    assert state in Path(fault.report).read_text()
    assert state in fault.trace
    assert ACCOUNT not in fault.trace


def test_an_invariant_is_reported_though_the_state_cannot_be_shown(tmp_path: Path) -> None:
    guard = FaultGuard(tmp_path)
    guard.dump = lambda: str(1 // 0)

    fault = guard.fault_of(InvariantBroken("I1", "an attempt is not stored"))

    assert "the state cannot be shown: ZeroDivisionError" in fault.trace
    assert fault.invariant == "I1"


def test_what_breaks_in_the_background_halts_entries_and_names_its_invariant(
    tmp_path: Path,
) -> None:
    fault = FaultGuard(tmp_path).fault_of(InvariantBroken("I1", "an attempt is not stored"))
    engine = EngineStage()

    engine.handle(FaultFound(engine.now, "work in the background", fault))

    [cause] = engine.engine.status().causes
    assert (cause.state, cause.by) == (RunState.HALTED, "engine")
    assert fault.kind == "invariant I1"
    told = [one for one in engine.entries if getattr(one, "kind", "") == "ALERT"]
    assert [one.numbers["invariant"] for one in told] == ["I1"]  # type: ignore[attr-defined]
