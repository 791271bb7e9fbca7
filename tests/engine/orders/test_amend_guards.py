"""What an amendment's verdict may rest on: each guard of it, by the case that only it stops."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.message import AmendAnswered, AmendOrder, BurnNonce, NonceBurnt, OrderRead
from bot.domain.operations import AmendAsked
from bot.domain.order import Intent, OrderReport, OrderState, SendState
from bot.domain.outcome import Outcome, Refused, Resolution, Unknown
from bot.domain.recovery import Recovery, StoredAmend, StoredIntent
from bot.engine import gate
from bot.engine.settings import EngineSettings, UnknownPolicy
from bot.engine.tracked import AmendVerdict
from tests.engine.stage import DAY, START, Stage, attempt_of, report_of

ON = EngineSettings(amend_enabled=True)
NO = Refused("-700106", "no", 200)
_S = OrderState


def _asked(settings: EngineSettings = ON) -> tuple[Stage, Intent]:
    stage = Stage(settings=settings)
    intent = stage.working(500, 27_000)
    stage.after(1).book(report_of(intent))
    stage.handle(AmendAsked(stage.now, "ORD1", 26_900, None, "operator", "by hand"))
    return stage, intent


def _answered(outcome: Outcome, settings: EngineSettings = ON) -> tuple[Stage, OrderReport]:
    stage, intent = _asked(settings)
    row = report_of(intent)
    stage.row(row)
    finished = replace(stage.finished_of(intent), attempt_id="p")
    stage.after(1).handle(AmendAnswered(stage.now, "ORD1", outcome, finished))
    stage.pass_time(1)
    return stage, row


def _verdict(stage: Stage) -> str:
    return stage.engine.status().amends[-1].verdict


def test_a_row_that_is_being_cancelled_sends_nothing_though_it_allows_it() -> None:
    stage, intent = _asked()

    stage.row(report_of(intent, state=_S.PENDING_CANCEL, status="CANCELLING", may_amend=True))

    assert stage.all(AmendOrder) == []


def test_a_row_that_the_broker_still_works_on_is_no_verdict() -> None:
    stage, row = _answered(NO)

    stage.row(replace(row, state=_S.PENDING_REPLACE, status="FIXING"))
    early = _verdict(stage)
    stage.after(1).row(row)

    assert (early, _verdict(stage)) == ("", AmendVerdict.REFUSED)


def test_a_row_that_was_asked_for_before_the_answer_is_no_verdict() -> None:
    stage, row = _answered(NO)
    before = replace(row, requested_at=stage.now - timedelta(seconds=1.5))

    stage.handle(OrderRead(stage.now, "ORD1", before))
    early = _verdict(stage)
    stage.row(row)

    assert (early, _verdict(stage)) == ("", AmendVerdict.REFUSED)


def test_a_row_that_shows_the_end_is_no_verdict_of_its_own() -> None:
    stage, row = _answered(NO)
    full = replace(row, executed_quantity=500, executed_amount=500 * 27_000, average_price=27_000)

    stage.row(replace(full, remaining_quantity=0, state=_S.FILLED, status="MATCHED_ALL"))
    stage.pass_time(1)

    assert _verdict(stage) == AmendVerdict.ENDED


def test_no_amendment_leaves_without_a_token() -> None:
    stage, _ = _answered(NO)
    open_gate = stage.engine.reason_not_to_amend("L-0001")

    needs_code = Refused("OTP_SESSION_EXPIRED", "2FA", 403)
    stage.handle(AmendAnswered(stage.now, "ORD1", needs_code, None))

    assert open_gate is None
    assert stage.engine.reason_not_to_amend("L-0001") is not None


@pytest.mark.parametrize("is_distrusted", [True, False])
def test_an_unused_nonce_proves_nothing_where_nonces_are_not_trusted(is_distrusted: bool) -> None:
    fence = replace(ON, unknown_policy=UnknownPolicy.FENCE)
    stage, row = _answered(Unknown("lost", None), fence)
    if is_distrusted:
        gate.halt_scope(stage.engine._state, gate.NONCES, "one was unused, and its row is there")

    stage.handle(NonceBurnt(stage.now, "p", Resolution.FRESH, "unused"))
    stage.after(1).row(row)

    assert _verdict(stage) == ("" if is_distrusted else AmendVerdict.NOT_DONE)


def test_an_unused_nonce_says_that_no_other_id_can_come() -> None:
    fence = replace(ON, unknown_policy=UnknownPolicy.FENCE)
    stage, row = _answered(Unknown("lost", None), fence)
    gone = replace(row, remaining_quantity=0, cancelled_quantity=500, state=_S.CANCELLED)

    stage.handle(NonceBurnt(stage.now, "p", Resolution.FRESH, "unused"))
    stage.after(1).row(replace(gone, status="CANCELLED"))

    assert stage.entries_of_order().state is _S.CANCELLED


@pytest.mark.parametrize(("after_s", "is_ended"), [(60, False), (100, False), (115, True)])
def test_a_new_id_may_be_as_late_as_the_book_lags(after_s: int, is_ended: bool) -> None:
    stage, row = _answered(Unknown("lost", None))
    gone = replace(row, remaining_quantity=0, cancelled_quantity=500, state=_S.CANCELLED)

    stage.after(after_s).row(replace(gone, status="CANCELLED"))

    assert (stage.entries_of_order().state is _S.CANCELLED) is is_ended


# ------------------------------------------------------------------------------------- a restart


def _restarted(outcome: str | None, **changes: object) -> tuple[Stage, OrderReport]:
    before, row = _answered(Unknown("lost", None))
    placed = stored_intent(before)
    attempt = replace(attempt_of(placed, START), verb="PUT", order_id="ORD1")
    amend = StoredAmend("ORD1", attempt, outcome, 26_900, None, 27_000, "operator", "by hand")
    order = replace(before.entries_of_order(), **changes)  # type: ignore[arg-type]
    intents = (StoredIntent(placed, SendState.ACKED, "ORD1", None),)
    recovery = Recovery(DAY, 2, orders=(order,), intents=intents, amends=(amend,))
    return Stage(settings=ON, recovery=recovery), row


def stored_intent(stage: Stage) -> Intent:
    return stage.engine._state.intents["L-0001"].intent


@pytest.mark.parametrize("outcome", ["REFUSED", "NOT_SENT"])
def test_a_put_that_was_refused_or_never_left_is_over_with_the_next_row(outcome: str) -> None:
    stage, row = _restarted(outcome)

    stage.after(1).row(row)

    assert _verdict(stage) == AmendVerdict.REFUSED


@pytest.mark.parametrize(
    ("outcome", "is_tried"), [(None, True), ("UNKNOWN", True), ("ACCEPTED", False)]
)
def test_only_the_nonce_of_a_put_without_a_trusted_answer_is_tried(
    outcome: str | None, is_tried: bool
) -> None:
    stage, _ = _restarted(outcome)

    assert len(stage.all(BurnNonce)) == is_tried


def test_nothing_is_asked_of_an_amendment_whose_order_has_ended() -> None:
    stage, _ = _restarted(None, state=_S.FILLED, executed_quantity=500)

    assert stage.all(BurnNonce) == []
    assert stage.engine.status().amends == ()
