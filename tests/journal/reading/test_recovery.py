"""What the engine continues from is what was written, whatever cut the last run off."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from itertools import pairwise

import pytest
import sqlalchemy as sa

from bot.domain.account import AccountSnapshot, Break, Holding, base_words
from bot.domain.entry import (
    BOOK_ACCEPTED,
    CLOSE_NOTE,
    CODE_NOTE,
    EXPLAINED,
    FAULT_NOTE,
    FLATTEN_NOTE,
    IN_DOUBT,
    LIMITS_NOTE,
    PRUNED_NOTE,
    RECONCILE_NOTE,
    REDUCED_SCOPE,
    AccountSeen,
    AttemptStarted,
    Entry,
    Fill,
    IntentMoved,
    IntentRecorded,
    Note,
    Numbers,
    OrderUpdated,
    RunState,
    StateChanged,
    StrategySwitched,
    Verdict,
)
from bot.domain.errors import Fault
from bot.domain.operations import BreakAccepted
from bot.domain.order import OrderState, OrderType, RowFigures, SendState, Side
from bot.domain.quote import LastClose
from bot.domain.recovery import (
    RecoveredStrategy,
    Recovery,
    StoredAmend,
    StoredChanges,
    StoredFault,
    StoredFlatten,
    StoredIntent,
)
from bot.journal.database import tables
from bot.journal.database.engines import one_transaction, reading
from bot.journal.journal import Journal
from bot.journal.reading.events import last_moment
from bot.journal.reading.recovering import SETTLEMENT_LASTS, read_recovery
from bot.journal.reading.values import PRUNING
from bot.journal.writing.batch import COUNTER, POLLS, Batch
from bot.journal.writing.rows import row_of
from tests.engine.risk.test_ledgers import COST, SETTLES, come_to, having_bought
from tests.engine.stage import Stage as EngineStage
from tests.journal.facts import DAY, EPOCH, Story, after, but

NEXT_DAY = date(2026, 11, 20)
_SEND = SendState


def state(to_state: RunState, reason: str = "because", scope: str = "all") -> StateChanged:
    return StateChanged(after(1), RunState.STARTING, to_state, reason, "operator", scope)


async def test_a_new_journal_starts_from_nothing(journal: Journal) -> None:
    assert await journal.recover(DAY) == Recovery(trading_date=DAY)


async def test_what_a_person_has_reduced_lasts_and_is_no_account_s_loss(journal: Journal) -> None:
    await journal.write([state(RunState.HALTED, "earnings", REDUCED_SCOPE)])
    await journal.write([state(RunState.HALTED, "day loss", "entries:0001")])

    today, later = await journal.recover(DAY), await journal.recover(NEXT_DAY)

    assert dict(today.halted_scopes) == dict(later.halted_scopes) == {REDUCED_SCOPE: "earnings"}
    assert (dict(today.reduced), dict(later.reduced)) == ({"0001": "day loss"}, {})


async def test_an_unanswered_send_comes_back_with_its_attempt(journal: Journal) -> None:
    story = Story()
    await journal.write([story.decision, story.recorded])
    await journal.write(story.sending)

    recovery = await journal.recover(NEXT_DAY)

    assert recovery.intents == (StoredIntent(story.intent, _SEND.SENDING, None, story.started),)
    assert recovery.next_intent_number == 4
    assert story.started.epoch == EPOCH


async def test_a_settled_intent_of_an_earlier_day_does_not_come_back(journal: Journal) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)

    assert (await journal.recover(DAY)).intents == (
        StoredIntent(story.intent, _SEND.ACKED, story.order_id, story.started),
    )
    assert (await journal.recover(NEXT_DAY)).intents == ()


async def test_orders_of_today_and_open_ones_come_back_as_last_seen(journal: Journal) -> None:
    first, second, third = Story(1), Story(2, price=27_100), Story(3, price=27_150)
    for story in (first, second, third):
        for entries in story.placed():
            await journal.write(entries)
    partly = first.filled(200, position=200)
    cancelled = but(second.accepted, state=OrderState.CANCELLED)
    await journal.write([*partly, cancelled])

    assert (await journal.recover(DAY)).orders == (partly[1], cancelled, third.accepted)
    assert (await journal.recover(NEXT_DAY)).orders == (partly[1], third.accepted)


def _kept(raw: str) -> RowFigures | None:
    return (raw, 0, None, 0, 0, 0) if raw.startswith("row") else None


async def test_todays_rows_come_back_with_what_the_place_was_answered(journal: Journal) -> None:
    first, second, stranger = Story(1), Story(2, price=27_100), Story(3, price=27_150)
    for story in (first, second):
        for entries in story.placed():
            await journal.write(entries)
    alien = but(stranger.accepted, intent_id=None, strategy=None)
    await journal.write([but(stranger.result(0.1, "row 9"), intent_id=None), alien])
    await journal.write([first.result(0.05, "row 0", "place")])
    await journal.write([second.result(0.05, "row 0", "place")])
    await journal.write([first.result(number, f"row {number % 2}") for number in (1, 2, 3)])
    await journal.write([first.result(4, "no row")])

    today, later = await journal.recover(DAY, _kept), await journal.recover(NEXT_DAY, _kept)

    told = {order_id: [each[0] for each in rows] for order_id, rows in today.rows.items()}
    assert told == {first.order_id: ["row 0", "row 1"], stranger.order_id: ["row 9"]}
    assert (later.rows, (await journal.recover(DAY)).rows) == ({}, {})


async def test_of_an_amended_order_the_rows_of_its_newest_id_come_back(journal: Journal) -> None:
    story = Story(1)
    for entries in story.placed():
        await journal.write(entries)
    await journal.write([story.result(1, "row 1"), story.result(2, "row 2")])
    await journal.write([but(story.result(3, "row 3"), order_id="ORD99")])

    assert (await journal.recover(DAY, _kept)).rows == {
        story.order_id: (("row 3", 0, None, 0, 0, 0),)
    }


@pytest.mark.parametrize(
    ("end", "days", "comes"),
    [
        (None, 1, True),
        (None, 30, True),
        (_SEND.EOD_ABSENT, 1, True),
        (_SEND.EOD_ABSENT, 7, True),
        (_SEND.EOD_ABSENT, 8, False),
        (_SEND.MATCHED, 1, False),
    ],
)
async def test_a_lost_place_comes_back_with_the_ids_of_its_day(
    journal: Journal, end: SendState | None, days: int, *, comes: bool
) -> None:
    await _lose_a_place(journal, end)
    ours, alien = await _end_another(journal)

    found = await journal.recover(DAY + timedelta(days=days))

    ids = frozenset({ours.order_id, "ORD99", alien.order_id})
    assert [one.day_ids for one in found.intents] == ([ids] if comes else [])
    assert [one.attempt for one in found.intents] == ([_LOST.started] if comes else [])
    assert (found.orders, dict(found.later_ids)) == ((), {})
    assert found.traded_elsewhere == ((alien,) if days < SETTLEMENT_LASTS.days else ())


_LOST = Story(1)


async def _lose_a_place(journal: Journal, end: SendState | None) -> None:
    await journal.write([_LOST.decision, _LOST.recorded])
    await journal.write(_LOST.sending)
    steps = [_SEND.SENDING, _SEND.UNKNOWN, _SEND.REACHED, *([end] if end else [])]
    await journal.write([_LOST.moved(old, new) for old, new in pairwise(steps)])


async def _end_another(journal: Journal) -> tuple[OrderUpdated, OrderUpdated]:
    """An order of ours of that day, amended under the id ORD99, and a stranger; both have ended."""
    ended, stranger = Story(2, price=27_100), Story(3, price=27_150)
    for entries in ended.placed():
        await journal.write(entries)
    await journal.write([but(ended.result(1, "row"), order_id="ORD99")])
    ours = but(ended.accepted, state=OrderState.CANCELLED)
    alien = but(stranger.accepted, intent_id=None, strategy=None, state=OrderState.FILLED)
    alien = but(alien, executed_quantity=100, executed_amount=2_715_000)
    await journal.write([ours, alien])
    return ours, alien


@pytest.mark.parametrize("end", [None, _SEND.EOD_ABSENT])
@pytest.mark.parametrize("order_id", ["ORD99", Story(2).order_id, Story(3).order_id])
async def test_an_order_of_today_may_have_an_id_of_the_day_of_a_lost_place(
    journal: Journal, order_id: str, end: SendState | None
) -> None:
    await _lose_a_place(journal, end)
    _, alien = await _end_another(journal)
    later = Story(4, price=27_200, start=86_400, trading_date=NEXT_DAY)
    for entries in later.placed():
        its = [getattr(each, "order_id", None) == later.order_id for each in entries]
        named = zip(entries, its, strict=True)
        await journal.write([but(e, order_id=order_id) if is_its else e for e, is_its in named])
    todays = but(later.accepted, order_id=order_id)
    await journal.write([todays])

    found = await journal.recover(NEXT_DAY)

    assert [row for row in found.orders if row.order_id == order_id] == [todays]
    assert all(row.trading_date == NEXT_DAY for row in found.orders)
    assert (dict(found.later_ids), dict(found.changes)) == ({}, {})
    assert found.traded_elsewhere == (alien,)


async def test_what_a_stranger_traded_is_there_when_its_id_is_used_again(journal: Journal) -> None:
    await _lose_a_place(journal, _SEND.EOD_ABSENT)
    _, alien = await _end_another(journal)
    todays = but(alien, trading_date=NEXT_DAY, executed_quantity=0, executed_amount=0)
    await journal.write([but(todays, state=OrderState.CANCELLED)])

    found = await journal.recover(NEXT_DAY)

    assert found.traded_elsewhere == (alien,)


@pytest.mark.parametrize("end", [None, _SEND.EOD_ABSENT])
@pytest.mark.parametrize(
    ("note", "is_known"),
    [("may be L-0001", False), ("may be L-0009, L-0001", False), ("may be L-00011", True)],
)
async def test_what_may_be_the_lost_place_is_a_known_other_once_that_has_ended(
    journal: Journal, note: str, end: SendState | None, *, is_known: bool
) -> None:
    await _lose_a_place(journal, end)
    candidate = but(Story(3).accepted, intent_id=None, strategy=None, note=note)
    await journal.write([but(candidate, state=OrderState.FILLED)])

    [found] = (await journal.recover(NEXT_DAY)).intents

    assert (candidate.order_id in found.day_ids) is (is_known or end is _SEND.EOD_ABSENT)


async def test_a_late_row_that_a_person_was_told_of_comes_back_with_its_place(
    journal: Journal,
) -> None:
    await _lose_a_place(journal, _SEND.EOD_ABSENT)
    answer = but(_LOST.result(0.1, "answer", "place"), order_id="ORD7")
    told = but(_LOST.result(86_400, "late row", "book"), order_id="ORD9")
    await journal.write([answer, told])

    found = [(await journal.recover(day)).intents for day in (NEXT_DAY, NEXT_DAY)]

    assert [one.day_ids for each in found for one in each] == [{"ORD9"}, {"ORD9"}]


async def test_an_order_that_is_not_ours_comes_back_too(journal: Journal) -> None:
    stranger = but(Story().accepted, intent_id=None, strategy=None, exchange=None, price=None)

    await journal.write([stranger])

    assert (await journal.recover(DAY)).orders == (stranger,)


async def test_positions_and_cost_are_summed_from_fills(journal: Journal) -> None:
    bought, sold = Story(1, price=27_000), Story(2, side=Side.SELL, price=27_500, quantity=300)
    for entries in (*bought.placed(), *sold.placed()):
        await journal.write(entries)
    await journal.write(bought.filled(500, position=500))
    await journal.write(sold.filled(300, position=200, realised=150_000))

    recovery = await journal.recover(DAY)

    fees = 20_250 + 12_375 + 8_250
    assert recovery.strategies == {
        "depth-hpg": RecoveredStrategy(
            positions={"HPG": (200, 5_400_000)},
            orders_today=2,
            realised_today=150_000,
            fees_today=fees,
            state="on",
            recent_buys=(13_500_000,),
            held_in=frozenset({"120C900001.1"}),
        )
    }
    assert recovery.next_fill_number == 3


@pytest.mark.parametrize(
    ("bought", "sold", "held_in"),
    [
        ([".1"], [], {".1"}),
        ([".1"], [".1"], set()),
        ([".1"], [".6"], set()),  # nothing is held, so nothing can be taken for another's
        ([".1", ".6"], [], {".1", ".6"}),
        ([".1", ".6"], [".1"], {".6"}),
    ],
)
async def test_shares_come_back_with_the_accounts_on_which_they_were_traded(
    journal: Journal, bought: list[str], sold: list[str], held_in: set[str]
) -> None:
    sides = [*((each, Side.BUY) for each in bought), *((each, Side.SELL) for each in sold)]
    for number, (account, side) in enumerate(sides, 1):
        story = Story(number, side=side)
        for entries in story.placed():
            await journal.write(entries)
        *others, fill = story.filled(500, position=0)
        await journal.write([*others, but(fill, account=account)])

    assert (await journal.recover(DAY)).strategies["depth-hpg"].held_in == held_in


async def test_a_new_day_keeps_the_position_and_forgets_the_counts(journal: Journal) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    await journal.write(story.filled(200, position=200))

    book = (await journal.recover(NEXT_DAY)).strategies["depth-hpg"]

    kept = RecoveredStrategy({"HPG": (200, 5_410_000)}, 0, 0, 0, "on")
    assert book == replace(kept, recent_buys=(13_525_000,), held_in=frozenset({"120C900001.1"}))


async def test_only_orders_that_left_are_counted(journal: Journal) -> None:
    denied = IntentRecorded(after(0), Story(1).intent, _SEND.DENIED)
    expired = Story(2).moved(_SEND.READY, _SEND.EXPIRED_LOCAL)
    unsent = Story(4).moved(_SEND.SENDING, _SEND.NOT_SENT)

    await journal.write([denied, Story(2).recorded, expired, Story(3).recorded])
    await journal.write([Story(4).recorded, Story(4).moved(_SEND.READY, _SEND.SENDING), unsent])

    assert (await journal.recover(DAY)).strategies["depth-hpg"].orders_today == 1


@pytest.mark.parametrize(("is_denied", "counted"), [(False, 1), (True, 0)])
async def test_an_order_that_is_requested_again_is_counted_once(
    journal: Journal, is_denied: bool, counted: int
) -> None:
    moves = [(_SEND.READY, _SEND.SENDING), (_SEND.SENDING, _SEND.HELD), (_SEND.HELD, _SEND.REFUSED)]
    again = replace(Story(2).intent, follows=Story(1).local_id)
    state = _SEND.DENIED if is_denied else _SEND.READY

    await journal.write([Story(1).recorded, *(Story(1).moved(*each) for each in moves)])
    await journal.write([IntentRecorded(after(1), again, state)])

    assert (await journal.recover(DAY)).strategies["depth-hpg"].orders_today == counted


async def test_numbers_go_on_after_requests_that_never_became_intents(journal: Journal) -> None:
    blocked = but(Story(41).decision, verdict=Verdict.BLOCKED, code="max_order_value")
    older = but(Story(7).decision, verdict=Verdict.EXPIRED, code="TWO_FACTOR")
    await journal.write([Story(7).recorded, blocked, but(blocked, request_id=None), older])

    assert (await journal.recover(DAY)).next_intent_number == 42


async def test_numbers_go_on_past_their_zeros(journal: Journal) -> None:
    await journal.write([Story(9_999).recorded, Story(10_000).recorded])

    assert (await journal.recover(DAY)).next_intent_number == 10_001


async def test_a_halt_and_a_pause_survive_a_restart(journal: Journal) -> None:
    for lasting in (RunState.HALTED, RunState.PAUSED):
        await journal.write([state(lasting, f"{lasting} by hand"), state(RunState.STOPPED)])

        recovery = await journal.recover(DAY)

        assert recovery.run_state is lasting
        assert recovery.run_state_reason == f"{lasting} by hand"


async def test_waiting_for_2fa_does_not_survive_a_restart(journal: Journal) -> None:
    await journal.write([state(RunState.RUNNING), state(RunState.NEEDS_2FA)])

    assert (await journal.recover(DAY)).run_state is RunState.RUNNING


async def test_a_halted_symbol_does_not_halt_the_bot(journal: Journal) -> None:
    await journal.write([state(RunState.HALTED, scope="symbol:HPG")])

    assert (await journal.recover(DAY)).run_state is RunState.RUNNING


async def test_a_disabled_strategy_stays_disabled(journal: Journal) -> None:
    def switched(name: str, then: str) -> StrategySwitched:
        return StrategySwitched(after(1), name, then, "because", "limit")

    await journal.write([switched("a", "paused"), switched("b", "paused")])
    await journal.write([switched("a", "disabled"), switched("b", "on"), switched("a", "warming")])

    strategies = (await journal.recover(DAY)).strategies
    assert {name: book.state for name, book in strategies.items()} == {"a": "disabled", "b": "on"}


async def test_a_pause_under_another_state_comes_back(journal: Journal) -> None:
    await journal.write([state(RunState.NEEDS_2FA)])
    await journal.write([state(RunState.PAUSED, "lunch", "operator")])

    recovery = await journal.recover(DAY)

    assert (recovery.run_state, recovery.run_state_reason) == (RunState.PAUSED, "lunch")


async def test_a_halt_that_ended_under_another_state_does_not_come_back(journal: Journal) -> None:
    await journal.write([state(RunState.HALTED), state(RunState.NEEDS_2FA)])
    await journal.write([state(RunState.RUNNING, "looked", "operator")])

    assert (await journal.recover(DAY)).run_state is RunState.RUNNING


async def test_halted_symbols_come_back_until_they_are_resumed(journal: Journal) -> None:
    await journal.write([state(RunState.HALTED, "fell", "symbol:HPG")])
    await journal.write([state(RunState.HALTED, "drift", "symbol:SHS")])
    await journal.write([state(RunState.RUNNING, "looked", "symbol:SHS")])

    assert (await journal.recover(DAY)).halted_symbols == {"HPG": "fell"}


@pytest.mark.parametrize("end", [_SEND.REFUSED, _SEND.UNKNOWN])
async def test_a_send_of_today_comes_back_with_what_a_ghost_or_a_twin_is_known_by(
    journal: Journal, end: SendState
) -> None:
    story = Story()
    await journal.write([story.decision, story.recorded])
    await journal.write(story.sending)
    name = story.intent.intent_id
    await journal.write([IntentMoved(after(3), name, _SEND.SENDING, end, "400")])
    if end is _SEND.UNKNOWN:
        await journal.write([IntentMoved(after(4), name, end, _SEND.MATCHED, "found")])

    [stored] = (await journal.recover(DAY)).intents

    assert stored.state is (_SEND.MATCHED if end is _SEND.UNKNOWN else end)
    assert stored.attempt is not None
    assert (await journal.recover(NEXT_DAY)).intents == ()


async def test_a_send_comes_back_until_a_row_has_shown_its_order(journal: Journal) -> None:
    shown, other = Story(1), Story(2, price=27_100)
    for story in (shown, other):
        for entries in story.placed():
            await journal.write(entries)
    await journal.write([shown.result(1, "{}", "book")])

    found = {each.intent.intent_id: each.attempt for each in (await journal.recover(DAY)).intents}

    assert found == {shown.local_id: None, other.local_id: other.started}


async def test_a_send_comes_back_with_the_ids_that_earlier_attempts_of_its_run_and_day_have_stored(
    journal: Journal,
) -> None:
    yesterday = Story(1, start=-86_400, trading_date=DAY - timedelta(days=1))
    another, first, lost, later = (Story(number, price=27_000 + number) for number in range(2, 6))
    for story, epoch, *ids in (
        (yesterday, 7, "OLD"),
        (another, 6, "BEFORE"),
        (first, 7, "ORD1", "ORD2"),
        (lost, 7, "ORD3"),
        (later, 7, "ORD4"),
    ):
        attempt = but(story.started, epoch=epoch, known_ids=tuple(ids))
        await journal.write([story.decision, story.recorded, attempt, story.sending[1]])

    stored = {each.intent.intent_id: each.attempt for each in (await journal.recover(DAY)).intents}

    assert stored[lost.local_id] == but(lost.started, epoch=7, known_ids=("ORD1", "ORD2", "ORD3"))


async def test_fills_that_may_not_have_settled_come_back_with_their_day(journal: Journal) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    entries = story.filled(story.quantity, position=story.quantity)
    await journal.write(entries)

    (fill,) = (entry for entry in entries if isinstance(entry, Fill))
    assert (await journal.recover(NEXT_DAY)).recent_fills == ((DAY, fill),)
    assert (await journal.recover(DAY + 2 * SETTLEMENT_LASTS)).recent_fills == ()


async def test_what_was_traded_since_the_numbers_that_count_comes_back_however_long_ago_it_was(
    journal: Journal,
) -> None:
    story, late = Story(), DAY + 3 * SETTLEMENT_LASTS
    filled = but(story.accepted, executed_quantity=200, state=OrderState.FILLED)
    sold = but(filled, intent_id=None, strategy=None, order_id="APP1")
    for entries in story.placed():
        await journal.write(entries)
    await journal.write([*story.filled(story.quantity, position=story.quantity), sold])

    async def found_with_numbers_of(account: str) -> Recovery:
        base = AccountSnapshot(after(1), account, 5_000, 5_000, {})
        agreed = state(RunState.RUNNING, base_words(base.at, {}), f"base:{account}")
        await journal.write([AccountSeen(after(1), base), agreed])
        return await journal.recover(late)

    before = await found_with_numbers_of("0001")
    since = await found_with_numbers_of(story.accepted.account)

    assert (before.recent_fills, before.traded_elsewhere) == ((), ())
    assert [day for day, _ in since.recent_fills] == [DAY]
    assert since.traded_elsewhere == (sold,)


@pytest.mark.parametrize("is_after", [False, True])
async def test_at_one_instant_the_journal_tells_whether_a_fill_came_after_the_numbers_that_count(
    journal: Journal, is_after: bool
) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    filled: list[Entry] = [*story.filled(story.quantity, position=story.quantity)]
    at = next(each.at for each in filled if isinstance(each, Fill))
    base = AccountSnapshot(at, story.accepted.account, 5_000, 5_000, {})
    agreed = but(state(RunState.RUNNING, base_words(at, {}), f"base:{base.account}"), at=at)
    seen: list[Entry] = [AccountSeen(at, base), agreed]

    await journal.write([*seen, *filled] if is_after else [*filled, *seen])

    [(_, fill)] = (await journal.recover(DAY)).recent_fills
    assert (fill.at > base.at) == is_after


async def test_of_several_reads_of_one_instant_the_one_counts_that_was_agreed_on(
    journal: Journal,
) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    filled = story.filled(story.quantity, position=story.quantity)
    at = next(each.at for each in filled if isinstance(each, Fill))
    base = AccountSnapshot(at, story.accepted.account, 5_000, 5_000, {})
    agreed = but(state(RunState.RUNNING, base_words(at, {}), f"base:{base.account}"), at=at)
    paid = replace(base, cash=2_000)

    await journal.write([AccountSeen(at, base), agreed, AccountSeen(at, base)])
    await journal.write([*filled, AccountSeen(at, paid)])

    found = await journal.recover(DAY)
    assert [each.cash for each in found.bases] == [5_000], "which the fill is not a part of"
    assert [each.cash for each in found.account_reads] == [5_000, 2_000]


async def _with_a_put(
    journal: Journal, state: OrderState, price: int | None = None
) -> tuple[Story, AttemptStarted]:
    """An order for which a new total was asked, or a new price, with its PUT committed."""
    story, quantity = Story(), None if price else 600
    old = story.intent.quantity if quantity else story.price
    numbers = {"by": "operator", "price": price, "quantity": quantity, "old": old}
    put = but(story.started, attempt_id="p", nonce="p", verb="PUT", order_id=story.order_id)
    stored = but(put, known_ids=(story.order_id,))
    for entries in story.placed():
        await journal.write(entries)
    await journal.write([but(story.decision, code="AMEND", why="by hand", numbers=numbers)])
    await journal.write([but(story.accepted, state=OrderState.PENDING_REPLACE), stored])
    await journal.write([but(story.accepted, state=state)])
    return story, but(put, known_ids=(*story.started.known_ids, story.order_id))


@pytest.mark.parametrize("state", [OrderState.PENDING_REPLACE, OrderState.PENDING_CANCEL])
async def test_an_amendment_without_a_verdict_comes_back(
    journal: Journal, state: OrderState
) -> None:
    story, put = await _with_a_put(journal, state)
    amend = StoredAmend(
        story.order_id, put, None, None, 600, story.intent.quantity, "operator", "by hand"
    )

    unanswered = (await journal.recover(DAY)).amends
    await journal.write([but(story.finished, attempt_id="p", outcome="REFUSED")])
    refused = (await journal.recover(DAY)).amends

    assert unanswered == (amend,)
    assert refused == (replace(amend, outcome="REFUSED"),)
    assert (await journal.recover(NEXT_DAY)).amends == ()


async def test_an_amendment_that_has_its_verdict_does_not_come_back(journal: Journal) -> None:
    await _with_a_put(journal, OrderState.ACCEPTED)

    assert (await journal.recover(DAY)).amends == ()


async def test_the_ids_that_amendments_gave_come_back_in_their_order(journal: Journal) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    shown = [but(story.result(1, text), order_id=text) for text in ("ORD9", "ORD5", "ORD9")]
    await journal.write(shown)

    assert (await journal.recover(DAY)).later_ids == {story.order_id: ("ORD9", "ORD5")}
    assert (await journal.recover(NEXT_DAY)).later_ids == {story.order_id: ("ORD9", "ORD5")}
    await journal.write([but(story.accepted, state=OrderState.CANCELLED)])
    assert (await journal.recover(NEXT_DAY)).later_ids == {}


async def test_the_prices_that_amendments_asked_for_come_back(journal: Journal) -> None:
    story, _ = await _with_a_put(journal, OrderState.ACCEPTED, 26_900)

    assert (await journal.recover(DAY)).changes == {story.order_id: StoredChanges(prices=(26_900,))}


@pytest.mark.parametrize("had_ended", [False, True])
async def test_what_amendments_made_of_an_order_comes_back(
    journal: Journal, *, had_ended: bool
) -> None:
    story, _ = await _with_a_put(journal, OrderState.PARTIALLY_FILLED)
    before = StoredChanges((600,))
    assert (await journal.recover(DAY)).changes == {story.order_id: before}
    await journal.write(story.filled(200, position=200))
    if had_ended:
        ended = OrderState.CANCELLED
        await journal.write([story.transition(OrderState.PARTIALLY_FILLED, ended, 95)])
    await journal.write([but(story.result(100, "{}"), order_id="ORD9")])
    [*_, fill] = story.filled(100, position=300)
    assert isinstance(fill, Fill)
    await journal.write([but(fill, fill_id="F-9999")])

    found = (await journal.recover(DAY)).changes

    matched = (200, 200 * story.price)
    total = 600 if had_ended else None
    assert found == {story.order_id: StoredChanges((600,), total, matched, had_ended)}
    assert (await journal.recover(NEXT_DAY)).changes[story.order_id].quantities == ()


async def test_what_was_matched_before_each_later_id_comes_back(journal: Journal) -> None:
    story = Story()
    [*_, fill] = story.filled(100, position=100)
    assert isinstance(fill, Fill)
    for entries in story.placed():
        await journal.write(entries)

    for number in (1, 2, 3):
        counted = but(fill, fill_id=f"F-900{number}", order_executed=100 * number)
        later = but(story.result(1, "{}"), order_id=f"ORD{6 + number}")
        await journal.write([counted, later])
    await journal.write([but(fill, fill_id="F-9004", order_executed=400)])

    found = (await journal.recover(DAY)).changes[story.order_id]
    amount = 100 * story.price
    assert found.matched_before == ((100, amount), (200, 2 * amount))
    assert found.matched == (300, 3 * amount)


async def test_the_newest_close_of_before_today_comes_back(journal: Journal) -> None:
    days = {DAY - timedelta(days=2): 26_000, DAY - timedelta(days=1): 27_000, DAY: 28_000}
    for day, price in days.items():
        numbers: dict[str, int | str] = {"day": day.isoformat(), "close": price}
        await journal.write([Note(after(1), CLOSE_NOTE, "", numbers, "HPG")])

    recovery = await journal.recover(DAY)

    assert recovery.closes == (LastClose("HPG", 27_000, DAY - timedelta(days=1)),)


async def test_a_list_of_an_earlier_day_that_a_person_has_accepted_stays_so_for_the_day(
    journal: Journal,
) -> None:
    assert (await journal.recover(DAY)).book_accepted_on == date.min
    await journal.write([Note(after(1), "RESUME", "", {BOOK_ACCEPTED: DAY.isoformat()})])
    await journal.write([Note(after(2), "RESUME", "the journal answers again", {})])

    days = [(await journal.recover(day)).book_accepted_on for day in (DAY, NEXT_DAY)]

    assert days == [DAY, DAY]


async def test_a_row_that_was_somebody_else_s_is_ours_once_a_person_has_said_so(
    journal: Journal,
) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    row = but(story.result(1, "the row"), order_id="ORD7")
    assert row.source in POLLS
    alien = but(story.accepted, order_id="ORD7", intent_id=None, strategy=None)
    await journal.write([but(row, intent_id=None), alien])

    await journal.write([but(alien, state=OrderState.EXPIRED), row])

    assert (await journal.recover(DAY)).later_ids == {story.order_id: ("ORD7",)}
    await journal.write([row])
    with reading(journal.url) as connection:
        stored = sa.select(sa.func.count()).where(tables.order_results.c.order_id == "ORD7")
        assert connection.execute(stored).scalar() == 2


async def test_what_was_traded_elsewhere_comes_back_while_it_may_not_have_settled(
    journal: Journal,
) -> None:
    ours = Story()
    for entries in ours.placed():
        await journal.write(entries)
    await journal.write([but(ours.accepted, state=OrderState.FILLED, executed_quantity=500)])
    await journal.write([but(ours.result(1, "x"), order_id="ORD9")])
    sold = but(
        ours.accepted,
        intent_id=None,
        strategy=None,
        order_id="APP1",
        state=OrderState.CANCELLED,
        executed_quantity=200,
    )
    came_to_nothing = but(sold, order_id="APP2", executed_quantity=0)
    still_open = but(sold, order_id="APP3", state=OrderState.PARTIALLY_FILLED)
    later_id_of_ours = but(sold, order_id="ORD9")
    same_id_before = but(later_id_of_ours, trading_date=DAY - timedelta(days=1))
    await journal.write([sold, came_to_nothing, still_open, later_id_of_ours, same_id_before])

    async def found(day: date) -> set[tuple[str, date]]:
        known = (await journal.recover(day)).traded_elsewhere
        return {(row.order_id, row.trading_date) for row in known}

    before = ("ORD9", DAY - timedelta(days=1))
    assert (await found(DAY), await found(NEXT_DAY)) == ({before}, {("APP1", DAY), before})
    assert await found(DAY + SETTLEMENT_LASTS) == {("APP1", DAY)}
    assert await found(NEXT_DAY + SETTLEMENT_LASTS) == set()


async def test_what_was_to_be_cancelled_comes_back_with_its_reason(journal: Journal) -> None:
    wished, sent, neither = Story(1), Story(2, price=27_100), Story(3, price=27_150)
    for story in (wished, sent, neither):
        for entries in story.placed():
            await journal.write(entries)
    by_hand = but(wished.decision, code="CANCEL", why="by hand", request_id=wished.local_id)
    refused = but(by_hand, verdict=Verdict.BLOCKED, request_id=neither.local_id)
    delete = but(sent.started, attempt_id="d", nonce="d", verb="DELETE", order_id=sent.order_id)
    await journal.write([by_hand, refused, delete])

    found = (await journal.recover(DAY)).cancels
    assert found == {wished.local_id: "by hand", sent.local_id: "cancel"}
    doubt = but(by_hand, verdict=Verdict.SKIPPED, code="IN_DOUBT", why="may be another's")
    await journal.write([doubt])
    assert (await journal.recover(DAY)).cancels == {sent.local_id: "cancel"}
    await journal.write([but(by_hand, why="it is ours")])
    found = (await journal.recover(DAY)).cancels
    assert found == {wished.local_id: "it is ours", sent.local_id: "cancel"}
    assert (await journal.recover(NEXT_DAY)).cancels == {}


async def test_which_cancels_were_asked_for_in_spite_of_a_doubt_comes_back(
    journal: Journal,
) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    wish = but(story.decision, code="CANCEL", why="by hand", numbers={})
    knowing = but(wish, numbers={IN_DOUBT: True})
    given_up = but(wish, verdict=Verdict.SKIPPED, code="IN_DOUBT")

    found = []
    for decision in (wish, knowing, given_up, wish):
        await journal.write([decision])
        found.append((await journal.recover(DAY)).knowing_cancels)

    assert found == [frozenset(), frozenset({story.local_id}), frozenset(), frozenset()]


async def test_the_numbers_that_count_come_back_with_what_was_traded_elsewhere(
    journal: Journal,
) -> None:
    base = AccountSnapshot(after(1), "120C900001.1", 5_000, 5_000, {})
    elsewhere = {"APP1": (200, 5_380_000), "APP 2": (100, 2_690_000)}
    words = base_words(after(1), elsewhere)

    await journal.write([AccountSeen(after(1), base)])
    await journal.write([state(RunState.RUNNING, words, f"base:{base.account}")])

    recovery = await journal.recover(DAY)
    assert (recovery.bases, recovery.in_bases) == ((base,), elsewhere)


async def test_what_was_read_since_the_numbers_that_count_comes_back_once_for_each_cash(
    journal: Journal,
) -> None:
    base = AccountSnapshot(after(10), "120C900001.1", 5_000, 5_000, {})
    seen = [replace(base, at=after(at), cash=cash) for at, cash in ((11, 9), (12, 8), (13, 9))]
    others = replace(base, at=after(12), account="0001")

    before = AccountSeen(after(9), replace(base, at=after(9), cash=7))
    await journal.write([before, AccountSeen(after(10), base)])
    agreed = state(RunState.RUNNING, base_words(base.at, {}), f"base:{base.account}")
    await journal.write([but(agreed, at=base.at)])
    await journal.write([AccountSeen(each.at, each) for each in (*seen, others)])

    assert (await journal.recover(DAY)).account_reads == (seen[1], seen[2])


async def test_cash_that_a_break_has_corrected_since_counts_with_the_numbers(
    journal: Journal,
) -> None:
    base = AccountSnapshot(after(10), "120C900001.1", 5_000, 5_000, {})
    agreed = state(RunState.RUNNING, base_words(base.at, {}), f"base:{base.account}")
    facts: Numbers = {"alert": "BREAK", "break": "B-0002", "ours": 5_000, "theirs": 7_000}
    found = Note(after(30), "ALERT", "cash", facts)
    contained = but(found, at=after(11), numbers={**facts, "break": "B-0001"})
    shares = but(found, symbol="HPG", numbers={**facts, "break": "B-0003"})
    named = Note(after(31), "RECONCILE", "cash dividend", {"difference": 300})

    await journal.write([AccountSeen(after(11), base), but(agreed, at=base.at), contained])
    await journal.write([found, shares, named, but(found, at=after(40))])

    held = {"HPG": Holding("HPG", 2_000, 2_000, 0, 0)}
    assert (await journal.recover(DAY)).bases == (replace(base, cash=7_300, holdings=held),)


HELD = Holding("HPG", 1_000, 600, 400, 27_000)


@pytest.mark.parametrize(
    ("told", "corrected"),
    [
        ({"total": 300, "sellable": 200, "receiving": 100}, (1_300, 800, 500)),
        ({"total": 300, "sellable": 0, "receiving": 0}, (1_300, 600, 400)),
        ({}, (1_300, 900, 400)),  # an earlier program's: they are taken for settled ones
    ],
)
async def test_shares_that_a_break_has_corrected_since_count_with_the_numbers(
    journal: Journal, told: Numbers, corrected: tuple[int, int, int]
) -> None:
    base = AccountSnapshot(after(10), "120C900001.1", 5_000, 5_000, {"HPG": HELD})
    agreed = state(RunState.RUNNING, base_words(base.at, {}), f"base:{base.account}")
    facts: Numbers = {"alert": "BREAK", "break": "B-0002", "ours": 0, "theirs": 300, **told}
    found = Note(after(30), "ALERT", "B-0002 HPG in all: …", facts, "HPG")
    contained = but(found, at=after(11), numbers={**facts, "break": "B-0001"})
    of_a_row: Numbers = {"alert": "BREAK", "break": "B-0003", "ours": None, "theirs": None}
    other = but(found, symbol="SSI", numbers={"alert": "SHARES_GONE", "total": 7})

    await journal.write([AccountSeen(after(11), base), but(agreed, at=base.at), contained])
    await journal.write([found, but(found, numbers=of_a_row), other])

    holdings = {"HPG": Holding("HPG", *corrected, 27_000)}
    assert (await journal.recover(DAY)).bases == (replace(base, holdings=holdings),)


@pytest.mark.parametrize(
    ("text", "facts", "corrected"),
    [
        ("stock dividend HPG", {"total": 30, "sellable": 0, "receiving": 30}, (1_030, 600, 430)),
        ("HPG sellable: …", {"total": 0, "sellable": 30, "receiving": -30}, (1_000, 630, 370)),
        ("stock dividend HPG", {}, (1_030, 630, 400)),  # from here on an earlier program's
        ("APP1 came later than B-0001", {EXPLAINED: "B-0001"}, (1_030, 630, 400)),
        ("HPG sellable: …", {}, (1_000, 600, 400)),
        ("HPG receiving: …", {}, (1_000, 600, 400)),
    ],
)
async def test_shares_that_were_explained_since_count_with_the_numbers(
    journal: Journal, text: str, facts: Numbers, corrected: tuple[int, int, int]
) -> None:
    base = AccountSnapshot(after(10), "120C900001.1", 5_000, 5_000, {"HPG": HELD})
    agreed = state(RunState.RUNNING, base_words(base.at, {}), f"base:{base.account}")
    note = Note(after(30), RECONCILE_NOTE, text, {"difference": 30, **facts}, "HPG")

    await journal.write([AccountSeen(after(11), base), but(agreed, at=base.at)])
    await journal.write([note])

    holdings = {"HPG": Holding("HPG", *corrected, 27_000)}
    assert (await journal.recover(DAY)).bases == (replace(base, holdings=holdings),)


def _earlier(second: int, before: int, now: int, *, what: str = "in all", name: str = "") -> Note:
    """A break, or without a name what explained a difference, as an earlier program noted it."""
    text = f"HPG {what}: …"
    if name:
        facts: Numbers = {"alert": "BREAK", "break": name, "ours": before, "theirs": now}
        return Note(after(second), "ALERT", f"{name} {text}", facts, "HPG")
    facts = {"expected": before, "found": now, "difference": now - before}
    return Note(after(second), RECONCILE_NOTE, text, facts, "HPG")


@pytest.mark.parametrize(
    ("notes", "total"),
    [
        ([_earlier(30, 0, 300, name="B-1"), _earlier(40, 0, 300, name="B-2")], 1_300),
        ([_earlier(30, 0, 300), _earlier(40, 0, 300)], 1_300),
        ([_earlier(30, 0, 300, name="B-1"), _earlier(40, 0, 300)], 1_300),
        ([_earlier(30, 0, 300, name="B-1"), _earlier(40, 300, 500, name="B-2")], 1_500),
        ([_earlier(30, 0, 300, name="B-1"), _earlier(40, 0, 500, name="B-2")], 1_800),
        ([_earlier(30, 0, 300, name="B-1"), _earlier(40, 200, 300, name="B-2")], 1_400),
        ([_earlier(30, 0, 300), _earlier(40, 0, 300, what="sellable")], 1_300),
        ([_earlier(30, 0, 300), but(_earlier(40, 0, 300), symbol="SSI")], 1_300),
    ],
    ids=[
        "a break",
        "a right",
        "both",
        "two breaks",
        "from 0",
        "to 300",
        "in part",
        "of two symbols",
    ],
)
async def test_shares_that_an_earlier_program_found_again_after_a_restart_count_once(
    journal: Journal, notes: list[Note], total: int
) -> None:
    base = AccountSnapshot(after(10), "120C900001.1", 5_000, 5_000, {"HPG": HELD})
    agreed = state(RunState.RUNNING, base_words(base.at, {}), f"base:{base.account}")

    await journal.write([AccountSeen(after(11), base), but(agreed, at=base.at), *notes])

    [found] = (await journal.recover(DAY)).bases
    assert found.held("HPG").total == total
    assert found.held("SSI").total == sum(300 for note in notes if note.symbol == "SSI")


async def test_breaks_of_equal_figures_that_say_what_they_corrected_all_count(
    journal: Journal,
) -> None:
    base = AccountSnapshot(after(10), "120C900001.1", 5_000, 5_000, {"HPG": HELD})
    agreed = state(RunState.RUNNING, base_words(base.at, {}), f"base:{base.account}")
    told: Numbers = {"total": 300, "sellable": 300, "receiving": 0}
    found = [_earlier(second, 0, 300, name=f"B-{second}") for second in (30, 40)]
    notes = [but(each, numbers={**each.numbers, **told}) for each in found]

    await journal.write([AccountSeen(after(11), base), but(agreed, at=base.at), *notes])

    [counting] = (await journal.recover(DAY)).bases
    assert counting.held("HPG").total == 1_600


async def test_a_break_beside_held_money_is_not_found_again_after_a_restart(
    journal: Journal,
) -> None:
    before = having_bought(shown_cash=100_000_000)
    before.read(2)
    before.read(3, cash=110_000_000)
    kept = AccountSeen | Fill | Note | StateChanged
    await journal.write([each for each in before.stage.entries if isinstance(each, kept)])
    [told] = before.stage.engine.reconciliation().breaks

    stage = EngineStage(recovery=await journal.recover(DAY), is_open=False)
    stage.now = before.stage.now
    again = replace(before, stage=stage)
    again.read(3)
    come_to(stage, SETTLES - timedelta(days=3))
    again.read(3, cash=110_000_000 - COST)

    found = stage.engine.reconciliation().breaks
    assert [each.break_id for each in found] == [told.break_id]


@pytest.mark.parametrize("is_accepted", [True, False])
@pytest.mark.parametrize(("total", "sellable"), [(500, 300), (250, 0), (150, 0)])
async def test_a_break_of_shares_beside_held_money_is_not_found_again_after_restarts(
    journal: Journal, total: int, sellable: int, *, is_accepted: bool
) -> None:
    broker = having_bought(shown_cash=100_000_000)
    broker.read(2)
    broker.read(3, total=total, sellable=sellable)
    stage = broker.stage
    [told] = stage.engine.reconciliation().breaks
    if is_accepted:
        stage.handle(BreakAccepted(stage.now, told.break_id, "moved by the owner", "me"))
    kept = AccountSeen | Fill | Note | StateChanged
    await journal.write([each for each in stage.entries if isinstance(each, kept)])

    for _ in range(2):
        stage = EngineStage(recovery=await journal.recover(DAY), is_open=False)
        stage.now = broker.stage.now
        broker = replace(broker, stage=stage)
        broker.read(3)
        await journal.write([each for each in stage.entries if isinstance(each, kept)])
        assert broker.notes() == []

    found = [each.break_id for each in stage.engine.reconciliation().breaks]
    assert found == ([] if is_accepted else [told.break_id])


async def test_numbers_that_are_not_there_do_not_count(journal: Journal) -> None:
    """An earlier program stored that they count beside a journal that was away, but not them."""
    base = AccountSnapshot(after(1), "120C900001.1", 5_000, 5_000, {})
    agreed = state(RunState.RUNNING, base_words(after(1), {"APP1": (200, 5_380_000)}), "base:0001")
    await journal.write([AccountSeen(after(1), replace(base, account="0001")), agreed])

    lost = but(agreed, at=after(600), reason=base_words(after(600), {}))
    await journal.take_over([lost])

    recovery = await journal.recover(DAY)
    assert recovery.bases == (replace(base, account="0001"),)
    assert recovery.in_bases == {"APP1": (200, 5_380_000)}


async def test_entries_that_a_loss_has_stopped_stay_stopped_for_that_day(journal: Journal) -> None:
    await journal.write([state(RunState.HALTED, "day loss", "entries:120C900001.1")])

    assert (await journal.recover(DAY)).reduced == {"120C900001.1": "day loss"}
    assert (await journal.recover(NEXT_DAY)).reduced == {}

    await journal.write([state(RunState.RUNNING, "a new day", "entries:120C900001.1")])
    assert (await journal.recover(DAY)).reduced == {}


async def test_the_order_requests_of_the_day_come_back_with_their_instants(
    journal: Journal,
) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)

    sent = ((story.intent.account, story.started.at),)
    assert (await journal.recover(DAY)).recent_requests == sent
    assert (await journal.recover(NEXT_DAY)).recent_requests == ()


async def test_how_the_last_orders_of_the_day_were_answered_comes_back(journal: Journal) -> None:
    for number in range(1, 8):
        for entries in Story(number, start=3 * number).placed():
            await journal.write(entries)
    unanswered = Story(8, start=30)
    await journal.write([unanswered.decision, unanswered.recorded])
    await journal.write(unanswered.sending)

    found = (await journal.recover(DAY)).places_seen

    assert [(each.is_lost, each.latency_ms) for each in found] == [(False, 41)] * 5
    assert [each.at for each in found] == sorted(each.at for each in found)
    assert (await journal.recover(NEXT_DAY)).places_seen == ()


async def test_the_last_buys_that_left_come_back_with_what_they_could_cost(
    journal: Journal,
) -> None:
    for number in range(1, 24):
        for entries in Story(number, price=27_000 + 50 * number, quantity=100).placed():
            await journal.write(entries)
    sale, denied = Story(24, side=Side.SELL), Story(25)
    for entries in sale.placed():
        await journal.write(entries)
    await journal.write([but(denied.recorded, state=SendState.DENIED)])
    market = Story(26, quantity=100)
    decided = but(market.decision, saw={"last": 27_000, "ceiling": 28_850})
    intent = but(market.intent, order_type=OrderType.MTL, limit_price=None)
    await journal.write([decided, but(market.recorded, intent=intent)])
    await journal.write(market.sending)

    found = (await journal.recover(NEXT_DAY)).strategies["depth-hpg"].recent_buys

    assert found == (*(100 * (27_000 + 50 * number) for number in range(5, 24)), 2_885_000)


async def test_usual_buys_come_back_however_much_else_was_written_since(db_url: str) -> None:
    chains = tables.chains
    much_else = {"last_seq": chains.c.last_seq + 6_000, "row_count": chains.c.row_count + 6_000}
    for number in range(1, 6):
        journal = Journal.open(db_url)
        for entries in Story(number, price=27_000, quantity=100).placed():
            await journal.write(entries)
        await journal.close()
        with one_transaction(db_url) as connection:
            connection.execute(chains.update().where(chains.c.name == COUNTER).values(**much_else))

    with reading(db_url) as connection:
        found = read_recovery(connection, NEXT_DAY).strategies["depth-hpg"].recent_buys

    assert found == (2_700_000,) * 5


async def test_sales_of_the_day_come_back_with_their_instants(journal: Journal) -> None:
    bought, sold = Story(1), Story(2, side=Side.SELL, start=3)
    for entries in (*bought.placed(), *sold.placed()):
        await journal.write(entries)

    recovery = await journal.recover(DAY)

    assert len(recovery.recent_requests) == 2
    assert recovery.recent_sales == recovery.recent_requests[1:]


@pytest.mark.parametrize(
    ("minutes", "ended", "crashes"),
    [
        ([0, 3, 6, 9], [], 3),
        ([0, 3, 6, 11], [], 2),
        ([0, 3, 6, 9], [2], 1),
        ([0, 3, 6, 9], [3], 0),
        ([0], [], 0),
    ],
)
async def test_runs_before_this_one_that_have_no_end_are_counted(
    journal: Journal, minutes: list[int], ended: list[int], crashes: int
) -> None:
    for number, minute in enumerate(minutes, start=1):
        at = after(60 * minute)
        run = await journal.start_run(at=at, mode="live", version="1", config_sha256="0")
        if number in ended:
            await journal.end_run(run, "stopped", at=at)

    assert (await journal.recover(DAY)).crashes == crashes


@pytest.mark.parametrize(("has_ended", "since"), [(False, after(60)), (True, None)])
async def test_a_run_before_this_one_without_an_end_is_known_by_its_beginning(
    journal: Journal, *, has_ended: bool, since: datetime | None
) -> None:
    for minute in (0, 1, 2):
        at = after(60 * minute)
        run = await journal.start_run(at=at, mode="sandbox", version="1", config_sha256="0")
        if minute == 0 or (minute == 1 and has_ended):
            await journal.end_run(run, "stopped", at=at)

    assert (await journal.recover(DAY)).killed_since == since


async def test_pruning_after_a_kill_does_not_hide_it(journal: Journal, db_url: str) -> None:
    facts = {"mode": "live", "version": "1", "config_sha256": "0"}
    for minute in (0, 1):
        await journal.start_run(at=after(60 * minute), **facts)
    await journal.write([Note(after(90), "PULSE", "alive")])

    pruning = await journal.start_run(at=after(300), **facts)
    await journal.write([Note(after(300), PRUNED_NOTE, "2 rows of notes were deleted")])
    await journal.end_run(pruning, PRUNING, at=after(301))
    assert last_moment(db_url) == after(90)
    await journal.start_run(at=after(360), **facts)

    recovery = await journal.recover(DAY)
    assert (recovery.killed_since, recovery.crashes) == (after(60), 2)


async def test_the_limits_of_the_last_run_come_back(journal: Journal) -> None:
    first = Note(after(0), LIMITS_NOTE, "limits", {"account.max_order_value": 1})
    await journal.write([first])
    await journal.write([but(first, numbers={"account.max_order_value": 2, "account.symbols": ""})])

    found = (await journal.recover(NEXT_DAY)).limits

    assert found == {"account.max_order_value": 2, "account.symbols": ""}


async def test_what_the_last_start_has_noted_comes_back(journal: Journal) -> None:
    assert (await journal.recover(DAY)).last_start == {}
    first = Note(after(0), CODE_NOTE, "the code", {"by": "ann"})
    await journal.write([first])
    await journal.write([but(first, numbers={"by": "ann", "key": "2026 0123abcd"})])

    found = (await journal.recover(NEXT_DAY)).last_start

    assert found == {"by": "ann", "key": "2026 0123abcd"}


async def test_a_halt_that_sells_comes_back_until_it_is_over(journal: Journal) -> None:
    numbers: Numbers = {"by": "operator", "reason": "enough", "is_over": False}
    begun = Note(after(0), FLATTEN_NOTE, "sells what the strategies hold", numbers)
    await journal.write([begun])
    first = (await journal.recover(NEXT_DAY)).flatten
    await journal.write([but(begun, text="nothing is held any more", numbers={"is_over": True})])

    assert first == StoredFlatten("enough", "operator", after(0))
    assert (await journal.recover(NEXT_DAY)).flatten is None


async def test_since_when_a_halt_sells_and_what_it_leaves_out_come_back(journal: Journal) -> None:
    numbers: Numbers = {"by": "operator", "reason": "enough", "is_over": False}
    numbers = {**numbers, "since": after(0).isoformat(), "left_out": "FPT a;HPG b"}
    await journal.write([Note(after(9), FLATTEN_NOTE, "goes on after the restart", numbers)])

    found = (await journal.recover(NEXT_DAY)).flatten

    left_out = frozenset({("a", "FPT"), ("b", "HPG")})
    assert found == StoredFlatten("enough", "operator", after(0), left_out)


async def test_faults_of_ours_come_back_until_a_person_has_ended_their_halt(
    journal: Journal,
) -> None:
    halted, running, stopping = RunState.HALTED, RunState.RUNNING, RunState.STOPPING
    numbers: Numbers = {"where": "the account", "error": "I9: shares", "kind": "invariant I9"}
    numbers = {**numbers, "trace": "trace", "report": "", "invariant": "I9"}
    fault = Note(after(2), FAULT_NOTE, "a bug of ours", numbers)
    await journal.write([but(fault, at=after(0), numbers={**numbers, "error": "old"})])
    await journal.write([StateChanged(after(1), halted, running, "looked", "operator")])
    await journal.write([fault, but(fault, at=after(3), numbers={**numbers, "error": "again"})])
    await journal.write([StateChanged(after(3), running, halted, "engine fault", "engine")])
    await journal.write([StateChanged(after(4), halted, stopping, "SIGTERM", "signal")])

    kept = (await journal.recover(NEXT_DAY)).faults
    await journal.write([StateChanged(after(5), halted, running, "looked", "operator")])
    ended = (await journal.recover(NEXT_DAY)).faults

    known = Fault("invariant I9", "I9: shares", "trace", "", "I9")
    assert kept == (StoredFault(after(2), "the account", known),)
    assert ended == ()


async def test_a_note_of_an_exit_under_the_kind_of_a_close_stops_no_start(journal: Journal) -> None:
    note = Note(after(0), CLOSE_NOTE, "L-0001 sells 200 of 900", {"left": 700}, "HPG")
    await journal.write([note])

    assert (await journal.recover(NEXT_DAY)).closes == ()


async def test_refusals_of_the_day_come_back_but_those_of_key_and_quota(journal: Journal) -> None:
    for number, status in enumerate((400, 200, 429, 400, 401), 1):
        story = Story(number)
        to = SendState.ACKED if status == 200 else SendState.REFUSED
        await journal.write([story.decision, story.recorded])
        await journal.write(story.sending)
        answered = but(story.finished, http_status=status)
        await journal.write([answered, story.moved(SendState.SENDING, to, 0.044)])

    found = (await journal.recover(DAY)).strategies["depth-hpg"]

    assert (len(found.refused), found.refused_in_a_row) == (2, 1)
    assert (await journal.recover(NEXT_DAY)).strategies["depth-hpg"].refused == ()


async def come_far(journal: Journal) -> None:
    """Let the journal end more entries later than a start looks back for old notes."""

    def append(batch: Batch) -> None:
        batch.last_seq += 60_000
        batch.append(tables.notes, row_of(Note(after(3_600), "PHASE", "weeks later", {})))

    await journal._thread.do(partial(journal._store.change, append))


async def test_breaks_and_what_they_corrected_come_back_however_far_the_journal_has_come(
    journal: Journal,
) -> None:
    base = AccountSnapshot(after(1), "120C900001.1", 5_000, 5_000, {})
    agreed = state(RunState.RUNNING, base_words(base.at, {}), f"base:{base.account}")
    await journal.write([AccountSeen(after(1), base), but(agreed, at=base.at)])
    shares: Numbers = {"alert": "BREAK", "break": "B-0001", "ours": 0, "theirs": 200}
    cash: Numbers = {"alert": "BREAK", "break": "B-0002", "ours": 5_000, "theirs": 7_000}
    for number, (facts, symbol) in enumerate(((shares, "HPG"), (cash, None)), start=2):
        halted = state(RunState.HALTED, "a break", f"break:{facts['break']}")
        told = Note(after(number), "ALERT", "a break", facts, symbol)
        await journal.write([but(halted, at=after(number)), told])
    before = await journal.recover(NEXT_DAY)

    await come_far(journal)
    found = await journal.recover(NEXT_DAY)

    assert found.breaks == (
        Break("B-0001", "a break", after(2), "HPG", 0, 200),
        Break("B-0002", "a break", after(3), None, 5_000, 7_000),
    )
    held = {"HPG": Holding("HPG", 200, 200, 0, 0)}
    assert found.bases == before.bases == (replace(base, cash=7_000, holdings=held),)


async def test_the_fault_behind_a_halt_is_named_however_far_the_journal_has_come(
    journal: Journal,
) -> None:
    facts: Numbers = {"kind": "KeyError at a.py:1", "error": "KeyError", "where": "a quote"}
    await journal.write([Note(after(1), "FAULT", "a bug", facts), state(RunState.HALTED)])

    await come_far(journal)

    [found] = (await journal.recover(NEXT_DAY)).faults
    assert (found.where, found.fault.kind) == ("a quote", "KeyError at a.py:1")


async def test_an_open_break_comes_back_with_its_numbers_until_a_row_has_explained_it(
    journal: Journal,
) -> None:
    facts: Numbers = {"alert": "BREAK", "break": "B-0001", "ours": 0, "theirs": 200}
    facts = {**facts, "rests_on": "ORD1, ORD2"}
    told = Note(after(1), "ALERT", "B-0001 HPG …", facts, "HPG")
    await journal.write([state(RunState.HALTED, "HPG in all", "break:B-0001"), told])
    await journal.write([state(RunState.HALTED, "cash", "break:B-0002")])

    found = (await journal.recover(NEXT_DAY)).breaks

    whole = Break("B-0001", "HPG in all", after(1), "HPG", 0, 200, ("ORD1", "ORD2"))
    assert found == (whole, Break("B-0002", "cash", after(1)))

    await journal.write([Note(after(2), RECONCILE_NOTE, "they count once", {EXPLAINED: "B-0001"})])

    met = (await journal.recover(NEXT_DAY)).breaks[0]
    assert met == but(whole, ours=None, theirs=None)
