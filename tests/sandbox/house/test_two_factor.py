"""The second factor: tickets, tries, tokens and how they end."""

from datetime import UTC, datetime, timedelta

import pytest

from bot.sandbox.errors import HttpRefusal
from bot.sandbox.house.two_factor import OtpIssuer, given_of, masked_email
from tests.sandbox.client import scenario

MORNING = datetime(2026, 11, 19, 2, 15, tzinfo=UTC)
LAST_INSTANT = datetime(2026, 11, 19, 16, 59, 59, tzinfo=UTC)


def issuer(key: str = "ak_test_one", email: str | None = "demo@example.com") -> OtpIssuer:
    return OtpIssuer(given_of(scenario(api_key=key, api_secret="secret", email=email)))


def refusal(call) -> tuple[int, str]:
    with pytest.raises(HttpRefusal) as caught:
        call()
    return caught.value.status, caught.value.code


def test_a_right_code_gives_a_token_that_ends_at_the_end_of_its_local_day() -> None:
    otp = issuer()
    ticket = otp.request(MORNING)

    token = otp.verify(ticket.ticket_id, MORNING, is_right=otp.is_code("424242"))

    assert ticket.masked_destination == "d***@example.com"
    assert token.expires_at == LAST_INSTANT
    otp.admit(token.token.reveal(), LAST_INSTANT)
    late = LAST_INSTANT + timedelta(milliseconds=1)
    assert refusal(lambda: otp.admit(token.token.reveal(), late)) == (403, "OTP_SESSION_EXPIRED")


def test_three_wrong_codes_are_invalid_and_the_fourth_try_is_locked() -> None:
    otp = issuer()
    ticket = otp.request(MORNING)

    answers = [
        refusal(lambda: otp.verify(ticket.ticket_id, MORNING, is_right=False)) for _ in range(4)
    ]

    assert answers == [(400, "OTP_INVALID")] * 3 + [(403, "OTP_LOCKED")]
    assert refusal(lambda: otp.verify(ticket.ticket_id, MORNING, is_right=True))[1] == "OTP_LOCKED"


@pytest.mark.parametrize("age_s", [301, 100_000])
def test_an_old_ticket_is_invalid(age_s: int) -> None:
    otp = issuer()
    ticket = otp.request(MORNING)
    late = MORNING + timedelta(seconds=age_s)

    code = refusal(lambda: otp.verify(ticket.ticket_id, late, is_right=True))

    assert code == (400, "OTP_INVALID")


def test_a_ticket_is_used_once_and_an_unknown_one_is_invalid() -> None:
    otp = issuer()
    ticket = otp.request(MORNING)
    otp.verify(ticket.ticket_id, MORNING, is_right=True)

    for ticket_id in (ticket.ticket_id, "T-99"):
        answer = refusal(lambda t=ticket_id: otp.verify(t, MORNING, is_right=True))
        assert answer == (400, "OTP_INVALID")


def test_a_code_is_out_until_it_is_used_spent_or_old() -> None:
    otp = issuer()
    before = otp.is_code_out(MORNING)
    otp.request(MORNING)
    after_five_minutes = otp.is_code_out(MORNING + timedelta(seconds=301))
    while_new = otp.is_code_out(MORNING)
    for _ in range(3):
        refusal(lambda: otp.verify("T-1", MORNING, is_right=False))
    when_spent = otp.is_code_out(MORNING)
    otp.verify(otp.request(MORNING).ticket_id, MORNING, is_right=True)

    assert (before, while_new, after_five_minutes, when_spent) == (False, True, False, False)
    assert otp.is_code_out(MORNING) is False


def test_the_sixth_code_of_a_day_waits_for_tomorrow() -> None:
    otp = issuer()
    for _ in range(5):
        otp.request(MORNING)

    assert refusal(lambda: otp.request(MORNING)) == (429, "OTP_RATE_LIMIT_EXCEEDED")
    assert otp.request(MORNING + timedelta(days=1)).ticket_id == "T-6"


def test_an_account_without_an_address_gets_no_code() -> None:
    assert refusal(lambda: issuer(email=None).request(MORNING)) == (400, "OTP_CONTACT_UNAVAILABLE")


def test_the_four_codes_tell_missing_foreign_revoked_and_dropped_tokens_apart() -> None:
    otp = issuer()
    foreign = issuer("ak_test_two").issue(MORNING).token.reveal()
    revoked, dropped = otp.issue(MORNING).token.reveal(), otp.issue(MORNING).token.reveal()
    otp.revoke(revoked)
    otp.drop("OTP_SESSION_EXPIRED")
    fresh = otp.issue(MORNING).token.reveal()

    codes = [
        refusal(lambda t=token: otp.admit(t, MORNING))[1]
        for token in (None, "", "junk", foreign, revoked, dropped)
    ]

    assert codes == [
        "OTP_SESSION_REQUIRED",
        "OTP_SESSION_REQUIRED",
        "OTP_SESSION_INVALID",
        "OTP_SESSION_INVALID",
        "OTP_SESSION_REVOKED",
        "OTP_SESSION_EXPIRED",
    ]
    otp.admit(fresh, MORNING)


def test_several_tokens_are_valid_at_once() -> None:
    otp = issuer()
    first, second = otp.issue(MORNING), otp.issue(MORNING)

    otp.admit(first.token.reveal(), MORNING)
    otp.admit(second.token.reveal(), MORNING)

    assert first.token.reveal() not in repr(first)


def test_a_masked_address_shows_its_first_letter_and_host() -> None:
    assert masked_email("operator@example.com") == "o***@example.com"
