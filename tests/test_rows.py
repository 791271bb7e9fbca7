"""What a table of rows in one test must do: check them all, tell of each that fails."""

import pytest

from tests.rows import every_row


@pytest.fixture
def unit() -> str:
    return "VND"


def accept(n: int) -> None:
    assert n > 0


def test_every_row_that_fails_is_told_with_its_values() -> None:
    @every_row("left, right", [(1, 1), (2, 3), (4, 5)])
    def check(left: int, right: int) -> None:
        assert left == right

    with pytest.raises(AssertionError) as caught:
        check()

    told = str(caught.value)
    assert told.splitlines()[0] == "2 of 3 rows fail"
    assert "left=2, right=3\n" in told
    assert "left=4, right=5\n" in told
    assert "assert 2 == 3" in str(caught.value.__cause__)


def test_any_error_and_what_was_not_raised_are_failures_of_their_rows() -> None:
    @every_row("kind", [KeyError, ValueError, OSError])
    def check(kind: type[Exception]) -> None:
        if kind is OSError:
            raise kind("no disk")
        with pytest.raises(ValueError, match="x"):
            raise kind("x") if kind is KeyError else ValueError("x")

    with pytest.raises(AssertionError, match="2 of 3 rows fail") as caught:
        check()

    assert "KeyError: 'x'" in str(caught.value)
    assert "OSError: no disk" in str(caught.value)


def test_a_row_that_is_skipped_fails_and_hides_no_other() -> None:
    @every_row("number", [1, 2, 3])
    def check(number: int) -> None:
        if number == 2:
            pytest.skip("not here")
        assert number == 1

    with pytest.raises(AssertionError, match="2 of 3 rows fail") as caught:
        check()

    assert "number=2\n    Skipped: not here" in str(caught.value)


def test_no_row_is_begun_after_the_time_of_the_test() -> None:
    seen = []

    @every_row("number", [1, 2, 3])
    def check(number: int) -> None:
        seen.append(number)
        if number == 2:
            pytest.fail("Timeout (>60.0s) from pytest-timeout.")

    with pytest.raises(AssertionError, match="1 of 2 rows fail\nnumber=2\n"):
        check()

    assert seen == [1, 2]


def test_a_table_without_rows_fails() -> None:
    with pytest.raises(AssertionError, match="the table has no rows"):
        every_row("n", [])(accept)()


def test_a_column_that_the_test_does_not_take_is_an_error_at_once() -> None:
    with pytest.raises(AssertionError, match="the test takes no m"):
        every_row("m", [1])(accept)


@every_row("number", lambda: [1, 2])
def test_rows_may_be_read_late_and_stand_beside_fixtures(number: int, unit: str) -> None:
    assert (number > 0, unit) == (True, "VND")


def test_two_tables_make_every_combination_in_order() -> None:
    seen = []

    @every_row("number", [1, 2])
    @every_row("letter", "ab")
    def check(number: int, letter: str) -> None:
        seen.append((number, letter))

    check()

    assert seen == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


@every_row("number", [1, 2])
async def test_a_row_may_be_awaited(number: int, unit: str) -> None:
    assert (number > 0, unit) == (True, "VND")


async def test_an_awaited_row_that_fails_is_told() -> None:
    @every_row("number", [1, 2])
    async def check(number: int) -> None:
        assert number == 1

    with pytest.raises(AssertionError, match="1 of 2 rows fail\nnumber=2\n"):
        await check()
