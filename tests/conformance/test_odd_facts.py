"""A server whose quote is nonsense: it ends no run, and nothing is ordered by it."""

from typing import Any

import pytest

from bot.config.problems import OperatorMistake
from bot.conformance.facts import find_facts
from bot.conformance.finding import Verdict
from bot.conformance.orders import check_orders
from bot.protocol.secret import Secret
from tests.conformance.server import ACCOUNT, Change, server

QUOTE = "/market/quotes/stocks/FPT"
TOO_EARLY, TOO_LATE = "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59-10:00"


def quoting(name: str, value: object) -> Change:
    """Have the quote of the stock show this value."""

    def changed(path: str, status: int, body: Any) -> tuple[int, Any]:
        if path == QUOTE:
            body = {**body, "data": {**body["data"], name: value}}
        return status, body

    return changed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reference", [1]),
        ("reference", {"a": 1}),
        ("reference", "abc"),
        ("updated_at", TOO_EARLY),
        ("updated_at", TOO_LATE),
    ],
)
async def test_a_run_goes_on_over_a_fact_that_is_nonsense(name: str, value: object) -> None:
    report = await server(quoting(name, value)).run(writes=False)

    assert report.findings[-1].id == "4.2 writes"


@pytest.mark.parametrize("floor", ["abc", "nan", 0, -5])
async def test_nothing_is_ordered_at_a_floor_that_is_no_price(floor: object) -> None:
    client = server(quoting("floor", floor)).client
    facts = await find_facts(client, account=ACCOUNT, stock=None)
    client.token = Secret("a.good.token")

    said = [finding async for finding in check_orders(client, facts)]

    assert [(one.id, one.verdict) for one in said] == [("4.2 orders", Verdict.FAIL)]
    assert said[0].found == f"floor {floor} is no price"


@pytest.mark.parametrize(
    ("wanted", "found"), [("normal", ""), ("1", ""), ("0009000011", "0009000011")]
)
async def test_the_account_is_not_guessed_where_several_match(wanted: str, found: str) -> None:
    def two_of_a_type(path: str, status: int, body: Any) -> tuple[int, Any]:
        if path.endswith("/sub-accounts"):
            first = next(each for each in body["result"] if each["id"] == "0009000011")
            other = {**first, "id": "0009000099", "sub_account_ext": "120C900001.11"}
            body = {**body, "result": [other, first]}
        return status, body

    client = server(two_of_a_type).client

    if found:
        assert (await find_facts(client, account=wanted, stock=None))["account"] == found
    else:
        with pytest.raises(OperatorMistake, match="more than one sub-account matches"):
            await find_facts(client, account=wanted, stock=None)
