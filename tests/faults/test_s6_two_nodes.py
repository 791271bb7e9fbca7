"""S6: two nodes of the broker answer, each a while behind, lists and details, in any order.

Whatever comes first, the picture of an order in the end is the one of the newest row, and on the
way nothing goes back: no state twice, no fill taken away, no symbol halted.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import NamedTuple

from bot.domain.entry import Fill, OrderUpdated, Transition
from bot.domain.message import OrderRead
from bot.domain.order import TERMINAL_STATES, Intent, OrderReport, OrderState
from tests.engine.stage import START, Stage, report_of
from tests.faults.strikes import STRIKES, times

FEW, PERMUTATIONS = 300, 20
QUANTITY, PRICE = 500, 27_050
ENDS = (OrderState.CANCELLED, OrderState.EXPIRED, OrderState.ACCEPTED)


class Read(NamedTuple):
    """A row as one node knew it, read by the list or as a detail."""

    report: OrderReport
    is_list: bool


def _history(intent: Intent, dice: Random) -> list[OrderReport]:
    """A true story of one order: executed only grows, and the last row may end it."""
    totals = sorted(100 * dice.randint(0, 5) for _ in range(dice.randint(1, 5)))
    rows, executed, amount = list[OrderReport](), 0, 0
    for total in totals:
        amount += (total - executed) * dice.choice((26_950, 27_000, PRICE))
        executed = total
        rows.append(_row(intent, executed, amount, OrderState.ACCEPTED))
    end = dice.choice(ENDS)
    if executed < QUANTITY and end is not OrderState.ACCEPTED:
        rows.append(_row(intent, executed, amount, end))
    return rows


def _row(intent: Intent, executed: int, amount: int, state: OrderState) -> OrderReport:
    is_over = state is not OrderState.ACCEPTED
    return report_of(
        intent,
        executed=executed,
        cancelled=(QUANTITY - executed) * is_over,
        state=state,
        status=state.value if is_over else "SENT",
        average_price=amount // executed if executed else 0,
        executed_amount=amount,
    )


def _reads(history: Sequence[OrderReport], dice: Random) -> list[Read]:
    """Reads of two nodes, a second apart: by turns one that is right, and one of a node that is up
    to three rows behind.
    """
    behind, found = dice.randint(1, 3), list[Read]()
    for second, row in enumerate(history):
        at = START + timedelta(seconds=second + 1)
        lagging = history[max(0, second - behind)]
        found += [
            Read(replace(each, requested_at=at), dice.random() < 0.5) for each in (row, lagging)
        ]
    return found


def _stage_after(reads: Sequence[Read]) -> Stage:
    stage = Stage()
    stage.working(QUANTITY, PRICE)
    stage.after(60)
    for report, is_list in reads:
        if is_list:
            stage.book(report, asked_at=report.requested_at)
        else:
            stage.handle(OrderRead(stage.now, "ORD1", report))
    return stage


def _picture(stage: Stage) -> tuple[OrderUpdated, int, int]:
    """The order in the end, and the shares and the money of its fills."""
    fills = stage.all(Fill)
    row = replace(stage.entries_of_order(), at=START, note="")
    return row, sum(fill.quantity for fill in fills), sum(fill.amount for fill in fills)


def _flaps(stage: Stage) -> list[str]:
    """What has gone back on the way, or has been told twice."""
    found = [f"{name}: {why}" for name, why in stage.engine.status().halted_symbols.items()]
    rows = [one for one in stage.all(OrderUpdated) if one.order_id == "ORD1"]
    for row, later in pairwise(rows):
        if later.executed_quantity < row.executed_quantity:
            found.append(f"executed falls from {row.executed_quantity} to {later}")
        if row.state in TERMINAL_STATES and later.state is not row.state:
            found.append(f"it was {row.state}, and is {later.state}")
    moves = [one.to_state for one in stage.all(Transition) if one.order_id == "ORD1"]
    found += [f"{state} twice" for state in set(moves) if moves.count(state) > 1]
    return found


def test_any_order_of_the_reads_of_two_nodes_ends_in_one_picture_without_a_step_back(
    record_property: Callable[[str, object], None],
) -> None:
    wanted, struck, ends = times("S6", FEW), 0, Counter[OrderState]()
    for seed in range(wanted // PERMUTATIONS):
        dice = Random(seed)
        history = _history(Stage().working(QUANTITY, PRICE), dice)
        reads = _reads(history, dice)
        truth = _picture(_stage_after(reads[::2]))
        ends[truth[0].state] += 1
        for number in range(PERMUTATIONS):
            arrived = dice.sample(reads, len(reads))

            stage = _stage_after(arrived)

            assert _picture(stage) == truth, f"seed {seed}, {number}"
            assert _flaps(stage) == [], f"seed {seed}, {number}"
            struck += 1

    assert len(ends) > 3
    record_property(STRIKES, struck)
