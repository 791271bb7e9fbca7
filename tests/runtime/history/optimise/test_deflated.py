"""The deflated Sharpe ratio, against the numerical example of the paper that defines it."""

from math import sqrt

import pytest

from bot.runtime.history.optimise.deflated import (
    deflated_sharpe,
    expected_best,
    moments,
    probability_above,
)

A_YEAR = 250
SHARPE = 2.5 / sqrt(A_YEAR)
VARIANCE = 0.5 / A_YEAR
DAYS = 1_250


def test_the_papers_strategy_does_not_beat_the_best_of_a_hundred() -> None:
    bar = expected_best(100, VARIANCE)
    found = probability_above(SHARPE, bar, days=DAYS, skewness=-3, kurtosis=10)

    assert bar == pytest.approx(0.1132, abs=0.00005)
    assert found == pytest.approx(0.9004, abs=0.00005)


def test_the_papers_strategy_passes_as_the_best_of_46() -> None:
    bar = expected_best(46, VARIANCE)

    assert probability_above(SHARPE, bar, days=DAYS, skewness=-3, kurtosis=10) == pytest.approx(
        0.9505, abs=0.0001
    )


def test_with_normal_returns_it_would_pass_as_the_best_of_88() -> None:
    bar = expected_best(88, VARIANCE)

    assert probability_above(SHARPE, bar, days=DAYS, skewness=0, kurtosis=3) == pytest.approx(
        0.9505, abs=0.0005
    )


def test_moments_are_those_of_the_days() -> None:
    # Mean 0.01, all 0.02 away from it on either side: no skew, and a kurtosis of 1.
    found = moments([0.03, -0.01] * 10)

    assert found is not None
    sharpe, skewness, kurtosis = found
    assert sharpe == pytest.approx(0.01 / sqrt(20 * 0.0004 / 19))
    assert [skewness, kurtosis] == pytest.approx([0, 1])


def test_a_long_left_tail_is_a_negative_skew() -> None:
    found = moments([0.01] * 19 + [-0.09])

    assert found is not None
    # One day in twenty: (1 - 2p) / sqrt(p (1 - p)) and 1 / (p (1 - p)) - 3 of a coin, p = 0.05.
    assert found[1] == pytest.approx(-0.9 / sqrt(0.0475))
    assert found[2] == pytest.approx(1 / 0.0475 - 3)


def test_more_trials_make_the_same_days_less_likely_to_be_real() -> None:
    gains = [0.012, -0.008, 0.004, -0.003] * 30
    few, many = [0.01, 0.05, 0.09], [0.01, 0.05, 0.09] * 60

    in_few, in_many = deflated_sharpe(gains, few), deflated_sharpe(gains, many)

    assert in_few is not None
    assert in_many is not None
    assert in_few.probability > in_many.probability
    assert (in_few.trials, in_many.trials, in_few.days) == (3, 180, 120)


def test_it_is_unknown_with_one_trial_few_days_or_no_movement() -> None:
    assert deflated_sharpe([0.01, -0.01] * 20, [0.1]) is None
    assert deflated_sharpe([0.01, -0.01] * 4, [0.1, 0.2]) is None
    assert deflated_sharpe([0.01] * 40, [0.1, 0.2]) is None
