"""Killed and started again from its ledger, the sandbox goes on where it was."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.sandbox.errors import LedgerBroken
from bot.sandbox.house.ledger import is_finished, read_ledger
from tests.sandbox.client import (
    ACCOUNT,
    EXTENDED,
    RULEBOOK,
    Bench,
    bench,
    orders_path,
    ready,
    scenario,
)

LIVELY: dict[str, Any] = {
    "symbols": [
        {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000},
        {"symbol": "SHS", "exchange": "HNX", "reference": 21_500},
    ],
    "faults": [
        {
            "match": {"verb": "POST", "path": "*/orders", "nth": 2},
            "action": {"do": "reject"},
        }
    ],
}
READS = (
    f"/trading/v1/accounts/{ACCOUNT}/order-book",
    f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio",
    f"/trading/accounts/{ACCOUNT}/summary",
    "/market/quotes/stocks/HPG",
    "/market/quotes/stocks/HPG/order-book",
)


async def some_trading(b: Bench) -> None:
    for price in (26_900, 27_000, 27_050):
        await b.place(limit_price=price, quantity=500)
        b.pass_time(61.5)
    await b.call("DELETE", orders_path("ORD10000001"), {"sub_account": EXTENDED})
    b.pass_time(7)


async def all_reads(b: Bench) -> list[Any]:
    return [await b.get(target) for target in READS]


async def test_orders_money_market_and_token_are_as_before(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    first = await ready(scenario(**LIVELY), path)
    await some_trading(first)
    before = await all_reads(first)

    second = bench(scenario(**LIVELY), path)
    second.token, second.numbers = first.token, first.numbers

    assert second.clock.now() == first.clock.now()
    second.wire.advance_to(first.wire.now())
    assert await all_reads(second) == before
    assert (await second.place())["order_id"] == "ORD10000004"


async def test_after_a_restart_the_market_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    broken, whole = await ready(scenario(**LIVELY), path), await ready(scenario(**LIVELY))
    await some_trading(broken)
    await some_trading(whole)
    resumed = bench(scenario(**LIVELY), path)
    resumed.numbers = broken.numbers

    for b in (resumed, whole):
        b.pass_time(600)

    assert await all_reads(resumed) == await all_reads(whole)


async def test_a_used_nonce_and_a_spent_fault_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    first = await ready(scenario(**LIVELY), path)
    codes = [(await first.place(limit_price=26_900))["code"] for _ in range(3)]

    second = bench(scenario(**LIVELY), path)
    second.token = first.token
    reused = await second.call("GET", READS[0], headers={"X-FH-NONCE": "nonce-2"})
    second.numbers = first.numbers
    codes.append((await second.place(limit_price=26_900))["code"])

    assert reused.json()["error_code"] == "AUTH_NONCE_REUSED"
    assert codes == [None, "-900017", None, None]


async def test_the_ledger_holds_the_truth_and_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    b = await ready(scenario(), path)
    await b.place(quantity=500)

    orders = [line for line in read_ledger(path) if line["kind"] == "order"]

    assert [orders[-1][name] for name in ("order", "executed", "remaining", "fee")] == [
        "ORD10000001",
        300,
        200,
        12_150,
    ]
    given, text = b.sandbox.credentials, path.read_text()
    for secret in (given.api_key, given.api_secret, given.otp_code, b.token):
        assert secret not in text


async def test_an_order_is_on_the_disk_before_its_answer(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    b = await ready(scenario(), path)

    order_id = (await b.place())["order_id"]

    assert any(line.get("order") == order_id for line in read_ledger(path))


async def test_a_ledger_of_another_seed_or_scenario_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    bench(scenario(), path)

    with pytest.raises(LedgerBroken, match="away together with the journal"):
        bench(scenario(), path, seed=8)
    with pytest.raises(LedgerBroken, match="another scenario"):
        bench(scenario(name="other"), path)


async def test_a_ledger_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    b = await ready(scenario(), path)
    await b.place(quantity=500)
    path.write_text(path.read_text().replace('"executed":300', '"executed":500'))

    with pytest.raises(LedgerBroken, match="gives other outcomes than it holds"):
        bench(scenario(), path)


@pytest.mark.long
async def test_a_day_that_is_closed_after_a_buy_moves_its_delivery(tmp_path: Path) -> None:
    path, swap = tmp_path / "sandbox.jsonl", {"date": "2026-11-23", "name": "swap"}
    first = await ready(scenario(), path)
    await first.place(quantity=300)

    second = bench(scenario(), path, rulebook=RULEBOOK.with_override({"closed": [swap]}))
    second.token, second.numbers = first.token, first.numbers
    sellable = []
    for hours in (100, 48):  # until after 13:00 of the 23rd, and of the 25th
        second.clock.advance_to(second.clock.now() + timedelta(hours=hours))
        sellable.append((await second.get(READS[1]))["portfolio"][0]["available"])

    assert sellable == [1_000, 1_300]


@pytest.mark.parametrize("day", ["2027-12-30", "2027-12-31"])
@pytest.mark.parametrize("side", ["BUY", "SELL"])
async def test_a_trade_delivered_beyond_the_calendar_is_booked_and_stays_due(
    tmp_path: Path, day: str, side: str
) -> None:
    path, played = tmp_path / "sandbox.jsonl", scenario(day=day)
    first = await ready(played, path)
    await first.place(quantity=300, side=side, limit_price=27_000 if side == "BUY" else 26_950)
    before = await all_reads(first)
    assert before[0][0]["status"] == "MATCHED_ALL"
    holding, cash = before[1]["portfolio"][0], before[2]
    due = [*(holding[f"receiving_t{n}"] for n in range(3)), cash["receiving_t2"] > 0]
    assert due == ([300, 0, 0, False] if side == "BUY" else [0, 0, 0, True])

    second = bench(played, path)
    second.token, second.numbers = first.token, first.numbers
    assert await all_reads(second) == before

    second.clock.advance_to(second.clock.now() + timedelta(days=5))
    later = await all_reads(second)
    assert later[1]["portfolio"][0]["total"] == holding["total"]
    assert later[2]["receiving_amt"] == cash["receiving_amt"]


async def test_a_finished_scenario_says_so(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    b = bench(scenario(), path)

    b.sandbox.finish()
    b.sandbox.close()

    assert is_finished(path)


async def test_in_what_slices_the_market_is_advanced_changes_nothing() -> None:
    slow, fast = bench(scenario(**LIVELY)), bench(scenario(**LIVELY))

    for _ in range(600):
        slow.pass_time(1)
    fast.pass_time(600)

    assert await all_reads(slow) == await all_reads(fast)


async def test_a_walk_to_each_due_instant_is_the_same_market_too() -> None:
    walked, jumped = bench(scenario(**LIVELY)), bench(scenario(**LIVELY))
    end = walked.clock.now() + timedelta(minutes=10)

    while (due := walked.sandbox.next_due()) is not None and due <= end:
        walked.clock.advance_to(due)
        walked.sandbox.advance(due)
    walked.clock.advance_to(end)
    jumped.pass_time(600)

    assert await all_reads(walked) == await all_reads(jumped)
