"""The sending of one order, explored: each policy is as safe as order safety says, and the moves
explored are the code's own.

Here with one burn of three; `make prove` explores all of it.
"""

from dataclasses import replace
from functools import cache

import pytest

from bot.domain.order import SEND_MOVES, UNRESOLVED_SENDS, SendState
from bot.engine.settings import EngineSettings, UnknownPolicy
from tests.model.client import HEARD, News, reactions_of
from tests.model.explore import (
    AGAIN_AT_ONCE,
    BAD,
    FENCE,
    FENCE_AND_HORIZON,
    LAG,
    OF_THE_CODE,
    SAFE,
    SOUND,
    Explored,
    explore,
    in_words,
)
from tests.model.world import SKEWS, TICK_S, Assumptions, Policy

S = SendState


@cache
def small(policy: Policy, holds: Assumptions) -> Explored:
    return explore(policy, replace(holds, burns=1))


def named(pairs):
    return pytest.mark.parametrize(
        ("policy", "holds"), [pytest.param(*pair, id=in_words(*pair)) for pair in pairs]
    )


@pytest.mark.sampled(3)
@named(SAFE)
def test_no_way_leads_to_two_orders(policy, holds):
    found = small(policy, holds)

    assert found.is_safe, "\n".join(found.trace)


@pytest.mark.sampled(3)
@named(BAD)
def test_a_policy_that_believes_too_early_is_found_out(policy, holds):
    assert not small(policy, holds).is_safe


def test_a_policy_that_fails_tells_the_shortest_way_in_words():
    assert small(AGAIN_AT_ONCE, LAG).trace == [
        "our clock is -20 s off",
        "   0 s  the POST leaves -> SENDING",
        "   0 s  a copy of the POST passes the door",
        "   0 s  the order is created",
        "   0 s  the answer to the POST is lost -> NOT_PLACED, and the strategy orders again",
    ]


UNCERTAIN = [
    (S.SENDING, News.LOST),
    (S.SENDING, News.REUSED),
    (S.SENDING, News.RESTART),
    (S.UNKNOWN, News.BURN_REUSED),
    (S.UNKNOWN, News.BURN_OVER),
    (S.UNKNOWN, News.ABSENT),
    (S.UNKNOWN, News.ABSENT_LATE),
    (S.REACHED, News.ABSENT),
    (S.REACHED, News.ABSENT_LATE),
]


@pytest.mark.parametrize(("state", "news"), UNCERTAIN)
def test_one_certainty_too_many_would_be_found_out(state, news):
    careless = replace(FENCE, rules=frozenset({(state, news)}))

    assert not explore(careless, SOUND).is_safe


def test_the_fence_releases_at_once_and_the_horizon_when_it_is_over():
    horizon_s = EngineSettings().horizon.total_seconds()

    at_once = small(FENCE, SOUND).released_s
    later = small(FENCE_AND_HORIZON, SOUND).released_s

    assert at_once == 0
    assert later is not None
    assert 0 <= later - horizon_s <= 15


def test_the_clock_is_off_by_all_that_the_code_allows():
    allowed = EngineSettings().clock_max_offset.total_seconds()

    assert (SKEWS[0] * TICK_S, SKEWS[-1] * TICK_S) == (-allowed, allowed)


def test_who_is_wrong_about_an_overdue_place_is_believed():
    hasty = replace(SOUND, bounded_lag=True, sound_nonces=False, hasty_about=frozenset({S.FRESH}))

    last = small(FENCE_AND_HORIZON, hasty).trace[-1]

    assert "a person who has looked says that there is none, the horizon is over" in last


def test_every_policy_of_the_code_is_explored_under_what_it_needs():
    proved = {policy for policy, holds in SAFE if holds == SOUND}

    assert set(OF_THE_CODE) == set(UnknownPolicy)
    assert set(OF_THE_CODE.values()) <= proved
    assert all(policy.base is key for key, policy in OF_THE_CODE.items())


def test_the_moves_explored_are_those_of_the_code_s_table():
    table = {(before, after) for before, moves in SEND_MOVES.items() for after in moves}

    explored = {move for policy in OF_THE_CODE.values() for move in small(policy, SOUND).moves}

    assert explored == table


def test_every_state_that_is_not_the_last_hears_something():
    left = {state for state, moves in SEND_MOVES.items() if moves}

    assert set(HEARD) == left
    assert left >= UNRESOLVED_SENDS


@pytest.mark.parametrize("policy", list(UnknownPolicy))
def test_what_is_certain_is_only_said_of_what_proves_it_or_by_a_person(policy):
    said = {
        (state, news)
        for (state, news), reaction in reactions_of(policy).items()
        if reaction.to is S.NOT_PLACED
    }

    proof = (S.UNKNOWN, News.BURN_FRESH), (S.FRESH, News.ABSENT_LATE)
    waits = policy is UnknownPolicy.FENCE_AND_HORIZON
    by_a_person = {(S.REACHED, News.SAID_ABSENT), (S.AMBIGUOUS, News.SAID_ABSENT)}
    by_a_person |= {(S.FRESH, News.SAID_OVERDUE)} if waits else set()
    assert said == {proof[waits], *by_a_person}
