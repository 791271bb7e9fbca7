"""What a mirrored sandbox may pass on: the table itself, and the application in front of it."""

from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.endpoints.trading import MARKET_PHASE, STOCK_DEPTH, STOCK_QUOTE
from bot.protocol.envelope import Answer, NoAnswer, seal
from bot.sandbox.errors import NotRelayed
from bot.sandbox.house.ledger import read_ledger
from bot.sandbox.mirror import RELAYED, Clocks, MirrorShell, Watch, relayed
from tests.rows import every_row
from tests.sandbox.client import RULEBOOK, Bench, bench
from tests.sandbox.markets.mirror.mirrored import mirrored

READS = {name for name, each in ENDPOINTS.items() if each.path.startswith(("/market/", "/fund-"))}
DEPTH = {"symbol": "HPG", "bids": [], "asks": [{"price": 27_000, "volume": 300}]}
QUOTE = {"symbol": "HPG", "exchange": "HOSE", "price": 27_000, "reference": 27_000, "volume": 0}
PHASE = {"exchange": "HOSE", "exchange_session": "PROGRESS"}
SAID = {STOCK_DEPTH.name: DEPTH, STOCK_QUOTE.name: QUOTE, MARKET_PHASE.name: PHASE}


def test_every_read_of_market_data_is_in_the_table_and_nothing_else() -> None:
    assert set(RELAYED) == READS | {"market_phase"}
    assert {each.method for each in RELAYED.values()} == {"GET"}
    assert not [name for name, each in RELAYED.items() if each.is_write]


@every_row("name", sorted(set(ENDPOINTS) - set(RELAYED)))
def test_every_other_call_is_refused(name: str) -> None:
    with pytest.raises(NotRelayed):
        relayed(ENDPOINTS[name])


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_another_method_or_path_under_a_tables_name_is_refused(method: str) -> None:
    for changed in (replace(STOCK_QUOTE, method=method), replace(STOCK_QUOTE, path="/trading/oa")):
        with pytest.raises(NotRelayed):
            relayed(changed)


@dataclass
class Real:
    """A real broker of canned answers that notes what it is asked."""

    asked: list[str] = field(default_factory=list)
    answers: dict[str, Answer | NoAnswer] = field(default_factory=dict)

    async def __call__(self, endpoint: Endpoint, target: str) -> Answer | NoAnswer:
        self.asked.append(target)
        said = Answer(200, {"x-ratelimit-remaining": "7"}, seal(endpoint, SAID.get(endpoint.name)))
        return self.answers.get(endpoint.name, said)


@dataclass
class Paper(Bench):
    """A bench whose market is passed on to `real`."""

    real: Real = field(default_factory=Real)
    watch: Watch | None = None


async def paper(quota: int = 600, ledger: Path | None = None, nonces_from: int = 0) -> Paper:
    """A paper broker that we have logged in to."""
    played = bench(mirrored("depth", quota="PRO"), ledger)
    made = Paper(played.sandbox, played.clock, played.wire, numbers=nonces_from)
    clocks = Clocks(made.clock, made.wire)
    made.watch = Watch(made.sandbox, made.real, clocks, rulebook=RULEBOOK, quota=quota)
    made.sandbox.app = MirrorShell(made.sandbox, made.watch, made.wire)  # type: ignore[assignment]
    await made.log_in()
    return made


async def test_an_answer_goes_back_as_it_came() -> None:
    broker = await paper()
    broker.real.answers["stock_quote"] = Answer(
        429, {"x-ratelimit-reset": "1790000000", "set-cookie": "x"}, b'{"error_code":"X"}'
    )

    answer = await broker.call("GET", "/market/quotes/stocks/HPG?a=%2C")

    assert (answer.status_code, answer.content) == (429, b'{"error_code":"X"}')
    assert answer.headers["x-ratelimit-reset"] == "1790000000"
    assert "set-cookie" not in answer.headers
    assert broker.real.asked == ["/market/quotes/stocks/HPG?a=%2C"]


async def test_a_wrong_key_is_passed_on_to_nobody() -> None:
    broker = await paper()

    answer = await broker.call("GET", "/market/quotes/stocks/HPG", headers={"X-FH-APIKEY": "no"})

    assert (answer.status_code, broker.real.asked) == (401, [])


async def test_a_broker_that_does_not_answer_is_a_502() -> None:
    broker = await paper()
    broker.real.answers["stock_quote"] = NoAnswer("cut", is_sent=True)

    answer = await broker.call("GET", "/market/quotes/stocks/HPG")

    assert answer.status_code == 502
    assert "did not answer: cut" in answer.json()["message"]


async def test_an_order_is_matched_on_what_is_looked_at_for_it() -> None:
    broker = await paper()

    await broker.place(quantity=300)

    row = await broker.row("ORD10000001")
    assert (row["status"], row["execqtty"]) == ("MATCHED_ALL", 300)
    assert row["fidelity"] == "paper depth · depth 1 levels · snapshot 0.0 s old"
    assert broker.real.asked == [
        "/trading/market/session?exchange=HOSE",
        "/market/quotes/stocks/HPG",
        "/market/quotes/stocks/HPG/order-book",
    ]


async def test_an_order_is_held_where_the_broker_says_another_phase() -> None:
    broker = await paper()
    closed = seal(MARKET_PHASE, {**PHASE, "exchange_session": "CLOSED"})
    broker.real.answers["market_phase"] = Answer(200, {}, closed)

    result = await broker.place()

    assert result["order_status"] == "WAITING_TO_SEND"
    assert result["fidelity"] == (
        "paper depth · held: the broker says CLOSED, the timetable PROGRESS"
    )


async def test_an_order_is_held_where_the_symbol_has_moved_to_another_exchange() -> None:
    broker = await paper()
    moved = seal(STOCK_QUOTE, {**QUOTE, "exchange": "HNX"})
    broker.real.answers["stock_quote"] = Answer(200, {}, moved)

    result = await broker.place()

    assert result["order_status"] == "WAITING_TO_SEND"
    assert result["fidelity"] == (
        "paper depth · held: HPG trades on HNX now, this account has it on HOSE"
    )


async def test_a_held_order_trades_as_soon_as_the_market_is_seen_again() -> None:
    broker = await paper()
    broker.real.answers["stock_depth"] = NoAnswer("cut", is_sent=True)
    await broker.place(quantity=300)
    del broker.real.answers["stock_depth"]

    broker.pass_time(5)
    assert broker.watch is not None
    await broker.watch.tick()

    assert (await broker.row("ORD10000001"))["execqtty"] == 300


async def test_a_depth_that_gets_too_old_is_matched_with_no_more() -> None:
    broker = await paper()
    await broker.place(limit_price=26_500)
    broker.real.answers = {"stock_depth": NoAnswer("cut", is_sent=True)}

    broker.pass_time(16)
    assert broker.watch is not None
    await broker.watch.tick()
    result = await broker.place(quantity=100)

    assert result["order_status"] == "WAITING_TO_SEND"
    assert result["fidelity"].endswith("held: no depth of the last 15 s")


async def test_the_watch_leaves_a_fifth_of_the_quota_alone() -> None:
    broker = await paper(quota=10)
    await broker.place(limit_price=26_500)
    assert broker.watch is not None

    for _ in range(6):
        broker.pass_time(6)
        await broker.watch.tick()

    assert len(broker.real.asked) == 8


async def test_nothing_is_looked_at_while_no_order_works() -> None:
    broker = await paper()
    assert broker.watch is not None

    for _ in range(3):
        broker.pass_time(60)
        await broker.watch.tick()

    assert broker.real.asked == []


async def test_after_a_429_the_watch_keeps_still_until_the_reset() -> None:
    broker = await paper()
    await broker.place(limit_price=26_500)
    reset = int((broker.wire.now() + timedelta(seconds=60)).timestamp())
    limit = Answer(429, {"x-ratelimit-reset": str(reset)}, b"{}")
    broker.real.answers = dict.fromkeys(("stock_quote", "stock_depth", "market_phase"), limit)
    assert broker.watch is not None
    asked = len(broker.real.asked)

    for _ in range(5):
        broker.pass_time(6)
        await broker.watch.tick()

    assert len(broker.real.asked) == asked + 1


async def test_the_ledger_keeps_what_is_seen_only_where_an_order_works(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    broker = await paper(ledger=ledger)

    await look(broker)
    before = observed(ledger)
    await broker.place(limit_price=26_500)
    for _ in range(5):
        await look(broker)

    assert before == []
    assert observed(ledger) == ["mirror_quote", "mirror_depth"]


async def test_a_restart_finds_the_order_and_the_stamp_as_they_were(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    broker = await paper(ledger=ledger)
    await broker.place(quantity=500)
    before = await broker.row("ORD10000001")
    broker.sandbox.close()

    again = await paper(ledger=ledger, nonces_from=100)

    assert before["execqtty"] == 300
    assert await again.row("ORD10000001") == before


ATC = {"type": "MARKET", "market_price": "ATC", "limit_price": None}


async def at(clock: time, **keys: Any) -> Paper:
    """A paper broker at a time of its day, whose market is in the timetable's phase."""
    broker = await paper(**keys)
    until(broker, clock)
    say_phase(broker)
    return broker


def until(broker: Paper, clock: time) -> None:
    local = broker.clock.now().astimezone(EXCHANGE_TZ)
    broker.pass_time((datetime.combine(local, clock, EXCHANGE_TZ) - local).total_seconds())


def say_phase(broker: Paper) -> None:
    phase = RULEBOOK.phase_at(Exchange.HOSE, broker.clock.now())
    said = seal(MARKET_PHASE, {**PHASE, "exchange_session": phase.value})
    broker.real.answers["market_phase"] = Answer(200, {}, said)


async def test_an_auction_is_filled_on_a_depth_that_does_not_change_as_long_as_it_is_seen() -> None:
    broker = await at(time(14, 40))
    await broker.place(quantity=300, **ATC)
    assert broker.watch is not None

    for _ in range(62):
        broker.pass_time(5)
        await broker.watch.tick()

    assert (await broker.row("ORD10000001"))["execqtty"] == 300


@pytest.mark.parametrize("is_killed", [True, False])
async def test_an_auction_that_ends_while_nobody_looks_is_not_filled_on_an_old_depth(
    tmp_path: Path, is_killed: bool
) -> None:
    broker = await at(time(14, 40), ledger=tmp_path / "ledger")
    await broker.place(quantity=300, **ATC)
    if is_killed:
        broker.sandbox.close()
        broker = await paper(ledger=tmp_path / "ledger", nonces_from=100)

    until(broker, time(14, 50))

    row = await broker.row("ORD10000001")
    assert (row["status"], row["execqtty"]) == ("EXPIRED", 0)
    broker.sandbox.close()
    await paper(ledger=tmp_path / "ledger", nonces_from=200)  # the ledger replays


@pytest.mark.parametrize("side", ["BUY", "SELL"])
async def test_an_order_of_the_lunch_break_trades_at_the_prices_after_it(side: str) -> None:
    bids = [{"price": 26_950, "volume": 300}]
    broker = await at(time(11, 45))
    broker.real.answers["stock_depth"] = Answer(200, {}, seal(STOCK_DEPTH, DEPTH | {"bids": bids}))
    result = await broker.place(
        side=side, quantity=300, limit_price={"BUY": 27_500, "SELL": 26_500}[side]
    )
    assert result["fidelity"] == "paper depth · held: HOSE does not trade now"

    until(broker, time(13))
    say_phase(broker)
    assert broker.watch is not None
    await broker.watch.tick()

    row = await broker.row("ORD10000001")
    assert row["execamt"] == 300 * {"BUY": 27_000, "SELL": 26_950}[side]


async def look(broker: Paper) -> None:
    """Poll quote and depth as the bot does."""
    broker.pass_time(5)
    for target in ("/market/quotes/stocks/HPG", "/market/quotes/stocks/HPG/order-book"):
        await broker.call("GET", target)


def observed(ledger: Path) -> list[str]:
    """The kinds of lines that observations have made."""
    kinds = [str(line["kind"]) for line in read_ledger(ledger)]
    return [kind for kind in kinds if kind.startswith("mirror")]
