"""A token lives in memory, for one day at most."""

from datetime import UTC, datetime, timedelta

import jwt
import pytest

from bot.broker.two_factor import TwoFactor
from bot.clock import SimulatedClock
from bot.protocol.secret import Secret
from tests.broker.loopback import START

END_OF_DAY = datetime(2026, 11, 19, 16, 59, 59, tzinfo=UTC)
KEY = "a key of the broker's own, which we never see"


def token(**claims: object) -> Secret:
    return Secret(jwt.encode(dict(claims), KEY, algorithm="HS256"))


def seconds(instant: datetime) -> int:
    return int(instant.timestamp())


def holding(given: Secret, expires_at: datetime | None = None) -> tuple[TwoFactor, SimulatedClock]:
    clock = SimulatedClock(START)
    two_factor = TwoFactor(clock)
    two_factor.set_token(given, expires_at)
    return two_factor, clock


def test_without_a_token_nothing_is_ready():
    two_factor = TwoFactor(SimulatedClock(START))

    assert (two_factor.is_ready, two_factor.until, two_factor.token()) == (False, None, None)


def test_an_opaque_token_ends_with_its_day():
    two_factor, _ = holding(Secret("opaque"))

    assert two_factor.is_ready
    assert two_factor.until == END_OF_DAY


def test_the_earliest_end_counts():
    sooner = START + timedelta(hours=1)

    by_claim, _ = holding(token(exp=seconds(sooner)), END_OF_DAY)
    by_word, _ = holding(token(exp=seconds(END_OF_DAY)), sooner)

    assert (by_claim.until, by_word.until) == (sooner, sooner)


def test_an_end_beyond_the_day_is_cut_to_the_day():
    two_factor, _ = holding(token(exp=seconds(END_OF_DAY + timedelta(days=3))))

    assert two_factor.until == END_OF_DAY


def test_a_token_issued_yesterday_is_never_ready():
    yesterday = START - timedelta(days=1)

    two_factor, _ = holding(token(iat=seconds(yesterday), exp=seconds(END_OF_DAY)))

    assert not two_factor.is_ready
    assert two_factor.token() is None


def test_a_token_is_good_to_its_last_instant_and_not_after_it():
    two_factor, clock = holding(Secret("opaque"))

    clock.advance_to(END_OF_DAY)
    at_the_end = two_factor.is_ready
    clock.advance_to(END_OF_DAY + timedelta(milliseconds=1))

    assert (at_the_end, two_factor.is_ready) == (True, False)


def test_a_dropped_token_is_gone():
    two_factor, _ = holding(Secret("opaque"))

    two_factor.drop()

    assert (two_factor.is_ready, two_factor.until) == (False, None)


def test_a_new_token_replaces_the_old_one():
    two_factor, _ = holding(Secret("old"))

    two_factor.set_token(Secret("new"))

    assert two_factor.token() == Secret("new")
    assert two_factor.is_ready


@pytest.mark.parametrize("exp", [10**18, -(10**18)])
def test_an_end_that_is_no_instant_is_ignored(exp):
    two_factor, _ = holding(token(exp=exp))

    assert two_factor.until == END_OF_DAY


def test_the_token_stays_out_of_every_text():
    two_factor, _ = holding(Secret("canary"))

    assert "canary" not in f"{two_factor!r} {vars(two_factor)} {two_factor.token()}"
