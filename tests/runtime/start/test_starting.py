"""When a start waits for a broker that is away."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bot.broker.errors import BrokerError, Malformed, RateLimited, Refused, Timeout, Unreachable
from bot.cli.telling.languages import catalogue
from bot.clock import SimulatedClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.message import Event
from bot.domain.operations import Action, OperatorActed
from bot.domain.order import OrderState, SendState
from bot.domain.recovery import Recovery, StoredIntent
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.writing.lease import acquire
from bot.runtime.activity import RightOfWay
from bot.runtime.brake import Brake, raise_flag
from bot.runtime.commits import Commits
from bot.runtime.control.server import EarlyHalt
from bot.runtime.journal_file import begin_journal, prepare_journal
from bot.runtime.read_health import Health
from bot.runtime.reads import DayBookReader, Reads
from bot.runtime.start.broker import choose_account, unreachable
from bot.runtime.start.clocks import wait_for_clock
from bot.runtime.start.opening import has_open_work
from bot.runtime.start.retry import BrokerRetry
from tests.broker.loopback import JumpingWaiter
from tests.broker.played_broker import ACCOUNT, Reply, desk
from tests.engine.stage import DAY, START, Stage
from tests.rows import every_row
from tests.staging import commits_of


def refusal(status: int, code: str) -> Reply:
    return Reply({"error_code": code, "message": "no"}, status)


STAGE = Stage()
INTENT = STAGE.working()
ROW = STAGE.entries_of_order()


@pytest.mark.parametrize(
    ("state", "is_work"),
    [
        (SendState.SENDING, True),
        (SendState.UNKNOWN, True),
        (SendState.REACHED, True),
        (SendState.READY, False),
        (SendState.ACKED, False),
        (SendState.NOT_PLACED, False),
    ],
)
def test_a_place_whose_outcome_is_not_known_is_open_work(state: SendState, is_work: bool) -> None:
    stored = StoredIntent(INTENT, state, None, None)

    assert has_open_work(Recovery(DAY, intents=(stored,))) is is_work


def test_an_own_order_that_has_not_ended_is_open_work() -> None:
    ended = replace(ROW, state=OrderState.CANCELLED)
    nobodys = replace(ROW, intent_id=None)

    assert has_open_work(Recovery(DAY, orders=(ROW,)))
    assert not has_open_work(Recovery(DAY, orders=(ended, nobodys)))
    assert not has_open_work(Recovery(DAY))


class NoWait:
    """A clock on which every instant has already come."""

    def now(self) -> datetime:
        return START

    async def sleep_until(self, instant: datetime) -> None:
        """Return at once."""


@pytest.mark.parametrize("what", ["orders", "traded_elsewhere", "recent_fills", "bases"])
@pytest.mark.parametrize(("back_s", "waits"), [(-1, False), (0, False), (14, True), (60, True)])
async def test_a_start_waits_for_the_newest_entry_of_the_journal(
    what: str, back_s: float, *, waits: bool
) -> None:
    newest = START + timedelta(seconds=back_s)
    figures: dict[str, Any] = {
        "orders": replace(ROW, at=newest),
        "traded_elsewhere": replace(ROW, at=newest),
        "recent_fills": (DAY, SimpleNamespace(at=newest)),
        "bases": SimpleNamespace(at=newest),
    }
    older = replace(ROW, at=START - timedelta(seconds=30))
    changes: dict[str, Any] = {what: (figures[what],)}
    left = replace(Recovery(DAY, orders=(older,)), **changes)
    told: list[str] = []
    waiter = JumpingWaiter(SimulatedClock(START))

    await wait_for_clock(left, waiter.clock, _pause(waiter), _retry(waiter, told), is_wall=True)

    assert waiter.waits == ([newest] if waits else [])
    assert [text.split(".")[0] for text in told] == (
        [f"the newest entry of the journal is {back_s}"] if waits else []
    )


@every_row("is_wall", [True, False])
async def test_a_start_waits_for_no_clock_that_is_off_by_more_than_a_minute(
    *, is_wall: bool
) -> None:
    left = Recovery(DAY, orders=(replace(ROW, at=START + timedelta(hours=1)),))
    told: list[str] = []
    waiter = JumpingWaiter(SimulatedClock(START))

    await wait_for_clock(left, waiter.clock, _pause(waiter), _retry(waiter, told), is_wall=is_wall)

    assert waiter.waits == []
    assert [text.endswith("Set the clock, then restart the bot") for text in told] == (
        [True] if is_wall else []
    )


def _pause(waiter: JumpingWaiter) -> Callable[[timedelta], Awaitable[None]]:
    return lambda span: waiter.sleep_until(waiter.now() + span)


def _retry(waiter: JumpingWaiter, told: list[str]) -> BrokerRetry:
    return BrokerRetry(waiter, told.append, is_needed=True)


async def _asked(error: BrokerError, *, is_needed: bool) -> tuple[str, list[str]]:
    """Ask a broker that fails once and then answers: return the trouble in between, and the told.

    Raises the error when it is not asked again.
    """
    told: list[str] = []
    troubles: list[str] = []
    retry = BrokerRetry(NoWait(), told.append, is_needed)
    errors = [error]

    async def answer() -> None:
        troubles.append(retry.trouble)
        if errors:
            raise errors.pop()

    await retry.ask(answer)
    assert retry.trouble == ""
    return troubles[-1], told


async def test_with_open_work_the_broker_is_asked_again_and_its_trouble_is_known_meanwhile() -> (
    None
):
    trouble, told = await _asked(Unreachable("users", "no route"), is_needed=True)

    assert trouble == "the broker does not answer (users: no route)"
    assert [text.startswith(trouble) for text in told] == [True]
    assert "asks again in 1 s" in told[0]


async def test_a_route_that_is_not_found_is_asked_again() -> None:
    lost = Refused("users", "no", http_status=404, error_code="NOT_FOUND")

    trouble, told = await _asked(lost, is_needed=True)

    assert trouble == "the broker answers with an error (users: no)"
    assert "The bot stays and asks again in 1 s" in told[0]


@pytest.mark.parametrize(
    ("error", "is_needed"),
    [
        (Unreachable("users", "no route"), False),
        (Refused("users", "no", http_status=401, error_code="AUTH_INVALID_KEY"), True),
    ],
)
async def test_what_waiting_does_not_mend_ends_a_start_at_once(
    error: BrokerError, is_needed: bool
) -> None:
    with pytest.raises(type(error)):
        await _asked(error, is_needed=is_needed)


USER = Reply({"error_code": "0", "data": {"user_id": 42}})
LISTED = {"id": "0001234567", "sub_account_ext": "120C000008.1", "type": "Normal"}


def listing(*accounts: dict[str, str]) -> Reply:
    return Reply({"error_code": "0", "message": "success", "result": [*accounts]})


async def test_a_broker_that_lists_no_sub_account_is_asked_again_while_orders_are_open() -> None:
    bench, told = desk(USER, listing(), USER, listing(), USER, listing(LISTED)), list[str]()
    retry = _retry(bench.waiter, told)

    account = await retry.ask(partial(choose_account, bench.broker.client, "normal"))

    assert account.extended_id == "120C000008.1"
    said = "the broker's answer can't be used (sub accounts: the broker lists no sub-account). "
    assert [text.startswith(said) for text in told] == [True, True]


async def test_a_broker_that_lists_no_sub_account_ends_other_starts_as_one_that_is_away() -> None:
    bench = desk(USER, listing())
    retry = BrokerRetry(bench.waiter, lambda _: None, is_needed=False)

    with pytest.raises(Malformed) as failed:
        await retry.ask(partial(choose_account, bench.broker.client, "normal"))

    ended = unreachable(failed.value)
    assert (ended.problems[0].code, ended.exit_code) == ("E-NET-001", ExitCode.UNREACHABLE)


@pytest.mark.parametrize("wanted", ["normal", ".1", "120C000008.1", "0001234567"])
async def test_an_account_that_the_broker_lists_twice_is_one(wanted: str) -> None:
    bench = desk(USER, listing(LISTED, LISTED | {"name": "again"}))

    assert (await choose_account(bench.broker.client, wanted)).extended_id == "120C000008.1"


@pytest.mark.parametrize("other", [{"id": "0007654321"}, {"sub_account_ext": "120C000009.1"}])
async def test_two_accounts_that_one_setting_names_end_a_start(other: dict[str, str]) -> None:
    bench = desk(USER, listing(LISTED, LISTED | other))

    with pytest.raises(OperatorMistake, match="more than one sub-account matches 'normal'"):
        await choose_account(bench.broker.client, "normal")


async def test_an_account_that_the_broker_does_not_list_ends_a_start_whatever_is_open() -> None:
    bench = desk(USER, listing(LISTED))

    with pytest.raises(OperatorMistake, match="no sub-account matches 'margin'") as ended:
        await _retry(bench.waiter, []).ask(partial(choose_account, bench.broker.client, "margin"))

    assert (ended.value.problems[0].code, ended.value.exit_code) == ("E-ACC-001", ExitCode.CONFIG)


@pytest.mark.parametrize(
    ("answer", "said", "code"),
    [
        (refusal(403, "FORBIDDEN"), "the broker answered, and refuses to let this key", 4),
        (refusal(403, "OTP_SESSION_REQUIRED"), "the broker answered, and wants a 2FA token", 5),
        (refusal(400, "INVALID"), "the broker refused", 6),
        (refusal(502, "BAD_GATEWAY"), "the broker refused", 6),
    ],
)
async def test_a_start_says_of_a_read_that_is_refused_that_the_broker_has_answered(
    answer: Reply, said: str, code: int
) -> None:
    bench, told = desk(answer), list[str]()
    clock, post = bench.clock, list[Event]().append
    health, way = Health(clock, post), RightOfWay(hold_s=0)
    book = DayBookReader(bench.broker.client, ACCOUNT, clock, timedelta, health, post, lambda: 0.0)
    reads = Reads(bench.broker.client, ACCOUNT, clock, health, post, way)
    retry = BrokerRetry(NoWait(), told.append, is_needed=True)

    for step in (book.read_first, reads.account_first):
        with pytest.raises(BrokerError) as failed:
            await retry.ask(step, tries_max=2)
        ended = unreachable(failed.value)
        assert said in str(ended)
        assert ended.exit_code == code
        assert told.pop().startswith("the broker answers with an error (")


@pytest.mark.parametrize(
    ("error", "waiting", "ended"),
    [
        (
            Malformed("users", "no JSON"),
            "the broker's answer can't be used (users: no JSON)",
            "the broker's answer can't be used: users: no JSON. Nothing was sent.",
        ),
        (
            RateLimited("users", "HTTP 429 at three tries", START),
            "the broker takes no request yet (users: HTTP 429 at three tries)",
            "the broker takes no request yet: users: HTTP 429 at three tries. Nothing was sent.",
        ),
        (
            Timeout("users", "no answer within 5 s"),
            "the broker does not answer (users: no answer within 5 s)",
            "the broker did not answer: users: no answer within 5 s. Nothing was sent.",
        ),
    ],
)
async def test_a_broker_is_said_not_to_answer_only_if_it_does_not(
    error: BrokerError, waiting: str, ended: str
) -> None:
    trouble, _ = await _asked(error, is_needed=True)

    assert trouble == waiting
    assert catalogue("vi").sentence(trouble) != trouble
    assert unreachable(error).problems[0].message == ended
    assert unreachable(error).exit_code == ExitCode.UNREACHABLE


def test_an_empty_file_becomes_a_new_journal(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()
    url = f"sqlite:///{tmp_path / 'journal.db'}"

    assert [prepare_journal(url, begin_journal(url)), prepare_journal(url)] == ["new", "kept"]


async def test_a_halt_of_a_start_stands_where_the_journal_takes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    prepare_journal(url)
    ours = acquire(url, Holder(1, "here", START))
    ours.release()
    acquire(url, Holder(2, "elsewhere", START)).release()
    journal = Journal.open(url, epoch=ours.epoch)
    clock = SimulatedClock(START)
    commits = commits_of(journal, tmp_path, list[Event]().append, clock)
    halt = EarlyHalt(commits, clock.now, Brake(tmp_path))

    reply = await halt.take({"do": "halt", "reason": "wrong prices", "by": "me"})
    await journal.close()

    assert reply == {"ok": True}
    assert halt.asked is not None
    assert (halt.asked.reason, halt.asked.by) == ("wrong prices", "me")


def test_a_halt_of_a_start_is_told_by_the_clock_that_was_found_since(tmp_path: Path) -> None:
    """Otherwise the engine would be at the machine's time, ahead of the simulated market's."""
    raise_flag(tmp_path, "enough")
    clocks, told = [START + timedelta(days=4)], list[OperatorActed]()
    halt = EarlyHalt(cast(Commits, None), lambda: clocks[-1], Brake(tmp_path))

    clocks.append(START)
    halt.hand_over(told.append)

    assert told == [OperatorActed(START, Action.HALT, "enough", "operator")]
