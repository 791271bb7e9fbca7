"""Where codes come in: wrong ones, old ones, and what the operator is told."""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random

import jwt
import pytest

from bot.broker.broker import Broker, open_broker
from bot.broker.budget import RequestBudget, SystemWaiter
from bot.broker.signer import Credentials
from bot.clock import SimulatedClock
from bot.config.rulebook import load_rulebook
from bot.domain.entry import AuthEvent, Note
from bot.domain.message import Event, Noted, TwoFactorMissing, TwoFactorReady
from bot.domain.operations import CodesCounted
from bot.protocol.secret import Secret
from bot.runtime.control.socket import Reply
from bot.runtime.otp_ticket import TICKET_LIFE, TRIES_PER_TICKET
from bot.runtime.second_factor import CODES_PER_DAY, SecondFactor
from bot.runtime.state_dir import DISK_S, SECOND_FACTOR
from bot.runtime.token_file import Found, TokenFile
from bot.sandbox.sandbox import Sandbox
from tests.broker.played_broker import Reply as Answered
from tests.broker.played_broker import desk
from tests.ports import free_port
from tests.staging import START, scenario

WRONG = Secret("000001")
SENT_TO = "d***@example.com"


@dataclass
class Office:
    """A second factor before the sandbox, on one simulated clock."""

    second_factor: SecondFactor
    broker: Broker
    state_dir: Path
    clock: SimulatedClock
    right: Secret
    events: list[Event] = field(default_factory=list)

    def wait(self, span: timedelta) -> None:
        self.clock.advance_to(self.clock.now() + span)

    @property
    def notes(self) -> list[AuthEvent]:
        entries = [event.entry for event in self.events if isinstance(event, Noted)]
        return [entry for entry in entries if isinstance(entry, AuthEvent)]

    @property
    def has_token(self) -> bool:
        return any(isinstance(event, TwoFactorReady) for event in self.events)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    clock = SimulatedClock(START)
    sandbox = Sandbox(scenario(), load_rulebook(), clock=clock, wire=clock)
    broker = _broker(sandbox, clock)
    events: list[Event] = []
    second_factor = SecondFactor(broker, (clock, clock), events.append, tmp_path)
    yield Office(
        second_factor, broker, tmp_path, clock, Secret(sandbox.credentials.otp_code), events
    )
    await broker.close()


def _broker(sandbox: Sandbox, clock: SimulatedClock) -> Broker:
    given, waiter = sandbox.credentials, SystemWaiter(clock)
    return open_broker(
        "http://127.0.0.1:1",
        Credentials(Secret(given.api_key), Secret(given.api_secret), "desk"),
        wire=clock,
        waiter=waiter,
        budget=RequestBudget(per_minute=3_000, waiter=waiter, jitter=Random(1)),
        app=sandbox.app,
    )


def code_of(reply: Reply) -> object:
    return None if reply["ok"] else reply["code"]


NOTHING = Secret("")


async def test_a_code_that_was_not_mailed_is_not_tried_and_mails_none(office: Office) -> None:
    for reply in (
        await office.second_factor.take(office.right),
        await office.second_factor.submit(office.right),
    ):
        assert code_of(reply) == "E-2FA-001"

    assert office.events == []
    assert office.second_factor.state()["codes_used"] == 0


@pytest.mark.parametrize("typed", ["", "send", "SEND"])
async def test_enter_or_send_has_a_code_mailed_and_says_where_and_how_many_are_used(
    office: Office, typed: str
) -> None:
    mailed = await office.second_factor.take(Secret(typed))

    assert mailed["message"] == f"a code was mailed to {SENT_TO} (4 of the day's 5 left)"
    assert (await office.second_factor.take(office.right))["is_ready"] is True
    assert office.has_token


async def test_a_sandbox_tells_its_code_to_whoever_asked_for_it(tmp_path: Path) -> None:
    clock = SimulatedClock(START)
    sandbox = Sandbox(scenario(), load_rulebook(), clock=clock, wire=clock)
    code = sandbox.credentials.otp_code
    broker = _broker(sandbox, clock)
    events: list[Event] = []
    second_factor = SecondFactor(
        broker, (clock, clock), events.append, tmp_path, played_code=Secret(code)
    )

    mailed, again = await second_factor.request(), await second_factor.take(NOTHING)
    await broker.close()

    told = f"The sandbox mails nothing, its code is {code}"
    assert mailed["message"] == f"a code was mailed to {SENT_TO} (4 of the day's 5 left). {told}"
    assert again["message"] == f"a code is out, mailed to {SENT_TO}. {told}. For another: send"
    assert code not in str(events)


async def test_a_wrong_code_is_told_on_the_screen_in_words(office: Office) -> None:
    await office.second_factor.request()
    await office.second_factor.submit(WRONG)

    assert office.notes[-1].detail == "wrong code (2 tries left)"


async def test_enter_while_a_code_is_out_mails_no_second_one(office: Office) -> None:
    await office.second_factor.take(NOTHING)
    reply = await office.second_factor.take(NOTHING)

    assert reply["message"] == f"a code is out, mailed to {SENT_TO}. For another: send"
    assert office.second_factor.state()["codes_used"] == 1


async def test_a_wrong_code_says_how_many_tries_are_left_and_advises_no_other(
    office: Office,
) -> None:
    await office.second_factor.take(NOTHING)
    said = [(await office.second_factor.take(WRONG))["message"] for _ in range(TRIES_PER_TICKET)]

    assert said == [
        "wrong code; type the code just mailed (2 tries left)",
        "wrong code; type the code just mailed (1 try left)",
        "wrong code; no try is left for the code that was mailed (4 of the day's 5 codes left)",
    ]
    assert code_of(await office.second_factor.take(office.right)) == "E-2FA-005"


async def test_a_wrong_code_leaves_the_ticket_for_the_right_one(office: Office) -> None:
    await office.second_factor.take(NOTHING)
    assert code_of(await office.second_factor.take(WRONG)) == "E-2FA-003"

    assert code_of(await office.second_factor.take(office.right)) is None


async def test_a_code_that_was_mailed_before_a_restart_is_not_tried_and_it_is_said(
    office: Office,
) -> None:
    """Its ticket is in memory alone; that it was mailed is in the journal."""
    await office.second_factor.request()
    clocks, asked = (office.clock, office.clock), [office.clock.now()]
    again = SecondFactor(
        office.broker, clocks, office.events.append, office.state_dir, codes_asked=asked
    )

    reply = await again.submit(office.right)

    assert code_of(reply) == "E-2FA-001"
    assert reply["message"] == (
        "a code of before the start, or one not confirmed, can't be used any more, "
        "so this was not tried"
    )
    office.wait(timedelta(days=1))
    later = await again.submit(office.right)
    assert later["message"] == "no code was mailed yet, so this was not tried"


@pytest.mark.parametrize("status", [400, 401, 403, 429])
async def test_the_third_code_is_sent_whatever_status_the_wrong_ones_were_refused_with(
    tmp_path: Path, status: int
) -> None:
    ticket = Answered({"ticket_id": "T-1", "masked_destination": SENT_TO})
    wrong = Answered({"error_code": "OTP_INVALID", "message": "wrong code"}, status)
    right = Answered(
        {"session_token": "canary-token-of-the-third", "expires_at_epoch": 4_000_000_000}
    )
    bench = desk(ticket, wrong, wrong, right)
    events: list[Event] = []
    second_factor = SecondFactor(bench.broker, (bench.clock, bench.clock), events.append, tmp_path)

    await second_factor.request()
    replies = [await second_factor.submit(Secret(code)) for code in ("111111", "222222", "333333")]

    assert [code_of(reply) for reply in replies] == ["E-2FA-003", "E-2FA-003", None]
    assert replies[1]["message"] == "wrong code; type the code just mailed (1 try left)"
    assert bench.waiter.waits == []


@pytest.mark.parametrize("slip", ["12345", "1234567", "42 42 42", "4242a2"])
async def test_a_slip_costs_no_try(office: Office, slip: str) -> None:
    await office.second_factor.request()

    assert code_of(await office.second_factor.submit(Secret(slip))) == "E-2FA-006"
    assert office.second_factor.state()["tries_left"] == TRIES_PER_TICKET


async def test_a_code_whose_ticket_is_too_old_is_not_tried(office: Office) -> None:
    await office.second_factor.take(NOTHING)
    office.wait(TICKET_LIFE + timedelta(seconds=1))

    old = await office.second_factor.take(office.right)

    assert code_of(old) == "E-2FA-005"
    assert old["message"] == "the previous code has expired or was already used"
    assert office.second_factor.state()["has_ticket"] is False
    assert office.second_factor.state()["codes_used"] == 1


async def test_after_all_codes_of_the_day_only_a_token_helps(office: Office) -> None:
    for _ in range(CODES_PER_DAY):
        assert code_of(await office.second_factor.request()) is None
    refused = await office.second_factor.request()

    assert refused["message"] == (
        "no code was mailed: all 5 codes of today are used. A token works too: bot otp token"
    )
    assert office.second_factor.state()["codes_used"] == CODES_PER_DAY


async def test_codes_of_yesterday_are_not_counted_today(office: Office) -> None:
    await office.second_factor.request()
    office.wait(timedelta(days=1))

    assert office.second_factor.state()["codes_used"] == 0


async def test_a_token_that_was_forgotten_needs_a_code_that_is_mailed_after_it(
    office: Office,
) -> None:
    await office.second_factor.request()
    await office.second_factor.submit(office.right)
    office.second_factor.lose()

    used = await office.second_factor.take(office.right)
    assert used["message"] == "the previous code has expired or was already used"
    assert office.second_factor.state()["codes_used"] == 1


@pytest.mark.parametrize(
    "typed",
    ["42424O", "sned", "tök-from-elsewhere", "a token of\x1bwords", "\udcff" * 16, "x" * 4_097],
)
async def test_what_no_header_can_carry_or_a_slip_at_the_prompt_is_not_taken_for_a_token(
    office: Office, typed: str
) -> None:
    reply = await office.second_factor.take(Secret(typed))

    assert code_of(reply) == "E-2FA-007"
    assert (office.has_token, office.second_factor.is_ready) == (False, False)
    assert list(office.state_dir.iterdir()) == []


async def test_yesterdays_token_pasted_beside_a_good_one_does_not_take_its_place(
    office: Office,
) -> None:
    await office.second_factor.request()
    await office.second_factor.submit(office.right)
    good = dict(office.second_factor.state())
    yesterday = {"exp": int((office.clock.now() - timedelta(days=1)).timestamp())}

    reply = office.second_factor.submit_token(Secret(jwt.encode(yesterday, "k" * 32)))

    assert code_of(reply) == "E-2FA-002"
    assert office.second_factor.state() == good
    assert good["is_ready"] is True


# -------------------------------------------------------------------------- keeping the token


async def test_a_token_that_cannot_be_kept_is_good_all_the_same_and_it_is_said(
    office: Office,
) -> None:
    (office.state_dir / "two-factor.json").mkdir()

    await office.second_factor.request()
    reply = await office.second_factor.submit(office.right)

    assert (reply["is_ready"], office.has_token) == (True, True)
    warning = (
        f"the token is good, but cannot be kept in {office.state_dir} (is a directory): "
        "after a restart the bot asks for another"
    )
    assert reply["warning"] == warning
    assert [each.detail for each in office.notes if each.kind == "TOKEN_NOT_KEPT"] == [warning]
    assert [path.name for path in office.state_dir.iterdir()] == ["two-factor.json"]


async def test_a_disk_that_hangs_holds_nobody_up_and_has_the_last_word_when_it_answers(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    thawed, real = threading.Event(), os.open

    def hang(path: Path, flags: int, mode: int = 0o777) -> int:
        thawed.wait()
        return real(path, flags, mode)

    await office.second_factor.request()
    monkeypatch.setattr(os, "open", hang)
    four_waits = threading.Thread(target=lambda: deque(map(time.sleep, [DISK_S] * 4)))
    four_waits.start()
    reply = await office.second_factor.submit(office.right)
    dropped = office.second_factor.lose()
    is_in_time = four_waits.is_alive()
    thawed.set()
    office.second_factor._disk.done.wait(5)

    assert is_in_time
    assert "(its disk does not answer): after a restart the bot asks" in str(reply["warning"])
    assert "(its disk does not answer): a restart would take it" in str(dropped["warning"])
    assert list(office.state_dir.iterdir()) == []


async def test_a_kept_token_that_cannot_be_removed_is_dropped_all_the_same(office: Office) -> None:
    (office.state_dir / "two-factor.json").mkdir()

    reply = office.second_factor.lose()

    assert reply["is_ready"] is False
    assert "a restart would take it again" in str(reply["warning"])


async def test_a_request_whose_answer_is_lost_counts_as_a_code_and_a_token_still_does(
    tmp_path: Path,
) -> None:
    clock = SimulatedClock(START)
    dead = {
        "match": {"verb": "POST", "path": "*/request"},
        "action": {"do": "truncate", "length": 9},
    }
    sandbox = Sandbox(scenario(faults=[dead]), load_rulebook(), clock=clock, wire=clock)
    broker = _broker(sandbox, clock)
    events: list[Event] = []
    second_factor = SecondFactor(broker, (clock, clock), events.append, tmp_path)

    reply = await second_factor.request()
    used = second_factor.state()["codes_used"]
    given = second_factor.submit_token(Secret("made-elsewhere"))
    await broker.close()

    assert code_of(reply) == "E-2FA-003"
    assert str(reply["message"]).endswith("A token works too: bot otp token")
    assert used == 1, "it may have been mailed"
    assert given["is_ready"] is True


async def test_a_request_that_a_fault_of_the_broker_answers_counts_as_a_code(
    tmp_path: Path,
) -> None:
    clock = SimulatedClock(START)
    failing = {
        "match": {"verb": "POST", "path": "*/request"},
        "action": {"do": "status", "status": 500, "code": "INTERNAL_ERROR"},
    }
    sandbox = Sandbox(scenario(faults=[failing]), load_rulebook(), clock=clock, wire=clock)
    broker = _broker(sandbox, clock)
    second_factor = SecondFactor(broker, (clock, clock), list[Event]().append, tmp_path)

    reply = await second_factor.request()
    await broker.close()

    assert code_of(reply) == "E-2FA-003"
    assert second_factor.state()["codes_used"] == 1, "it may have been mailed before it failed"


def _losing(path: str, nth: int, tmp_path: Path) -> tuple[SecondFactor, Broker, Secret]:
    """A second factor whose nth POST to a path is done, and its answer is lost."""
    clock = SimulatedClock(START)
    lost = {
        "match": {"verb": "POST", "path": path, "nth": nth},
        "action": {"do": "truncate", "length": 9},
    }
    sandbox = Sandbox(scenario(faults=[lost]), load_rulebook(), clock=clock, wire=clock)
    broker = _broker(sandbox, clock)
    second_factor = SecondFactor(broker, (clock, clock), list[Event]().append, tmp_path)
    return second_factor, broker, Secret(sandbox.credentials.otp_code)


async def test_the_right_code_whose_first_answer_was_lost_is_not_called_wrong(
    tmp_path: Path,
) -> None:
    second_factor, broker, right = _losing("*/verify", 1, tmp_path)

    await second_factor.take(NOTHING)
    said = [str((await second_factor.take(right))["message"]) for _ in range(TRIES_PER_TICKET)]
    await second_factor.take(NOTHING)
    reply = await second_factor.take(right)
    await broker.close()

    used_up = "code not taken: the try that had no answer may have used it up"
    assert said[0].endswith("type the code just mailed (2 tries left)")
    assert said[1:] == [
        f"{used_up} (1 try left). For another: bot otp request (where the bot runs: send)",
        f"{used_up}; no try is left for the code that was mailed (4 of the day's 5 codes left)",
    ]
    assert reply["is_ready"] is True


async def test_a_later_code_whose_ticket_was_lost_is_not_called_wrong_and_the_one_before_is_taken(
    tmp_path: Path,
) -> None:
    second_factor, broker, right = _losing("*/request", 2, tmp_path)

    await second_factor.take(NOTHING)
    lost = await second_factor.take(Secret("send"))
    out = await second_factor.take(NOTHING)
    later = await second_factor.take(WRONG)
    before = await second_factor.take(right)
    await broker.close()

    assert str(lost["message"]).startswith("a code may have been mailed, but can't be used: ")
    assert out["message"] == (
        f"the code before the last is out, mailed to {SENT_TO}. For another: send"
    )
    assert later["message"] == (
        "code not taken: one whose request had no answer can't be used (2 tries left). "
        "For another: bot otp request (where the bot runs: send)"
    )
    assert before["is_ready"] is True


@pytest.mark.wire
async def test_a_request_of_which_no_byte_has_left_counts_as_no_code(tmp_path: Path) -> None:
    clock, events = SimulatedClock(START), list[Event]()
    waiter = SystemWaiter(clock)
    broker = open_broker(
        f"http://127.0.0.1:{free_port()}",
        Credentials(Secret("key"), Secret("secret"), "desk"),
        wire=clock,
        waiter=waiter,
        budget=RequestBudget(per_minute=3_000, waiter=waiter, jitter=Random(1)),
    )
    second_factor = SecondFactor(broker, (clock, clock), events.append, tmp_path)

    reply = await second_factor.request()
    await broker.close()

    assert code_of(reply) == "E-2FA-003"
    assert second_factor.state()["codes_used"] == 0
    assert events == [CodesCounted(START, CODES_PER_DAY, CODES_PER_DAY)]


async def test_a_code_that_the_quota_keeps_back_is_no_try_of_it(tmp_path: Path) -> None:
    limited = {
        "match": {"verb": "POST", "path": "*/verify"},
        "action": {"do": "status", "status": 429},
    }
    clock = SimulatedClock(START)
    sandbox = Sandbox(scenario(faults=[limited]), load_rulebook(), clock=clock, wire=clock)
    broker = _broker(sandbox, clock)
    second_factor = SecondFactor(broker, (clock, clock), list[Event]().append, tmp_path)
    await second_factor.request()

    reply = await second_factor.submit(Secret(sandbox.credentials.otp_code))
    state = second_factor.state()
    await broker.close()

    assert str(reply["message"]).endswith("type the code just mailed (3 tries left)")
    assert (state["has_ticket"], state["tries_left"]) == (True, TRIES_PER_TICKET)


# ----------------------------------------------------------------------------- several ways at once


async def test_two_who_ask_for_a_code_at_once_have_one_mailed(office: Office) -> None:
    mailed, shared = await asyncio.gather(
        office.second_factor.request(), office.second_factor.take(NOTHING)
    )

    assert mailed["message"] == f"a code was mailed to {SENT_TO} (4 of the day's 5 left)"
    assert shared == mailed
    assert office.second_factor.state()["codes_used"] == 1
    assert (await office.second_factor.submit(office.right))["is_ready"] is True


async def test_who_asks_after_one_who_gave_up_has_a_code_mailed(office: Office) -> None:
    asked = asyncio.create_task(office.second_factor.request())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(office.second_factor.request())
    await asyncio.sleep(0)

    asked.cancel()
    reply = await waiting

    assert reply["ok"] is True


async def test_a_code_given_by_two_ways_at_once_is_tried_once_and_the_loser_is_told(
    office: Office,
) -> None:
    await office.second_factor.request()

    by_hand, by_file = await asyncio.gather(
        office.second_factor.submit(office.right, "the terminal"),
        office.second_factor.give(office.right, "the file otp"),
    )

    lost = "what the file otp gave is not used: a token came first, by the terminal"
    assert "warning" not in by_hand
    assert (by_file["ok"], by_file["is_ready"], by_file["warning"]) == (True, True, lost)
    assert [each.detail for each in office.notes if each.kind == "TOO_LATE"] == [lost]
    assert [each for each in office.notes if each.kind == "CODE_REFUSED"] == []
    assert sum(isinstance(each, TwoFactorReady) for each in office.events) == 1


async def test_a_wrong_code_at_the_same_time_does_not_keep_the_right_one_out(
    office: Office,
) -> None:
    await office.second_factor.request()

    wrong, right = await asyncio.gather(
        office.second_factor.submit(WRONG, "the terminal"),
        office.second_factor.submit(office.right, "bot otp"),
    )

    assert (code_of(wrong), code_of(right)) == ("E-2FA-003", None)
    assert right["is_ready"] is True


async def test_a_token_that_comes_while_a_code_is_looked_at_wins(office: Office) -> None:
    await office.second_factor.request()
    by_code = asyncio.create_task(office.second_factor.submit(office.right, "the terminal"))
    await asyncio.sleep(0)

    by_token = office.second_factor.submit_token(Secret("made-elsewhere"), "bot otp")
    late = await by_code

    assert "warning" not in by_token
    assert late["warning"] == "what the terminal gave is not used: a token came first, by bot otp"
    assert sum(isinstance(each, TwoFactorReady) for each in office.events) == 1


async def test_a_person_may_replace_a_token_later(office: Office) -> None:
    office.second_factor.submit_token(Secret("made-elsewhere"), "the terminal")
    office.wait(timedelta(minutes=1))

    reply = office.second_factor.submit_token(Secret("another-one-of-today"), "bot otp")

    assert "warning" not in reply
    assert sum(isinstance(each, TwoFactorReady) for each in office.events) == 2


async def test_two_bad_answers_in_a_row_slow_the_prompt_down_until_a_good_one(
    office: Office,
) -> None:
    waits = [
        (await office.second_factor.take(Secret(typed))).get("wait_s")
        for typed in ("12345", "1", "2", "3", "4")
    ]
    assert waits == [0, 5, 15, 60, 60]
    await office.second_factor.request()

    await office.second_factor.take(office.right)

    assert office.second_factor.state()["wait_s"] == 0


# -------------------------------------------------------------------------------- giving a token up


async def test_a_revoked_token_is_over_for_everybody(office: Office) -> None:
    await office.second_factor.request()
    await office.second_factor.submit(office.right)

    reply = await office.second_factor.revoke()

    assert (reply["ok"], reply["is_ready"]) == (True, False)
    assert "warning" not in reply
    assert [each.kind for each in office.notes][-1] == "REVOKED"
    assert isinstance(office.events[-2], TwoFactorMissing)
    assert not (office.state_dir / "two-factor.json").exists()


async def test_without_a_token_nothing_is_revoked(office: Office) -> None:
    assert code_of(await office.second_factor.revoke()) == "E-2FA-008"


async def test_a_token_that_the_broker_does_not_know_is_dropped_here_all_the_same(
    office: Office,
) -> None:
    office.second_factor.submit_token(Secret("made-elsewhere"))

    reply = await office.second_factor.revoke()

    assert reply["is_ready"] is False
    assert "made-elsewhere" not in str((reply, office.events))


async def test_what_a_file_held_is_told_of_without_it(office: Office) -> None:
    file = TokenFile(office.state_dir, office.clock.now)

    await file.hand_over(Found(given=Secret("short")), office.second_factor)
    await file.hand_over(Found(objection="READABLE"), office.second_factor)
    await file.hand_over(Found(given=Secret("made-elsewhere")), office.second_factor)

    told = [each.entry for each in office.events if isinstance(each, Noted)]
    facts = [each.numbers["cause"] for each in told if isinstance(each, Note)]
    assert facts == ["REFUSED", "READABLE"]
    assert "short" not in str(told)
    assert office.has_token


# ------------------------------------------------------------------------------- the day's story


def _long_token(clock: SimulatedClock, life: timedelta, name: str) -> Secret:
    claims = {"exp": int((clock.now() + life).timestamp()), "sub": name}
    return Secret(jwt.encode(claims, "k" * 32, algorithm="HS256"))


async def test_a_token_s_own_end_is_told_to_the_engine_in_market_time(tmp_path: Path) -> None:
    clock = SimulatedClock(START)
    sandbox = Sandbox(scenario(), load_rulebook(), clock=clock, wire=clock)
    events: list[Event] = []
    broker = _broker(sandbox, clock)
    fast = SecondFactor(broker, (clock, clock), events.append, tmp_path, speed=60.0)

    fast.submit_token(_long_token(clock, timedelta(minutes=2), "a"))

    [ready] = [each for each in events if isinstance(each, TwoFactorReady)]
    assert ready.until == START + timedelta(minutes=2)
    assert ready.ends_at == START + timedelta(hours=2)
    await broker.close()


async def test_two_tokens_are_told_apart_by_four_signs_and_never_more(office: Office) -> None:
    tokens = [_long_token(office.clock, timedelta(hours=1), name) for name in ("a", "b")]

    office.second_factor.submit_token(tokens[0])
    office.second_factor.forget("OTP_SESSION_INVALID", office.clock.now())
    office.second_factor.submit_token(tokens[1])

    tails = [each.reveal()[-4:] for each in tokens]
    assert [(each.kind, each.detail) for each in office.notes] == [
        ("TAKEN", f"token …{tails[0]}, by a token, bot otp"),
        ("DROPPED", f"token …{tails[0]}: the broker has refused it: OTP_SESSION_INVALID"),
        ("TAKEN", f"token …{tails[1]}, by a token, bot otp"),
    ]
    assert all(each.reveal()[-5:] not in str(office.events) for each in tokens)


async def test_a_token_that_came_after_a_refusal_is_not_dropped_for_it(office: Office) -> None:
    office.second_factor.submit_token(_long_token(office.clock, timedelta(hours=1), "a"))
    office.wait(timedelta(minutes=10))
    refused_at = office.clock.now()
    office.wait(timedelta(seconds=2))  # the engine waits for the journal
    office.second_factor.submit_token(_long_token(office.clock, timedelta(hours=1), "b"))

    office.second_factor.forget("OTP_SESSION_EXPIRED", refused_at)

    assert office.second_factor.is_ready
    assert [each.kind for each in office.notes] == ["TAKEN", "TAKEN"]
    assert (office.state_dir / SECOND_FACTOR).exists()


async def test_of_a_short_token_nothing_is_shown(office: Office) -> None:
    office.second_factor.submit_token(Secret("made-elsewhere"))

    assert [each.detail for each in office.notes] == ["token …, by a token, bot otp"]


async def test_each_code_that_was_asked_for_is_counted_for_the_engine(office: Office) -> None:
    office.second_factor.report()
    await office.second_factor.request()
    await office.second_factor.request()

    counted = [each for each in office.events if isinstance(each, CodesCounted)]
    assert [(each.left, each.of) for each in counted] == [(5, 5), (4, 5), (3, 5)]
