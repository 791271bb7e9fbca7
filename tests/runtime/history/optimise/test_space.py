"""What a space may say, and what is wrong with one."""

import re

import pytest

from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.history.optimise.result import Fold, folds_of
from bot.runtime.history.optimise.space import (
    Choice,
    Space,
    Span,
    read_space,
    size_of,
    words_of,
)
from bot.strategy import Strategy
from tests.rows import every_row


class Every(Strategy):
    """A strategy with a parameter of each type."""

    fast: int = 5
    ratio: float = 2.0
    side: str = "long"
    on: bool = True


def read(*words: str) -> Space:
    return read_space(words, Every, "every")


def test_a_space_of_every_shape() -> None:
    assert read("fast=3..20", "ratio=1.5..4.0", "side=long|short", "on=true|false") == (
        Span("fast", 3, 20, 1, True),
        Span("ratio", 1.5, 4.0, None, False),
        Choice("side", ("long", "short")),
        Choice("on", (True, False)),
    )


def test_a_step_ends_a_range_at_its_last_whole_step() -> None:
    assert read("fast=20..99:5", "ratio=1..2:0.25") == (
        Span("fast", 20, 95, 5, True),
        Span("ratio", 1.0, 2.0, 0.25, False),
    )


def test_steps_of_a_decimal_fraction_reach_the_end_of_their_range() -> None:
    [span] = read("ratio=0.3..0.9:0.3")

    assert isinstance(span, Span)
    assert span.high == 0.9
    assert span.values == (0.3, 0.6, 0.9)
    assert span.neighbours(0.6) == (0.3, 0.9)


def test_numbers_can_be_chosen_and_be_negative() -> None:
    assert read("fast=3|5|8", "ratio=-1.5..-0.5") == (
        Choice("fast", (3, 5, 8)),
        Span("ratio", -1.5, -0.5, None, False),
    )


def test_a_space_has_a_size_unless_a_range_has_no_step() -> None:
    assert size_of(read("fast=3..20", "side=long|short")) == 36
    assert size_of(read("ratio=1..2:0.1")) == 11
    assert size_of(read("fast=3..20", "ratio=1.5..4.0")) is None


def test_a_space_reads_back_as_it_was_written() -> None:
    words = ("fast=3..20", "ratio=1.5..4:0.5", "side=long|short", "on=true|false")

    assert tuple(map(str, read(*words))) == words


def test_neighbours_are_one_step_away_and_inside() -> None:
    fast, ratio, side = read("fast=20..100:5", "ratio=1.5..4.0", "side=a|b|c")

    assert fast.neighbours(20) == (25,)
    assert fast.neighbours(60) == (55, 65)
    assert ratio.neighbours(2.0) == (1.875, 2.125)
    assert side.neighbours("b") == ("a", "c")
    assert side.neighbours("c") == ("b",)


WRONG = {
    (): "the space names no parameter",
    ("fastt=3..20",): "every has no parameter 'fastt': did you mean 'fast'",
    ("fast",): "'fast' has no values",
    ("fast=",): "'fast' has no values",
    ("fast=20..3",): "'fast' has no range from 20 to 3: name the lower end first",
    ("fast=3..3",): "'fast' has no range from 3 to 3: it is one value",
    ("fast=1.5..4",): "'fast' is whole numbers, found '1.5'",
    ("fast=3..20:0",): "'fast' has a step of 0",
    ("fast=3..20:30",): "'fast' has a step of 30: wanted one above 0, at most 17",
    ("fast=a|b",): "'fast' is whole numbers, found 'a'",
    (f"fast=1..{10**400}",): "'fast' is whole numbers of at most 15 digits, found",
    ("fast=1..1_000_000_000_000_000",): "'fast' is whole numbers of at most 15 digits, found",
    ("fast=3|1_000_000_000_000_000",): "'fast' is whole numbers of at most 15 digits, found",
    ("ratio=0..1e300",): "'ratio' is numbers of at most 15 digits, found '1e300'",
    ("ratio=0..1:1e-300",): "'ratio' has a step of 1e-300, too fine for 0 to 1: leave it out",
    ("ratio=nan..3",): "'ratio' is numbers, found 'nan'",
    ("on=yes|no",): "'on' is true or false, found 'yes'",
    ("side=a..b",): "'side' is texts, which have no range",
    ("side=a|a",): "'side' has a value twice",
    ("fast=3..5", "fast=6..9"): "'fast' is named twice",
}


@every_row("words", WRONG)
def test_what_is_wrong_with_a_space_is_named(words: tuple[str, ...]) -> None:
    with pytest.raises(OperatorMistake, match=re.escape(WRONG[words])) as caught:
        read(*words)

    assert caught.value.exit_code == ExitCode.USAGE
    assert {problem.code for problem in caught.value.problems} == {"E-OPT-001"}


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(OperatorMistake) as caught:
        read("fastt=3..20", "ratio=a..b", "side=long|short")

    assert len(caught.value.problems) == 2


def test_values_read_like_words() -> None:
    assert words_of({"fast": 5, "ratio": 2.25, "on": True}) == "fast 5, ratio 2.25, on True"


def test_folds_grow_and_the_last_test_takes_the_rest() -> None:
    assert folds_of(252, 3) == (Fold(100, 150), Fold(150, 200), Fold(200, 252))


def test_fewer_folds_are_made_of_fewer_days_and_none_of_too_few() -> None:
    assert folds_of(49, 3) == (Fold(24, 36), Fold(36, 49))
    assert folds_of(30, 3) == (Fold(20, 30),)
    assert folds_of(29, 3) == ()
    assert folds_of(252, 0) == ()
