"""T8: whatever comes instead of an answer, a typed error comes out, and no order because of it."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest

from bot.broker.errors import Malformed
from bot.domain.entry import IntentMoved
from bot.domain.order import SendState, TodaysOrders
from bot.domain.outcome import Unknown
from bot.protocol.classify import classify_amend, classify_cancel, classify_place
from bot.protocol.endpoints.trading import PLACE_ORDER
from bot.protocol.envelope import seal
from bot.protocol.secret import Secret
from bot.protocol.values.account import OrderHistory
from bot.protocol.values.border import AccountSummary
from bot.sandbox.faults.garbage import GarbageKind, spoil
from tests.broker.played_broker import ACCOUNT, Reply, desk
from tests.faults.groups import GROUPS, Group
from tests.protocol.samples import INTENT, RESULT_JSON
from tests.rows import every_row
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

TODAY = date(2026, 8, 21)
RAW_MAX = 16 * 1024
GOOD_PLACE = seal(PLACE_ORDER, [RESULT_JSON])
each_group = every_row("group", GROUPS)
each_kind = every_row("kind", GarbageKind)


def spoilt(body: bytes) -> dict[GarbageKind, bytes]:
    """Every kind of garbage that changes this body: one without numbers has none to spoil."""
    return {kind: bad for kind in GarbageKind if (bad := spoil(kind, body)) != body}


@each_group
async def test_a_good_answer_is_read(group: Group) -> None:
    bench = desk(Reply(group.good))

    await group.ask(bench.broker.client)

    assert len(bench.played.asked) == 1


LEFT_OUT = dict.fromkeys((GarbageKind.VALUES_NULL, GarbageKind.KEYS_RENAMED))
ROWS = dict.fromkeys(
    (
        *LEFT_OUT,
        GarbageKind.ROWS_OF_NULL,
        GarbageKind.VALUES_NESTED,
        GarbageKind.VALUES_TRUE,
        GarbageKind.NUMBERS_AS_WORDS,
    )
)
EMPTY = {"todays_orders": ROWS, "summary": LEFT_OUT, "order_history": LEFT_OUT}
"""Garbage that leaves out only what the document does not require, or spoils single rows."""


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, kinds in EMPTY.items() for kind in kinds]
)
async def test_what_is_left_out_is_taken_for_nothing_and_for_no_figure(
    name: str, kind: GarbageKind
) -> None:
    group = next(each for each in GROUPS if each.name == name)
    bench = desk(Reply(spoilt(group.good)[kind]))

    found = await group.ask(bench.broker.client)

    if isinstance(found, TodaysOrders):
        assert (found.reports, len(found.set_aside)) == ((), 1)
    elif isinstance(found, AccountSummary):
        assert (found.cash, found.balance, found.net_asset_value) == (None, None, None)
    else:
        assert isinstance(found, OrderHistory)
        assert [each.executed_quantity for each in found.orders if each.order_id] == []


@each_group
async def test_garbage_is_a_typed_error_that_names_call_and_reason(group: Group) -> None:
    bodies = spoilt(group.good)
    for kind in EMPTY.get(group.name, {}):
        bodies.pop(kind)
    bench = desk(*map(Reply, bodies.values()), per_minute=3_000)

    for number, kind in enumerate(bodies, start=1):
        with pytest.raises(Malformed) as caught:
            await group.ask(bench.broker.client)

        error = caught.value
        assert (kind, error.call, bool(error.reason)) == (kind, group.name, True)
        assert len(error.raw.encode()) <= RAW_MAX
        assert ACCOUNT.id not in error.raw
        assert len(bench.played.asked) == number


@each_group
def test_at_least_forty_kinds_are_tried_with_those_of_t9_and_t10(group: Group) -> None:
    assert len(spoilt(group.good)) + 3 >= 40


@each_kind
async def test_garbage_for_a_place_leaves_it_unknown_after_one_post(kind: GarbageKind) -> None:
    bench = desk(Reply(spoil(kind, GOOD_PLACE)))
    bench.broker.two_factor.set_token(Secret("token"))
    writer = bench.broker.writer

    answer = await writer.send(writer.prepare_place(ACCOUNT, INTENT))

    outcome = classify_place(INTENT, answer, today=TODAY, known_ids=frozenset(), account=ACCOUNT)
    assert isinstance(outcome, Unknown)
    assert len(bench.played.asked) == 1


@each_kind
async def test_garbage_for_a_change_leaves_it_unknown_after_one_request(kind: GarbageKind) -> None:
    bench = desk(Reply(spoil(kind, GOOD_PLACE)))
    bench.broker.two_factor.set_token(Secret("token"))
    writer = bench.broker.writer

    cancelled = await writer.send(writer.prepare_cancel(ACCOUNT, "ORD700001"))
    amended = await writer.send(
        writer.prepare_amend(ACCOUNT, "ORD700001", limit_price=25_600, quantity=None)
    )

    assert isinstance(classify_cancel("ORD700001", cancelled), Unknown)
    assert isinstance(classify_amend("ORD700001", amended), Unknown)
    assert len(bench.played.asked) == 2


# ------------------------------------------------------------------------------ a bot's whole day

SOME_KINDS = [
    GarbageKind.HTML,
    GarbageKind.HALF,
    GarbageKind.NAN,
    GarbageKind.DEEP_ARRAYS,
    GarbageKind.VALUES_NULL,
]


async def _told(folder: Path, match: Mapping[str, object], kind: GarbageKind) -> Story:
    fault = {"match": match, "action": {"do": "garbage", "kind": kind.value}}
    config = write_project(folder, scenario={**QUIET, "faults": [fault]}, strategies=[once()])
    return await tell(config, minutes=4)


def struck(story: Story) -> int:
    """How often the fault struck, by the broker's own ledger."""
    return max(int(str(line["struck"])) for line in story.ledger() if line["kind"] == "fault")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", SOME_KINDS)
async def test_a_strategy_that_only_gets_garbage_for_quotes_orders_nothing(
    tmp_path: Path, kind: GarbageKind
) -> None:
    match = {"path": "/market/quotes/stocks/*", "at": "09:20:01", "times": 0}

    story = await _told(tmp_path, match, kind)

    assert struck(story) > 1
    assert story.posts() == []
    assert story.broker_orders() == {}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", SOME_KINDS)
async def test_a_place_answered_with_garbage_is_unknown_and_found_after_one_post(
    tmp_path: Path, kind: GarbageKind
) -> None:
    story = await _told(tmp_path, {"verb": "POST", "path": "*/orders"}, kind)

    moves = [each.to_state for each in story.shown.all(IntentMoved)]
    assert len(story.posts()) == len(story.broker_orders()) == 1
    assert SendState.UNKNOWN in moves
    assert moves[-1] is SendState.MATCHED
