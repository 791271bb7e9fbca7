"""Who may take the brake off: the bot itself asks for a reason and, with real money, the account's
id, whatever a command line has asked before.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bot.clock import SimulatedClock
from bot.domain.account import SubAccount
from bot.domain.operations import Action, OperatorActed
from bot.runtime.activity import Activity
from bot.runtime.brake import SALES, Brake
from bot.runtime.control import operations as module
from bot.runtime.control.operations import NAMES, Operations
from bot.runtime.control.socket import Reply
from bot.runtime.control.status import Facts
from bot.runtime.inbox import Inbox
from bot.runtime.parts import Parts
from tests.engine.stage import Stage

MINE = SubAccount("0009000011", "120C900001.1", "NORMAL")


def _halted(tmp_path: Path, mode: str = "sandbox") -> tuple[Operations, Brake, Inbox]:
    """The handlers over a halted engine and a brake that is on."""
    stage, brake = Stage(), Brake(tmp_path)
    stage.handle(OperatorActed(stage.now, Action.HALT, "enough", "operator"))
    brake.pull("enough", "operator")
    return _over(stage, brake, mode)


def _over(stage: Stage, brake: Brake, mode: str = "sandbox") -> tuple[Operations, Brake, Inbox]:
    """The handlers over an engine and a brake."""
    clock = SimulatedClock(stage.now)
    inbox = Inbox(Activity())
    environment = SimpleNamespace(market=clock)
    parts = SimpleNamespace(
        engine=stage.engine, brake=brake, account=MINE, inbox=inbox, environment=environment
    )
    loaded = SimpleNamespace(settings=SimpleNamespace(mode=mode))
    facts = cast(Facts, SimpleNamespace(loaded=loaded))
    operations = Operations(cast(Parts, parts), facts, expect_end=lambda: None)
    return operations, brake, inbox


async def _resume(tmp_path: Path, *, mode: str, **request: object) -> tuple[Reply, Brake, Inbox]:
    """Ask the handlers to leave the halt."""
    operations, brake, inbox = _halted(tmp_path, mode)
    return await operations.act(Action.RESUME, request), brake, inbox


@pytest.mark.parametrize("typed", ["", "  ", "0009000012", "120C900001", "LIVE"])
async def test_a_live_bot_stays_halted_without_its_account_id(tmp_path: Path, typed: str) -> None:
    reply, brake, inbox = await _resume(tmp_path, mode="live", reason="checked", account=typed)

    assert (reply["ok"], reply["code"]) == (False, "E-RUN-009")
    assert brake.is_on
    assert inbox.take() is None


@pytest.mark.parametrize("typed", [MINE.id, f" {MINE.extended_id} "])
async def test_a_live_bot_resumes_with_its_account_id(tmp_path: Path, typed: str) -> None:
    reply, brake, inbox = await _resume(tmp_path, mode="live", reason="checked", account=typed)

    assert reply == {"ok": True}
    assert not brake.is_on
    assert isinstance(inbox.take(), OperatorActed)


async def test_a_bot_stays_halted_without_a_reason_in_any_mode(tmp_path: Path) -> None:
    reply, brake, inbox = await _resume(tmp_path, mode="sandbox", reason=" ", account=MINE.id)

    assert (reply["ok"], reply["code"]) == (False, "E-RUN-003")
    assert brake.is_on
    assert inbox.take() is None


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("halted_symbols", "halted: HPG: more executed than ordered"),
        ("halted_scopes", "halted: more executed than ordered"),
    ],
)
async def test_what_the_engine_would_not_resume_without_a_reason_is_refused_to_who_asks(
    tmp_path: Path, what: str, words: str, is_paused: bool
) -> None:
    stage = Stage()
    getattr(stage.engine._state, what)["HPG"] = "more executed than ordered"
    if is_paused:
        stage.handle(OperatorActed(stage.now, Action.PAUSE, "earnings", "operator"))
    operations, _, inbox = _over(stage, Brake(tmp_path))

    reply = await operations.act(Action.RESUME, {"reason": " "})
    silence = inbox.take()
    taken = await operations.act(Action.RESUME, {"reason": "checked"})

    assert (reply["code"], silence) == ("E-RUN-003", None)
    assert reply["message"] == f'{words}; to resume, give a reason: bot resume --reason "…"'
    assert taken == {"ok": True}


async def test_a_pause_alone_ends_without_a_reason(tmp_path: Path) -> None:
    stage = Stage()
    stage.handle(OperatorActed(stage.now, Action.PAUSE, "earnings", "operator"))
    stage.handle(OperatorActed(stage.now, Action.PAUSE, "", "operator", entries_only=True))
    operations, _, inbox = _over(stage, Brake(tmp_path))

    assert await operations.act(Action.RESUME, {}) == {"ok": True}
    assert isinstance(inbox.take(), OperatorActed)


async def test_a_halt_that_comes_just_after_the_brake_was_taken_off_is_not_resumed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations, brake, inbox = _halted(tmp_path)

    async def overtaken(release: Callable[[], str], _: float) -> str:
        why = release()
        await operations.act(Action.HALT, {"reason": "no, wait"})
        return why

    monkeypatch.setattr(module, "in_time", overtaken)
    reply = await operations.act(Action.RESUME, {"reason": "checked"})

    assert (reply["ok"], reply["code"]) == (False, "E-RUN-010")
    assert reply["message"] == "the bot stays HALTED: another halt came meanwhile"
    asked, more = inbox.take(), inbox.take()
    assert isinstance(asked, OperatorActed)
    assert (asked.action, more, brake.is_on) == (Action.HALT, None, True)


# -------------------------------------------------------------------------------- a halt that sells


async def test_a_halt_that_sells_is_asked_for_once_its_sales_may_pass(tmp_path: Path) -> None:
    operations, brake, inbox = _halted(tmp_path)

    reply = await operations.act(Action.HALT, {"flatten": True, "reason": "enough"})

    asked = inbox.take()
    assert reply == {"ok": True}
    assert isinstance(asked, OperatorActed)
    assert (asked.flatten, brake.sells) == (True, True)


async def test_where_the_sales_cannot_be_allowed_it_is_a_plain_halt_and_said(
    tmp_path: Path,
) -> None:
    operations, brake, inbox = _halted(tmp_path)
    (tmp_path / SALES / "in the way").mkdir(parents=True)

    reply = await operations.act(Action.HALT, {"flatten": True, "reason": "enough"})

    asked = inbox.take()
    assert (reply["ok"], reply["code"]) == (False, "E-RUN-012")
    assert isinstance(asked, OperatorActed)
    assert (asked.flatten, brake.sells, brake.is_on) == (False, False, True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("empty", ["", "  ", 0, False, []])
async def test_an_empty_name_means_neither_all_nor_none(
    tmp_path: Path, name: str, empty: object
) -> None:
    operations, brake, inbox = _halted(tmp_path)
    request = {"reason": "checked", "intent_id": "L-0001", name: empty}

    replies = [await do(request) for do in operations.handlers().values()]

    wanted = (False, "E-CTL-002", f"the request's {name} is empty; nothing was done")
    assert {(each["ok"], each["code"], each["message"]) for each in replies} == {wanted}
    assert brake.is_on
    assert inbox.take() is None


async def test_a_name_left_out_or_null_is_not_empty(tmp_path: Path) -> None:
    operations, brake, inbox = _halted(tmp_path)
    request = {"reason": "checked", "strategy": None, "symbol": None}

    reply = await operations.handlers()["resume"](request)

    assert (reply, brake.is_on) == ({"ok": True}, False)
    assert isinstance(inbox.take(), OperatorActed)
