from datetime import UTC, datetime

import pytest

from bot.protocol.errors import MalformedAnswer, MalformedRequest
from bot.protocol.secret import Secret
from bot.protocol.two_factor import (
    decode_otp_request,
    decode_otp_ticket,
    decode_otp_verification,
    decode_revocation,
    decode_two_factor_token,
    encode_otp_request,
    encode_otp_verification,
    encode_revocation,
    encode_two_factor_token,
)
from bot.protocol.values.border import OtpTicket, OtpVerification, TwoFactorToken
from tests.protocol.samples import payload

END = datetime(2026, 8, 21, 16, 59, 59, tzinfo=UTC)
TOKEN = TwoFactorToken(Secret("eyJ.canary.x"), END)


def test_a_ticket_is_read_without_its_destination():
    assert decode_otp_ticket(payload({"ticket_id": "T-1"})) == OtpTicket("T-1", "")


def test_a_token_is_written_as_the_document_shows_it():
    assert encode_two_factor_token(TOKEN) == {
        "session_token": "eyJ.canary.x",
        "expires_at": "2026-08-21T23:59:59.000+07:00",
        "expires_at_epoch": 1787331599,
    }


@pytest.mark.parametrize(
    "end",
    [
        {"expires_at": "2026-08-21T23:59:59.000+07:00"},
        {"expires_at_epoch": 1787331599},
        {"expires_at_epoch": "1787331599"},
        {"expires_at_epoch": 1787331599, "expires_at": "2026-08-22T23:59:59.000+07:00"},
    ],
)
def test_a_token_ends_at_the_earlier_end(end):
    assert decode_two_factor_token(payload({"session_token": "eyJ.canary.x", **end})) == TOKEN


@pytest.mark.parametrize(
    "fields",
    [
        {"session_token": "eyJ.canary.x"},
        {"session_token": "eyJ.canary.x", "expires_at_epoch": 1787331599000},
        {"session_token": "eyJ.canary.x", "expires_at": "2026-08-21T23:59:59"},
        {"session_token": "", "expires_at_epoch": 1787331599},
        {"session_token": ["eyJ.canary.x"], "expires_at_epoch": 1787331599},
    ],
)
def test_a_token_that_cannot_be_used_is_not_in_the_error(fields):
    with pytest.raises(MalformedAnswer) as caught:
        decode_two_factor_token(payload(fields))

    assert "canary" not in str(caught.value) + caught.value.raw + repr(caught.value)


def test_the_token_is_in_no_repr():
    assert "canary" not in repr(TOKEN)


def test_the_client_s_bodies_are_the_document_s():
    assert encode_otp_request() == b'{"channel":"EMAIL"}'
    assert encode_otp_verification("T-1", Secret("123456")) == (
        b'{"ticket_id":"T-1","otp_code":"123456"}'
    )
    assert encode_revocation(Secret("x")) == b'{"session_token":"x"}'


def test_the_server_reads_what_the_client_writes():
    code = Secret("123456")

    assert decode_otp_request(encode_otp_request()) == "EMAIL"
    assert decode_otp_verification(encode_otp_verification("T-1", code)) == OtpVerification(
        "T-1", code
    )
    assert decode_revocation(encode_revocation(code)) == code


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"ticket_id":"T-1","otp_code":123456}'])
def test_a_body_without_its_fields_is_refused(body):
    with pytest.raises(MalformedRequest):
        decode_otp_verification(body)
