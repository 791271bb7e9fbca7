"""`bot reconcile`: of a running bot (a real process), and at the broker where none runs."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from bot.config.problems import ExitCode
from bot.runtime.control.server import ControlServer, handlers_of
from bot.runtime.control.socket import Reply, Request
from tests.cli.json_keys import declared, differing
from tests.cli.stage import Ran, call
from tests.processes import BotProcess
from tests.rows import every_row
from tests.staging import QUIET
from tests.story import once, write_project

START_S_MAX = 120.0
ELSEWHERE = {
    "match": {"verb": "GET", "path": "*/summary", "nth": 3, "times": 0},
    "action": {"do": "set_fields", "fields": {"ci_balance": 99_999_999}},
}


BOOK_GONE = {
    "match": {"verb": "GET", "path": "/trading/*/order-book", "nth": 3, "times": 0},
    "action": {"do": "status", "status": 500},
}


class WatchingBot:
    """A bot in a process of its own that orders nothing; its broker's cash is 1 VND off later."""

    def __init__(self, folder: Path, fault: dict[str, Any] = ELSEWHERE) -> None:
        self._config = write_project(
            folder,
            scenario={**QUIET, "faults": [fault]},
            strategies=[once(mode="watch")],
            sandbox={"scenario": "story.yaml", "speed": 20, "port": 0},
        )
        self._process = BotProcess("run", "-c", str(self._config), BOT_SANDBOX__PORT="0")

    def call(self, *arguments: str) -> Ran:
        return call(*arguments, "-c", str(self._config))

    def wait_for(self, word: str, *arguments: str) -> Ran:
        give_up = time.monotonic() + START_S_MAX
        while word not in (ran := self.call(*arguments)).out:
            assert time.monotonic() < give_up, (ran, self._process.poll())
            time.sleep(0.1)
        return ran

    def end(self) -> None:
        self._process.end()


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchingBot]:
    running = WatchingBot(tmp_path_factory.mktemp("reconcile"))
    try:
        running.wait_for("RUNNING", "status", "--json")
        yield running
    finally:
        running.end()


@pytest.mark.process
def test_a_break_is_shown_with_its_numbers_and_accepted_with_a_reason(bot: WatchingBot) -> None:
    shown = bot.wait_for("B-0001", "reconcile")
    fields = json.loads(bot.call("reconcile", "--json").out)

    assert shown.code == ExitCode.DIFFERS
    assert "expected 100,000,000, found 99,999,999: -1 VND that no order explains" in shown.out
    assert 'bot reconcile --accept B-0001 --reason "…"' in shown.out
    assert [(each["symbol"], each["ours"], each["theirs"]) for each in fields["breaks"]] == [
        (None, 100_000_000, 99_999_999)
    ]
    assert "B-0001" in bot.call("status").out
    assert bot.call("reconcile", "--accept", "B-0001").code == ExitCode.USAGE
    assert bot.call("reconcile", "--accept", "B-0009", "--reason", "x").code == ExitCode.REFUSED

    done = bot.call("reconcile", "--accept", "B-0001", "--reason", "a bank fee")

    assert done.code == ExitCode.DONE
    assert "(sandbox, account …001.1): B-0001 accepted: a bank fee" in done.out.splitlines()[0]
    assert "B-0001" not in bot.call("status").out
    assert bot.call("reconcile", "--apply").code == ExitCode.DONE


@pytest.mark.process
def test_what_was_read_before_the_order_book_failed_does_not_agree(tmp_path: Path) -> None:
    bot = WatchingBot(tmp_path, BOOK_GONE)
    try:
        shown = bot.wait_for("READ_FAILS", "status", "--json")
        told = bot.call("reconcile")
        fields = json.loads(bot.call("reconcile", "--json").out)
        applied = bot.call("reconcile", "--apply", "--timeout", "1s")
    finally:
        bot.end()

    assert "the day order book can't be read" in shown.out
    assert told.code == ExitCode.DIFFERS
    assert "everything agrees" not in told.err + told.out
    assert re.search(r"the day order book was last read \w+ ago and can't be read: ", told.err)
    assert [row["read"] for row in fields["unread"]] == ["the day order book"]
    assert list(differing(fields, declared()["bot reconcile"], "")) == []
    assert applied.code == ExitCode.TIMED_OUT
    assert "not done after 1 s: the day order book was last read" in applied.err


def test_without_a_bot_the_broker_is_asked_or_what_it_needs_is_said(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])

    told = call("reconcile", "-c", str(config))

    assert told.code == ExitCode.CONFIG
    assert "no bot is running: asking the broker directly" in told.err
    assert "no broker to ask" in told.err


def test_a_paper_journal_is_not_compared_with_the_broker_s_own_account(tmp_path: Path) -> None:
    broker = {"base_url": "http://127.0.0.1:9"}
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()], broker=broker)

    told = call("reconcile", "-c", str(config), environment={"BOT_MODE": "paper"})

    assert told.code == ExitCode.NOT_RUNNING
    assert "in paper mode the bot itself plays orders and account" in told.err


def test_two_things_are_not_asked_at_once(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])

    told = call("reconcile", "--apply", "--accept", "B-1", "-c", str(config))

    assert told.code == ExitCode.USAGE


@asynccontextmanager
async def serving(config: Path, answers: Iterator[dict[str, Any]]) -> AsyncIterator[None]:
    """Answer `bot reconcile` as a running bot that found this."""

    async def compared(_: Request) -> Reply:
        at = {f"{each}_read_at": "2026-10-19T09:15:00+07:00" for each in ("book", "account")}
        return {"ok": True, "compared": {**at, **next(answers)}}

    async def read_all(_: Request) -> Reply:
        return {"ok": True, "asked_at": "2026-10-19T09:21:00+07:00"}

    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    handlers = {"reconcile": compared, "read_all": read_all}
    server = ControlServer(config.parent / "state", handlers, {"bot": bot})
    await server.start()
    yield
    await server.stop()


async def test_shares_that_an_account_shows_a_moment_after_the_fill_are_no_difference(
    config: Path,
) -> None:
    numbers = {"account": "…001.1", "symbol": "HPG", "own": 100, "ours": 100}
    lacks = {"numbers": [{**numbers, "theirs": 0, "difference": -100}]}
    agrees = {"numbers": [{**numbers, "theirs": 100, "difference": 0}]}

    async with serving(config, chain([lacks, lacks, agrees], repeat(lacks))):
        agreed = await asyncio.to_thread(call, "reconcile", "-c", str(config))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("bot.cli.commands.reconcile.FOLLOWS_S", 0.0)
            differs = await asyncio.to_thread(call, "reconcile", "-c", str(config))

    assert (agreed.code, "everything agrees" in agreed.err + agreed.out) == (ExitCode.DONE, True)
    assert differs.code == ExitCode.DIFFERS
    assert "an order may have filled since the account was read" in differs.err + differs.out


async def test_an_order_that_no_list_shows_is_named_and_does_not_agree(config: Path) -> None:
    size = {"side": "BUY", "quantity": 100, "symbol": "HPG", "executed": 0, "state": "ACCEPTED"}
    order = {"order_id": "ORD1", "intent_id": "L-0001", **size}
    theirs = {"order_id": "APP1", "intent_id": None, **size}
    found = {"not_listed": [order, theirs], "external": [theirs]}

    async with serving(config, repeat(found)):
        told = await asyncio.to_thread(call, "reconcile", "-c", str(config))
        as_json = await asyncio.to_thread(call, "reconcile", "--json", "-c", str(config))

    assert (told.code, as_json.code) == (ExitCode.DIFFERS, ExitCode.DIFFERS)
    assert "everything agrees" not in told.err + told.out
    where = "open in the journal, in no row of the order book: look in the broker's app"
    assert f"missing   L-0001 (ORD1) BUY 100 HPG: {where}" in told.out
    assert f"missing   APP1 BUY 100 HPG: {where}" in told.out
    assert "elsewhere" not in told.out


async def test_shares_that_are_gone_and_rows_that_differ_are_named_and_do_not_agree(
    config: Path,
) -> None:
    gone = {"gone": [{"account": "…001.1", "symbol": "HPG", "shares": 200}]}
    rows = {"rows": ["ORD1 is shown with other fills than here"]}

    async with serving(config, chain([gone], repeat(rows))):
        missing = await asyncio.to_thread(call, "reconcile", "-c", str(config))
        differs = await asyncio.to_thread(call, "reconcile", "-c", str(config))

    assert (missing.code, differs.code) == (ExitCode.DIFFERS, ExitCode.DIFFERS)
    assert "everything agrees" not in "".join((missing.err, missing.out, differs.err, differs.out))
    assert "gone      200 HPG that strategies count and account …001.1 lacks: bot status" in (
        missing.out
    )
    assert "differs   ORD1 is shown with other fills than here: bot order ORD1" in differs.out


@every_row("state", ["SENDING", "UNKNOWN", "REACHED", "AMBIGUOUS"])
async def test_a_place_whose_outcome_is_not_known_does_not_agree(config: Path, state: str) -> None:
    found = {"unsettled": ["L-0001 READY", f"L-0002 {state}"]}

    async with serving(config, repeat(found)):
        told = await asyncio.to_thread(call, "reconcile", "-c", str(config))

    assert told.code == ExitCode.DIFFERS
    assert "what became of L-0002 is not known yet: bot order L-0002" in told.err + told.out
    assert "everything agrees" not in told.err + told.out


async def test_a_read_that_is_overdue_does_not_agree_and_one_of_yesterday_has_its_date(
    config: Path,
) -> None:
    overdue = {"at": "2026-10-20T09:16:00+07:00", "unread": [{"read": "the account", "age_s": 380}]}

    async with serving(config, repeat(overdue)):
        told = await asyncio.to_thread(call, "reconcile", "-c", str(config))

    assert told.code == ExitCode.DIFFERS
    assert "the account was last read 6m ago. What is above may be old" in told.err
    assert "order book read 2026-10-19 09:15:00, account 2026-10-19 09:15:00" in told.out


async def test_an_apply_that_is_not_done_names_the_read_that_fails(config: Path) -> None:
    failing = {"read": "the day order book", "age_s": None, "detail": "HTTP 500"}

    async with serving(config, repeat({"unread": [failing]})):
        words = ("reconcile", "--apply", "--timeout", "0.1s", "-c", str(config))
        told = await asyncio.to_thread(call, *words)

    assert told.code == ExitCode.TIMED_OUT
    why = "the day order book has not been read yet and can't be read: HTTP 500"
    assert f"not done after 0.1 s: {why}" in told.err


@pytest.mark.parametrize("form", [(), ("--json",)])
async def test_a_bot_that_is_still_starting_has_compared_nothing(
    config: Path, form: tuple[str, ...]
) -> None:
    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    server = ControlServer(config.parent / "state", handlers_of({}), {"bot": bot})
    await server.start()

    told = await asyncio.to_thread(call, "reconcile", *form, "-c", str(config))

    await server.stop()
    assert (told.code, told.out) == (ExitCode.REFUSED, "")
    assert "E-CTL-005 the bot is STARTING" in told.err
