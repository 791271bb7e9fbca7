"""What `bot replay` shows of the first call with another result."""

from dataclasses import replace

from bot.domain.entry import Note
from bot.domain.message import Record, TodaysOrdersRead
from bot.runtime.history.recording.differences import VALUE_MAX, Difference, difference_of
from tests.engine.stage import START, Stage, report_of

OURS, ANOTHER = "120C000008.1", "120C777777.2"


def _texts(found: Difference) -> str:
    told = found.told
    return "\n".join((found.event, *found.recorded, *found.now, told.event, *told.recorded))


def test_an_account_that_no_strategy_trades_on_is_masked_too() -> None:
    report = replace(report_of(Stage().working(200, 27_000)), account=ANOTHER)
    heard = TodaysOrdersRead(START, ANOTHER, (report,), START)
    note = Record(Note(START, "ALERT", f"an order of {ANOTHER}"))

    found = _texts(difference_of(1, START, heard, [note], [], {OURS}))

    assert "…777.2" in found
    assert "120C" not in found


def test_no_part_of_an_account_is_left_where_a_text_is_cut() -> None:
    for blanks in range(VALUE_MAX - len(OURS), VALUE_MAX + 1):
        note = Record(Note(START, "ALERT", "." * blanks + OURS))

        found = _texts(difference_of(1, START, "go_on", [note], [], {OURS}))

        assert "120C" not in found, blanks
