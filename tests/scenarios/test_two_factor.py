"""A 403 OTP code closes the gate for writes; a token opens it; what was held goes out once."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.domain.entry import (
    AuthEvent,
    Decision,
    IntentRecorded,
    RunState,
    StateChanged,
    Verdict,
)
from bot.domain.outcome import TWO_FACTOR_CODES
from bot.journal.reader import JournalReader
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
    assert kinds[-3:] == ["CODE_REQUESTED", "ready", "TOKEN_NOT_KEPT"]


async def test_a_day_without_codes_left_begins_without_a_token(tmp_path: Path) -> None:
    action = {"do": "status", "status": 429, "code": "OTP_RATE_LIMIT_EXCEEDED"}
    fault = {"match": {"verb": "POST", "path": "*/request"}, "action": action}
    config = write_project(tmp_path, scenario={**QUIET, "faults": [fault]}, strategies=[once()])

    story = await tell(config, minutes=3)

    assert RunState.NEEDS_2FA in _states(story)
    assert story.attempts() == []
