"""Paper mode as a whole: real data, orders matched here, nothing ever sent to the real broker."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.config.problems import OperatorMistake
from bot.domain.entry import Decision, Fill, Note, OrderResultSeen, OrderUpdated
from bot.domain.order import OrderState
from bot.sandbox.faults.script import FaultScript
from bot.sandbox.house.ledger import read_ledger
from tests.cli.stage import call
from tests.paper_story import RealBroker, real_broker, tell_paper
from tests.sandbox.client import scenario
from tests.story import Shown, Story, once, tell, write_project

BUY_800 = {"price": 27_050, "shares": 800}


def project(folder: Path, strategies: Sequence[dict[str, object]] = (), **paper: Any) -> Path:
    """A project in paper mode; without strategies it has one that buys 800 HPG at 27,050 once."""
    broker = {"base_url": "http://127.0.0.1:1", "requests_per_minute": 3000}
    facts: dict[str, Any] = {"mode": "paper", "broker": broker, "paper": paper}
    strategies = strategies or [once(params=BUY_800)]
    return write_project(folder, scenario="quiet", strategies=strategies, **facts)


async def buy_once(folder: Path, fill: str, minutes: float = 1) -> tuple[Story, RealBroker]:
    real = real_broker(scenario(), folder)
    return await tell_paper(project(folder, fill=fill), real, minutes=minutes), real


def executed(shown: Shown) -> list[int]:
    """Shares of each fill, in order."""
    return [fill.quantity for fill in shown.all(Fill)]


def last_state(shown: Shown) -> OrderState:
    return shown.all(OrderUpdated)[-1].state


async def test_a_buy_takes_what_the_real_broker_displays(tmp_path: Path) -> None:
    story, _ = await buy_once(tmp_path, "depth")

    (fill,) = story.shown.all(Fill)
    assert (fill.quantity, fill.amount) == (800, 300 * 27_000 + 500 * 27_050)
    assert story.shown.troubles == []


async def test_at_the_touch_the_whole_order_is_filled_at_the_best_price(tmp_path: Path) -> None:
    story, _ = await buy_once(tmp_path, "touch")

    (fill,) = story.shown.all(Fill)
    assert (fill.quantity, fill.amount) == (800, 800 * 27_000)


async def test_the_real_broker_gets_reads_of_its_market_and_no_write(tmp_path: Path) -> None:
    _, real = await buy_once(tmp_path, "queue")

    assert real.inputs() == []
    assert {method for method, _ in real.requests} == {"GET"}
    assert all(path.startswith(("/market/", "/trading/market/")) for _, path in real.requests)


async def test_every_result_in_the_journal_says_that_it_is_paper(tmp_path: Path) -> None:
    story, _ = await buy_once(tmp_path, "queue")

    results = story.shown.all(OrderResultSeen)
    assert results
    assert all('"fidelity":"paper queue · depth 2 levels' in each.raw for each in results)
    with closing(sqlite3.connect(story.loaded.state_dir / "journal.db")) as journal:
        (kept,) = journal.execute("select count(*) from order_results").fetchone()
    assert kept == len(results)
    assert not [note for note in story.shown.all(Note) if note.kind == "DRIFT"]


async def test_a_restart_goes_on_with_the_same_order_and_money(tmp_path: Path) -> None:
    real = real_broker(scenario(), tmp_path)
    config = project(tmp_path, [once(params={"price": 26_950, "shares": 500})], fill="queue")
    first = await tell_paper(config, real, minutes=1)

    real = real_broker(scenario(), tmp_path, real.clock.now())
    second = await tell_paper(config, real, minutes=1)

    assert last_state(first.shown) is OrderState.ACCEPTED
    lines = read_ledger(second.loaded.state_dir / "paper.jsonl")
    orders = {str(line["order"]) for line in lines if line["kind"] == "order"}
    assert orders == {"ORD10000001"}
    assert "ORDER_WORKING" in {each.code for each in second.shown.all(Decision)}
    assert second.shown.troubles == []
    assert (second.loaded.state_dir / "paper.json").stat().st_mode & 0o777 == 0o600


async def test_shares_bought_are_still_due_on_the_second_day(tmp_path: Path) -> None:
    first, _ = await buy_once(tmp_path, "depth")

    real = real_broker(scenario(day="2026-11-20"), tmp_path / "second")
    second = await tell_paper(tmp_path / "bot.yaml", real, minutes=1)

    assert executed(first.shown) == [800]
    lines = read_ledger(second.loaded.state_dir / "paper.jsonl")
    record: Any = [line for line in lines if line["kind"] == "account"][-1]["record"]
    assert record["positions"] == [{"symbol": "HPG", "settled": 0, "cost": 43_250_000}]
    assert [due["quantity"] for due in record["due"]] == [800, 800]


async def test_no_order_trades_while_the_broker_says_that_the_market_is_closed(
    tmp_path: Path,
) -> None:
    real = real_broker(scenario(), tmp_path)
    phase = {"exchange": "HOSE", "exchange_session": "CLOSED"}
    body = json.dumps({"error_code": "0", "message": "success", "result": phase})
    closed = {"do": "status", "status": 200, "body": body}
    match = {"verb": "GET", "path": "/trading/market/session", "times": 0}
    fault = {"point": "before_auth", "match": match, "action": closed}
    real.sandbox.add_fault(FaultScript.model_validate(fault))

    story = await tell_paper(project(tmp_path, fill="touch"), real, minutes=1)

    assert executed(story.shown) == []


async def test_an_account_keeps_the_terms_that_it_began_with(tmp_path: Path) -> None:
    _, real = await buy_once(tmp_path, "depth")

    with pytest.raises(OperatorMistake, match=r'paper\.fill was "depth", is "touch"') as mistake:
        await tell_paper(project(tmp_path, fill="touch"), real, minutes=1)

    assert mistake.value.problems[0].code == "E-CFG-048"


async def test_an_unknown_symbol_is_said_before_anything_begins(tmp_path: Path) -> None:
    real = real_broker(scenario(), tmp_path)
    config = project(tmp_path, [once(symbols=["VNM", "HPG", "ZZZ"])])

    with pytest.raises(OperatorMistake) as mistake:
        await tell_paper(config, real, minutes=1)

    file = f"{tmp_path}/strategies/once.yaml"
    assert [(each.code, each.file) for each in mistake.value.problems] == [("E-SYM-001", file)] * 2
    assert ["VNM" in each.message for each in mistake.value.problems] == [True, False]
    assert not (tmp_path / "state" / "paper.json").exists()


@pytest.mark.parametrize("command", ["orders", "fills", "positions", "order last"])
async def test_every_list_of_results_says_that_it_is_paper(tmp_path: Path, command: str) -> None:
    await buy_once(tmp_path, "queue")

    ran = call("-c", str(tmp_path / "bot.yaml"), *command.split())

    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == (
        "PAPER: no order went to the exchange; these were matched here (paper queue)"
    )


async def test_the_story_of_an_order_tells_how_well_its_market_was_seen(tmp_path: Path) -> None:
    await buy_once(tmp_path, "queue")

    ran = call("-c", str(tmp_path / "bot.yaml"), "order", "last", "--timeline", columns=200)

    assert "executed 800 @ 27,031, paper queue · depth 2 levels · snapshot 0.0 s old" in ran.out


async def test_a_journal_of_paper_results_is_never_used_for_others(tmp_path: Path) -> None:
    await buy_once(tmp_path, "queue")
    config = write_project(tmp_path, scenario="quiet", strategies=[once()])

    with pytest.raises(OperatorMistake, match="this journal has runs of mode 'paper'") as mistake:
        await tell(config, minutes=1)

    assert mistake.value.problems[0].code == "E-RUN-006"


async def test_an_etf_trades_on_the_tick_of_its_kind(tmp_path: Path) -> None:
    level = {"at": "09:16", "until": "16:00", "bids": [[33_000, 100]], "asks": [[33_010, 900]]}
    etf = {"symbol": "E1VFVN30", "exchange": "HOSE", "kind": "ETF", "reference": 33_010}
    shown = scenario(symbols=[{**etf, "standstills": [level]}], accounts=[{"id": "0009000011"}])
    buy = once(symbols=["E1VFVN30"], params={"price": 33_010, "shares": 100})
    config = project(tmp_path, [buy], fill="depth")

    story = await tell_paper(config, real_broker(shown, tmp_path), minutes=1)

    assert [(fill.quantity, fill.amount) for fill in story.shown.all(Fill)] == [(100, 3_301_000)]
