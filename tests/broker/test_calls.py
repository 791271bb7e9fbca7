"""Every read of the API through the typed client, and what is checked around it."""

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bot.broker.broker import open_broker
from bot.broker.budget import RequestBudget
from bot.broker.errors import KeyRefused, Malformed, Refused, Unreachable, WrongQuery
from bot.broker.signer import Credentials
from bot.clock import SimulatedClock
from bot.domain.instrument import Exchange
from bot.protocol import calls
from bot.protocol.calls import CODECS
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Tier, path_parameters
from bot.protocol.envelope import Answer, NoAnswer, seal
from bot.protocol.query import ExactlyOne, Kind, Parameter
from bot.protocol.secret import Secret
from bot.protocol.shaped import Codec
from bot.protocol.values.border import Unshaped
from tests.broker.loopback import START, JumpingWaiter
from tests.broker.played_broker import ACCOUNT, KEY, SECRET, Reply, desk
from tests.rows import every_row

ANSWERS: Mapping[str, Any] = json.loads(
    (Path(__file__).parents[1] / "protocol" / "answers.json").read_text("utf-8")
)
WRITTEN = {
    Kind.TEXT: "HPG",
    Kind.WHOLE: "5",
    Kind.NUMBER: "5",
    Kind.DAY: "2026-11-18",
    Kind.SLASHED_DAY: "18/11/2026",
    Kind.MONTH: "2026-11",
    Kind.PERIOD: "2026-11",
    Kind.UNIX_SECONDS: "1795000000",
    Kind.INDICATOR: "RSI(14)",
}
EITHER_OR = {"fund_benchmark_nav": "period", "fund_benchmark_operation": "period"}
USER = Reply({"error_code": "0", "data": {"user_id": 42}})
PNL = Reply({"error_code": "0", "data": {"sub_account_id": "ALL", "pnl_amount": 5, "pnl_rate": 1}})
REFUSED = Reply({"error_code": "401", "message": "no"}, 401)


def answer_of(name: str) -> Any:
    return ANSWERS.get(name, {"anything": [1]})


def path_of(codec: Codec[Any]) -> dict[str, str]:
    found = answer_of(codec.endpoint.name)
    subject = found if isinstance(found, dict) else {}
    return {hole: str(subject.get(hole, "HPG")) for hole in path_parameters(codec.endpoint)}


def query_of(codec: Codec[Any]) -> list[tuple[str, str]]:
    """What the call needs, and nothing else."""
    name, found = codec.endpoint.name, answer_of(codec.endpoint.name)
    subject = found if isinstance(found, dict) else {}
    one_of = [rule.names[0] for rule in ENDPOINTS[name].rules if isinstance(rule, ExactlyOne)]
    wanted = [
        one
        for one in ENDPOINTS[name].takes
        if one.is_required or one.name in one_of or one.name == EITHER_OR.get(name)
    ]
    return [(one.name, str(subject.get(one.name) or value_of(one))) for one in wanted]


def value_of(parameter: Parameter) -> str:
    return parameter.values[0] if parameter.values else WRITTEN[parameter.kind]


@every_row("codec", CODECS.values())
async def test_every_read_of_the_api_is_a_typed_call(codec: Codec[Any]) -> None:
    name = codec.endpoint.name
    bench = desk(Reply(seal(codec.endpoint, answer_of(name))))

    value = await bench.broker.client.read(codec, path_of(codec), query_of(codec))

    [asked] = bench.played.asked
    assert asked.method == "GET"
    assert ("x-fh-signature" in asked.headers) == (codec.endpoint.tier is Tier.TWO)
    assert value == Unshaped(answer_of(name)) or not isinstance(value, Unshaped)


@every_row("codec", CODECS.values())
async def test_what_the_broker_would_answer_with_400_is_never_sent(codec: Codec[Any]) -> None:
    bench = desk(Reply(seal(codec.endpoint, answer_of(codec.endpoint.name))))

    with pytest.raises(WrongQuery) as caught:
        await bench.broker.client.read(codec, path_of(codec), [*query_of(codec), ("colour", "red")])

    assert caught.value.faults == (("colour", "no such parameter"),)
    assert bench.played.asked == []


@pytest.mark.parametrize(
    ("path", "query", "fault"),
    [
        ({}, [("from", "1"), ("to", "2")], ("symbol", "required")),
        ({"symbol": "HPG", "kind": "x"}, [("from", "1"), ("to", "2")], ("kind", "no such paramet")),
        ({"symbol": ".."}, [("from", "1"), ("to", "2")], ("symbol", "empty, or a dot")),
        ({"symbol": "HPG"}, [("from", "1")], ("to", "required")),
        ({"symbol": "HPG"}, [("from", "1"), ("to", "soon")], ("to", "not Unix seconds")),
        ({"symbol": "HPG"}, [("from", "1"), ("from", "1"), ("to", "2")], ("from", "given twice")),
    ],
)
async def test_a_slip_is_named_with_its_parameter(
    path: dict[str, str], query: list[tuple[str, str]], fault: tuple[str, str]
) -> None:
    bench = desk(Reply({}))

    with pytest.raises(WrongQuery) as caught:
        await bench.broker.client.read(calls.CODECS["stock_history"], path, query)

    [(name, reason)] = caught.value.faults
    assert (name, reason[: len(fault[1])]) == fault
    assert bench.played.asked == []


async def test_the_phase_of_another_exchange_is_malformed() -> None:
    told = {"exchange": "HOSE", "exchange_session": "PROGRESS", "available_order_types": ["LO"]}
    bench = desk(Reply(seal(calls.CODECS["market_phase"].endpoint, told)))

    with pytest.raises(Malformed, match="asked for exchange HNX, the answer is about HOSE"):
        await bench.broker.client.market_phase(Exchange.HNX)


async def test_an_answer_about_another_symbol_is_malformed() -> None:
    bench = desk(Reply(seal(calls.CODECS["stock_profile"].endpoint, {"symbol": "VNM"})))

    with pytest.raises(Malformed, match="asked for symbol HPG, the answer is about VNM"):
        await bench.broker.client.read(calls.CODECS["stock_profile"], {"symbol": "HPG"})


async def test_the_quote_that_trading_reads_is_of_the_symbol_asked_for() -> None:
    quote = {"symbol": "VNM", "exchange": "HOSE", "price": 64_000}
    bench = desk(Reply(seal(calls.CODECS["stock_quote"].endpoint, quote)))

    with pytest.raises(Malformed):
        await bench.broker.client.quote("HPG")


async def test_a_symbol_may_be_asked_for_in_lower_case() -> None:
    bench = desk(Reply(seal(calls.CODECS["stock_profile"].endpoint, {"symbol": "HPG"})))

    found = await bench.broker.client.read(calls.CODECS["stock_profile"], {"symbol": "hpg"})

    assert found.symbol == "HPG"


async def test_a_401_on_a_users_own_path_reads_the_user_once_and_asks_for_that_one() -> None:
    bench = desk(REFUSED, USER, PNL)

    await bench.broker.client.read(calls.CODECS["pnl_today"], {"user_id": "7"})

    assert [asked.target for asked in bench.played.asked] == [
        "/trading/pnl-today/7",
        "/users/v1/users/me",
        "/trading/pnl-today/42",
    ]


async def test_a_401_on_a_path_without_a_user_is_final() -> None:
    bench = desk(REFUSED)

    with pytest.raises(Refused):
        await bench.broker.client.read(calls.CODECS["portfolio"], {"sub_account_id": "1"})

    assert len(bench.played.asked) == 1


async def test_the_payload_and_its_drift_are_kept_beside_the_value() -> None:
    sent = {**ANSWERS["stock_profile"], "founded": 1992}
    bench = desk(Reply(seal(calls.CODECS["stock_profile"].endpoint, sent)))

    heard = await bench.broker.client.ask(calls.CODECS["stock_profile"], {"symbol": sent["symbol"]})

    assert heard.payload.value == sent
    assert [str(each) for each in heard.drift] == ["stock_profile founded added"]


@pytest.mark.wire
async def test_what_never_left_is_not_counted() -> None:
    """Nothing listens: neither httpx (the user) nor our own carrier gets a byte out."""
    with socket.create_server(("127.0.0.1", 0)) as was_here:
        port = was_here.getsockname()[1]
    clock = SimulatedClock(START)
    waiter = JumpingWaiter(clock)
    budget = RequestBudget(per_minute=60, waiter=waiter, jitter=Random(7))
    credentials = Credentials(Secret(KEY), Secret(SECRET), "test")
    broker = open_broker(
        f"http://127.0.0.1:{port}", credentials, wire=clock, waiter=waiter, budget=budget
    )
    broker.two_factor.set_token(Secret("canary-token"))

    for read in (broker.client.user, lambda: broker.client.quote("HPG")):
        with pytest.raises(Unreachable):
            await read()
    for _ in range(61):
        answer = await broker.writer.send(broker.writer.prepare_cancel(ACCOUNT, "ORD1"))
        assert isinstance(answer, NoAnswer)
        assert "nothing listens" in answer.reason
    await broker.close()

    assert budget.used == 0


async def test_what_is_kept_back_is_not_counted() -> None:
    """By an objection, by another token, and by the bar of a refused key, before and after it."""
    bench = desk(REFUSED)
    broker, writer = bench.broker, bench.broker.writer
    broker.two_factor.set_token(Secret("canary-token"))
    signed = writer.prepare_cancel(ACCOUNT, "ORD1")

    await writer.send(signed, lambda: "not any more")
    broker.two_factor.set_token(Secret("canary-other"))
    await writer.send(signed)
    asked, used = len(bench.played.asked), broker.budget.used
    for _ in range(3):
        with suppress(Refused, KeyRefused):
            await broker.client.user()

    assert (asked, used) == (0, 0)
    assert len(bench.played.asked) == broker.budget.used == 2


async def test_what_may_have_left_is_counted_also_without_an_answer() -> None:
    bench = desk(Reply({}))
    bench.broker.two_factor.set_token(Secret("canary-token"))
    writer = bench.broker.writer

    def cut() -> None:
        raise ConnectionResetError

    bench.played.while_asked = cut
    lost = await writer.send(writer.prepare_cancel(ACCOUNT, "ORD1"))
    bench.played.while_asked = lambda: None
    answered = await writer.send(writer.prepare_cancel(ACCOUNT, "ORD1"))

    assert isinstance(lost, NoAnswer)
    assert isinstance(answered, Answer)
    assert bench.broker.budget.used == 2
