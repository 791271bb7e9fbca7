"""Decides whether a row is taken: only one about its order, possible for it, and not old.

A row under an order's id that is about another order, or has impossible figures, halts the symbol
at once: its fills would be somebody else's. One with a quantity or a day that nothing of ours
explains may still belong to it, and one of an earlier day may be any order's, where ids begin anew
each day: nothing of it is taken, nothing is bought in the symbol and the order is read by its id,
until a row matches it again.

A row that goes back is an old one, from a lagging node: it is counted and changes nothing. It is a
correction, and halts the symbol once, if a second read shows the same, no row in between continued
from the order's state, and the second was requested later than any node may lag. A row that had
been taken before is always old.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from bot.domain.entry import Numbers, OrderUpdated
from bot.domain.message import ReadOrder
from bot.domain.order import TERMINAL_STATES, OrderReport, OrderState, SendState, Side
from bot.domain.order_status import ENDS, Move, move_of, shown_state
from bot.engine.control_state import Standing
from bot.engine.orders import revived, unseen
from bot.engine.orders.cancel_requests import doubt_owner, is_in_doubt
from bot.engine.orders.matching import another_order, belongs, contradiction, known_prices
from bot.engine.orders.order_words import ambiguous_text, kept_words, row_facts, row_words
from bot.engine.risk.view import Opposite
from bot.engine.settings import LAG_MAX
from bot.engine.state import State
from bot.engine.tracked import BackOff, TrackedOrder

SECOND_LOOK: Final = timedelta(seconds=5)
"""A row that goes back is read again at least this long after it was first requested."""
LOOKS: Final = (SECOND_LOOK, SECOND_LOOK, SECOND_LOOK)
"""Intervals between reads of an order whose row goes back; a lost answer costs one."""


class Trust(Enum):
    """How much of a row is taken: nothing, only its executed quantity, or all."""

    NOTHING = auto()
    FIGURES = auto()
    WHOLE = auto()


def judge(state: State, order: TrackedOrder, report: OrderReport, source: str) -> Trust:
    """Return how much of a row may be taken; alert, hold or halt if it cannot be.

    A row cannot fall behind the status of a place's answer.
    """
    order.shown.absent_looks = 0
    if is_foreign(state, order, report):
        return Trust.NOTHING
    shown, trust = order.shown, Trust.FIGURES
    if report.requested_at >= order.requested_at and not shown.lives:
        before = order.row.broker_status
        move = move_of(before, report.status) if shown.rows else Move.TOLERATED
        if why := _goes_back(order, report, move):
            return _trust_back(state, order, report, why)
        trust = Trust.WHOLE
        shown.go_on(state.now)
        is_end = shown_state(report) in TERMINAL_STATES
        if order.look is not None and (is_end or report.executed_quantity >= shown.awaited):
            shown.awaited, order.look = 0, None
        has_not_ended = order.is_open and before in ENDS
        has_not_ended &= shown_state(report) is not OrderState.REJECTED  # binds any other end
        if move is Move.IMPOSSIBLE and not (is_end and has_not_ended):
            trust = Trust.FIGURES
            text = (
                f"{row_words(order.row)}: the broker's row went from {before} to {report.status},"
                f" which no order does. It stays {order.row.state} here, its fills are counted."
                " Look at it in the broker's app."
            )
            _alert(state, "STATUS_IMPOSSIBLE", text, order.row, report, f"{before} {report.status}")
        elif move is Move.CORRECTION and not order.is_open:
            trust = Trust.FIGURES
    if source != "place":
        shown.remember(report.figures)
    return trust


def is_foreign(state: State, order: TrackedOrder, report: OrderReport) -> bool:
    """Return whether a row is about another order, or impossible; hold what it casts doubt on."""
    row, shown = order.row, order.shown
    _learn_totals(state, order, report)
    wrong = contradiction(row, report, shown.totals, known_prices(state, row))
    if wrong is not None and report.trading_date >= row.trading_date:
        tracked = state.intents.get(row.intent_id or "")
        is_found = tracked is not None and tracked.state is SendState.MATCHED
        if tracked is not None and is_found and another_order(row, report) is not None:
            doubt_owner(state, tracked)
        _contradict(state, "ROW_CONTRADICTS", order, report, wrong)
        return True
    if state.chains.first(report.order_id) != row.order_id:
        strange: str | None = f"it names {report.order_id or 'no id'}"
    else:
        strange = belongs(row, report, shown.totals)
    is_newest = report.requested_at >= order.requested_at
    if strange is None:
        if shown.doubt and is_newest:
            shown.doubt = ""
            text = f"{row_words(row)}: the broker's row is its own again"
            state.note("RESUME", text, symbol=row.symbol)
        return False
    has_traded_more = report.executed_quantity > row.executed_quantity
    has_traded_more &= report.trading_date == row.trading_date
    if is_newest and order.is_own and (order.is_open or has_traded_more):
        shown.doubt = strange
        is_only_quantity = strange == belongs(row, report, shown.totals)
        is_only_quantity = is_only_quantity and belongs(row, report, {report.quantity}) is None
        shown.doubted = report.quantity if is_only_quantity else 0
    if is_newest and order.is_open and order.is_own:
        is_kept = is_in_doubt(state, order)
        text = ambiguous_text(order, is_kept=is_kept)
        _alert(state, "ROW_AMBIGUOUS", text, row, report, strange, is_kept=is_kept)
    if not order.is_open and has_traded_more:
        _contradict(state, "ROW_CONTRADICTS", order, report, strange)
    return True


# ------------------------------------------------------------------------------------- old rows


def _goes_back(order: TrackedOrder, report: OrderReport, move: Move) -> str:
    """Return in what respect a row goes back behind what is known, empty if in none.

    A different status alone does not count once an order has ended: nodes may name the same end
    differently. Nor does a final status that did not end it, as when an amendment gave the order
    another id. An earlier price does not count in a row that ends it: nothing is amended after.
    """
    row, state = order.row, shown_state(report)
    if report.executed_quantity < row.executed_quantity:
        fell = f"from {row.executed_quantity:,} to {report.executed_quantity:,}"
        return f"executed quantity fell {fell}"
    if not order.is_open:
        is_open = state not in TERMINAL_STATES and report.remaining_quantity > 0
        return f"it had ended as {row.state} and is {report.status!r} again" if is_open else ""
    if move is Move.CORRECTION and row.broker_status not in ENDS:
        return f"its status went back from {row.broker_status} to {report.status}"
    is_other = report.price is not None and report.price != row.price
    is_other = order.change is None and (is_other or report.quantity != row.quantity)
    is_other = is_other and state not in TERMINAL_STATES
    was_taken = is_other and report.figures in order.shown.rows
    return "it shows again what an earlier row showed" if was_taken else ""


def _trust_back(state: State, order: TrackedOrder, report: OrderReport, why: str) -> Trust:
    """Return how much of a row that goes back is taken: of a certain one all, except that the
    highest executed quantity is kept; of any other what it shows more of, as no old row does.
    """
    is_at_work = revived.is_at_work(state, order, report)
    order.shown.at_work = report.remaining_quantity if is_at_work else 0
    is_certain = is_at_work and revived.is_news(order, report)
    if is_certain or _is_confirmed(state, order, report, why):
        if is_at_work:
            revived.reopen(state, order, report)
            order.shown.go_on(state.now)
            order.shown.remember(report.figures)
        else:
            _contradict(state, "ROW_CORRECTED", order, report, why)
        if order.is_open:
            return Trust.WHOLE
    if is_at_work:
        revived.tell_if_it_stays(state, order)
    has_more = report.executed_quantity > order.row.executed_quantity
    return Trust.FIGURES if has_more else Trust.NOTHING


def _is_confirmed(state: State, order: TrackedOrder, report: OrderReport, why: str) -> bool:
    """Count an old row; the second one that agrees, with no sign of being old, is a correction,
    once, and then counts as taken.
    """
    shown, figures, asked_at = order.shown, report.figures, report.requested_at
    state.counts["stale_rows"] += 1
    is_at_work = shown.at_work > 0
    more = " yet: if that stays so, another alert says what" if is_at_work else ""
    text = (
        f"{row_words(order.row)}: the broker has answered with an old row ({why}). It changes"
        f" nothing, and the order is looked at again. There is nothing to do{more}."
    )
    _alert(state, "STALE_ROW", text, order.row, report, why, is_at_work=is_at_work)
    if shown.old_since is None:
        shown.old_since = state.now
    shown.taken_at = shown.taken_at or state.now
    if figures in shown.rows:
        return False
    if shown.back is None or shown.back[0] != figures:
        shown.back = figures, asked_at
    else:
        is_late = asked_at - shown.taken_at >= LAG_MAX
        if is_late and asked_at - shown.back[1] >= SECOND_LOOK:
            shown.correct(figures)
            return True
    if order.look is None:
        due = max(shown.back[1] + SECOND_LOOK, shown.taken_at + LAG_MAX)
        order.look = BackOff(max(due, state.now))
    return False


def note_price(state: State, order: TrackedOrder, before: int | None) -> None:
    """Note that a row has changed the price of an order. The rest of a market order rests at its
    last price, which counts as one that the bot gave; that of one being amended is told with
    the verdict.
    """
    change, price = order.change, order.row.price
    if before is None and price is not None and order.is_own:
        order.asked = (price,)
    if order.has_strange_price and not (change is not None and change.is_of_price):
        text, facts = _strange_price(state, order)
        about = f"{order.row.order_id} {order.row.price}"
        state.alert("PRICE_DIFFERS", text, facts, about=about, symbol=order.row.symbol)


def _strange_price(state: State, order: TrackedOrder) -> tuple[str, Numbers]:
    """Say what is strange, and which order of ours it could now trade with."""
    row, asked = order.row, " or ".join(f"{each:,}" for each in order.asked)
    index, symbol = state.index, row.symbol
    others = [
        Opposite(each.name, price)
        for each in index.open_in.of(symbol)
        if each.is_own and each.row.side is not row.side
        for price in each.prices
    ]
    others += [
        Opposite(each.name, each.intent.limit_price)
        for each in index.pending_in.of(symbol)
        if each.intent.side is not row.side
    ]
    met = sorted({each.name for each in others if each.can_meet(row.side, row.price)})
    could = f". It could now trade with your own {', '.join(met)}" if met else ""
    text = (
        f"{row_words(row)}: that is its price in the broker's row; the bot sent {asked}."
        f" It counts at each of these prices until it ends{could}. Compare it with the"
        " broker's app; if nobody changed it there, or it is not wanted: bot cancel"
        f" {row.order_id}"
    )
    return text, {**row_facts(row), "asked": asked, "met": ", ".join(met)}


def own_rows(state: State, reports: Sequence[OrderReport]) -> list[OrderReport]:
    """Return the rows without those of a former id that are about another order, or of an earlier
    day: they count towards what an amended order has matched, and are not merged separately.
    """
    own = []
    for report in reports:
        order = state.orders.get(state.chains.first(report.order_id))
        if order is None or not state.chains.is_former(report.order_id):
            own.append(report)
        elif report.trading_date >= order.row.trading_date:
            near = known_prices(state, order.row)
            if wrong := contradiction(order.row, report, {report.quantity}, near):
                _contradict(state, "ROW_CONTRADICTS", order, report, wrong)
            else:
                own.append(report)
    return own


def accept(state: State) -> None:
    """A person has looked: the shown quantities are now the orders' quantities, and a list of an
    earlier day holds no buy of today back any more.
    """
    unseen.accept(state)
    for order in _in_question(state):
        _accept(state, order)


def accept_in(state: State, symbol: str) -> bool:
    """A person has looked at the orders of a symbol; return whether one was in question."""
    found = [order for order in _in_question(state) if order.row.symbol == symbol]
    for order in found:
        _accept(state, order)
    return bool(found)


def is_in_question(state: State, symbol: str) -> bool:
    """Return whether a person can say that the shown quantity of an order in a symbol is right."""
    return any(order.row.symbol == symbol for order in _in_question(state))


def _in_question(state: State) -> list[TrackedOrder]:
    """Return the orders that a row shows with another quantity: open, or ended today with more
    traded than the bot knows.
    """
    found = [each for each in state.orders.values() if each.shown.doubt and each.shown.doubted]
    return [each for each in found if each.is_open or each.row.trading_date == state.trading_date]


def _accept(state: State, order: TrackedOrder) -> None:
    shown, row = order.shown, order.row
    shown.totals.add(shown.doubted)
    text = f"{row_words(row)}: a quantity of {shown.doubted:,} is taken for its own"
    shown.doubt = ""
    state.note("RESUME", text, symbol=row.symbol)
    state.command(ReadOrder(row.order_id, "its quantity is right"))


def reason_not_to_buy(state: State, account: str, symbol: str, side: Side) -> str | None:
    """Return why nothing may be bought in a symbol now, None if nothing prevents it."""
    if side is not Side.BUY:
        return None
    for order in state.index.open_in.of(symbol):
        if order.shown.doubt:
            return f"the row of {order.row.order_id} may be another order's: {order.shown.doubt}"
    is_open = revived.reason_not_to_buy(state, symbol)
    return is_open or unseen.reason_not_to_buy(state, account, symbol)


def ask_again(state: State, order: TrackedOrder) -> None:
    """Read an order by its id, as its row in the day order book may be another one's."""
    if order.shown.doubt and order.is_open:
        why = "the day order book's row may be another order's"
        state.command(ReadOrder(order.row.order_id, why))


def look_again(state: State) -> None:
    """Read by id the orders that are due for another look; one whose row is awaited, until then."""
    for order in state.index.looks.ripe(state.now):
        assert order.look is not None, "what falls due is looked at"
        is_last = order.look.step + 1 >= len(LOOKS) and not order.shown.awaited
        order.look = None if is_last else order.look.advanced(state.now, LOOKS)
        state.command(ReadOrder(order.row.order_id, "a second look"))


def alerts(state: State) -> Iterator[Standing]:
    """Yield which orders the broker shows in a way that cannot be accepted."""
    for order in state.orders.values():
        if order.shown.doubt and order.is_open:
            is_kept = is_in_doubt(state, order)
            facts = {**row_facts(order.row), "why": order.shown.doubt, "is_kept": is_kept}
            yield Standing("ROW_AMBIGUOUS", ambiguous_text(order, is_kept=is_kept), facts)
        if order.has_strange_price:
            yield Standing("PRICE_DIFFERS", *_strange_price(state, order))
        if (told := revived.stays_old(state, order)) is not None:
            yield told


def _learn_totals(state: State, order: TrackedOrder, report: OrderReport) -> None:
    """Return every quantity that the order may have by now. An external order may have any."""
    totals, change = order.shown.totals, order.change
    totals.add(order.row.quantity)
    tracked = state.intents.get(order.row.intent_id or "")
    if tracked is not None:
        totals.add(tracked.intent.quantity)
    if change is not None and not change.is_of_price:
        totals |= {change.old, change.new}
        # A broker may take the new quantity as that of the open part.
        if change.new < report.quantity <= change.new + report.executed_quantity:
            totals.add(report.quantity)
    if not order.is_own:
        totals.add(report.quantity)


def _contradict(
    state: State, code: str, order: TrackedOrder, report: OrderReport, wrong: str
) -> None:
    """Halt the symbol of a row that contradicts what is known."""
    row, tracked = order.row, state.intents.get(order.row.intent_id or "")
    is_kept = tracked is not None and tracked.may_be_anothers
    is_accepted = wrong == order.shown.doubt and order.shown.doubted > 0
    counts = f". That takes a quantity of {order.shown.doubted:,} for its own, and counts its fills"
    what = f"can't be true: {wrong}. The row is ignored"
    if code == "ROW_CORRECTED":
        what = f"shows again: {wrong}. Shares already counted are not taken back"
    text = (
        f"{row_words(row)}: the broker's row under its id {what}, and no new order goes out in"
        f" {row.symbol}.{kept_words(row) if is_kept else ''} Compare order and holding with what"
        f' the broker shows elsewhere, then: bot resume {row.symbol} --reason "…"'
        f"{counts if is_accepted else ''}"
    )
    _alert(state, code, text, row, report, wrong, is_kept=is_kept, is_accepted=is_accepted)
    state.halt_symbol(row.symbol, f"{row.order_id}: {wrong}")


def _alert(
    state: State,
    code: str,
    text: str,
    row: OrderUpdated,
    report: OrderReport,
    why: str,
    **more: bool,
) -> None:
    facts: Numbers = {
        **row_facts(row),
        "why": why,
        "shown_symbol": report.symbol,
        "shown_side": report.side,
        "shown_day": report.trading_date.isoformat(),
        "shown_quantity": report.quantity,
        "shown_executed": report.executed_quantity,
        "shown_status": report.status,
        "row": report.raw,
        **more,
    }
    state.alert(code, text, facts, about=row.order_id, symbol=row.symbol)
