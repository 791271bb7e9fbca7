"""A run places an order for real: nothing of it is left, however oddly the server answers."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from bot.conformance.facts import find_facts, rows
from bot.conformance.finding import ConformanceReport, Finding, Verdict
from bot.conformance.orders import check_orders
from bot.conformance.run import SIGNALS, Interrupted, until_signal
from bot.conformance.two_factor import AskCode, sign_in
from tests.conformance.server import ACCOUNT, Change, Server, changed, server

pytestmark = [pytest.mark.wire, pytest.mark.usefixtures("hangup_is_heard")]

BOOK = "/trading/v1/accounts/0009000011/order-book"


def code_of(played: Server) -> AskCode:
    """Whoever knows the code that the sandbox mails."""

    async def code(_: str) -> str:
        return played.sandbox.credentials.otp_code

    return code


async def told(played: Server) -> list[Finding]:
    """Everything that is said about order writes."""

    client = played.client
    facts = await find_facts(client, account=ACCOUNT, stock=None)
    signed_in = [finding async for finding in sign_in(client, code_of(played))]
    assert signed_in
    return [finding async for finding in check_orders(client, facts)]


async def working(played: Server) -> list[tuple[str, str]]:
    """What still works half a minute later, asked of the sandbox itself."""
    found = rows(await Server(played.sandbox, played.clock, played.sandbox.app).client.get(BOOK))
    assert found
    return [(row["orderid"], row["status"]) for row in found if row["remainqtty"]]


def the_answer_to_a_place_is_lost(path: str, status: int, body: Any) -> tuple[int, Any]:
    return (500, {}) if path.endswith("/orders") else (status, body)


def cancels_and_amendments_fail(path: str, status: int, body: Any) -> tuple[int, Any]:
    return (500, {}) if "/orders/" in path else (status, body)


@pytest.mark.parametrize(
    ("switches", "change"),
    [
        ({"modify_id": "new"}, None),
        ({"row_visible_after_s": 20}, None),
        ({"modify_id": "new", "row_visible_after_s": 7}, None),
        ({}, the_answer_to_a_place_is_lost),
        ({"row_visible_after_s": 20}, the_answer_to_a_place_is_lost),
        ({}, cancels_and_amendments_fail),
    ],
)
async def test_no_order_of_a_run_is_left_behind(
    switches: Mapping[str, object], change: Change | None
) -> None:
    played = server(change, switches=switches)

    said = await told(played)

    assert await working(played) == []
    assert (said[-1].id, said[-1].verdict) == ("4.2 left", Verdict.OK)


async def test_an_order_whose_row_is_late_is_no_failure() -> None:
    said = await told(server(switches={"row_visible_after_s": 2}))

    assert [one.id for one in said if one.verdict is Verdict.FAIL] == []


async def test_an_order_that_is_never_shown_is_named() -> None:
    played = server(switches={"row_visible_after_s": 3_600})

    last = (await told(played))[-1]

    assert (last.id, last.verdict) == ("4.2 left", Verdict.FAIL)
    assert "ORD10000001 may still work" in last.found


async def test_an_order_of_somebody_else_is_left_alone() -> None:
    played = server()
    client = played.client
    facts = await find_facts(client, account=ACCOUNT, stock=None)
    await told(played)
    own = await _placed(played, int(float(facts["floor"])), facts["stock"])

    said = await told(played)

    assert said[-1].verdict is Verdict.OK
    assert await working(played) == [(own, "SENT")]


async def _placed(played: Server, price: int, symbol: str, *, quantity: int = 100) -> str:
    """Place what the run would place, as somebody else at the same account."""

    client = played.client
    assert [finding async for finding in sign_in(client, code_of(played))]
    body = {
        "sub_account": "120C900001.1",
        "side": "BUY",
        "symbol": symbol,
        "quantity": quantity,
        "type": "LIMIT",
        "limit_price": price,
        "market_price": None,
    }
    reply = await client.ask("POST", "/trading/oa/sub-accounts/0009000011/orders", body)
    return str(rows(reply)[0]["order_id"])


# -------------------------------------------------------- a server that takes what it should refuse

Rewrite = Callable[[dict[str, Any]], Mapping[str, object] | None]


def taking(rewrite: Rewrite, *, is_lost: bool = False, cancels: bool = True) -> Server:
    """Have the server turn some orders into others; their answers, and cancels, may be a 503."""
    played = server()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def refuse() -> None:
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})

        async def ignore(_: object) -> None:
            """Lose the answer."""

        if scope["method"] == "DELETE" and not cancels:
            await refuse()
            return
        message = await receive()
        is_place = scope["method"] == "POST" and scope["path"].endswith("/orders")
        is_object = is_place and message["body"].startswith(b"{")
        body = json.loads(message["body"]) if is_object else {}
        changes = rewrite(body) if body else None
        if changes:
            message = {**message, "body": json.dumps({**body, **changes}).encode()}

        async def changed() -> Any:
            return message

        await played.sandbox.app(scope, changed, ignore if changes and is_lost else send)
        if changes and is_lost:
            await refuse()

    return Server(played.sandbox, played.clock, app)


def market_price_wins(body: dict[str, Any]) -> Mapping[str, object] | None:
    if (body.get("market_price"), body.get("type")) != ("MP", "LIMIT"):
        return None
    return {"type": "MARKET", "limit_price": None}


def sells_what_is_held(body: dict[str, Any]) -> Mapping[str, object] | None:
    return {"quantity": 100} if body.get("side") == "SELL" else None


def rounds_the_price(body: dict[str, Any]) -> Mapping[str, object] | None:
    price = body.get("limit_price") or 0
    is_off = price % 10 == 1 and body.get("side") == "BUY"
    return {"limit_price": price // 100 * 100 + 500} if is_off else None


async def left_by(played: Server, *, at_market: bool = False) -> Finding:
    report = await played.run(at_market=at_market)
    return next(each for each in report.findings if each.id == "4.2 left")


async def test_nothing_is_bought_at_a_server_that_lets_the_market_price_win() -> None:
    assert (await left_by(taking(market_price_wins))).verdict is Verdict.OK


async def test_what_was_bought_after_all_fails_with_shares_and_money() -> None:
    left = await left_by(taking(market_price_wins), at_market=True)

    assert left.verdict is Verdict.FAIL
    assert "bought 100 FPT for 13,150,000 VND" in left.found
    assert "cannot be undone" in left.found


@pytest.mark.parametrize("rewrite", [sells_what_is_held, rounds_the_price])
async def test_an_order_taken_against_expectation_is_cancelled_though_its_answer_was_lost(
    rewrite: Rewrite,
) -> None:
    played = taking(rewrite, is_lost=True)

    left = await left_by(played)

    assert await working(played) == []
    assert left.verdict is Verdict.OK


async def test_an_order_taken_against_expectation_is_named_if_it_cannot_be_cancelled() -> None:
    played = taking(rounds_the_price, cancels=False)

    left = await left_by(played)

    assert left.verdict is Verdict.FAIL
    assert all(id_ in left.found for id_, _ in await working(played))


async def test_an_order_of_the_owner_meanwhile_is_named_not_cancelled() -> None:
    own = list[str]()
    played = taking(rounds_the_price, is_lost=True)

    def show(finding: Finding) -> None:
        if finding.id == "6.2 beyond the shares":
            own.append("due")

    async def while_it_runs(scope: Any, receive: Any, send: Any) -> None:
        if own == ["due"]:
            own[0] = ""
            facts = await find_facts(played.client, account=ACCOUNT, stock=None)
            owner = Server(played.sandbox, played.clock, played.sandbox.app)
            price = int(float(facts["floor"])) + 500
            own[0] = await _placed(owner, price, facts["stock"], quantity=300)
        await played.app(scope, receive, send)

    report = await Server(played.sandbox, played.clock, while_it_runs).run(show=show)

    [left] = [each for each in report.findings if each.id == "4.2 left"]
    assert await working(played) == [(own[0], "SENT")]
    assert f"{own[0]} is new and unlike what this run sent: left alone" in left.found


# --------------------------------------------------------------------------------- a run cut off

NOT_CANCELLED = "ORD10000001 may still work: cancel it in the broker's app"


async def cut_off(
    played: Server, *numbers: signal.Signals, after: str = "4.2 place taken"
) -> tuple[signal.Signals, list[Finding]]:
    """Send signals once there is a finding; return how the run ended and what it left."""
    left: list[Finding] = []

    async def orders() -> ConformanceReport:
        client = played.client
        facts = await find_facts(client, account=ACCOUNT, stock=None)
        assert [finding async for finding in sign_in(client, code_of(played))]
        async for finding in check_orders(client, facts, on_left=left.append):
            if finding.id == after:
                for number in numbers:
                    signal.raise_signal(number)
                await asyncio.sleep(0)
        return ConformanceReport(())

    with pytest.raises(Interrupted) as ended:
        await until_signal(orders(), lambda _: None, again_s=0.01)
    return ended.value.number, left


def on_a_cancel(played: Server, do: Callable[[], Awaitable[object]]) -> Server:
    """Have the server do something else with a DELETE, and answer it with a 500."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "DELETE":
            await played.sandbox.app(scope, receive, send)
            return
        await do()
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    return Server(played.sandbox, played.clock, app)


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_signal_leaves_no_order_working_at_the_broker(number: signal.Signals) -> None:
    played = server()

    ended, left = await cut_off(played, number)

    assert await working(played) == []
    assert (ended, [one.verdict for one in left]) == (number, [Verdict.OK])


async def test_a_signal_after_a_place_without_an_answer_leaves_no_order_either() -> None:
    played = server(the_answer_to_a_place_is_lost)

    _, left = await cut_off(played, signal.SIGTERM, after="4.2 place answer")

    assert await working(played) == []
    assert [one.verdict for one in left] == [Verdict.OK]


async def test_after_a_signal_an_order_that_is_not_cancelled_is_named() -> None:
    async def nothing() -> None:
        """Do nothing."""

    _, left = await cut_off(on_a_cancel(server(), nothing), signal.SIGTERM)

    assert [one.found for one in left] == [NOT_CANCELLED]


async def test_a_second_signal_does_not_wait_for_a_broker_that_hangs() -> None:
    hanging = on_a_cancel(server(), asyncio.Event().wait)

    ended, left = await cut_off(hanging, signal.SIGTERM, signal.SIGINT)

    assert ended is signal.SIGTERM
    assert [one.found for one in left] == [NOT_CANCELLED]


async def test_a_reader_who_goes_away_leaves_no_order_working() -> None:
    played = server()

    def show(finding: Finding) -> None:
        if finding.id == "4.2 place taken":
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await played.run(show=show)

    assert await working(played) == []


# ------------------------------------------------------ an answer that hides what is at the broker


async def told_beside(
    owned: Server, change: Change, *, price: str = "floor"
) -> tuple[str, list[Finding]]:
    """What is said about order writes while the owner has an order like theirs; `change` breaks the
    answers from then on. Return its id too.
    """
    facts = await find_facts(owned.client, account=ACCOUNT, stock=None)
    own = await _placed(owned, int(float(facts[price])), facts["stock"])
    played = Server(owned.sandbox, owned.clock, changed(owned.sandbox.app, change))
    client = played.client
    assert [finding async for finding in sign_in(client, code_of(played))]
    return own, [finding async for finding in check_orders(client, facts)]


HIDDEN = [(500, {}), (200, {"error_code": "1", "message": "try again"}), (200, {})]


@pytest.mark.parametrize("answer", HIDDEN)
async def test_an_order_of_before_is_left_alone_if_the_book_could_not_be_read_at_first(
    answer: tuple[int, Any],
) -> None:
    played, left = server(), [answer]

    def hidden_once(path: str, status: int, body: Any) -> tuple[int, Any]:
        return left.pop() if path == BOOK and left else (status, body)

    own, said = await told_beside(played, hidden_once)

    assert await working(played) == [(own, "SENT")]
    assert (said[-1].id, said[-1].verdict) == ("4.2 left", Verdict.OK)


@pytest.mark.parametrize("answer", HIDDEN)
async def test_nothing_is_placed_while_it_is_not_known_what_was_there_before(
    answer: tuple[int, Any],
) -> None:
    played = server()

    def hidden(path: str, status: int, body: Any) -> tuple[int, Any]:
        return answer if path == BOOK else (status, body)

    own, said = await told_beside(played, hidden)

    assert await working(played) == [(own, "SENT")]
    assert [(one.id, one.verdict) for one in said] == [("4.2 orders", Verdict.FAIL)]
    assert "the day order book can't be read" in said[0].found


@pytest.mark.parametrize("status", [408, 400])
async def test_an_order_is_looked_for_after_a_refusal_that_is_none_of_the_brokers(
    status: int,
) -> None:
    def by_a_proxy(path: str, _: int, body: Any) -> tuple[int, Any]:
        return (status, {}) if path.endswith("/orders") else (_, body)

    played = server(by_a_proxy, switches={"row_visible_after_s": 3})

    said = await told(played)
    await played.client.pause(timedelta(seconds=30))

    assert await working(played) == []
    assert (said[-1].id, said[-1].verdict) == ("4.2 left", Verdict.OK)


async def test_an_order_is_looked_for_whose_answer_does_not_name_it() -> None:
    def without_its_id(path: str, status: int, body: Any) -> tuple[int, Any]:
        if path.endswith("/orders"):
            body = {**body, "result": [{**each, "order_id": None} for each in rows_of(body)]}
        return status, body

    played = server(without_its_id, switches={"row_visible_after_s": 3})

    said = await told(played)
    await played.client.pause(timedelta(seconds=30))

    assert await working(played) == []
    assert (said[-1].id, said[-1].verdict) == ("4.2 left", Verdict.OK)


def rows_of(body: Any) -> list[dict[str, Any]]:
    return list(body.get("result") or [])
