"""Whether a server keeps nonces: what the sandbox shows, and what a forgetful server does."""

from datetime import timedelta
from typing import Any

import pytest

from bot.conformance.access import AT_ONCE, IN_TURN, REUSED, SHOWN_EVERY
from bot.conformance.finding import Verdict
from tests.conformance.server import CONTINUOUS, server

pytestmark = pytest.mark.wire
"""A thousand requests to a whole broker, though not over a socket."""

FINDINGS = (IN_TURN + AT_ONCE) // SHOWN_EVERY + 4
USER: dict[str, Any] = {"error_code": None, "payload": {}}


async def test_the_sandbox_takes_each_nonce_once_for_five_minutes() -> None:
    played = server()
    began = played.clock.now()

    report = await played.run(writes=False, of_nonces=True)

    assert {finding.verdict for finding in report.findings} == {Verdict.OK}
    assert len(report.findings) == FINDINGS
    assert played.clock.now() - began >= timedelta(seconds=310)


async def test_a_server_that_takes_one_nonce_twice_is_found() -> None:
    refused = []

    def forgetful(path: str, status: int, body: Any) -> tuple[int, Any]:
        """The hundredth nonce that should be refused is taken."""
        if body.get("error_code") != REUSED:
            return status, body
        refused.append(path)
        return (200, USER) if len(refused) == 100 else (status, body)

    report = await server(forgetful).run(writes=False, of_nonces=True)

    [failed] = [finding for finding in report.findings if finding.verdict is Verdict.FAIL]
    assert failed.id == "2.2 nonce pairs 51 to 100"
    assert failed.found == "49 taken once, 1 TAKEN TWICE"


async def test_a_server_that_forgets_a_nonce_before_its_time_is_found() -> None:
    began = CONTINUOUS

    def forgetful(path: str, status: int, body: Any) -> tuple[int, Any]:
        """After four minutes and a half nothing is refused any more."""
        is_late = played.clock.now() - began > timedelta(seconds=270)
        return (200, USER) if is_late and body.get("error_code") == REUSED else (status, body)

    played = server(forgetful)

    report = await played.run(writes=False, of_nonces=True)

    failed = [finding.id for finding in report.findings if finding.verdict is Verdict.FAIL]
    assert failed == ["2.2 nonce after 290 s"]


@pytest.mark.parametrize("per_minute", [250, 150, 60])
async def test_a_run_that_a_small_quota_stretches_is_no_reason_to_blame_the_server(
    per_minute: int,
) -> None:
    report = await server().run(writes=False, of_nonces=True, per_minute=per_minute)

    assert [each for each in report.findings if each.verdict is not Verdict.OK] == []


async def test_an_answer_that_is_lost_proves_nothing() -> None:
    def broken(path: str, status: int, body: Any) -> tuple[int, Any]:
        return (503, {}) if body.get("error_code") == REUSED else (status, body)

    report = await server(broken).run(writes=False, of_nonces=True)

    failed = [finding for finding in report.findings if finding.verdict is Verdict.FAIL]
    assert len(failed) == FINDINGS - 2
    assert failed[0].found.startswith("50 unproved (200 ")
