from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from bot.domain.instrument import Phase
from bot.domain.order import OrderState, Side, TodaysOrders
from bot.protocol.day_order_book import (
    RowDetail,
    _remembered,
    decode_order_row,
    decode_todays_orders,
    encode_order_row,
)
from bot.protocol.errors import MalformedAnswer
from tests.protocol.samples import ACCOUNT, NOW, REPORT, ROW_JSON, TODAY, payload, without_raw
from tests.rows import every_row

DETAIL = RowDetail(
    sub_account_id="0001234567",
    customer_id="0001234500",
    core_number="0007",
    phase=Phase.PROGRESS,
)


def read_row(**changes: object):
    return decode_order_row(payload(ROW_JSON | changes), account=ACCOUNT, requested_at=NOW)


def test_the_document_s_example_is_read_and_written():
    assert without_raw(read_row()) == REPORT
    assert encode_order_row(REPORT, DETAIL) == ROW_JSON
    assert set(encode_order_row(REPORT, DETAIL)) == set(ROW_JSON)


def read_book(*rows: object) -> TodaysOrders:
    return decode_todays_orders(payload(list(rows)), account=ACCOUNT, requested_at=NOW)


def test_a_book_whose_rows_can_all_be_read_is_whole():
    assert without_raw(read_book(ROW_JSON).reports[0]) == REPORT
    assert len(read_book(ROW_JSON, ROW_JSON).reports) == 2
    assert read_book() == TodaysOrders((), ())


def test_of_a_row_as_large_as_an_answer_nothing_is_remembered():
    kept = _remembered.cache_info().currsize

    [report] = read_book(ROW_JSON | {"novelty": "x" * 100_000, "feedbackmsg": "large"}).reports

    assert report.message == "large"
    assert _remembered.cache_info().currsize == kept


@pytest.mark.parametrize(
    ("spoilt", "named", "reason"),
    [
        ({"orderid": None}, (None, "HPG"), "orderid"),
        ({"symbol": None}, ("ORD700001", None), "symbol"),
        ({"qtty": None}, ("ORD700001", "HPG"), "qtty"),
        ({"qtty": "many"}, ("ORD700001", "HPG"), "qtty"),
        ({"side": "LEND", "side_code": None}, ("ORD700001", "HPG"), "side"),
        ({"orderid": 7, "symbol": " "}, (None, None), "orderid"),
        ({"orderid": "7" * 201}, (None, "HPG"), "orderid"),
        ({"rootorderid": "7" * 201}, ("ORD700001", "HPG"), "rootorderid"),
        ({"afacctno_ext": "7" * 201}, ("ORD700001", "HPG"), "afacctno_ext"),
    ],
)
def test_a_row_that_cannot_be_read_is_set_aside_with_what_it_names(
    spoilt: dict[str, object], named: tuple[str | None, str | None], reason: str
) -> None:
    found = read_book(ROW_JSON, ROW_JSON | spoilt)

    [row] = found.set_aside
    assert [without_raw(each) for each in found.reports] == [REPORT]
    assert (row.order_id, row.symbol) == named
    assert row.reason.startswith(reason)
    assert "qtty" in row.raw


def test_what_is_no_row_at_all_is_set_aside_without_a_name():
    [row] = read_book(7).set_aside

    assert (row.order_id, row.symbol, row.raw) == (None, None, "7")


def test_a_row_needs_no_more_than_id_symbol_side_quantity_and_what_was_executed():
    least = {"orderid": "ORD1", "symbol": "hpg", "side": "sell", "qtty": "300", "execqtty": 0}

    row = decode_order_row(
        payload(dict.fromkeys(ROW_JSON) | least), account=ACCOUNT, requested_at=NOW
    )

    assert (row.order_id, row.root_order_id, row.symbol, row.side) == (
        "ORD1",
        "ORD1",
        "HPG",
        Side.SELL,
    )
    assert (row.remaining_quantity, row.state, row.may_cancel, row.placed_at) == (
        300,
        None,
        None,
        None,
    )
    assert (row.trading_date, row.account) == (TODAY, ACCOUNT.extended_id)


@pytest.mark.parametrize(
    "told",
    [
        {"remainqtty": 300},
        {"cancelqtty": 300, "status": "CANCELLED"},
        {"remainqtty": 200, "cancelqtty": 100},
        {"status": "REJECTED"},
        {"status_code": "05"},
    ],
)
def test_a_row_without_execqtty_has_executed_nothing_where_the_rest_is_all_of_it(
    told: dict[str, object],
) -> None:
    least = {"orderid": "ORD1", "symbol": "HPG", "side": "SELL", "qtty": 300}

    [row] = read_book(least | told).reports

    assert (row.executed_quantity, row.executed_amount, row.average_price) == (0, 0, 0)


@pytest.mark.parametrize(
    "lacking",
    [
        {"execqtty": None},
        {"execqtty": None, "remainqtty": 0, "cancelqtty": 200, "status": "CANCELLED"},
        {"execqtty": None, "remainqtty": 0, "status": "MATCHED_ALL"},
        {"execqtty": None, "remainqtty": None},
        {"execamt": None},
        {"execamt": 0, "execprice": 0},
    ],
)
def test_a_row_that_leaves_out_what_was_executed_or_what_it_cost_is_set_aside(
    lacking: dict[str, object],
) -> None:
    found = read_book(ROW_JSON | lacking)

    [row] = found.set_aside
    assert found.reports == ()
    assert (row.order_id, row.symbol) == ("ORD700001", "HPG")
    assert row.reason.startswith("exec")


def test_an_average_price_that_is_left_out_is_that_of_the_amount():
    assert read_row(execprice=None, execamt=2_549_999).average_price == 25_499


@every_row(
    ("field", "value"),
    [
        ("orderid", ""),
        ("orderid", 5),
        ("symbol", None),
        ("side", "HOLD"),
        ("side", 5),
        ("qtty", None),
        ("qtty", Decimal("1.5")),
        ("price", Decimal("25500.5")),
        ("price", -1),
        ("execqtty", "x"),
        ("txtime", 92011),
        ("status", []),
    ],
)
def test_a_row_that_cannot_be_used_is_malformed(field, value):
    with pytest.raises(MalformedAnswer, match=field):
        read_row(**{field: value, "side_code": None, "limitprice": None})


def test_times_are_vietnam_local():
    assert read_row().placed_at == datetime(2026, 8, 21, 2, 20, 11, tzinfo=UTC)
    assert read_row(txtime="", txdate="").placed_at == read_row().placed_at
    assert read_row(odtimestamp="2026-08-21T09:20:11+07:00", txtime="").placed_at == (
        read_row().placed_at
    )


@pytest.mark.parametrize("text", ["", "soon", "25:00:00", None])
def test_a_row_is_worth_having_without_its_time(text):
    row = read_row(txtime=text, odtimestamp="never")

    assert (row.placed_at, row.order_id) == (None, "ORD700001")


@pytest.mark.parametrize(
    "stamp",
    [
        "0001-01-01T00:00:00",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59-10:00",
        "9999-12-31T23:59:59Z",
    ],
)
def test_a_time_that_no_clock_shows_does_not_spoil_the_row(stamp):
    day = stamp[:10]

    assert read_row(txdate="", txtime="", odtimestamp=stamp).placed_at is None
    assert read_row(txdate=day, txtime=stamp[11:], odtimestamp="").order_id == "ORD700001"


def test_a_row_without_a_date_is_of_the_local_day_of_the_request():
    late = datetime(2026, 8, 20, 18, 0, tzinfo=UTC)
    bare = ROW_JSON | {"txdate": "", "odtimestamp": ""}

    row = decode_order_row(payload(bare), account=ACCOUNT, requested_at=late)

    assert row.trading_date == date(2026, 8, 21)


@every_row("of_nothing", ["0001-01-01", "1970-01-01", "1999-12-31", "2101-01-01", "9999-12-31"])
@every_row("form", [ROW_JSON, {**ROW_JSON, "novelty": 1}])
def test_a_date_of_a_year_without_trading_is_none(of_nothing, form):
    def dated(**changes: object) -> tuple[date, datetime | None]:
        [row] = read_book(form | changes).reports
        return row.trading_date, row.placed_at

    stamp = f"{of_nothing}T12:00:00"

    assert dated(txdate=of_nothing, odtimestamp="2026-08-20T09:20:11", txtime="") == (
        date(2026, 8, 20),
        datetime(2026, 8, 20, 2, 20, 11, tzinfo=UTC),
    )
    assert dated(txdate=of_nothing, odtimestamp=stamp) == (TODAY, None)
    assert dated(txdate=None, odtimestamp=stamp, txtime="") == (TODAY, None)
    assert dated(odtimestamp=stamp, txtime="") == (TODAY, None)


@pytest.mark.parametrize("day", [date(2000, 1, 1), date(2100, 12, 31)])
def test_a_date_of_another_year_is_taken(day):
    assert read_row(txdate=day.isoformat()).trading_date == day


@pytest.mark.parametrize(("code", "side"), [("NB", "BUY"), ("AS", "SELL"), ("CB", "BUY")])
def test_a_missing_side_is_read_from_its_code(code, side):
    assert read_row(side=None, side_code=code).side == side


ASKED = {"orderid": "ORD700002", "side_code": "CB", "execqtty": 0, "execprice": 0, "execamt": 0}


@every_row(
    "request",
    [
        {"status": "SENT", "remainqtty": 300},
        {"status": "COMPLETED", "remainqtty": 0, "cancelqtty": 200},
        {"status": "REJECTED", "execqtty": None, "novelty": 1},
        {"side": "SELL", "side_code": " cs", "execqtty": "0"},
        {"side": None, "qtty": None},
    ],
)
def test_a_request_to_cancel_an_order_is_no_order(request):
    found = read_book(ROW_JSON, ROW_JSON | ASKED | request)

    assert [each.order_id for each in found.reports] == ["ORD700001"]
    assert found.set_aside == ()


@every_row(
    "order",
    [
        {"rootorderid": "ORD700002"},
        {"rootorderid": ""},
        {"rootorderid": None},
        {"execqtty": 100, "execprice": 25_500, "execamt": 2_550_000},
        {"side_code": "AB"},
        {"side_code": "NB"},
        {"side_code": None},
    ],
)
def test_any_other_row_is_an_order(order):
    found = read_book(ROW_JSON, ROW_JSON | ASKED | order)

    assert [each.order_id for each in found.reports] == ["ORD700001", "ORD700002"]


@every_row(
    ("code", "state"),
    [
        ("01", OrderState.ACCEPTED),
        ("02", OrderState.ACCEPTED),
        ("03", OrderState.FILLED),
        ("04", OrderState.CANCELLED),
        ("05", OrderState.REJECTED),
        ("3", None),
        ("06", None),
        (3, None),
        (None, None),
    ],
)
def test_the_two_digit_code_speaks_only_for_an_empty_status(code, state):
    assert read_row(status=None, status_code=code).state is state
    assert read_row(status="SENT", status_code=code).state is OrderState.ACCEPTED


@every_row(
    ("flag", "allowed"),
    [
        *[(yes, True) for yes in ("Y", "y", "1", "true", True)],
        *[(no, False) for no in ("N", "0", False, "maybe")],
        *[(absent, None) for absent in ("", None)],
    ],
)
def test_a_flag_is_yes_no_or_not_there(flag, allowed):
    assert read_row(allowcancel=flag).may_cancel is allowed


def test_the_rest_is_stated_or_computed():
    assert read_row(remainqtty=150).remaining_quantity == 150
    assert read_row(remainqtty=None, cancelqtty=50).remaining_quantity == 150


def test_impossible_quantities_are_passed_on_for_the_engine_to_halt_on():
    row = read_row(execqtty=-5, execamt=-127500)

    assert (row.executed_quantity, row.executed_amount) == (-5, -127_500)


def test_an_average_price_is_floored():
    assert read_row(execprice=Decimal("25499.99")).average_price == 25_499


def test_a_row_of_another_account_says_so():
    other = read_row(afacctno="0009999999", afacctno_ext="120C000009.1")
    own_in_another_form = read_row(afacctno_ext="0001234567.01")

    assert other.account == "120C000009.1"
    assert own_in_another_form.account == ACCOUNT.extended_id


def test_a_market_order_has_no_price_until_its_rest_has_one():
    assert read_row(price=0, limitprice=None).price is None
    assert read_row(price=0, limitprice=Decimal("25500.0")).price == 25_500


def test_what_is_kept_of_a_row_hides_the_accounts():
    raw = read_row().raw

    assert not any(number in raw for number in ("0001234567", "0001234500", "120C000008"))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"executed_quantity": 0, "remaining_quantity": 300}, "01"),
        ({}, "02"),
        ({"executed_quantity": 300, "remaining_quantity": 0}, "03"),
        ({"cancelled_quantity": 200, "remaining_quantity": 0}, "04"),
        ({"status": "EXPIRED", "state": OrderState.EXPIRED}, "04"),
        ({"status": "REJECTED", "state": OrderState.REJECTED}, "05"),
    ],
)
def test_the_status_code_follows_the_quantities(changes, code):
    assert encode_order_row(replace(REPORT, **changes), DETAIL)["status_code"] == code
