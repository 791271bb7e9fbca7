"""What is picked as a notice, beside alerts."""

from datetime import UTC, datetime

from bot.domain.entry import DAY_NOTE, Note
from bot.domain.notice import NoticeKind
from bot.runtime.notices.picking import Picker
from bot.runtime.notices.wording import Wording

CLOSED = datetime(2026, 11, 19, 8, 15, tzinfo=UTC)


def test_the_sum_of_a_day_is_a_notice_and_a_plain_note_is_none() -> None:
    picker = Picker(Wording("en", "mine", "live"), lambda _, text, *__: text)

    [summary] = picker.pick(Note(CLOSED, DAY_NOTE, "2 orders: 2 filled · nothing open"))

    assert (summary.kind, summary.text) == (NoticeKind.SUMMARY, "2 orders: 2 filled · nothing open")
    assert picker.pick(Note(CLOSED, "PULSE", "2 on")) == []
