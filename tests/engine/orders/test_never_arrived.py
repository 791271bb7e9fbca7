"""A place that never arrived, by its nonce, while no day order book can show that it is absent: a
person ends it, and no row that shows up, before or after, is doubled.
"""

from datetime import timedelta

import pytest

from bot.domain.entry import IntentMoved, Note, StateChanged
from bot.domain.message import (
    CancelOrder,
    NonceBurnt,
    PlaceOrder,
    Reconciled,
    TradingDayStarted,
)
from bot.domain.operations import (
    Action,
    CancelAsked,
    EarlierOrdersRead,
    OperatorActed,
    TradingDayEnded,
    VerdictAsked,
)
from bot.domain.order import Intent, SendState, UnreadRow
from bot.domain.outcome import Resolution, Unknown
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredFlatten, StoredIntent
from bot.engine.settings import EngineSettings
from tests.engine.stage import DAY, Stage, attempt_of, report_of

UNREAD = UnreadRow("ORD9", "HPG", "qtty: Field required", "{}")
HELD = RecoveredStrategy({"HPG": (1_000, 27_000_000)}, 0, 0, 0, "on")
HORIZON_S = EngineSettings().horizon.total_seconds()
S = SendState


def _lost_sale(*, burnt: bool = True) -> tuple[Stage, Intent]:
    """A stage whose only exit got lost; its nonce was unused."""
    stage = Stage(sellable=1_000, recovery=Recovery(DAY, strategies={"test": HELD}))
    stage.request(lambda one: one.sell(1_000, limit=27_000, why="exit"))
    intent = stage.last(PlaceOrder).intent
    stage.send(intent)
    stage.answer(intent, Unknown("deadline"))
    if burnt:
        _burn(stage, intent)
    return stage, intent


def _burn(stage: Stage, intent: Intent) -> None:
    told = NonceBurnt(stage.now, intent.intent_id, Resolution.FRESH, "a read with it was answered")
    stage.handle(told)


def _look(stage: Stage, *, is_dead: bool = False, seconds: float = 15) -> None:
    """Read what can be read: of the day order book nothing, or all but one row."""
    stage.after(seconds).quote()
    if not is_dead:
        stage.book(set_aside=[UNREAD])
    stage.account(total=1_000)


def _overdue(*, is_dead: bool = False) -> tuple[Stage, Intent]:
    stage, intent = _lost_sale()
    for _ in range(14):
        _look(stage, is_dead=is_dead)
    return stage, intent


def _say(stage: Stage, order_id: str | None = None) -> str | None:
    ask = VerdictAsked(stage.now, "L-0001", order_id, "operator", "I have looked")
    check = stage.engine.objection(ask)
    stage.handle(ask)
    return f"{check.code}: {check.text}" if check is not None else None


def _flatten(stage: Stage) -> None:
    asked = OperatorActed(stage.now, Action.HALT, "enough", "operator", flatten=True)
    stage.handle(asked)
    stage.pass_time(0)


def _places(stage: Stage) -> list[str]:
    return [command.intent.intent_id for command in stage.all(PlaceOrder)]


def _moves(stage: Stage) -> list[SendState]:
    return [move.to_state for move in stage.all(IntentMoved) if move.intent_id == "L-0001"]


def _told(stage: Stage) -> list[object]:
    return [note.numbers["alert"] for note in stage.all(Note) if note.kind == "ALERT"]


# ------------------------------------------------------------------------------- what a person says


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_person_ends_it_once_the_horizon_is_over_and_the_journal_says_what_was_known(is_dead):
    stage, intent = _lost_sale()
    stage.after(1).account(total=1_000)
    if not is_dead:
        stage.book(set_aside=[UNREAD])
    stage.after(HORIZON_S - 1).quote()

    early = _say(stage)
    stage.pass_time(1)
    late = _say(stage)

    assert early == (
        "VERDICT_OPEN: L-0001 is by its nonce no order, and looked for in the day order book to be"
        " sure; a person may say what became of it after 09:32:10"
    )
    assert late is None
    move = stage.last(IntentMoved)
    assert (move.to_state, move.proof) == (
        S.NOT_PLACED,
        "nonce unused; operator says: I have looked",
    )
    [note] = [each for each in stage.all(Note) if each.kind == "VERDICT"]
    listed_at = None if is_dead else (intent.created_at + timedelta(seconds=1)).isoformat()
    unread = "" if is_dead else "the day order book's row ORD9 can't be read (qtty: Field required)"
    assert (note.numbers["state"], note.numbers["reads"]) == ("FRESH", 0)
    assert (note.numbers["listed_at"], note.numbers["unread"]) == (listed_at, unread)
    assert [kind for kind, _ in stage.told] == ["reject"]


@pytest.mark.parametrize("is_dead", [True, False])
def test_it_is_told_of_with_what_to_say_once_no_list_has_settled_it(is_dead):
    stage, _ = _overdue(is_dead=is_dead)

    own = [code for code in _told(stage) if code != "ROW_UNREADABLE"]
    standing = [text for text in stage.engine.status().alerts if "L-0001" in text]
    cancel = stage.engine.objection(CancelAsked(stage.now, "L-0001", "operator", "too dear"))
    _say(stage)

    assert own == ["NEVER_ARRIVED", "ABSENCE_UNPROVED"]
    assert len(standing) == 1
    assert 'bot order L-0001 --not-placed --reason "…"' in standing[0]
    assert cancel is None
    assert [text for text in stage.engine.status().alerts if "L-0001" in text] == []


def test_after_a_restart_a_person_ends_it_too():
    _, intent = _lost_sale()
    attempt = attempt_of(intent, intent.created_at)
    recovery = Recovery(
        DAY,
        next_intent_number=2,
        intents=(StoredIntent(intent, S.FRESH, None, attempt),),
        strategies={"test": HELD},
    )
    stage = Stage(sellable=1_000, recovery=recovery)
    _look(stage)

    early = _say(stage)
    stage.pass_time(HORIZON_S)
    late = _say(stage)

    assert early is not None
    assert early.startswith("VERDICT_OPEN")
    assert late is None
    assert _moves(stage) == [S.NOT_PLACED]


def test_a_flatten_waits_for_it_and_sells_once_when_a_person_has_said_that_there_is_none():
    stage, _ = _overdue()

    _flatten(stage)
    _look(stage)
    waiting = _places(stage)
    _say(stage)
    for _ in range(3):
        _look(stage)

    assert waiting == ["L-0001"]
    assert _places(stage) == ["L-0001", "L-0002"]


# -------------------------------------------------------------------------------- a row before that


@pytest.mark.parametrize("is_overdue", [True, False])
def test_a_row_of_it_beside_one_that_cannot_be_read_is_asked_about_at_once(is_overdue):
    stage, intent = _overdue() if is_overdue else _lost_sale()
    _flatten(stage)

    stage.after(1).book(report_of(intent, "ORD8"), set_aside=[UNREAD])
    stage.pass_time(15)

    assert _moves(stage)[-1] is S.AMBIGUOUS
    assert _told(stage)[-2:] == ["ORDER_AMBIGUOUS", "NONCE_BROKEN"]
    assert [one.scope for one in stage.all(StateChanged)][-1] == "fence:nonces"
    assert stage.entries_of_order("ORD8").note == "may be L-0001"
    assert _places(stage) == ["L-0001"]


def _listed_and_dead() -> tuple[Stage, Intent]:
    """Its row is listed beside one that can't be read, then its nonce tells, then no list comes."""
    stage, intent = _lost_sale(burnt=False)
    stage.after(1).book(report_of(intent, "ORD8"), set_aside=[UNREAD])
    _burn(stage, intent)
    for _ in range(14):
        _look(stage, is_dead=True)
    return stage, intent


def test_what_a_listed_row_looks_like_is_not_said_to_be_never_placed():
    stage, _ = _listed_and_dead()
    _flatten(stage)

    refused = _say(stage)
    _look(stage, is_dead=True)

    assert refused is not None
    assert refused.startswith(
        "VERDICT_LIKENESS: ORD8 is in the day order book and looks like L-0001"
    )
    assert _moves(stage)[-1] is S.FRESH
    assert _places(stage) == ["L-0001"]


def test_a_row_that_a_person_names_although_its_nonce_was_unused_ends_trust_in_nonces():
    stage, intent = _listed_and_dead()
    _flatten(stage)

    said = _say(stage, "ORD8")
    working = stage.entries_of_order("ORD8")
    stage.pass_time(2)
    cancels = [command.order_id for command in stage.all(CancelOrder)]
    stage.after(1).book(report_of(intent, "ORD8", executed=1_000))
    for _ in range(3):
        stage.after(15).quote()
        stage.pass_time(0)

    assert said is None
    assert _moves(stage)[-3:] == [S.FRESH, S.AMBIGUOUS, S.MATCHED]
    assert working.intent_id == "L-0001"
    assert "NONCE_BROKEN" in _told(stage)
    assert "fence:nonces" in [one.scope for one in stage.all(StateChanged)]
    assert cancels == ["ORD8"]
    assert _places(stage) == ["L-0001"]


# --------------------------------------------------------------------------------- a row after that


def _is_ghost(stage: Stage) -> None:
    codes = _told(stage)
    assert codes[codes.index("GHOST_ORDER") :][:3] == [
        "GHOST_ORDER",
        "SYMBOL_HALTED",
        "NONCE_BROKEN",
    ]
    assert "looks like L-0001" in stage.engine.status().halted_symbols["HPG"]
    assert stage.entries_of_order("ORD9").intent_id is None


def test_a_row_that_shows_up_after_the_verdict_stops_what_would_sell_again():
    stage, intent = _overdue()
    _say(stage)

    stage.after(1).book(report_of(intent, "ORD9", executed=300))
    _flatten(stage)
    for _ in range(3):
        stage.after(15).quote()
        stage.pass_time(0)

    _is_ghost(stage)
    assert _places(stage) == ["L-0001"]


def test_a_row_that_shows_up_while_the_next_sale_works_has_no_third_one_follow():
    stage, intent = _overdue()
    _flatten(stage)
    _say(stage)
    _look(stage)
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale, "ORD10")

    mine = report_of(sale, "ORD10", cancelled=1_000)
    stage.after(1).book(report_of(intent, "ORD9"), mine)
    for _ in range(9):
        stage.after(60).quote()
        stage.pass_time(0)

    _is_ghost(stage)
    assert _places(stage) == ["L-0001", "L-0002"]


def _restarted(stage: Stage, intent: Intent, flatten: StoredFlatten | None = None) -> Stage:
    """What a start makes of the journal after the verdict."""
    stored = StoredIntent(
        intent,
        S.NOT_PLACED,
        None,
        attempt_of(intent, intent.created_at),
        proof=stage.last(IntentMoved).proof,
    )
    again = Stage(
        sellable=1_000,
        recovery=Recovery(
            DAY,
            next_intent_number=2,
            intents=(stored,),
            strategies={"test": HELD},
            flatten=flatten,
        ),
    )
    again.now = stage.now
    return again


def test_a_row_that_shows_up_after_a_restart_is_a_ghost_and_ends_trust_in_nonces():
    before, intent = _overdue()
    _say(before)
    stage = _restarted(before, intent)

    stage.after(1).book(report_of(intent, "ORD9"))
    _flatten(stage)
    stage.after(15).quote()
    stage.pass_time(0)

    _is_ghost(stage)
    assert _places(stage) == []


def test_a_row_that_the_last_read_of_the_day_shows_halts_its_symbol_for_the_next():
    stage, intent = _overdue()
    _say(stage)
    stage.handle(TradingDayEnded(stage.now, DAY))

    stage.after(1).book(report_of(intent, "ORD9", executed=1_000))
    stage.account(total=0)
    tomorrow = DAY + timedelta(days=1)
    stage.handle(TradingDayStarted(stage.now, tomorrow))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    stage.handle(Reconciled(stage.now))
    _flatten(stage)

    _is_ghost(stage)
    assert _places(stage) == ["L-0001"]


def test_what_nobody_has_said_by_the_days_end_is_given_up_and_not_proved():
    stage, _ = _overdue()

    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    stage.handle(EarlierOrdersRead(stage.now, ()))
    refused = _say(stage)

    assert _moves(stage)[-2:] == [S.REACHED, S.EOD_ABSENT]
    assert refused is not None
    assert refused.startswith("VERDICT_OPEN")


def test_the_lists_of_the_next_day_before_the_bots_own_day_begins_prove_no_absence():
    stage, _ = _lost_sale()
    for _ in range(4):
        _look(stage)

    stage.after(16 * 3_600)
    for _ in range(5):
        stage.after(60).book()
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    for _ in range(5):
        stage.after(60).book()
    asked = _moves(stage)
    stage.handle(EarlierOrdersRead(stage.now, ()))

    assert asked == [S.UNKNOWN, S.FRESH]
    assert _moves(stage)[2:] == [S.REACHED, S.EOD_ABSENT]
