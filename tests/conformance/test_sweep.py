"""A run places an order for real: none of it is left, however oddly the server speaks of it."""

from collections.abc import Mapping
from typing import Any

import pytest

from bot.runtime.conformance.facts import find_facts, rows
from bot.runtime.conformance.finding import Finding, Verdict
from bot.runtime.conformance.orders import check_orders
from bot.runtime.conformance.two_factor import sign_in
from tests.conformance.server import ACCOUNT, Change, Server, server

pytestmark = pytest.mark.wire

BOOK = "/trading/v1/accounts/0009000011/order-book"


async def told(played: Server) -> list[Finding]:
    """Everything that is said about order writes."""

    async def code(_: str) -> str:
        return played.sandbox.credentials.otp_code

    talker = played.talker
    facts = await find_facts(talker, account=ACCOUNT, stock=None)
    signed_in = [finding async for finding in sign_in(talker, code)]
    assert signed_in
    return [finding async for finding in check_orders(talker, facts)]


async def working(played: Server) -> list[tuple[str, str]]:
    """What still works half a minute later, asked of the sandbox itself."""
    found = rows(await Server(played.sandbox, played.clock, played.sandbox.app).talker.get(BOOK))
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
    talker = played.talker
    facts = await find_facts(talker, account=ACCOUNT, stock=None)
    await told(played)
    own = await _placed(played, int(float(facts["floor"])), facts["stock"])

    said = await told(played)

    assert said[-1].verdict is Verdict.OK
    assert await working(played) == [(own, "SENT")]


async def _placed(played: Server, price: int, symbol: str) -> str:
    """Place what the run would place, as somebody at the same account."""

    async def code(_: str) -> str:
        return played.sandbox.credentials.otp_code

    talker = played.talker
    assert [finding async for finding in sign_in(talker, code)]
    body = {
        "sub_account": "120C900001.1",
        "side": "BUY",
        "symbol": symbol,
        "quantity": 100,
        "type": "LIMIT",
        "limit_price": price,
        "market_price": None,
    }
    heard = await talker.ask("POST", "/trading/oa/sub-accounts/0009000011/orders", body)
    return str(rows(heard)[0]["order_id"])
