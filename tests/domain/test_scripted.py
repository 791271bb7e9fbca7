"""What a scenario forced is marked once, in the entry's own words."""

import pytest

from bot.domain.entry import Entry, Fill, OrderUpdated
from bot.domain.scripted import apart, with_mark
from tests.journal.facts import EVERY_KIND

MARK = "(scripted by scenario demo)"


@pytest.mark.parametrize("entry", EVERY_KIND, ids=lambda each: type(each).__name__)
def test_a_mark_can_be_taken_off_again(entry: Entry) -> None:
    marked = with_mark(entry, "demo")

    assert apart(entry) == (entry, "")
    assert apart(marked) == ((entry, MARK) if marked != entry else (entry, ""))
    assert with_mark(marked, "demo") == marked, "and is there once"


def test_what_a_row_says_besides_stays() -> None:
    order = next(each for each in EVERY_KIND if isinstance(each, OrderUpdated))

    marked = with_mark(order, "demo")

    assert isinstance(marked, OrderUpdated)
    assert marked.note.endswith(MARK)
    assert marked.reason == order.reason, "the broker's own words are left alone"


def test_an_entry_without_words_is_left_alone() -> None:
    fill = next(each for each in EVERY_KIND if isinstance(each, Fill))

    assert with_mark(fill, "demo") is fill
