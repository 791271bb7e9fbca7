"""A table of cases as one test: every row is checked, and every failing row is reported.

For tables of many short rows that one sentence covers. Where two workers share the suite, a test
of its own costs 5 ms and a passing subtest of pytest's 1 ms; a row here costs only its check.
Fixtures are made once for the whole table, so a row may not change them. A row is never skipped.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from textwrap import indent
from typing import Any

import pytest

Test = Callable[..., Any]
Rows = Iterable[Any] | Callable[[], Iterable[Any]]
Case = dict[str, Any]

_FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)
_TIME_IS_UP = "from pytest-timeout"
_TABLES = "tables_of_rows"
CHECKED = "rows_checked"
"""The attribute of a test that says how many rows its last run has checked."""
_VALUE_LENGTH_MAX = 300
_FAILURE_LINES_MAX = 15


def every_row(names: str | tuple[str, ...], rows: Rows) -> Callable[[Test], Test]:
    """Take what `pytest.mark.parametrize` takes; two of them make every combination.

    A function in the place of rows is called when the test runs, so that a file which holds them
    is read only then. A table without rows fails.
    """
    columns = tuple(names.split(", ")) if isinstance(names, str) else names

    def decorate(test: Test) -> Test:
        bare, inner = getattr(test, _TABLES, (test, ()))
        tables = ((columns, rows), *inner)
        check = (
            _awaited(bare, tables) if inspect.iscoroutinefunction(bare) else _plain(bare, tables)
        )
        functools.update_wrapper(check, test)
        vars(check)["__signature__"] = _without(inspect.signature(test), columns)
        vars(check)[_TABLES] = (bare, tables)
        return check

    return decorate


def _plain(test: Test, tables: tuple[tuple[tuple[str, ...], Rows], ...]) -> Test:
    def check(**fixtures: Any) -> None:
        __tracebackhide__ = True
        checked = _Checked()
        for case in _cases(tables):
            with checked.one(case):
                test(**fixtures, **case)
        vars(check)[CHECKED] = checked.count
        checked.end()

    return check


def _awaited(test: Test, tables: tuple[tuple[tuple[str, ...], Rows], ...]) -> Test:
    async def check(**fixtures: Any) -> None:
        __tracebackhide__ = True
        checked = _Checked()
        for case in _cases(tables):
            with checked.one(case):
                await test(**fixtures, **case)
        vars(check)[CHECKED] = checked.count
        checked.end()

    return check


def _without(signature: inspect.Signature, columns: tuple[str, ...]) -> inspect.Signature:
    unknown = set(columns) - set(signature.parameters)
    assert not unknown, f"the test takes no {', '.join(sorted(unknown))}"
    wanted = [one for name, one in signature.parameters.items() if name not in columns]
    return signature.replace(parameters=wanted)


def _cases(tables: tuple[tuple[tuple[str, ...], Rows], ...]) -> Iterator[Case]:
    for combination in itertools.product(*(_rows_of(*table) for table in tables)):
        yield functools.reduce(lambda case, row: case | row, combination, {})


def _rows_of(columns: tuple[str, ...], rows: Rows) -> list[Case]:
    told = rows() if callable(rows) and not isinstance(rows, Iterable) else rows
    return [dict(zip(columns, (row,) if len(columns) == 1 else row, strict=True)) for row in told]


class _Checked:
    """How many rows were checked, and those that failed."""

    def __init__(self) -> None:
        self.count = 0
        self.failed: list[tuple[Case, BaseException]] = []

    @contextmanager
    def one(self, case: Case) -> Iterator[None]:
        """Note a failure. No row comes after the test's time is up: nobody would end it."""
        __tracebackhide__ = True
        self.count += 1
        try:
            yield
        except _FAILURES as error:
            self.failed.append((case, error))
            if _TIME_IS_UP in str(error):
                self.end()

    def end(self) -> None:
        """Fail with every row that failed; the first one's own traceback stands above."""
        __tracebackhide__ = True
        assert self.count, "the table has no rows"
        if self.failed:
            told = "\n".join(_told(case, error) for case, error in self.failed)
            summary = f"{len(self.failed)} of {self.count} rows fail\n{told}"
            raise AssertionError(summary) from self.failed[0][1]


def _told(case: Case, error: BaseException) -> str:
    row = ", ".join(f"{name}={_shortened(repr(value))}" for name, value in case.items())
    notes = getattr(error, "__notes__", [])
    lines = "\n".join([f"{type(error).__name__}: {error}", *notes]).splitlines()
    return f"{row}\n{indent(chr(10).join(lines[:_FAILURE_LINES_MAX]), '    ')}"


def _shortened(text: str) -> str:
    return text if len(text) <= _VALUE_LENGTH_MAX else f"{text[:_VALUE_LENGTH_MAX]}…"
