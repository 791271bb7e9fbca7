"""A run of ambiguous sends fails for one that is settled late, and where there were none."""

import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.simulation import ambiguous
from tests.simulation.ambiguous import Counted

SOON, LATE = 2.0, 35.0


@pytest.mark.parametrize(
    ("seconds", "code", "said"),
    [
        ([SOON] * 98 + [LATE] * 2, 0, ""),
        ([SOON] * 49 + [SOON + 0.1] * 51, 1, "LATE p50 is 2.1 s, at most 2 s are wanted"),
        ([SOON] * 98 + [LATE + 0.1] * 2, 1, "LATE p99 is 35.1 s, at most 35 s are wanted"),
        ([SOON] * 99 + [99.0], 0, ""),
        ([], 1, "NOTHING SHOWN: no unknown sends"),
    ],
    ids=["in time", "half of them late", "a few too late", "one in a hundred", "none"],
)
def test_a_run_fails_for_sends_that_are_settled_late_and_for_none(
    seconds: list[float],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def afternoons(*_: object) -> Iterator[Counted]:
        sends = Counter(MATCHED=len(seconds)) if seconds else Counter[str]()
        yield Counted(places=200, ends=sends, fenced_s=seconds)
        assert seconds, "an afternoon without an unknown send is the last"

    monkeypatch.setattr(ambiguous, "_afternoons", afternoons)
    monkeypatch.setattr(sys, "argv", ["ambiguous", "100"])

    assert ambiguous.main() == code
    assert said in capsys.readouterr().out
