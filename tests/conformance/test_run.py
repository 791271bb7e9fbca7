"""The sandbox against the document: the whole run, and what it finds in a broken server."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from bot.config.problems import ExitCode, OperatorMistake
from bot.conformance.access import check_access
from bot.conformance.data import Read
from bot.conformance.facts import Facts, find_facts, rows
from bot.conformance.finding import ConformanceReport, Verdict
from bot.conformance.reads import NO_SHAPE, check_read
from bot.protocol.endpoints import ENDPOINTS
from tests.conformance.server import CONTINUOUS, Change, Server, server, verdicts

pytestmark = pytest.mark.wire
"""Slow for a unit test: hundreds of requests to a whole broker, though not over a socket."""

ASSERTIONS_MIN = 200
FACTS = Facts(
    {
        "stock": "HPG",
        "account": "0009000011",
        "user_id": "900001",
        "month_ago_s": "1792400000",
        "now_s": "1795100000",
    }
)
QUOTE = next(read for read in Read.rows() if read.id == "4.4 stock quote")
ALL_OK = [Verdict.OK] * 6
EVERY = ("status", "envelope", "required", "types", "names", "client")


@pytest.fixture(scope="module")
def played() -> Server:
    """The sandbox as it is."""
    return server()


@pytest.fixture(scope="module")
async def report(played: Server) -> ConformanceReport:
    """The run against it, writes included."""
    return await played.run()


async def test_the_sandbox_conforms(report: ConformanceReport) -> None:
    failed = [f"{one.id}: {one.found}" for one in report.findings if one.verdict is Verdict.FAIL]

    assert failed == []
    assert report.is_conforming
    assert report.executed >= ASSERTIONS_MIN


async def test_nothing_is_skipped_where_everything_is_there(report: ConformanceReport) -> None:
    skipped = [
        f"{one.id}: {one.found}" for one in report.findings if one.verdict is Verdict.SKIPPED
    ]

    assert skipped == []


async def test_every_assertion_has_an_id_of_its_own_that_names_its_section(
    report: ConformanceReport,
) -> None:
    ids = Counter(finding.id for finding in report.findings)

    assert [id_ for id_, count in ids.items() if count > 1] == []
    assert all(id_[0].isdigit() for id_ in ids)


async def test_the_sandbox_differs_from_the_document_in_no_field(report: ConformanceReport) -> None:
    drifted = [f"{one.id}: {one.found}" for one in report.findings if one.verdict is Verdict.DRIFT]

    assert drifted == []


SECTIONS = ("2.1", "2.2", "2.3", "3", *(f"4.{number}" for number in range(1, 11)))


@pytest.mark.parametrize("section", SECTIONS)
async def test_every_section_is_asserted(report: ConformanceReport, section: str) -> None:
    assert any(finding.id.startswith(f"{section} ") for finding in report.findings)


async def test_the_order_of_the_run_is_cancelled_again(
    played: Server, report: ConformanceReport
) -> None:
    reply = await played.client.get("/trading/v1/accounts/0009000011/order-book")
    open_rows = [row for row in rows(reply) if row["remainqtty"] and row["allowcancel"] == "Y"]
    assert rows(reply)
    assert open_rows == []


async def test_reading_only_places_nothing_and_asks_for_no_code() -> None:
    asked: list[str] = []

    def note(path: str, status: int, body: Any) -> tuple[int, Any]:
        asked.append(path)
        return status, body

    report = await server(note).run(writes=False)

    assert report.counts[Verdict.FAIL] == 0
    assert report.executed >= ASSERTIONS_MIN
    assert not [path for path in asked if "/oa/" in path or "/auth/" in path]


async def test_on_a_closed_market_orders_are_skipped_and_said_to_be() -> None:
    report = await server(at=CONTINUOUS + timedelta(hours=9)).run()

    [orders] = [finding for finding in report.findings if finding.id == "4.2 orders"]
    assert orders.verdict is Verdict.SKIPPED
    assert "CLOSED" in orders.found


async def test_a_run_keeps_within_its_quota() -> None:
    played = server()
    began = played.clock.now()

    report = await played.run(writes=False, per_minute=100)

    assert report.is_conforming
    assert played.clock.now() - began > timedelta(minutes=2)


async def test_a_key_that_is_refused_ends_the_run_at_once() -> None:
    def refuse(*_: Any) -> tuple[int, Any]:
        return 401, {"error_code": "401", "message": "no"}

    with pytest.raises(OperatorMistake) as caught:
        await server(refuse).run()

    assert caught.value.exit_code == ExitCode.SECRET


# -------------------------------------------------------------------------------- broken servers


def of_the_quote(change: Any) -> Change:
    """Change the quote's `data` alone."""

    def apply(path: str, status: int, body: Any) -> tuple[int, Any]:
        if path == "/market/quotes/stocks/HPG":
            body = {**body, "data": change(body["data"])}
        return status, body

    return apply


def renamed(data: dict[str, Any]) -> dict[str, Any]:
    return {("price_vnd" if name == "price" else name): value for name, value in data.items()}


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (renamed, {"required": "fail", "names": "drift", "client": "fail"}),
        (lambda data: {**data, "lot_size": 100}, {"names": "drift"}),
        (
            lambda data: {name: data[name] for name in data if name != "open"},
            {"names": "drift"},
        ),
        (lambda data: {**data, "price": str(data["price"])}, {"types": "drift"}),
        (lambda data: {**data, "volume": None, "name": None}, {"types": "drift"}),
        (lambda data: {**data, "updated_at": "yesterday"}, {"types": "fail", "client": "fail"}),
        (lambda data: {**data, "symbol": "VNM"}, {"client": "fail"}),
    ],
    ids=["renamed", "added", "gone", "as text", "null", "no time", "another symbol"],
)
async def test_drift_is_told_from_failure(change: Any, broken: dict[str, str]) -> None:
    played = server(of_the_quote(change))

    found = [finding async for finding in check_read(played.client, FACTS, QUOTE)]

    told = {finding.id.rpartition(" ")[2]: finding.verdict.value for finding in found}
    assert told == {**dict.fromkeys(EVERY, "ok"), **broken}


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda *_: (500, {"error_code": "500", "message": "x"}), ["status"]),
        (lambda _, status, body: (status, {**body, "error_code": "-1"}), ["envelope"]),
        (lambda _, status, body: (status, {"data": body["data"]}), ["envelope"]),
        (
            lambda _, status, body: (status, {**body, "data": None, "result": body["data"]}),
            ["required"],
        ),
        (
            lambda _, status, body: (
                status,
                {"error_code": "0", "message": "", "result": body["data"]},
            ),
            ["envelope"],
        ),
        (lambda *_: (200, ["x"]), ["envelope"]),
    ],
)
async def test_a_broken_envelope_fails(change: Change, verdict: list[str]) -> None:
    played = server(change)

    found = [finding async for finding in check_read(played.client, FACTS, QUOTE)]

    assert Verdict.FAIL in {finding.verdict for finding in found}


async def test_a_path_that_is_not_there_fails_and_so_does_what_depends_on_it() -> None:
    def without_funds(path: str, status: int, body: Any) -> tuple[int, Any]:
        if path == "/market/quotes/funds":
            return 404, {"error_code": "404", "message": "Not found"}
        return status, body

    report = await server(without_funds).run(writes=False)

    findings = list(report.findings)
    wanted = ("4.4 funds status", "4.4 fund quote status", "4.4 fund history status")
    assert verdicts(findings, *wanted) == [Verdict.FAIL] * 3
    assert not report.is_conforming


FOUND_BY: dict[str, set[str]] = {
    "AUTH_NONCE_REUSED": {"2.2 nonce again", "2.2 nonce elsewhere"},
    "OTP_SESSION_REQUIRED": {"3 no token", "2.2 longest device-id"},
    "OTP_INVALID": {"3 unknown ticket", "3 wrong code", "3 try 1", "3 try 2", "3 try 3"},
    "OTP_LOCKED": {"3 locked"},
    "OTP_SESSION_REVOKED": {"3 revoked"},
}


async def test_every_wrong_code_is_found_where_it_matters() -> None:
    def other(_: str, status: int, body: Any) -> tuple[int, Any]:
        is_named = body.get("error_code") in FOUND_BY
        return status, {**body, "error_code": "X"} if is_named else body

    report = await server(other).run()

    found = {one.id for one in report.findings if one.verdict in {Verdict.FAIL, Verdict.DRIFT}}
    assert set().union(*FOUND_BY.values()) <= found


class TakesEverything:
    """A server that lets every signature, timestamp and nonce pass."""

    def __init__(self) -> None:
        self.played = server()
        gate = self.played.sandbox._gate
        gate.__class__ = type("Open", (gate.__class__,), {"_check_signature": lambda *_: None})


async def test_a_server_that_takes_every_signature_does_not_conform() -> None:
    played: Server = TakesEverything().played

    report = await played.run(writes=False)

    failed = {one.id for one in report.findings if one.verdict is Verdict.FAIL}
    assert {f"2.3 N{number}" for number in (1, 2, 6, 7)} <= failed
    assert {"2.2 late", "2.2 early", "2.2 nonce again", "2.2 no signing headers"} <= failed


@pytest.mark.parametrize("body", [["login"], {"error_code": "401", "message": "Invalid signature"}])
async def test_a_200_that_is_no_success_meets_no_assertion_of_access(body: Any) -> None:
    played = server(lambda *_: (200, body))

    found = [each async for each in check_access(played.client, FACTS, may_post=True)]

    assert [each.id for each in found if each.verdict is Verdict.OK] == []


EARLIER = next(read for read in Read.rows() if read.id == "4.10 price chart")
SECTOR_READS = [read for read in Read.rows() if read.call.startswith("sector_")]


async def test_an_earlier_path_may_be_missing() -> None:
    played = server(lambda *_: (404, {"error_code": "404", "message": "Not found"}))

    found = [finding async for finding in check_read(played.client, FACTS, EARLIER)]

    assert [finding.verdict for finding in found] == [Verdict.SKIPPED]
    assert "no source promises" in found[0].found


@pytest.mark.parametrize("read", SECTOR_READS, ids=[read.call for read in SECTOR_READS])
async def test_a_server_without_a_sector_path_of_the_document_does_not_conform(read: Read) -> None:
    played = server(lambda *_: (404, {"error_code": "404", "message": "Not found"}))

    found = [finding async for finding in check_read(played.client, FACTS, read)]

    assert [finding.verdict for finding in found] == [Verdict.FAIL]


async def test_a_shape_that_no_source_shows_is_said_not_to_be_asserted() -> None:
    found = [finding async for finding in check_read(server().client, FACTS, SECTOR_READS[1])]

    assert [finding.id.rpartition(" ")[2] for finding in found] == ["status", "envelope", "client"]
    assert NO_SHAPE in found[1].what


def test_the_reads_cover_every_read_of_the_document() -> None:
    assert {read.call for read in Read.rows()} == {
        name for name, endpoint in ENDPOINTS.items() if endpoint.method == "GET"
    }


async def test_a_server_whose_fund_paths_are_gone_is_told_so_once() -> None:
    report = await server(switches={"fund_paths": "gone"}).run(writes=False)

    funds = [one for one in report.findings if "fund" in f"{one.id} {one.what}"]
    told = [one for one in report.findings if one.verdict not in {Verdict.OK, Verdict.SKIPPED}]
    assert [(one.id, one.verdict) for one in told] == [("4.9 paths", Verdict.DRIFT)]
    assert sum("no fund paths" in one.found for one in report.findings) > 20
    assert len(funds) > 20


def only_these_bonds(*symbols: str) -> Change:
    """A catalogue of these alone, in this order."""

    def change(path: str, status: int, body: Any) -> tuple[int, Any]:
        if path == "/market/quotes/bonds":
            rows_of = {row["symbol"]: row for row in body["data"]}
            body["data"] = [rows_of[symbol] for symbol in symbols]
        return status, body

    return change


BOND_DEPTH = next(read for read in Read.rows() if read.call == "bond_depth")


@pytest.mark.parametrize(
    ("symbols", "verdict"),
    [(("VN10Y", "CSB125001"), Verdict.OK), (("VN10Y", "US10Y"), Verdict.SKIPPED)],
)
async def test_a_bond_that_has_a_yield_alone_is_no_failure(
    symbols: tuple[str, ...], verdict: Verdict
) -> None:
    client = server(only_these_bonds(*symbols)).client
    facts = await find_facts(client, account=".1", stock=None)

    found = [one async for one in check_read(client, facts, BOND_DEPTH)]

    assert {one.verdict for one in found} == {verdict}
