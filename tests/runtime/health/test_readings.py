"""What the page of metrics counts, and what keeps the bot from being ready."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from bot.broker.calls import Proof
from bot.domain.entry import ACCOUNT_SCOPE, REDUCED_SCOPE, Note
from bot.domain.operations import Action, DiskSeen, OperatorActed
from bot.domain.plan import StrategyMode
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine import gate
from bot.engine.health import LOW_BYTES
from bot.runtime.health.readings import LABELS_MAX, Counts, Readings, exposed, labelled
from tests.engine.stage import ACCOUNT, DAY, PLAN, Stage

NOW = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)


def alert(code: str) -> Note:
    return Note(NOW, "ALERT", "something", {"alert": code})


def test_alerts_of_the_engine_are_counted_by_code_and_other_notes_are_not() -> None:
    counts, stage = Counts(), Stage()
    stage.handle(DiskSeen(stage.now, LOW_BYTES - 1))
    stage.handle(DiskSeen(stage.now, LOW_BYTES))
    stage.handle(DiskSeen(stage.now, LOW_BYTES - 1))

    for note in stage.all(Note):
        counts.see(note)

    assert dict(counts.alerts) == {"DISK_LOW": 2}
    assert counts.notes["RESUME"] == 1


def test_a_timer_that_was_missed_counts_as_an_alert_and_another_job_does_not() -> None:
    counts = Counts()

    counts.see(Note(NOW, "MISSED", "14:20 was not run", {"alert": "TIMER_MISSED"}))
    counts.see(Note(NOW, "MISSED", "the nightly copy was not run", {}))

    assert dict(counts.alerts) == {"TIMER_MISSED": 1}


def test_codes_without_end_are_told_apart_up_to_a_bound() -> None:
    counts = Counts()

    for number in range(LABELS_MAX + 7):
        counts.see(alert(f"CODE_{number}"))

    assert (len(counts.alerts), counts.alerts["other"]) == (LABELS_MAX + 1, 7)


def test_a_large_count_with_a_label_keeps_its_last_digit() -> None:
    page = exposed([labelled("x_total", "counter", "X.", "code", {"A": 1_234_567.0})])

    assert page.splitlines()[-1] == 'x_total{code="A"} 1234567'


def _objections(stage: Stage, barred: tuple[Proof, datetime] | None = None) -> list[str]:
    """Return why the bot of a stage is not ready; its broker and its machine are well."""
    health = SimpleNamespace(dead=list)
    parts: Any = SimpleNamespace(
        engine=stage.engine,
        trouble=SimpleNamespace(text=""),
        reads=SimpleNamespace(health=health),
        brake=SimpleNamespace(is_on=False),
    )
    broker: Any = SimpleNamespace(
        two_factor=SimpleNamespace(is_ready=True),
        offset=SimpleNamespace(blocks_writes=False),
        breaker=SimpleNamespace(barred=lambda: barred),
    )
    progress: Any = SimpleNamespace()
    return Readings(parts, broker, progress, Counts(), "live").objections()


def _off(state: str, by: str, reason: str) -> RecoveredStrategy:
    return RecoveredStrategy({}, 0, 0, 0, state, reason, by)


API = "API changed? 3 orders in a row were refused with HTTP 400"


@pytest.mark.parametrize(
    ("recovery", "wanted"),
    [
        (Recovery(DAY), []),
        (
            Recovery(DAY, halted_scopes={f"{ACCOUNT_SCOPE}{ACCOUNT}": API}),
            [f"no order is sent: {API}"],
        ),
        (Recovery(DAY, halted_scopes={f"{ACCOUNT_SCOPE}another": API}), []),
        (Recovery(DAY, halted_scopes={gate.NONCES: "as found"}), []),
        (
            Recovery(DAY, halted_scopes={REDUCED_SCOPE: "earnings"}),
            ["the bot is REDUCING: earnings"],
        ),
        (
            Recovery(DAY, halted_symbols={"HPG": "executed more than ordered"}),
            ["all that test trades is halted: HPG"],
        ),
        (
            Recovery(DAY, strategies={"test": _off("paused", "engine", "refused 3 orders")}),
            ["test is paused: refused 3 orders"],
        ),
        (
            Recovery(DAY, strategies={"test": _off("disabled", "operator", "not today")}),
            ["test is disabled: not today"],
        ),
    ],
)
def test_a_bot_of_which_no_order_can_leave_is_not_ready_and_says_why(
    recovery: Recovery, wanted: list[str]
) -> None:
    assert _objections(Stage(recovery=recovery)) == wanted


def test_a_strategy_that_its_own_loss_has_paused_can_still_sell() -> None:
    stage = Stage()
    gate.let_only_sell(stage.engine._state, stage.engine._state.strategies["test"], "-5 %")

    assert _objections(stage) == []


def test_a_bot_is_ready_while_one_of_its_strategies_can_order() -> None:
    other = replace(PLAN, name="other")
    watcher = replace(PLAN, name="watcher", mode=StrategyMode.WATCH)
    halts = {"test": _off("disabled", "operator", "not today")}

    assert _objections(Stage(recovery=Recovery(DAY, strategies=halts), beside=[other])) == []
    assert _objections(Stage(recovery=Recovery(DAY, strategies=halts), beside=[watcher])) == [
        "test is disabled: not today"
    ]
    halts["other"] = _off("paused", "operator", "")
    assert _objections(Stage(recovery=Recovery(DAY, strategies=halts), beside=[other])) == [
        "test is disabled: not today",
        "other is paused",
    ]


def test_a_key_that_may_not_order_keeps_the_bot_from_being_ready() -> None:
    [why] = _objections(Stage(), (Proof.ORDERS, NOW))

    assert why.startswith("the broker has refused our orders twice in a row (401)")


def test_a_bot_is_ready_again_once_a_person_has_resumed() -> None:
    kept = {f"{ACCOUNT_SCOPE}{ACCOUNT}": API}
    stage = Stage(recovery=Recovery(DAY, halted_scopes=kept))

    stage.handle(OperatorActed(stage.now, Action.RESUME, "the header is sent now", "operator"))

    assert _objections(stage) == []
