"""Who asks for what only the broker can do hears what the bot waits for, and that it may be done
although they give up.
"""

import asyncio
from pathlib import Path

import pytest

from bot.cli.asking import reply_of
from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.control.server import ControlServer
from bot.runtime.control.socket import SILENT_S, Handler, Reply, Request

PATIENCE_S = SILENT_S + 0.3
OVER_S = 60.0


async def _status(_: Request) -> Reply:
    return {"ok": True, "status": {}}


async def _given_up(state_dir: Path, do: str) -> tuple[OperatorMistake, list[str]]:
    """Ask a bot whose broker answers only after the client has given up; what it has done."""
    done, answered, is_over = list[str](), asyncio.Event(), asyncio.Event()

    async def at_the_broker(request: Request) -> Reply:
        await answered.wait()
        done.append(str(request["do"]))
        is_over.set()
        return {"ok": True}

    handlers: dict[str, Handler] = {"status": _status, do: at_the_broker}
    server = ControlServer(state_dir, handlers, {})
    await server.start()
    try:
        with pytest.raises(OperatorMistake) as caught:
            await asyncio.to_thread(reply_of, state_dir, {"do": do}, PATIENCE_S)
        answered.set()
        await asyncio.wait_for(is_over.wait(), OVER_S)
    finally:
        await server.stop()
    return caught.value, done


@pytest.mark.wire
@pytest.mark.parametrize("do", ["otp_request", "otp_submit", "otp_revoke"])
async def test_it_is_done_after_the_client_has_given_up_as_that_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], do: str
) -> None:
    mistake, done = await _given_up(tmp_path, do)

    later = f"'{do}' may be done all the same; see what came of it: bot otp"
    assert done == [do]
    assert (mistake.exit_code, str(mistake).endswith(later)) == (ExitCode.TIMED_OUT, True)
    said = " ".join(capsys.readouterr().err.split())
    assert " waits for the broker; waiting up to " in said
    assert said.endswith(later)


@pytest.mark.wire
async def test_of_another_request_it_is_told_that_the_bot_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await _given_up(tmp_path, "otp_token")

    assert " does not answer: " in " ".join(capsys.readouterr().err.split())
