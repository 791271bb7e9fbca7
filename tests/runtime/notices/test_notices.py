"""The consumer of entries with a real service on loopback: it tells, and it holds nothing up."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace

import pytest

from bot.cli.telling.languages import told as in_language
from bot.clock import monotonic_s
from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.domain.entry import ACCOUNT_SCOPE, IntentMoved, Note, RunState, StateChanged
from bot.domain.message import Event, Noted
from bot.domain.order import SendState
from bot.domain.recovery import Recovery
from bot.engine.control_state import BY_JOURNAL, Standing
from bot.runtime.notices import notices as module
from bot.runtime.notices import sender as sender_module
from bot.runtime.notices.notices import BUSY_MAX_S, FAILS_MAX, Notices
from bot.runtime.supervisor import FaultGuard
from tests.engine.stage import ACCOUNT, DAY, RULEBOOK, Stage
from tests.notice_server import NoticeServer, notice_server
from tests.story import write_project

pytest.importorskip("apprise")
pytestmark = pytest.mark.wire
NINE = datetime(2026, 11, 19, 2, tzinfo=UTC)
LOOKS_MAX = 1_000


class Told:
    """A consumer with one channel, whose market time the test moves."""

    def __init__(self, folder: Path, service: NoticeServer) -> None:
        config = write_project(
            folder, scenario="quiet", strategies=[], notify={"urls": [service.url]}
        )
        loaded = load_settings(config, environment={"HOME": str(folder)})
        self.at = NINE
        self.posted: list[Event] = []
        self.guard = FaultGuard(folder).guard
        self.troubles: list[str] = []
        self.waits: tuple[Standing, ...] = ()
        self.notices = Notices(loaded, lambda _, text, *__: text, self.troubles.append)

    async def begin(self, stack: AsyncExitStack) -> Notices:
        told = self.guard, lambda: self.at, self.posted.append, lambda: self.waits
        await self.notices.begin(stack, *told)
        return self.notices

    def kinds(self) -> list[str]:
        entries = [each.entry for each in self.posted if isinstance(each, Noted)]
        return [entry.kind for entry in entries if isinstance(entry, Note)]


def rejected(number: int, at: datetime) -> IntentMoved:
    moves = SendState.SENDING, SendState.REFUSED
    return IntentMoved(at, f"L-{number:04}", *moves, "-400116 not enough buying power")


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(LOOKS_MAX):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come")


async def test_fifty_rejections_in_a_minute_arrive_as_one_and_a_summary(tmp_path: Path) -> None:
    with notice_server() as service:
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            for number in range(50):
                told.at = NINE + timedelta(seconds=number)
                notices.see(rejected(number, told.at))
            await until(lambda: len(service.messages) == 1)
            told.at = NINE + timedelta(seconds=61)
            await until(lambda: len(service.messages) == 2)

        first, summary = (each["message"] for each in service.messages)
    assert "L-0000 refused: -400116" in first
    assert "49 more since" in summary
    assert "and 44 more" in summary


async def test_a_service_that_hangs_holds_up_no_entry_and_no_end(tmp_path: Path) -> None:
    with notice_server() as service:
        service.released.clear()
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            notices.see(rejected(0, NINE))
            await until(lambda: len(service.messages) == 1)
            began = perf_counter()
            for number in range(10_000):
                notices.see(rejected(number, NINE))
            each_s = (perf_counter() - began) / 10_000
            began = perf_counter()
        end_s = perf_counter() - began

    assert each_s < 0.001
    assert end_s < 4
    text = "the run ends before all notices were taken. Not told, by channel: url1 2."
    assert told.troubles == [f"{text} What happened: bot events"]


async def test_a_service_that_fails_is_an_alert_once_and_stands_until_it_takes_again(
    tmp_path: Path,
) -> None:
    with notice_server() as service:
        service.status = 500
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            sender = notices._senders["url1"]
            sender._is_failing = True  # one try a message, as after a first failure
            for number in range(FAILS_MAX + 2):
                told.at = NINE + timedelta(hours=number)
                notices.see(rejected(number, told.at))
            await until(lambda: told.kinds().count("NOTICE") == FAILS_MAX + 2)
            standing = [each.code for each in notices.standing()]
            service.status = 200
            told.at += timedelta(hours=2)
            notices.see(rejected(99, told.at))
            await until(lambda: "RESUME" in told.kinds())

    assert standing == ["NOTICE_FAILS"]
    assert told.kinds().count("ALERT") == 1
    assert notices.standing() == ()


async def test_a_critical_message_that_is_lost_is_an_alert_at_once(tmp_path: Path) -> None:
    with notice_server() as service:
        service.status = 400
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            notices._senders["url1"]._is_failing = True  # one try a message
            notices.see(rejected(0, NINE))
            await until(lambda: told.kinds() == ["NOTICE"])
            lesser = notices.standing()
            notices.see(StateChanged(NINE, RunState.RUNNING, RunState.HALTED, "by hand", "me"))
            await until(lambda: "ALERT" in told.kinds())

    [alert] = notices.standing()
    assert lesser == ()
    assert alert.code == "NOTICE_FAILS"
    assert "has not taken the last 2 notices (it answered HTTP 400)" in alert.text


async def test_a_critical_message_that_is_still_untold_keeps_the_alert_whatever_else_is_taken(
    tmp_path: Path,
) -> None:
    with notice_server() as service:
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            sender = notices._senders["url1"]
            sender._is_failing = True  # one try a message
            service.statuses = [400, 200, 400]
            notices.see(StateChanged(NINE, RunState.RUNNING, RunState.HALTED, "by hand", "me"))
            await until(lambda: "ALERT" in told.kinds())
            notices.see(rejected(0, NINE))
            await until(lambda: len(service.messages) == 3)
            await until(lambda: [each.code for each in notices.standing()] == ["NOTICE_REFUSED"])
            [standing] = notices.standing()
            resumed = "RESUME" in told.kinds()
            told.at += timedelta(hours=1)
            notices.see(rejected(1, told.at))
            await until(lambda: "RESUME" in told.kinds())

    assert standing.text.startswith("channel url1 has not taken a critical notice, SANDBOX ")
    assert "HALTED (it answered HTTP 400): it is tried again. Others arrive over" in standing.text
    assert not resumed
    assert len(service.messages) == 5
    assert notices.standing() == ()


async def test_a_channel_that_takes_nothing_more_is_not_said_to_take_others(
    tmp_path: Path,
) -> None:
    with notice_server() as service:
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            notices._senders["url1"]._is_failing = True  # one try a message
            service.status, service.statuses = 400, [400, 200]
            notices.see(StateChanged(NINE, RunState.RUNNING, RunState.HALTED, "by hand", "me"))
            await until(lambda: "ALERT" in told.kinds())
            notices.see(rejected(0, NINE))
            await until(lambda: [each.code for each in notices.standing()] == ["NOTICE_REFUSED"])
            notices._senders["url1"]._is_failing = True
            for number in range(1, FAILS_MAX + 1):
                told.at = NINE + timedelta(hours=number)
                notices.see(rejected(number, told.at))
            await until(lambda: told.kinds().count("ALERT") == 2)

    [alert] = notices.standing()
    assert alert.code == "NOTICE_FAILS"
    assert f"has not taken the last {FAILS_MAX} notices" in alert.text


async def test_a_service_that_does_not_answer_is_an_alert_before_any_message_has_failed(
    tmp_path: Path,
) -> None:
    with notice_server() as service:
        service.released.clear()
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            notices.see(rejected(0, NINE))
            await until(lambda: len(service.messages) == 1)
            notices._senders["url1"]._busy_since = monotonic_s() - BUSY_MAX_S - 1
            await until(lambda: bool(notices.standing()))
            [alert] = notices.standing()
            service.released.set()
            await until(lambda: "RESUME" in told.kinds())

    assert alert.code == "NOTICE_FAILS"
    assert "has not taken the last notice (no answer for 30 s)" in alert.text
    assert told.kinds().count("ALERT") == 1
    assert notices.standing() == ()


async def test_a_start_that_waits_for_long_is_told_once_and_so_is_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITS_S", 0.6)
    with notice_server() as service:
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            await told.begin(stack)
            told.waits = (Standing("START_WAITS", "the broker does not answer", {"why": "x"}),)
            await until(lambda: len(service.messages) == 1)
            await asyncio.sleep(module.TICK_S * 3)
            told.waits = ()
            await until(lambda: len(service.messages) == 2)

    first, last = (each["message"] for each in service.messages)
    assert "the broker does not answer" in first
    assert "the start no longer waits for it" in last


async def test_a_halt_that_waits_for_the_journal_is_told_once_and_before_that(
    tmp_path: Path,
) -> None:
    halt = StateChanged(NINE, RunState.DEGRADED, RunState.HALTED, "by hand", "operator")
    alert = Note(NINE, "ALERT", "its answer is lost", {"alert": "UNKNOWN_OPEN"})
    with notice_server() as service:
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            for entry in (halt, alert, rejected(0, NINE)):
                notices.ahead(entry)
            await until(lambda: len(service.messages) == 2)
            before = [each["message"] for each in service.messages]
            for entry in (halt, alert, rejected(0, NINE)):
                notices.see(entry)
            await until(lambda: len(service.messages) == 3)

    assert "HALTED: by hand" in before[0]
    assert "its answer is lost" in before[1]
    [_, _, refused] = service.messages
    assert "L-0000 refused" in refused["message"]


@dataclass
class Journal:
    """What is looked at of a journal."""

    is_cut: bool = False
    cut_s: float = 0.0
    why: str = "the journal has not answered for 5 s"
    unkept: str = ""
    doubt: str | None = None

    def objection(self) -> str | None:
        return self.doubt


@pytest.mark.parametrize(
    ("language", "why", "wanted"),
    [
        ("en", None, "08:45 Alive and RUNNING"),
        ("en", "API changed?", "08:45 Alive and RUNNING; no order is sent: API changed?"),
        ("vi", "engine fault", "08:45 Alive and RUNNING; không gửi lệnh nào: lỗi của bot"),
    ],
)
async def test_a_bot_that_is_alive_says_also_that_no_order_leaves_it(
    tmp_path: Path, language: str, why: str | None, wanted: str
) -> None:
    scopes = {} if why is None else {f"{ACCOUNT_SCOPE}{ACCOUNT}": why}
    stage = Stage(recovery=Recovery(DAY, halted_scopes=scopes))
    with notice_server() as service:
        told = Told(tmp_path, service)
        told.at = NINE - timedelta(hours=1)
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            notices._told = lambda _, *what: in_language(language, *what)
            notices._parts = SimpleNamespace(  # type: ignore[assignment]
                engine=stage.engine, rulebook=RULEBOOK, commits=Journal()
            )
            told.at = NINE - timedelta(minutes=15)
            notices._look()
            await until(lambda: len(service.messages) == 1)

    assert service.messages[0]["message"] == wanted


async def test_a_journal_that_is_away_for_long_is_told_once_and_so_is_its_end(
    tmp_path: Path,
) -> None:
    gone = StateChanged(NINE, RunState.RUNNING, RunState.DEGRADED, Journal.why, BY_JOURNAL)
    with notice_server() as service:
        told, journal = Told(tmp_path, service), Journal()
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            notices._parts = SimpleNamespace(commits=journal)  # type: ignore[assignment]
            told.at = NINE.replace(hour=3)  # no trading day is asked for
            journal.is_cut, journal.cut_s = True, module.WAITS_S - 1
            notices.ahead(gone)
            notices._look()
            assert notices._journal_told == set()
            journal.cut_s = module.WAITS_S
            notices._look()
            notices._look()
            await until(lambda: len(service.messages) == 1)
            journal.unkept, journal.doubt = "the emergency journal hangs", "a standby waits"
            notices._look()
            await until(lambda: len(service.messages) == 3)
            journal.is_cut = False
            notices._look()
            notices.see(gone)
            await until(lambda: len(service.messages) == 4)

    assert [each.partition(": ")[2] for each in service.titles] == [
        "no order leaves",
        "neither orders nor cancels leave",
        "neither orders nor cancels leave",
        "the journal answers again",
    ]
    assert Journal.why in service.messages[0]["message"]
    assert (
        "the emergency journal hangs. Neither orders nor cancels" in service.messages[1]["message"]
    )


async def test_a_start_that_waits_for_a_moment_is_not_told(tmp_path: Path) -> None:
    with notice_server() as service:
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            await told.begin(stack)
            told.waits = (Standing("START_WAITS", "the broker does not answer", {"why": "x"}),)
            await asyncio.sleep(module.TICK_S * 2)
            told.waits = ()
            await asyncio.sleep(module.TICK_S * 2)

    assert service.messages == []


async def test_a_message_that_is_refused_while_a_run_ends_is_told_on_the_screen(
    tmp_path: Path,
) -> None:
    with notice_server() as service:
        service.status = 500
        told = Told(tmp_path, service)
        async with AsyncExitStack() as stack:
            notices = await told.begin(stack)
            notices.see(StateChanged(NINE, RunState.RUNNING, RunState.HALTED, "by hand", "me"))

    assert len(service.messages) == 1
    text = "the run ends before all notices were taken. Not told, by channel: url1 1."
    assert told.troubles == [f"{text} What happened: bot events"]


def test_why_a_service_does_not_run_is_tried_again_if_it_is_not_taken_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "PAUSES_S", (0.01, 0.01))
    with notice_server() as service:
        service.statuses = [503]
        notify = {"urls": [service.url]}
        config = write_project(tmp_path, scenario="quiet", strategies=[], notify=notify)
        loaded = load_settings(config, environment={"HOME": str(tmp_path)})
        module.tell_end(loaded, OperatorMistake.of("E-DB-001", "can't reach postgres"))

    assert len(service.messages) == 2
    assert "can't reach postgres" in service.messages[1]["message"]
