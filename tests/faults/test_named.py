"""What `tests.faults.named` counts as late, as not named, and as not measured."""

from dataclasses import replace

import pytest

from tests.faults.named import STAYING, WITHIN_S, Named, Stays, main

QUOTE = STAYING["quote"]
SOON, LATE = WITHIN_S, WITHIN_S + 0.1


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Named(60.0, SOON, SOON, "the quote"), ""),
        (Named(60.0, LATE, SOON, "the quote"), "LATE"),
        (Named(60.0, SOON, LATE, "the quote"), "LATE"),
        (Named(60.0, None, None, ""), "LATE"),
        (Named(None, None, None, ""), "NEVER STRUCK"),
    ],
)
def test_a_fault_counts_as_named_if_screen_and_status_name_it_in_time(found, verdict) -> None:
    assert found.judge(QUOTE) == verdict
    never_struck = verdict if found.struck_s is None else ""
    assert found.judge(replace(QUOTE, words="")) == never_struck


@pytest.mark.process
@pytest.mark.parametrize(
    ("stays", "code", "last"),
    [
        (QUOTE, 0, "0 late"),
        (Stays(QUOTE.match, "words that no bot says", QUOTE.ways), 1, "1 late"),
        (Stays({"path": "/nowhere"}, QUOTE.words, QUOTE.ways), 1, "1 late"),
    ],
    ids=["named", "not named", "never struck"],
)
def test_the_command_fails_for_a_fault_that_was_not_named_or_never_struck(
    stays: Stays, code: int, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("500", {"it": stays}, {}) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith(last)


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "what", ["users/me", "2FA", "API key", "under a halt", "journal", "disk", "detail"]
)
def test_a_fault_that_stays_is_named_in_each_way(what: str) -> None:
    assert main(what) == 0
