"""`bot api`: what there is, what is asked for, and how the answer is shown. No bot runs here."""

import json
from pathlib import Path
from typing import Any

import pytest

from bot.cli.commands.api import lines_of_payload
from bot.config.problems import ExitCode
from bot.protocol.endpoints import ENDPOINTS
from bot.runtime.api import READS, asked_for, follow
from tests.cli.stage import call


def test_the_list_has_every_read_and_no_write() -> None:
    listed = json.loads(call("api", "list", "--json").out)["calls"]

    names = [row["name"] for row in listed]
    assert names == [name for name, one in ENDPOINTS.items() if one.method == "GET"]
    assert set(names) == set(READS)


def test_the_list_can_be_narrowed() -> None:
    lines = call("api", "list", "depth").out.splitlines()

    assert [line.split()[0] for line in lines] == [
        "NAME",
        "stock_depth",
        "bond_depth",
        "etf_depth",
        "stock_depth_history",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("stock-qote", "symbol=FPT"), "did you mean 'stock_quote'"),
        (("place_order", "symbol=FPT"), "'place_order' changes something"),
        (("nonsense",), "for a list: bot api list"),
        (("stock_quote",), "symbol: required"),
        (("stock_history", "symbol=FPT", "form=1", "to=2"), "did you mean 'from'?"),
        (("stock_history", "symbol=FPT", "from=1"), "usage: bot api stock_history symbol=…"),
        (("index_history", "symbol=VNINDEX", "from=1", "to=2", "resolution=5"), "not one of 1D"),
        (("stock_quote", "FPT"), "wanted key=value"),
        (("stock_quote", "symbol=A", "symbol=B"), "given twice"),
    ],
)
def test_a_slip_is_a_wrong_command_line_and_nothing_is_asked(
    config: Path, words: tuple[str, ...], told: str
) -> None:
    ran = call("api", *words, "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert told in ran.err


def test_without_a_bot_and_without_an_address_it_says_so(config: Path) -> None:
    ran = call("api", "stock_quote", "symbol=FPT", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.NOT_RUNNING, "")
    assert "bot run" in ran.err


def test_a_day_will_do_where_unix_seconds_are_wanted() -> None:
    asked = asked_for("stock-history", {"symbol": "FPT", "from": "2026-11-19", "to": "1795107600"})

    assert asked.query == {"from": "1795021200", "to": "1795107600"}
    assert asked.assumed() == {"resolution": "1D"}


def test_user_and_account_need_not_be_given() -> None:
    assert asked_for("pnl_today", {}).path == {}
    assert asked_for("portfolio", {"sub_account_id": "7"}).path == {"sub_account_id": "7"}


async def test_pages_are_followed_until_none_is_promised() -> None:
    asked_pages: list[int] = []

    async def ask(asked: Any) -> dict[str, object]:
        asked_pages.append(asked.page)
        return {"payload": str(asked.page), "next_page": asked.page + 1 if asked.page < 3 else None}

    found = [reply["payload"] async for reply in follow(ask, asked_for("screener", {}))]

    assert (found, asked_pages) == (["1", "2", "3"], [1, 2, 3])


def test_a_list_of_flat_objects_is_a_table() -> None:
    rows = [{"symbol": "FPT", "name": "FPT Corp"}, {"symbol": "HPG", "shares": 6_396_250_200}]

    assert list(lines_of_payload([rows], limit=80)) == [
        "SYMBOL NAME            SHARES",
        "FPT    FPT Corp             -",
        "HPG    -        6,396,250,200",
    ]


def test_an_object_with_a_list_is_its_fields_and_a_table_of_all_pages() -> None:
    pages = [
        {"symbol": "FPT", "total": {"volume": 5}, "items": [{"day": "a"}]},
        {"symbol": "FPT", "total": {"volume": 5}, "items": [{"day": "b"}]},
    ]

    assert list(lines_of_payload(pages, limit=80)) == [
        "symbol       FPT",
        "total.volume 5",
        "",
        "DAY",
        "a",
        "b",
    ]


def test_nested_fields_numbers_and_times_are_written_out() -> None:
    rows = [
        {"t": 1_795_021_200, "year": 2026, "buy": {"volume": 1_000, "pe": 7.03}, "of": None},
        {"t": 1_795_107_600, "year": 2027, "buy": {"volume": 20, "pe": 14.5}, "of": [1]},
    ]

    assert list(lines_of_payload([rows], limit=80)) == [
        "               T YEAR BUY.VOLUME BUY.PE OF",
        "2026-11-19 00:00 2026      1,000   7.03 -",
        "2026-11-20 00:00 2027         20   14.5 [1]",
    ]


def test_several_lists_are_tables_under_their_names() -> None:
    depth = {"symbol": "HPG", "user_id": 900001, "bids": [{"price": 27_100}], "asks": []}

    assert list(lines_of_payload([{**depth, "asks": [{"price": 27_150.5}]}], limit=80)) == [
        "symbol  HPG",
        "user_id 900001",
        "",
        "bids:",
        " PRICE",
        "27,100",
        "",
        "asks:",
        "   PRICE",
        "27,150.5",
    ]
    assert list(lines_of_payload([depth], limit=80))[:3] == [
        "symbol  HPG",
        "user_id 900001",
        "asks    []",
    ]


@pytest.mark.parametrize("nothing", [[], {}, None, {"items": []}])
def test_nothing_is_shown_as_something(nothing: object) -> None:
    assert isinstance(list(lines_of_payload([nothing], limit=80)), list)


def test_no_line_is_longer_than_the_screen() -> None:
    rows = [{"text": "word " * 100, "nested": {"deep": ["x" * 200]}}]

    assert max(map(len, lines_of_payload([rows], limit=100))) == 100
