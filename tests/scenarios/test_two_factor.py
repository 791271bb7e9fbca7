"""A 403 OTP code closes the gate for writes; a token opens it; what was held goes out once."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import jwt
import pytest

from bot.domain.entry import (
    AttemptFinished,
    AuthEvent,
    Decision,
    IntentRecorded,
    Note,
    RunState,
    StateChanged,
    Verdict,
)
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.outcome import TWO_FACTOR_CODES
from bot.journal.reading.reader import JournalReader
from tests.by_hand import Ask, tell_by_hand
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

CODES = sorted(TWO_FACTOR_CODES)


def _states(story: Story) -> list[RunState]:
    return [each.to_state for each in story.shown.all(StateChanged)]


def _drop(code: str) -> dict[str, object]:
    return {"match": {"at": "09:20:03"}, "action": {"do": "drop_2fa", "code": code}}


@pytest.mark.parametrize("code", CODES)
async def test_a_held_order_goes_out_once_as_a_new_intent(tmp_path: Path, code: str) -> None:
    config = write_project(
        tmp_path,
        scenario={**QUIET, "faults": [_drop(code)]},
        strategies=[once(on_2fa="hold 5m", wake={"quote": "5s"})],
    )

    story = await tell(config, minutes=10, answer_otp_after=timedelta(minutes=2))

    first, second = [each.intent for each in story.shown.all(IntentRecorded)]
    assert second.follows == first.intent_id
    assert story.posts() == [first.intent_id, second.intent_id]
    assert len(story.broker_orders()) == 1
    states = _states(story)
    assert states.index(RunState.NEEDS_2FA) < len(states) - 1 - states[::-1].index(RunState.RUNNING)
    assert code in {each.code for each in story.shown.all(AuthEvent)}


async def test_a_held_order_expires_when_no_token_comes_in_time(tmp_path: Path) -> None:
    config = write_project(
        tmp_path,
        scenario={**QUIET, "faults": [_drop("OTP_SESSION_EXPIRED")]},
        strategies=[once(on_2fa="hold 60s")],
    )

    story = await tell(config, minutes=10, answer_otp_after=timedelta(minutes=3))

    assert len(story.shown.all(IntentRecorded)) == 1
    assert Verdict.EXPIRED in {each.verdict for each in story.shown.all(Decision)}
    assert story.broker_orders() == {}

    with JournalReader(story.loaded.journal_url) as reader:
        [row] = reader.orders()
        said = [each for each in reader.timeline(row.id) if each.word == "EXPIRED_LOCAL"]
    assert (row.status, row.outcome, row.reason) == ("EXPIRED", "expired", "no 2FA within 1 min")
    assert [each.text for each in said] == ["HELD → EXPIRED_LOCAL · no 2FA within 1 min"]


async def test_reads_go_on_while_the_gate_is_closed(tmp_path: Path) -> None:
    config = write_project(
        tmp_path,
        scenario={**QUIET, "faults": [_drop("OTP_SESSION_REVOKED")]},
        strategies=[once(on_2fa="drop")],
    )

    story = await tell(config, minutes=10)

    [closed] = [each.at for each in story.shown.all(StateChanged) if each.to_state == "NEEDS_2FA"]
    later = [each for each in story.shown.entries if each.at > closed + timedelta(minutes=5)]
    assert any(type(each).__name__ == "AccountSeen" for each in later)
    assert story.broker_orders() == {}


async def test_no_code_is_ever_asked_for_unattended(tmp_path: Path) -> None:
    config = write_project(
        tmp_path,
        scenario={**QUIET, "faults": [_drop("OTP_SESSION_EXPIRED")]},
        strategies=[once()],
    )

    story = await tell(config, minutes=30)

    asked = [line for line in story.ledger() if line["kind"] == "otp_request"]
    assert len(asked) == 1, "only the sandbox's own sign-in at the start"


async def test_no_code_is_asked_for_once_a_person_has_given_a_token(tmp_path: Path) -> None:
    config = write_project(
        tmp_path,
        scenario={**QUIET, "faults": [_drop("OTP_SESSION_EXPIRED")]},
        strategies=[once(on_2fa="drop")],
    )
    person = Ask(timedelta(minutes=1), {"do": "otp_token", "token": "made-elsewhere"})

    told = await tell_by_hand(config, person, minutes=10, answer_otp_after=timedelta(minutes=2))

    assert [reply["ok"] for reply in told.replies] == [True]
    asked = [line for line in told.story.ledger() if line["kind"] == "otp_request"]
    assert len(asked) == 1, "only the sandbox's own sign-in at the start"


async def test_a_cancel_that_is_refused_closes_the_gate_and_goes_first_on_resume(
    tmp_path: Path,
) -> None:
    strategy = once(
        params={"price": 26_000},
        order={"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "60s"},
    )
    fault = {"match": {"at": "09:20:30"}, "action": {"do": "drop_2fa"}}
    config = write_project(tmp_path, scenario={**QUIET, "faults": [fault]}, strategies=[strategy])

    story = await tell(config, minutes=10, answer_otp_after=timedelta(minutes=2))

    [order] = story.broker_orders().values()
    assert (order["status"], order["cancelled"]) == ("CANCELLED", 100)
    assert RunState.NEEDS_2FA in _states(story)
    assert [verb for verb, _ in story.attempts()] == ["POST", "DELETE", "DELETE"]


async def test_a_token_that_cannot_be_kept_does_not_end_the_run(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    (tmp_path / "state" / "two-factor.json").mkdir()
    forget = Ask(timedelta(seconds=30), {"do": "otp_forget"})
    look = Ask(timedelta(seconds=120), {"do": "otp_state"})

    told = await tell_by_hand(
        config, forget, look, minutes=3, answer_otp_after=timedelta(seconds=30)
    )

    assert [reply["is_ready"] for reply in told.replies] == [False, True]
    assert told.replies[1]["codes_used"] == 2, "one was for the sandbox's own sign-in"
    kinds = [each.kind for each in told.story.shown.all(AuthEvent)]
    story = ["CODE_REQUESTED", "TYPED", "TAKEN", "ready", "TOKEN_NOT_KEPT"]
    assert kinds[-5:] == story


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("*/request", 429, "OTP_RATE_LIMIT_EXCEEDED"),
        ("*/request", 403, "OTP_LOCKED"),
        ("*/verify", 403, "OTP_INVALID"),
    ],
)
async def test_a_start_that_gets_no_token_begins_without_one(
    tmp_path: Path, path: str, status: int, code: str
) -> None:
    action = {"do": "status", "status": status, "code": code}
    fault = {"match": {"verb": "POST", "path": path}, "action": action}
    config = write_project(tmp_path, scenario={**QUIET, "faults": [fault]}, strategies=[once()])

    story = await tell(config, minutes=3)

    assert RunState.NEEDS_2FA in _states(story)
    assert story.attempts() == []


# ----------------------------------------------------------------- a token that ends in the session

ENDS_AT = datetime(2026, 11, 19, 9, 37, tzinfo=EXCHANGE_TZ)
RESTING = once(
    params={"price": 26_000},
    order={"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "18m"},
)
"""It rests, and is cancelled after the token has ended."""


def short_token() -> Ask:
    claims = {"exp": int(ENDS_AT.timestamp()), "sub": "made elsewhere"}
    token = jwt.encode(claims, "k" * 32, algorithm="HS256")
    return Ask(timedelta(minutes=1), {"do": "otp_token", "token": token})


def codes(story: Story) -> list[str]:
    return [
        f"{each.numbers.get('alert')}" for each in story.shown.all(Note) if each.kind == "ALERT"
    ]


async def test_a_token_that_ends_is_noticed_without_a_write_and_the_cancel_waits_unrefused(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[RESTING])

    told = await tell_by_hand(
        config, short_token(), minutes=21, answer_otp_after=timedelta(minutes=2)
    )

    story = told.story
    [needed] = [each for each in story.shown.all(AuthEvent) if each.kind == "needed"]
    assert ENDS_AT - needed.at == timedelta(seconds=2)
    assert codes(story) == ["TWO_FACTOR_ENDING"] * 2 + ["TWO_FACTOR_NEEDED", "CANCEL_NEEDS_TOKEN"]
    assert story.attempts()[0][0] == "POST"
    answers = [(each.http_status, each.code) for each in story.shown.all(AttemptFinished)]
    assert [status for status, _ in answers] == [200, 200]
    [order] = story.broker_orders().values()
    assert (order["status"], order["cancelled"]) == ("CANCELLED", 100)


class Person:
    """Somebody at the terminal, who has a code mailed and types what came."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._submit: Callable[[str], None] | None = None

    def start(self, submit: Callable[[str], None], state: Mapping[str, object]) -> None:
        self.asked.append(f"{state['codes_used']} of {state['codes_per_day']}")
        self._submit = submit
        submit("")

    def ask(self, result: str, _state: Mapping[str, object]) -> None:
        self.asked.append(result)
        for code in re.findall("[0-9]{6}", result):
            assert self._submit is not None
            self._submit(code)

    def stop(self) -> None:
        if self._submit is not None:
            self.asked.append("stop")
        self._submit = None


async def test_a_person_at_the_terminal_is_asked_in_time_and_nothing_waits(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[RESTING])
    person = Person()

    told = await tell_by_hand(config, short_token(), minutes=21, ask_code=person)

    assert RunState.NEEDS_2FA not in _states(told.story)
    assert codes(told.story) == ["TWO_FACTOR_ENDING"]
    assert (person.asked[0], person.asked[-1]) == ("1 of 5", "stop")
    assert [verb for verb, _ in told.story.attempts()] == ["POST", "DELETE"]


async def test_a_person_who_is_too_late_is_told_so_and_asked_again(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[RESTING])
    claims = {"exp": int((ENDS_AT - timedelta(minutes=4)).timestamp())}
    short = jwt.encode(claims, "k" * 32, algorithm="HS256")
    other_shell = Ask(timedelta(minutes=1), {"do": "otp_token", "token": short})
    person = Hasty()

    await tell_by_hand(config, other_shell, minutes=3, ask_code=person)

    assert person.asked[1].startswith("what the terminal gave is not used: a token came first")


class Hasty(Person):
    """Somebody who pastes a token at the very moment at which another way gives one."""

    def start(self, submit: Callable[[str], None], _state: Mapping[str, object]) -> None:
        self.asked.append("asked")
        self._submit = submit
        submit("pasted-a-moment-later")


async def test_who_is_asked_before_a_token_ends_is_left_alone_once_another_shell_has_given_one(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[RESTING])
    claims = {"exp": int((ENDS_AT + timedelta(hours=6)).timestamp())}
    another = jwt.encode(claims, "k" * 32, algorithm="HS256")
    other_shell = Ask(timedelta(minutes=10), {"do": "otp_token", "token": another})
    person = Silent()

    told = await tell_by_hand(config, short_token(), other_shell, minutes=12, ask_code=person)

    assert RunState.NEEDS_2FA not in _states(told.story)
    assert person.asked == ["asked", "stop"]


class Silent(Person):
    """Somebody who is not at the terminal."""

    def start(self, submit: Callable[[str], None], _state: Mapping[str, object]) -> None:
        self.asked.append("asked")
        self._submit = submit
