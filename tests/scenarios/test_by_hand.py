"""Stories of an order that a person changes or cancels: done, in part, refused, lost."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from bot.domain.entry import (
    AttemptFinished,
    Decision,
    Note,
    OrderUpdated,
    RunState,
    StateChanged,
    Transition,
    Verdict,
)
from bot.domain.order import OrderState
from bot.domain.outcome import TWO_FACTOR_CODES
from bot.journal.errors import UnknownOrder
from bot.journal.reading.reader import JournalReader
from tests.by_hand import Ask, HandStory, tell_by_hand
from tests.staging import QUIET
from tests.story import once, write_project

PUT = {"verb": "PUT", "path": "*/orders/*"}
RESTING = once(params={"price": 26_000, "shares": 500})
LEVELS = {"bids": [[26_900, 500]], "asks": [[27_000, 200], [27_500, 900]]}
STAND = {"at": "09:20:00", "until": "10:00:00", **LEVELS}
THIN = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "standstills": [STAND]}
PARTLY = once(params={"price": 27_000, "shares": 500})


async def _story(
    folder: Path,
    *asks: Mapping[str, object],
    strategy: Mapping[str, object] = RESTING,
    faults: Sequence[Mapping[str, object]] = (),
    minutes: float = 2.5,
    allow: bool = True,
    **scenario: object,
) -> HandStory:
    config = write_project(
        folder,
        scenario={**QUIET, "faults": faults, **scenario},
        strategies=[strategy],
        risk={"allow_amend": allow},
    )
    timed = [Ask(timedelta(minutes=1, seconds=i), each) for i, each in enumerate(asks)]
    return await tell_by_hand(config, *timed, minutes=minutes)


def _modify(**fields: object) -> dict[str, object]:
    return {"do": "modify", "order_id": "L-0001", **fields}


def _verbs(told: HandStory) -> list[str]:
    return [verb for verb, _ in told.story.attempts()]


def _last(told: HandStory) -> OrderUpdated:
    return told.story.shown.all(OrderUpdated)[-1]


def _verdict(told: HandStory) -> str:
    return [each.note for each in told.story.shown.all(Transition) if each.source == "amend"][-1]


async def test_a_new_price_is_done_when_the_row_shows_it(tmp_path: Path) -> None:
    told = await _story(tmp_path, _modify(limit=26_100))

    [order] = told.story.broker_orders().values()
    assert told.replies[0]["ok"] is True
    assert _verbs(told) == ["POST", "PUT"]
    assert (_last(told).price, order["price"]) == (26_100, 26_100)
    moves = [each.to_state for each in told.story.shown.all(Transition)]
    assert moves[-2:] == [OrderState.PENDING_REPLACE, OrderState.ACCEPTED]
    assert _verdict(told) == "amend price 26,000 to 26,100: done"


async def test_a_new_price_that_meets_the_market_is_filled_at_it(tmp_path: Path) -> None:
    told = await _story(tmp_path, _modify(limit=27_500))

    assert _last(told).state is OrderState.FILLED
    assert _verbs(told) == ["POST", "PUT"]


async def test_of_a_partly_matched_order_the_rest_is_changed(tmp_path: Path) -> None:
    told = await _story(tmp_path, _modify(quantity=400), strategy=PARTLY, symbols=[THIN])

    [order] = told.story.broker_orders().values()
    assert (order["quantity"], order["executed"]) == (400, 200)
    assert (_last(told).quantity, _last(told).state) == (400, OrderState.PARTIALLY_FILLED)
    assert told.story.shown.all(AttemptFinished)[-1].code == "-701111"
    assert _verdict(told).startswith("amend quantity 500 to 400: done (-701111")


@pytest.mark.parametrize(("switch", "status"), [("result", 200), ("http_400", 400)])
async def test_what_the_broker_refuses_changes_nothing(
    tmp_path: Path, switch: str, status: int
) -> None:
    """Its fee is higher than the one that we assume, so its buying power is smaller."""
    told = await _story(
        tmp_path,
        _modify(quantity=600),
        fee_ppm=4_500,
        accounts=[{"id": "0009000011", "cash": 15_650_000}],
        switches={"refused_change": switch},
    )

    [order] = told.story.broker_orders().values()
    answer = told.story.shown.all(AttemptFinished)[-1]
    assert (answer.outcome, answer.http_status, answer.code) == ("REFUSED", status, "-400116")
    assert (_last(told).quantity, order["quantity"]) == (500, 500)
    assert _last(told).state is OrderState.ACCEPTED
    assert _verdict(told).startswith("amend quantity 500 to 600: refused (-400116")
    assert _verbs(told) == ["POST", "PUT"]


@pytest.mark.parametrize(
    "action",
    [{"do": "rst"}, {"do": "status", "status": 500}, {"do": "truncate", "length": 20}],
    ids=["reset", "500", "cut"],
)
async def test_a_lost_answer_is_read_from_the_row(
    tmp_path: Path, action: Mapping[str, object]
) -> None:
    point = {} if action["do"] == "truncate" else {"point": "after_apply"}
    fault = {"match": PUT, "action": action, **point}

    told = await _story(tmp_path, _modify(limit=26_100), faults=[fault])

    assert told.story.shown.all(AttemptFinished)[-1].outcome == "UNKNOWN"
    assert _last(told).price == 26_100
    assert ": done" in _verdict(told)
    assert _verbs(told) == ["POST", "PUT"]


async def test_a_request_lost_on_its_way_is_not_done_and_not_sent_again(tmp_path: Path) -> None:
    fault = {"match": PUT, "point": "before_auth", "action": {"do": "rst"}}

    told = await _story(tmp_path, _modify(limit=26_100), faults=[fault])

    assert (_last(told).price, _last(told).state) == (26_000, OrderState.ACCEPTED)
    assert "not done" in _verdict(told)
    moves = [each for each in told.story.shown.all(Transition) if each.source == "amend"]
    assert moves[1].at - moves[0].at >= timedelta(seconds=35)
    assert _verbs(told) == ["POST", "PUT"]


async def test_a_quantity_that_the_broker_takes_for_the_open_part_is_an_alert(
    tmp_path: Path,
) -> None:
    told = await _story(
        tmp_path,
        _modify(quantity=400),
        strategy=PARTLY,
        symbols=[THIN],
        switches={"modify_quantity": "open"},
    )

    assert _last(told).quantity == 600
    assert any(
        note.kind == "ALERT" and "the row shows 600" in note.text
        for note in told.story.shown.all(Note)
    )


@pytest.mark.parametrize("code", sorted(TWO_FACTOR_CODES))
async def test_a_403_closes_the_gate_and_is_not_tried_again(tmp_path: Path, code: str) -> None:
    fault = {"match": {"at": "09:20:50"}, "action": {"do": "drop_2fa", "code": code}}

    told = await _story(tmp_path, _modify(limit=26_100), _modify(limit=26_200), faults=[fault])

    states = [each.to_state for each in told.story.shown.all(StateChanged)]
    assert RunState.NEEDS_2FA in states
    assert _verbs(told) == ["POST", "PUT"]
    assert _last(told).price == 26_000
    assert f"refused ({code}" in _verdict(told)
    assert (told.replies[1]["ok"], told.replies[1]["code"]) == (False, "E-2FA-004")


async def test_unless_it_is_allowed_nothing_is_asked_of_the_broker(tmp_path: Path) -> None:
    told = await _story(tmp_path, _modify(limit=26_100), allow=False)

    assert (told.replies[0]["ok"], told.replies[0]["check"]) == (False, "AMEND_ENABLED")
    refused = [one for one in told.story.shown.all(Decision) if one.verdict is Verdict.BLOCKED]
    assert [one.code for one in refused] == ["AMEND_ENABLED"]
    assert _verbs(told) == ["POST"]


@pytest.mark.parametrize("field", ["limit", "quantity"])
async def test_a_number_that_no_database_holds_changes_nothing_and_ends_no_run(
    tmp_path: Path, field: str
) -> None:
    told = await _story(tmp_path, _modify(**{field: 10**20}), {"do": "cancel", "all": True})

    assert [reply["ok"] for reply in told.replies] == [False, True]
    assert _verbs(told) == ["POST", "DELETE"]
    assert _last(told).state is OrderState.CANCELLED


async def test_one_order_is_cancelled_by_hand(tmp_path: Path) -> None:
    told = await _story(tmp_path, {"do": "cancel", "order_id": "L-0001", "reason": "too early"})

    [order] = told.story.broker_orders().values()
    assert (order["status"], order["cancelled"]) == ("CANCELLED", 500)
    assert _last(told).note == "too early: 500 cancelled unfilled"
    assert _verbs(told) == ["POST", "DELETE"]


async def test_all_orders_are_cancelled_by_hand_and_a_second_ask_is_refused(tmp_path: Path) -> None:
    told = await _story(
        tmp_path,
        {"do": "cancel", "all": True},
        {"do": "cancel", "order_id": "L-0001"},
        {"do": "cancel", "order_id": "ORD0"},
    )

    assert [reply["ok"] for reply in told.replies] == [True, False, False]
    assert told.replies[1]["message"] == (
        f"{_last(told).order_id} is CANCELLED (OPEN_ORDER); nothing was changed"
    )
    assert _verbs(told) == ["POST", "DELETE"]


async def test_an_order_is_found_by_the_id_that_an_amendment_gave_it(tmp_path: Path) -> None:
    told = await _story(tmp_path, _modify(limit=26_500), switches={"modify_id": "new"})
    journal = told.story.loaded.state_dir / "journal.db"
    with closing(sqlite3.connect(journal)) as connection:
        query = "select distinct json_extract(raw, '$.orderid') from order_results where source = "
        ids = {row[0] for row in connection.execute(query + "'book'")}

    with JournalReader(f"sqlite:///{journal}") as reader:
        found = [reader.order(order_id).local_id for order_id in ids]
        with pytest.raises(UnknownOrder):
            reader.order("SENT")

    assert ids == {"ORD10000001-1"}
    assert found == ["L-0001"]


@pytest.mark.parametrize("later_s", [2, 60])
async def test_an_order_that_was_amended_twice_is_found_by_each_of_its_ids(
    tmp_path: Path, later_s: int
) -> None:
    """The one in the middle as well, soon replaced or long in the day order book."""
    config = write_project(
        tmp_path,
        scenario={**QUIET, "switches": {"modify_id": "new"}},
        strategies=[RESTING],
        risk={"allow_amend": True},
    )
    first, second = _modify(limit=26_500), _modify(limit=26_600)
    asks = Ask(timedelta(seconds=15), first), Ask(timedelta(seconds=15 + later_s), second)
    told = await tell_by_hand(config, *asks, minutes=2.5)
    assert _verbs(told) == ["POST", "PUT", "PUT"]
    journal = f"sqlite:///{told.story.loaded.state_dir / 'journal.db'}"

    with JournalReader(journal) as reader:
        ids = [f"ORD10000001{suffix}" for suffix in ("", "-1", "-2")]
        found = [reader.order(order_id).local_id for order_id in ids]
        with pytest.raises(UnknownOrder):
            reader.order("ORD10000001-3")

    assert found == ["L-0001"] * 3


async def test_an_order_that_has_no_answer_yet_is_named_as_being_sent(tmp_path: Path) -> None:
    late = {"match": {"verb": "POST", "path": "*/orders"}, "action": {"do": "delay", "seconds": 3}}
    config = write_project(tmp_path, scenario={**QUIET, "faults": [late]}, strategies=[RESTING])
    looks = [Ask(timedelta(seconds=each), {"do": "status"}) for each in (4, 5, 10)]

    told = await tell_by_hand(config, *looks, minutes=0.5)

    found = [reply["status"] for reply in told.replies]
    names = [(one["sending"], len(one["open_orders"])) for one in found if isinstance(one, dict)]
    assert names == [([], 0), (["L-0001"], 0), ([], 1)]
