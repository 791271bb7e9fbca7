"""A run against a sandbox that somebody else serves, with real time on the wire."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest

from bot.clock import ScaledClock, SystemClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.rulebook import load_rulebook
from bot.config.settings.load import Loaded, load_settings
from bot.domain.entry import AuthEvent, OrderUpdated
from bot.domain.order import OrderState
from bot.journal.database.engines import file_of
from bot.runtime.control.socket import ask
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunEnd, RunOptions
from bot.runtime.start.broker import KEY_QUESTIONS
from bot.sandbox.house.ledger import read_ledger
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import run_free, serve
from tests.forbidding import forbidding
from tests.staging import START, scenario
from tests.story import Shown, once, write_project

pytestmark = pytest.mark.wire


async def test_an_operator_signs_in_by_the_control_socket_and_an_order_is_filled(
    tmp_path: Path,
) -> None:
    async with _served(tmp_path, [once(**QUICK)], RunOptions()) as served:
        await _until(lambda: OrderState.FILLED in _states(served.shown))
        await served.ask("stop")
        end = await served.running

    assert end.reason == "bot stop"


@dataclass
class Served:
    """A bot that has its token, and the sandbox at which it trades in real time."""

    loaded: Loaded
    shown: Shown
    running: asyncio.Task[RunEnd]
    played: Sandbox

    async def ask(self, word: str, **facts: object) -> None:
        await asyncio.to_thread(ask, self.loaded.state_dir, {"do": word, **facts})

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(file_of(self.loaded.journal_url))) as journal:
            return journal.execute(query).fetchall()


@asynccontextmanager
async def _served(
    folder: Path, strategies: Sequence[Mapping[str, object]], options: RunOptions, **changes: object
) -> AsyncIterator[Served]:
    wire, shown = SystemClock(), Shown()
    market = ScaledClock(wire, start=START, speed=1)
    script = scenario(**changes).model_copy(update={"speed": 1})
    played = Sandbox(script, load_rulebook(), clock=market, wire=wire, ledger=folder / "ledger")
    given = played.credentials
    async with serve(played) as base_url:
        keep_up = asyncio.create_task(run_free(played, market))
        broker = {"base_url": base_url, "requests_per_minute": 3000}
        config = write_project(folder, scenario="quiet", strategies=strategies, broker=broker)
        secrets = {"BOT_BROKER__API_KEY": given.api_key, "BOT_BROKER__API_SECRET": given.api_secret}
        loaded = load_settings(config, environment=secrets)
        running = asyncio.create_task(run_bot(loaded, options, shown))
        served = Served(loaded, shown, running, played)
        try:
            await _until(lambda: any(each.kind == "needed" for each in shown.all(AuthEvent)))
            await served.ask("otp_request")
            await served.ask("otp_submit", code=given.otp_code)
            yield served
        finally:
            keep_up.cancel()
            running.cancel()
            await asyncio.gather(keep_up, running, return_exceptions=True)
            played.close()


POST = {"verb": "POST", "path": "*/orders"}
QUICK = {"wake": {"quote": "1s"}}


async def test_a_stop_waits_for_the_answer_that_is_under_way_and_journals_it(
    tmp_path: Path,
) -> None:
    slow = [{"match": POST, "action": {"do": "delay", "seconds": 1}}]
    strategies = [once(**QUICK, params={"price": 26_000})]
    async with _served(tmp_path, strategies, RunOptions(), faults=slow) as served:
        await _until(lambda: served.rows("select * from attempts") != [])
        await served.ask("stop")
        end = await served.running

    [(state,)] = served.rows("select state from intents")
    assert state == "ACKED"
    assert end.reason == "bot stop"
    [said] = [text for text in served.shown.troubles if "waits" in text]
    assert said == "the stop waits at most 10.5 s for the answer to BUY 100 HPG (L-0001)"


async def test_a_stop_without_an_answer_names_the_order_on_the_screen_and_in_the_journal(
    tmp_path: Path,
) -> None:
    deaf = [{"match": POST, "action": {"do": "hang", "seconds": 2}}]
    strategies = [once(**QUICK, params={"price": 26_000})]
    options = RunOptions(stop_grace_s=0.2)
    async with _served(tmp_path, strategies, options, faults=deaf) as served:
        await _until(lambda: served.rows("select * from attempts") != [])
        started = monotonic()
        await served.ask("stop")
        end = await served.running
        took_s = monotonic() - started
        await _until(lambda: monotonic() - started > 3)  # the connection is dropped at last

    assert took_s < 30
    assert end.reason == "bot stop; without the answer to BUY 100 HPG (L-0001)"
    assert served.rows("select end_reason from runs") == [(end.reason,)]
    assert served.shown.troubles[-1] == (
        "stopped without the answer to BUY 100 HPG (L-0001); "
        "the next start asks the broker what has become of that"
    )
    assert served.rows("select state from intents") == [("SENDING",)]


WHEN = """
from pathlib import Path

from bot import Strategy


class When(Strategy):
    file: str

    def on_quote(self, quote):
        if Path(self.file).exists():
            self.buy(100, limit=quote.floor, why="it is there")
"""


async def test_a_stop_says_of_an_order_that_the_journal_kept_back_that_it_was_never_sent(
    tmp_path: Path,
) -> None:
    sign, file = tmp_path / "sign", tmp_path / "state" / "journal.db"
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "when.py").write_text(WHEN)
    strategies = [once("when", use="when", params={"file": str(sign)}, **QUICK)]
    async with _served(tmp_path, strategies, RunOptions(stop_grace_s=0.5)) as served:
        await _until(lambda: any(each.kind == "ready" for each in served.shown.all(AuthEvent)))
        await asyncio.to_thread(file.rename, tmp_path / "away.db")
        sign.touch()
        await _until(lambda: any("it was removed" in each for each in served.shown.troubles))
        await served.ask("stop")
        with pytest.raises(OperatorMistake) as raised:
            await served.running

    never = (
        "never sent: BUY 100 HPG (L-0001); the stop came first, and the next start does not send it"
    )
    assert served.shown.troubles[1:] == [never]
    assert "stopped by bot stop, but the journal does not answer" in str(raised.value)
    assert [line for line in read_ledger(tmp_path / "ledger") if line["kind"] == "order"] == []


SLOW = """
from time import perf_counter

from bot import Strategy


class Slow(Strategy):
    number: int

    def on_quote(self, quote):
        until = perf_counter() + 0.020
        while perf_counter() < until:
            pass
        self.buy(100 * (1 + self.number), limit=quote.floor, why="thought about it")
"""
THINKERS = 40


def _thinkers(folder: Path) -> list[dict[str, object]]:
    """40 strategies that think 20 ms at each of two quotes a second are never done with them."""
    (folder / "strategies").mkdir()
    (folder / "strategies" / "slow.py").write_text(SLOW)
    return [
        once(f"slow{n}", use="slow", symbols=["HPG", "SHS"], params={"number": n}, **QUICK)
        for n in range(THINKERS)
    ]


async def test_a_pause_comes_before_the_hooks_that_were_due_and_no_order_leaves_after_it(
    tmp_path: Path,
) -> None:
    async with _served(tmp_path, _thinkers(tmp_path), RunOptions(stop_grace_s=0.2)) as served:
        await _until(lambda: served.rows("select * from attempts") != [])
        await served.ask("pause", reason="enough")
        await _until(lambda: served.rows("select * from decisions where code = 'PAUSED'") != [])
        await served.ask("halt", reason="the end of a test")
        await _until(lambda: served.rows("select * from halts where to_state = 'HALTED'") != [])

    [(paused,)] = served.rows("select seq from halts where to_state = 'PAUSED'")
    late = f"select * from decisions where (verdict, code) = ('PASSED', 'OK') and seq > {paused}"
    sent = f"select outcome from attempts where verb = 'POST' and seq > {paused}"
    assert served.rows(late) == []
    assert {outcome for (outcome,) in served.rows(sent)} <= {"NOT_SENT"}


async def test_a_stop_in_a_flood_journals_every_answer_and_leaves_nothing_on_its_way(
    tmp_path: Path,
) -> None:
    slow = [{"match": {**POST, "times": 0}, "action": {"do": "delay", "seconds": 0.3}}]
    async with _served(tmp_path, _thinkers(tmp_path), RunOptions(), faults=slow) as served:
        await _until(lambda: served.rows("select * from attempts") != [])
        await served.ask("stop")
        end = await served.running

    assert end.reason == "bot stop"
    assert served.rows("select * from halts where to_state = 'STOPPING'") != []
    assert served.rows("select * from attempts where verb = 'POST' and outcome is null") == []
    on_its_way = "select * from intents where state in ('READY', 'SENDING', 'UNKNOWN')"
    assert served.rows(on_its_way) == []


def _states(shown: Shown) -> set[OrderState]:
    return {each.state for each in shown.all(OrderUpdated)}


async def test_a_broker_that_nobody_serves_is_said_and_exits_with_6(tmp_path: Path) -> None:
    broker = {"base_url": "http://127.0.0.1:9", "requests_per_minute": 3000}
    config = write_project(tmp_path, scenario="quiet", strategies=[once()], broker=broker)
    secrets = {"BOT_BROKER__API_KEY": "ak_test_x", "BOT_BROKER__API_SECRET": "y"}
    loaded = load_settings(config, environment=secrets)

    with pytest.raises(OperatorMistake) as mistake:
        await run_bot(loaded, RunOptions(), Shown())

    assert mistake.value.exit_code == ExitCode.UNREACHABLE


async def test_a_secret_that_the_broker_refuses_is_said_and_exits_with_4(tmp_path: Path) -> None:
    wire = SystemClock()
    market = ScaledClock(wire, start=START, speed=1)  # else it plays every day since then first
    played = Sandbox(scenario(), load_rulebook(), clock=market, wire=wire)
    async with serve(played) as base_url:
        config = write_project(
            tmp_path, scenario="quiet", strategies=[once()], broker={"base_url": base_url}
        )
        secrets = {
            "BOT_BROKER__API_KEY": played.credentials.api_key,
            "BOT_BROKER__API_SECRET": "not-the-secret",
        }
        loaded = load_settings(config, environment=secrets)

        with pytest.raises(OperatorMistake) as mistake:
            await run_bot(loaded, RunOptions(), Shown())

    assert mistake.value.exit_code == ExitCode.SECRET
    assert str(mistake.value).startswith("E-SEC-004 the broker refuses our key or its signature")
    assert "not-the-secret" not in str(mistake.value)


@pytest.mark.parametrize(
    ("code", "message", "exit_code", "does"),
    [
        ("IP_NOT_ALLOWED", "no address of ak_test_xyz0123456789", ExitCode.SECRET, KEY_QUESTIONS),
        ("OTP_SESSION_REQUIRED", "2FA session required", ExitCode.NEEDS_2FA, "ask the broker"),
    ],
)
async def test_a_broker_that_forbids_the_reads_of_a_start_is_not_called_unreachable(
    tmp_path: Path, code: str, message: str, exit_code: ExitCode, does: str
) -> None:
    async with forbidding(code, message) as base_url:
        broker = {"base_url": base_url}
        config = write_project(tmp_path, scenario="quiet", strategies=[once()], broker=broker)
        secrets = {"BOT_BROKER__API_KEY": "ak_test_xyz0123456789", "BOT_BROKER__API_SECRET": "y"}
        loaded = load_settings(config, environment=secrets)

        with pytest.raises(OperatorMistake) as mistake:
            await run_bot(loaded, RunOptions(), Shown())

    said = str(mistake.value)
    assert mistake.value.exit_code == exit_code
    assert said.startswith("E-SEC-004 the broker answered, and ")
    assert f"user: HTTP 403 {code}: {message[:6]}" in said
    assert does in said
    assert "xyz0123456789" not in said


async def _until(is_so: Callable[[], bool], deadline_s: float = 40.0) -> None:
    for _ in range(int(deadline_s / 0.02)):
        if is_so():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came to be")
