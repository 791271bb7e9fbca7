"""The data of the run: its words are known, its ways of signing are those of the document."""

import hmac
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import pytest

from bot.conformance.content import RULES
from bot.conformance.data import AccessCase, ContentCase, Read, Refusal, order_data, words
from bot.conformance.raw_client import SIGNINGS, STAMPS, Signed
from bot.conformance.shape import NULLABLE, SCALARS, compare
from bot.protocol.endpoints import ENDPOINTS

SECRET = "3f9a1c7e5b2d8064af13c95e70b8d246e1f0a39c5d7b28464c6e8a0f2b4d6e80"
PLACE = (
    b'{"sub_account":"120C000008.1","side":"BUY","symbol":"HPG","quantity":100,"type":"LIMIT",'
    b'"limit_price":25500,"market_price":null,"stock_type":"STOCK"}'
)
TRADE = "/trading/v2/accounts/0001234569/available-trade?orderSide=BUY&symbol=HPG&quotePrice=27000"
RIGHTS = "/trading/v5/account/0001234567/user-rights?catType=CASH_DIVIDEND%2CSTOCK_DIVIDEND"
V1 = Signed("1714464000123", "GET", "/users/v1/users/me", b"", "")
V2 = Signed("1714464000456", "GET", TRADE, b"", "")
V3 = Signed("1714464000789", "GET", RIGHTS, b"", "")
V4 = Signed(
    "1714464001000",
    "POST",
    "/trading/oa/sub-accounts/0001234567/orders",
    PLACE,
    sha256(PLACE).hexdigest(),
)
VECTORS = [
    ("as documented", V1, "91f89144fd9684788e5257ff3626618a6183515053ac9fe69febd22cac58b1c6"),
    ("as documented", V2, "55d19749891196c03fc32bcca29c5dc36cd092b91b6c4ca1a90c0304a16f6951"),
    ("as documented", V3, "ea003775f7bed3868420c604d145fdee28c7a4bc3530d791b88815e845ff11d3"),
    ("as documented", V4, "c0b5b217fefb55476ea4438702d53588051865eea40ddeb036676d21ff3fd7b9"),
    ("query left out", V2, "9f523b926b2af3aca07699a7c5e535b0805bf85ee550480bf53a06f7ed27db94"),
    ("last LF left out", V2, "6d48562a63fcff31df461a1ec1dd4ba480bf9dd4013bd6114d3cacb99e66bbb8"),
    ("LF added", V4, "b279ed1894d89f5e47154dcdc89fb5314acf0c40edbec175623dd88cb2e7193a"),
    (
        "body in place of its hash",
        V4,
        "40b103e58eb9ce9fb73731332af53d9ee895b52eb187c1c41a070257b4703f87",
    ),
    ("hash left empty", V4, "d3464574c38c36df2864d5e47fbc82ca2fd0a8f1437d9e2efbd933e417776a94"),
    (
        "secret as hexadecimal",
        V1,
        "fdcce5ca2727f1358dd233d4f9ecd37361463b730852d49121cb00904045fd3b",
    ),
    ("decoded target", V3, "59990059541664f845792774296a2f77e8212604a9e22678a93b228d07d1a98d"),
]


@pytest.mark.parametrize(("name", "signed", "signature"), VECTORS)
def test_a_way_of_signing_makes_the_very_signature_of_the_document(
    name: str, signed: Signed, signature: str
) -> None:
    signing = SIGNINGS[name]

    made = hmac.new(signing.key(SECRET), signing.join(signed), sha256).hexdigest()

    assert made == signature


def words_in(shape: object) -> Iterator[str]:
    """Yield every scalar word of a shape."""
    if isinstance(shape, str):
        yield shape.removesuffix(NULLABLE)
    elif isinstance(shape, list):
        yield from words_in(shape[0])
    elif isinstance(shape, Mapping):
        for name, inner in shape.items():
            if name != NULLABLE:
                yield from words_in(inner)


def test_every_name_that_the_data_uses_is_known() -> None:
    shapes = [read.shape for read in Read.rows() if read.shape is not None]
    scalars = {word for shape in (*shapes, order_data().result) for word in words_in(shape)}

    assert scalars <= {*SCALARS, *words()}
    assert {row.rule for row in ContentCase.rows()} == set(RULES)
    assert {case.signing for case in AccessCase.rows()} == set(SIGNINGS)
    assert {case.stamp for case in AccessCase.rows()} == set(STAMPS)
    assert {read.call for read in Read.rows()} <= set(ENDPOINTS)


def test_every_id_begins_with_its_section_and_stands_once() -> None:
    rows: list[Any] = [*Read.rows(), *Refusal.rows(), *AccessCase.rows(), *ContentCase.rows()]
    ids = [row.id for row in rows]

    assert len(ids) == len(set(ids))
    assert all(id_.split()[0].replace(".", "").isdigit() for id_ in ids)


def test_the_tables_are_as_large_as_they_are_said_to_be() -> None:
    assert (
        len(Read.rows()),
        len(Refusal.rows()),
        len(AccessCase.rows()),
        len(ContentCase.rows()),
    ) >= (
        100,
        70,
        40,
        30,
    )


SHAPE = {"a*": "int", "b": "num?", "c": [{"d": "side"}], "e": {"?": True, "f": "day"}}


@pytest.mark.parametrize(
    ("value", "difference"),
    [
        ({"a": 1, "b": None, "c": [], "e": None}, {}),
        ({"a": 1, "b": 1, "c": [{"d": "BUY"}], "e": {"f": "2026-11-19"}}, {}),
        (
            {"a": 1, "b": 1, "c": [], "e": {"f": "20261119"}},
            {"wrong": {"e.f": "a text in place of day"}},
        ),
        ({"b": 1, "c": [], "e": None}, {"missing": {"a"}}),
        ({"a": "1", "b": 1, "c": [], "e": None}, {"textual": {"a"}}),
        ({"a": 1, "b": 1, "c": None, "e": None}, {"null": {"c"}}),
        (
            {"a": 1, "b": 1, "c": [{"d": "X"}], "e": None},
            {"wrong": {"c.d": "'X' is not a known side"}},
        ),
        ({"a": 1, "b": 1, "c": [{}], "e": None}, {"gone": {"c.d"}}),
        ({"a": 1, "b": 1, "c": [{}, {"d": "SELL"}], "e": None}, {}),
        ({"a": 1, "b": 1, "c": [], "e": None, "g": 1}, {"added": {"g"}}),
        ({"a": True, "c": [], "b": 1, "e": None}, {"wrong": {"a": "a bool in place of int"}}),
    ],
)
def test_a_shape_finds_its_differences(value: object, difference: dict[str, object]) -> None:
    found = compare(SHAPE, value, words())

    names = ("missing", "wrong", "textual", "null", "added", "gone")
    assert {name: getattr(found, name) for name in names if getattr(found, name)} == difference
