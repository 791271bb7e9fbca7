"""Every cell of the tables that say what is known after an order write: one test each."""

from dataclasses import replace
from datetime import date

import pytest

from bot.domain.instrument import Exchange
from bot.domain.order import OrderType
from bot.domain.outcome import (
    TWO_FACTOR_CODES,
    Accepted,
    NotSent,
    Outcome,
    Refused,
    Resolution,
    Unknown,
)
from bot.protocol.classify import classify_amend, classify_burn, classify_cancel, classify_place
from bot.protocol.endpoints.trading import PLACE_ORDER, USER
from bot.protocol.envelope import Answer, NoAnswer
from tests.protocol.samples import ACCOUNT, INTENT, RESULT_JSON, TODAY, refused, sealed
from tests.rows import every_row

BEFORE_THE_FIRST_BYTE = ["DNS", "connect refused", "TLS error", "pool timeout"]
AFTER_THE_FIRST_BYTE = ["write", "read", "reset", "protocol", "deadline", "decode", "size cap"]


def placed(
    answer: Answer | NoAnswer, intent=INTENT, known: frozenset[str] = frozenset()
) -> Outcome:
    return classify_place(intent, answer, today=TODAY, known_ids=known, account=ACCOUNT)


def cancelled(answer: Answer | NoAnswer) -> Outcome:
    return classify_cancel("ORD700001", answer)


def amended(answer: Answer | NoAnswer) -> Outcome:
    return classify_amend("ORD700001", answer)


def results(*changes: dict[str, object]) -> Answer:
    return sealed(PLACE_ORDER, [RESULT_JSON | change for change in changes])


def result(**changes: object) -> Answer:
    return results(changes)


every_verb = every_row("classify", [placed, cancelled, amended])

# ------------------------------------------------------------------- what all verbs share


@every_verb
@every_row("reason", BEFORE_THE_FIRST_BYTE)
def test_no_byte_written_is_not_sent(classify, reason):
    assert classify(NoAnswer(reason, is_sent=False)) == NotSent(reason)


@every_verb
@every_row("reason", AFTER_THE_FIRST_BYTE)
def test_any_trouble_after_the_first_byte_is_unknown(classify, reason):
    assert classify(NoAnswer(reason, is_sent=True)) == Unknown(reason)


@every_verb
@every_row("status", [400, 403, 404, 405, 409, 422])
def test_an_error_with_the_api_s_own_body_is_refused(classify, status):
    answer = refused(status, "INVALID_PARAMETER", "Invalid parameter")

    assert classify(answer) == Refused("INVALID_PARAMETER", "Invalid parameter", status)


@every_verb
@every_row("code", sorted(TWO_FACTOR_CODES))
@every_row("status", [401, 403])
def test_a_code_of_the_second_factor_is_refused_and_asks_for_a_token(classify, code, status):
    outcome = classify(refused(status, code))

    assert isinstance(outcome, Refused)
    assert outcome.needs_two_factor


@every_verb
@every_row(
    ("status", "code"),
    [(400, "OTP_SESSION_EXPIRED"), (401, "AUTH_SIGNATURE_INVALID"), (403, "FORBIDDEN")],
)
def test_no_other_refusal_asks_for_a_token(classify, status, code):
    outcome = classify(refused(status, code))

    assert isinstance(outcome, Refused)
    assert not outcome.needs_two_factor


@every_verb
@every_row("code", ["401", "AUTH_SIGNATURE_INVALID"])
def test_a_401_of_the_signature_is_refused(classify, code):
    assert classify(refused(401, code)) == Refused(code, "no", 401)


@every_verb
def test_a_401_of_a_nonce_used_for_the_first_time_is_unknown(classify):
    outcome = classify(refused(401, "AUTH_NONCE_REUSED"))

    assert outcome == Unknown("a copy of the request got there first", 401)


@every_verb
@every_row("code", ["RATE_LIMIT_EXCEEDED", "429"])
def test_a_429_is_refused_and_says_for_how_long(classify, code):
    headers = {"date": "Fri, 21 Aug 2026 02:10:30 GMT", "x_ratelimit_reset": "1787278260"}

    assert classify(refused(429, code, **headers)) == Refused(code, "no", 429, None, 30.0)


@every_verb
@every_row("reset", ["", "soon", "9" * 300])
@every_row("stated", ["", "yesterday", "Fri, 21 Aug 2026 02:10:30 GMT"])
def test_a_429_with_a_useless_reset_is_refused_all_the_same(classify, reset, stated):
    answer = refused(429, "429", date=stated, x_ratelimit_reset=reset)

    assert classify(answer) == Refused("429", "no", 429)


@every_verb
@every_row("status", [400, 401, 403, 404, 405, 409, 422, 429])
@every_row(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"error_code":"0"}',
        b'{"error_code":null}',
        b'{"error_code":{}}',
        b'{"error_code":true}',
        b'{"error_code":"X","error_code":"X"}',
    ],
)
def test_an_error_without_the_api_s_own_body_is_unknown(classify, status, body):
    assert isinstance(classify(Answer(status, {}, body)), Unknown)


@every_verb
@every_row(
    "status",
    [
        *(100, 102, 201, 202, 204, 206, 301, 302, 307, 308),
        *(402, 408, 410, 418, 425, 499, 500, 502, 503, 504, 599),
    ],
)
def test_any_other_status_is_unknown_even_with_an_error_body(classify, status):
    assert classify(refused(status, "X")) == Unknown(f"HTTP {status}", status)


@every_verb
@every_row(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b'{"result":null}',
        b'{"result":{}}',
        b'{"result":[]}',
        b'{"result":[1]}',
        b'{"result":[{}]}',
        b'{"error_code":"X","message":"no","result":[]}',
        b'{"error_code":"0","error_code":"0","result":[]}',
    ],
)
def test_a_200_that_cannot_be_used_is_unknown(classify, body):
    assert isinstance(classify(Answer(200, {}, body)), Unknown)


@every_verb
def test_a_200_with_two_results_is_unknown(classify):
    assert classify(results({}, {})) == Unknown("2 results where one was expected", 200)


# ---------------------------------------------------------------------------------- place


@every_row("status", ["SENT", "RECEIVED", "WAITING_TO_SEND", "MATCHED_ALL", "NEWS"])
@every_row("code", [None, "", "0"])
def test_an_echo_without_a_code_is_accepted(status, code):
    outcome = placed(result(order_status=status, code=code))

    assert isinstance(outcome, Accepted)
    assert (outcome.result.order_id, outcome.result.status) == ("ORD700001", status)


@every_row("status", ["REJECTED", "FAILED"])
@every_row("code", ["-400116", None])
@every_row("order_id", ["ORD700001", None])
def test_an_echo_that_was_rejected_is_refused_and_keeps_its_row(status, code, order_id):
    outcome = placed(
        result(order_status=status, code=code, order_id=order_id, rejected_reason="Hết tiền")
    )

    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.reason, outcome.http_status) == (code or status, "Hết tiền", 200)
    assert outcome.result is not None


@every_row("filler", ["0", "N/A", "-", "null", "ORD", "ORDER"])
def test_what_fills_the_place_of_a_rejected_order_s_id_is_none(filler):
    outcome = placed(result(order_status="REJECTED", code="-1", order_id=filler))

    assert isinstance(outcome, Refused)
    assert outcome.result is not None
    assert (outcome.code, outcome.result.order_id) == ("-1", "")


def test_a_rejection_under_an_id_of_another_form_that_a_row_has_shown_is_unknown():
    outcome = placed(result(order_status="REJECTED", order_id="0"), known=frozenset({"0"}))

    assert outcome == Unknown("the answer names an order that was known before", 200)


@pytest.mark.parametrize("status", ["SENT", "EXPIRED", "NEWS"])
def test_a_code_under_a_status_that_is_no_rejection_is_unknown(status):
    outcome = placed(result(code="-400116", order_status=status))

    said = f"code -400116 under the status {status}"
    assert outcome == Unknown(said, 200)


DIFFERENT = [
    {"account_id": "120C000008.6"},
    {"account_id": "120C000009.1"},
    {"symbol": "HPX"},
    {"order_side": "SELL"},
    {"order_quantity": 200},
    {"limit_price": 25_600},
    {"limit_price": None},
    {"order_type": "MP"},
    {"market_price": "MP"},
    {"transaction_date": "2026-08-20"},
    {"order_id": None},
    {"order_id": "700001"},
    {"order_id": "ORD"},
    {"order_id": "ORD7A"},
    {"order_id": "ORD١"},
]


@every_row("change", DIFFERENT)
def test_a_result_that_does_not_echo_the_request_is_unknown(change):
    outcome = placed(result(**change))

    assert isinstance(outcome, Unknown)
    assert outcome.http_status == 200


@every_row("change", DIFFERENT[:10])
def test_a_rejection_that_does_not_echo_the_request_is_unknown(change):
    assert isinstance(placed(result(**change, order_status="REJECTED", code="-1")), Unknown)


def test_an_order_that_was_known_before_is_not_this_one():
    known = frozenset({"ORD700001"})

    said = Unknown("the answer names an order that was known before", 200)
    assert placed(result(), known=known) == said
    assert placed(result(order_status="REJECTED"), known=known) == said


def test_a_place_of_yesterday_is_not_today_s():
    outcome = classify_place(
        INTENT, result(), today=date(2026, 8, 22), known_ids=frozenset(), account=ACCOUNT
    )

    assert isinstance(outcome, Unknown)


@every_row(
    ("exchange", "sent", "answered", "is_echo"),
    [
        (Exchange.HOSE, "MP", "MTL", True),
        (Exchange.HOSE, "MTL", "MP", True),
        (Exchange.HNX, "MAK", "FAK", True),
        (Exchange.HNX, "MOK", "FOK", True),
        (Exchange.HNX, "MTL", "MTL", True),
        (Exchange.HOSE, "ATC", "ATC", True),
        (Exchange.HNX, "PLO", "PLO", True),
        (Exchange.HNX, "MAK", "FOK", False),
        (Exchange.HNX, "MP", "MTL", False),
        (Exchange.HOSE, "MAK", "FAK", False),
        (Exchange.HOSE, "ATO", "ATC", False),
        (Exchange.HOSE, "MP", "LO", False),
        (Exchange.HOSE, "MP", "NEW", False),
    ],
)
def test_a_market_order_may_be_answered_by_its_routed_type_only(exchange, sent, answered, is_echo):
    intent = replace(INTENT, exchange=exchange, order_type=OrderType(sent), limit_price=None)

    outcome = placed(result(limit_price=None, market_price=sent, order_type=answered), intent)

    assert isinstance(outcome, Accepted) == is_echo


@pytest.mark.parametrize("market_price", ["ATO", "LO"])
def test_another_market_code_is_no_echo(market_price):
    intent = replace(INTENT, order_type=OrderType.ATC, limit_price=None)

    outcome = placed(result(limit_price=None, market_price=market_price, order_type="ATC"), intent)

    assert isinstance(outcome, Unknown)


# ----------------------------------------------------------------------- cancel and amend


@every_row("classify", [cancelled, amended])
@every_row("status", ["SENT", "CANCELLED", "CANCELLING", "FIXING", "NEWS"])
def test_a_change_without_a_code_is_accepted(classify, status):
    assert isinstance(classify(result(order_status=status)), Accepted)


@pytest.mark.parametrize("classify", [cancelled, amended])
@pytest.mark.parametrize(
    "change", [{"code": "-100113"}, {"order_status": "REJECTED"}, {"order_status": "FAILED"}]
)
def test_a_change_with_a_code_or_a_rejection_is_refused(classify, change):
    outcome = classify(result(**change))

    assert isinstance(outcome, Refused)
    assert outcome.result is not None


@pytest.mark.parametrize("classify", [cancelled, amended])
@pytest.mark.parametrize("order_id", ["ORD700002", None])
def test_a_change_of_another_order_is_unknown(classify, order_id):
    outcome = classify(result(order_id=order_id))

    assert outcome == Unknown("the answer is about another order", 200)
    assert outcome.result is not None  # a changed order may have this id now
    assert outcome.result.order_id == (order_id or "")


def test_an_amendment_of_the_unmatched_part_is_accepted():
    assert isinstance(amended(result(code="-701111")), Accepted)
    assert isinstance(cancelled(result(code="-701111")), Refused)


# ----------------------------------------------------------------------------------- burn


def test_a_nonce_that_a_read_could_use_was_fresh():
    verdict = classify_burn(sealed(USER, {"user_id": 7}))

    assert (verdict.resolution, verdict.is_conclusive) == (Resolution.FRESH, True)


def test_a_nonce_that_was_used_is_reached():
    verdict = classify_burn(refused(401, "AUTH_NONCE_REUSED"))

    assert (verdict.resolution, verdict.is_conclusive) == (Resolution.REACHED, True)


@every_row("age", ["1", "0012", " 3600 ", "soon"])
@every_row("answer", [sealed(USER, {"user_id": 7}), refused(401, "AUTH_NONCE_REUSED")])
def test_an_answer_of_a_cache_proves_nothing_of_the_nonce(age, answer):
    verdict = classify_burn(replace(answer, headers={"age": age}))

    assert (verdict.resolution, verdict.is_conclusive) == (Resolution.REACHED, False)
    assert verdict.detail == "the answer comes from a cache"


@pytest.mark.parametrize("age", ["", "0", "00"])
def test_an_answer_that_is_no_second_old_was_made_for_the_nonce(age):
    verdict = classify_burn(replace(sealed(USER, {"user_id": 7}), headers={"age": age}))

    assert (verdict.resolution, verdict.is_conclusive) == (Resolution.FRESH, True)


@every_row(
    "answer",
    [
        NoAnswer("deadline", is_sent=True),
        NoAnswer("connect", is_sent=False),
        Answer(200, {}, b"<html>log in</html>"),
        Answer(200, {}, b"{}"),
        Answer(200, {}, b'{"data":{"user_id":7}}'),
        Answer(200, {}, b'{"error_code":"","data":{"user_id":7}}'),
        Answer(200, {}, b'{"error_code":"0","data":{}}'),
        Answer(200, {}, b'{"error_code":"X","data":{"user_id":7}}'),
        Answer(204, {}, b'{"error_code":"0","data":{"user_id":7}}'),
        Answer(401, {}, b"AUTH_NONCE_REUSED"),
        refused(400, "AUTH_NONCE_REUSED"),
        refused(401, "AUTH_SIGNATURE_INVALID"),
        refused(429, "429"),
        refused(500, "500"),
    ],
)
def test_anything_else_proves_nothing(answer):
    verdict = classify_burn(answer)

    assert (verdict.resolution, verdict.is_conclusive) == (Resolution.REACHED, False)
