"""No text of an answer is shown, logged or stored unredacted, whatever field holds it."""

from typing import Any

import pytest

from bot.broker.errors import Malformed, Refused, Unreachable
from bot.domain.outcome import NotSent, Outcome, Unknown
from bot.domain.outcome import Refused as RefusedOutcome
from bot.protocol.classify import classify_amend, classify_burn, classify_cancel, classify_place
from bot.protocol.day_order_book import decode_todays_orders, validate_row
from bot.protocol.endpoints.trading import PLACE_ORDER
from bot.protocol.envelope import Answer, NoAnswer, Payload, seal, seal_error
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.orders import decode_order_results, validate_result
from tests.broker.played_broker import Reply, desk
from tests.protocol.samples import ACCOUNT, INTENT, NOW, RESULT_JSON, ROW_JSON, TODAY
from tests.rows import every_row

CANARY = "c4N4ryc4N4ry"
SECRETS = (
    f"eyJhbGciOiJIUzI1NiJ9.{CANARY}.{CANARY}",
    f"ak_live_{CANARY}",
    f'{{"otp_code":"{CANARY}"}}',
    f"X-FH-2FA-TOKEN: {CANARY}",
    f'{{"session_token": "{CANARY}',
)
each_secret = every_row("secret", SECRETS)
AMONG_WORDS = "the key {} was not accepted"


def outcomes(answer: Answer | NoAnswer) -> list[Outcome]:
    known: dict[str, Any] = {"today": TODAY, "known_ids": frozenset(), "account": ACCOUNT}
    place = classify_place(INTENT, answer, **known)
    return [place, classify_cancel("ORD700001", answer), classify_amend("ORD700001", answer)]


@each_secret
@every_row("http_status", (200, 302, 400, 401, 403, 404, 409, 422, 429, 500))
def test_an_error_of_the_broker_tells_no_secret(secret, http_status):
    said = AMONG_WORDS.format(secret)
    answer = Answer(http_status, {}, seal_error(said, said))

    for outcome in outcomes(answer):
        assert isinstance(outcome, Unknown | RefusedOutcome)
        assert CANARY not in repr(outcome)
    assert CANARY not in repr(classify_burn(answer))


@each_secret
@every_row("is_sent", (True, False))
def test_what_the_transport_says_of_a_failure_tells_no_secret(secret, is_sent):
    answer = NoAnswer(AMONG_WORDS.format(secret), is_sent)

    for outcome in outcomes(answer):
        assert isinstance(outcome, Unknown | NotSent)
        assert CANARY not in repr(outcome)
    assert CANARY not in repr(classify_burn(answer))


@each_secret
@every_row("field", ("rejected_reason", "code", "fidelity", "novelty"))
@every_row("status", ("REJECTED", "SENT"))
def test_an_order_answer_tells_no_secret_straight_or_by_the_model(secret, field, status):
    said = AMONG_WORDS.format(secret)
    element = {**RESULT_JSON, "order_status": status, field: said}

    for outcome in outcomes(Answer(200, {}, seal(PLACE_ORDER, [element]))):
        assert CANARY not in repr(outcome)
    for result in (
        *decode_order_results(Payload("x", [element])),
        validate_result(Payload("x", element)),
    ):
        assert CANARY not in repr(result)


@each_secret
@every_row("field", ("feedbackmsg", "tlname", "fidelity", "novelty"))
def test_a_row_tells_no_secret_straight_or_by_the_model(secret, field):
    row = {**ROW_JSON, field: AMONG_WORDS.format(secret)}
    unread = {**row, "qtty": "many"}

    book = decode_todays_orders(Payload("x", [row, unread]), account=ACCOUNT, requested_at=NOW)
    by_model = validate_row(Payload("x", row), account=ACCOUNT, requested_at=NOW)

    assert (len(book.reports), len(book.set_aside)) == (1, 1)
    assert CANARY not in repr(book)
    assert CANARY not in repr(by_model)
    assert "…4567" in by_model.raw


@each_secret
def test_an_answer_that_cannot_be_used_tells_no_secret(secret):
    bodies = (
        secret.encode(),
        b'{"error_code":"0","result":"' + secret.encode(),
        seal(PLACE_ORDER, [{"account_id": secret, secret: secret}]),
    )
    for body in bodies:
        for outcome in outcomes(Answer(200, {}, body)):
            assert CANARY not in repr(outcome)
    for error in (
        MalformedAnswer("x", f"{secret}: no number", secret),
        BrokerRefusal("x", http_status=400, error_code=secret, message=secret),
    ):
        assert CANARY not in str(error) + repr(vars(error))


@pytest.mark.parametrize("secret", SECRETS)
async def test_a_failed_read_tells_no_secret(secret: str) -> None:
    bench = desk(
        Reply(seal_error(secret, AMONG_WORDS.format(secret)), 400),
        Reply(secret.encode()),
    )

    with pytest.raises(Refused) as refused:
        await bench.broker.client.quote("HPG")
    with pytest.raises(Malformed) as malformed:
        await bench.broker.client.quote("HPG")

    assert CANARY not in str(refused.value) + repr(vars(refused.value))
    assert CANARY not in str(malformed.value) + repr(vars(malformed.value))


class BreaksOff(Reply):
    """What breaks the connection, and quotes what came over it."""

    @property
    def raw(self) -> bytes:
        raise ConnectionError(AMONG_WORDS.format(self.body))


@pytest.mark.parametrize("secret", SECRETS)
async def test_a_read_that_broke_off_tells_no_secret(secret: str) -> None:
    with pytest.raises(Unreachable) as unreachable:
        await desk(BreaksOff(secret)).broker.client.quote("HPG")

    assert CANARY not in str(unreachable.value) + repr(vars(unreachable.value))
