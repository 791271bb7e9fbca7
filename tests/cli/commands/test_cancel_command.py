"""`bot cancel` at a bot whose journal is away, and at one with orders of unknown outcome."""

import asyncio
import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.cli.commands import cancel
from bot.config.problems import ExitCode
from bot.runtime.control.server import ControlServer
from bot.runtime.control.socket import Reply, Request
from tests.cli.stage import Ran, call

AWAY = """\
mode: sandbox
journal: {url: "postgresql+psycopg://bot@127.0.0.1:1/bot"}
state_dir: state
"""
OPEN = {"order_id": "ORD10000008", "intent_id": "L-0008"}
ELSEWHERE = {"order_id": "ORD10000009", "intent_id": None}


_ROW = {"id": "L-0001", "order_id": None, "executed_quantity": 0, "cancelled_quantity": 0}
NEVER_SENT = SimpleNamespace(
    **_ROW, state="EXPIRED", outcome="blocked", is_open=False, was_sent=False
)
WAS_HELD = SimpleNamespace(
    **{**_ROW, "send_state": "EXPIRED_LOCAL", "reason": "cancelled by ann"},
    state="REJECTED",
    outcome="expired",
    is_open=False,
    was_sent=False,
)
ON_ITS_WAY = SimpleNamespace(**_ROW, state="SUBMITTED", outcome="open", is_open=True, was_sent=True)


class _Reader:
    """A journal of one order."""

    def __init__(self, row: SimpleNamespace) -> None:
        self._row = row

    def order(self, _: str) -> SimpleNamespace:
        return self._row


class _Bot:
    """Answers as a running bot does; a cancel ends every open order, also those not in its journal,
    and leaves the unknown ones.
    """

    def __init__(self, config: Path, **status: object) -> None:
        self._config = config
        self._status = {"state": "RUNNING", "open_orders": [OPEN, ELSEWHERE], **status}
        self.asked = list[Request]()
        self.stays_open: list[dict[str, str | None]] = [ELSEWHERE]

    async def _cancel(self, request: Request) -> Reply:
        self.asked.append(request)
        self._status["open_orders"] = self.stays_open
        return {"ok": True, "asked_at": "2026-11-19T02:20:00+00:00"}

    async def _answer(self, _: Request) -> Reply:
        return {"ok": True, "status": self._status}

    async def call(self, *arguments: str) -> Ran:
        handlers = {"status": self._answer, "cancel": self._cancel}
        sender = {"bot": {"name": "mybot", "mode": "live", "config": str(self._config)}}
        server = ControlServer(self._config.parent / "state", handlers, sender)
        await server.start()
        try:
            return await asyncio.to_thread(call, "cancel", *arguments, "-c", str(self._config))
        finally:
            await server.stop()


@pytest.fixture
def away(tmp_path: Path) -> Path:
    """A configuration whose journal nobody can read."""
    config = tmp_path / "bot.yaml"
    config.write_text(AWAY)
    return config


@pytest.mark.parametrize("named", ["--all", "ORD10000008", "L-0008"])
async def test_a_cancel_needs_no_journal_and_is_judged_by_the_status(
    away: Path, named: str
) -> None:
    bot = _Bot(away, state="DEGRADED", trouble={"text": "the journal is away", "since": None})

    ran = await bot.call(named, "--reason", "wrong")

    [asked] = bot.asked
    assert asked.get("all") is True or asked["order_id"] == "ORD10000008"
    assert (asked["reason"], ran.code) == ("wrong", ExitCode.TIMED_OUT)
    assert "mybot (live): 1 order to cancel\n" in ran.out
    assert "ORD10000008 is no longer open; how it ended, once the journal can be read" in ran.out
    assert ran.err == "0 of 1 order cancelled, 1 no longer open\n"


async def test_a_cancel_that_fails_is_told_once_long_before_the_wait_is_over(
    away: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel, "TELL_AFTER_S", 0.1)
    tried = {"order_id": "ORD10000009", "why": "HTTP 500"}
    own = {**ELSEWHERE, "intent_id": "L-0009"}
    bot = _Bot(away, open_orders=[own], cancels=[tried])
    bot.stays_open = [own]

    ran = await bot.call("--all", "--timeout", "0.6s")

    why = "the bot keeps trying: ORD10000009 (HTTP 500)"
    assert ran.code == ExitCode.TIMED_OUT
    assert ran.err.count(f"still open after 0.1 s, {why}; this waits 0.6 s in all\n") == 1
    assert f"still open after 0.6 s, {why}\n" in ran.err


async def test_a_journal_that_only_this_command_cannot_read_is_told_after_the_cancel(
    away: Path,
) -> None:
    bot = _Bot(away)

    ran = await bot.call("--all", "--json")

    assert (len(bot.asked), ran.code) == (1, ExitCode.TIMED_OUT)
    assert "E-DB-001" in ran.err
    found = json.loads(ran.out)
    assert (found["orders"], found["unread"]) == ([], ["ORD10000008"])


@pytest.mark.parametrize(
    ("ends", "told", "code"),
    [
        (NEVER_SENT, "EXPIRED: nothing filled", ExitCode.DONE),
        (WAS_HELD, "not sent: cancelled by ann", ExitCode.DONE),
        (ON_ITS_WAY, "SUBMITTED: nothing filled", ExitCode.TIMED_OUT),
    ],
)
async def test_an_order_without_an_id_yet_counts_as_cancelled_once_it_was_not_sent(
    away: Path, monkeypatch: pytest.MonkeyPatch, ends: SimpleNamespace, told: str, code: ExitCode
) -> None:
    monkeypatch.setattr(cancel, "FOLLOWS_S", 0.1)
    monkeypatch.setattr(cancel, "open_journal", lambda _: nullcontext(_Reader(ends)))
    monkeypatch.setattr(cancel, "find_order", lambda *_: ends)

    ran = await _Bot(away, open_orders=[]).call("L-0001")

    assert (ran.out.splitlines()[-1], ran.code) == (f"L-0001 {told}", code)
    assert ran.err == f"{int(code is ExitCode.DONE)} of 1 order cancelled\n"


async def test_a_part_of_an_id_needs_the_journal_and_says_how_it_goes_without(away: Path) -> None:
    bot = _Bot(away)

    ran = await bot.call("0008")

    assert (bot.asked, ran.code) == ([], ExitCode.DATABASE)
    assert "without the journal an order is named by its whole id" in ran.err


async def test_an_order_whose_row_is_not_in_the_journal_yet_is_no_mistake(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.cli.commands.cancel.FOLLOWS_S", 0.2)
    late = {"order_id": "ORD99999999", "intent_id": "L-0099"}

    ran = await _Bot(config, open_orders=[late]).call("--all")

    assert (ran.code, "E-DB" in ran.err) == (ExitCode.TIMED_OUT, False)
    assert "ORD99999999 is no longer open" in ran.out


@pytest.mark.parametrize("named", ["--all", "L-0008"])
async def test_a_cancel_says_that_it_is_kept_for_what_is_of_unknown_outcome(
    config: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setattr(cancel, "find_order", lambda *_: SimpleNamespace(id="L-0008"))
    bot = _Bot(config, open_orders=[], unknown=["L-0008"])

    told, found = await bot.call(named), await bot.call(named, "--json")

    assert (told.code, found.code) == (ExitCode.TIMED_OUT, ExitCode.TIMED_OUT)
    assert told.out.splitlines()[-1] == (
        "L-0008 UNKNOWN: its answer was lost, so it is not known whether it is at the broker. The"
        " cancel is kept, also over a restart, and goes out as soon as the order shows up there:"
        " bot status"
    )
    assert told.err == "0 of 1 order cancelled\n"
    assert json.loads(found.out)["unknown"] == ["L-0008"]


@pytest.mark.parametrize("named", ["--all", "L-0001"])
async def test_a_cancel_waits_for_what_is_being_sent(
    away: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in no list of open orders yet, and may be open any moment."""
    reader = nullcontext(_Reader(ON_ITS_WAY))
    monkeypatch.setattr(cancel, "open_journal", lambda _: reader)
    bot = _Bot(away, open_orders=[ELSEWHERE], sending=["L-0001"])

    ran = await bot.call(named, "--timeout", "0.2s")

    assert (len(bot.asked), ran.code) == (1, ExitCode.TIMED_OUT)
    assert ran.out == "mybot (live): 1 order to cancel\n"
    told = "still open after 0.2 s, the bot keeps trying: L-0001 (it is being sent"
    assert told in ran.err
    assert "the bot has no open orders" not in ran.err
