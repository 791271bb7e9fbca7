"""What is picked as a notice, and that each alert has a kind of notice."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

import bot
from bot.domain.entry import DAY_NOTE, Note, StateChanged
from bot.domain.message import BrokerHealthChanged, Event, JournalHealthChanged
from bot.domain.notice import SEVERITIES, NoticeKind
from bot.runtime.notices.wording import KINDS, Picker, Wording, texts
from tests.engine.stage import Stage
from tests.rows import every_row

CATALOGUE: Final = Path(bot.__file__).parent / "cli" / "telling" / "vi.yaml"
STANDBY = ("standby_blind", "standby_sees")
JOURNAL: Final = ("journal_away", "nothing_kept", "maybe_taken", "journal_back")
"""Groups with a title of their own."""
CLOSED = datetime(2026, 11, 19, 8, 15, tzinfo=UTC)


def test_every_alert_has_a_kind_and_no_kind_is_of_an_alert_that_is_gone() -> None:
    alerts = YAML(typ="safe").load(CATALOGUE.read_text("utf-8"))["alerts"]

    assert set(KINDS) == set(alerts)


def test_every_kind_has_a_severity_and_a_title_in_both_languages() -> None:
    assert set(SEVERITIES) == set(NoticeKind)
    for language in ("en", "vi"):
        assert set(texts(language)["titles"]) == {*NoticeKind, *JOURNAL, *STANDBY}


def test_both_languages_say_the_same_things() -> None:
    english, vietnamese = texts("en"), texts("vi")

    for part in ("titles", "money", "do", "said"):
        assert set(english[part]) == set(vietnamese[part]), part


def test_the_sum_of_a_day_is_a_notice_and_a_plain_note_is_none() -> None:
    picker = Picker(Wording("en", "mine", "live"), lambda _, text, *__: text)

    [summary] = picker.pick(Note(CLOSED, DAY_NOTE, "2 orders: 2 filled · nothing open"))

    assert (summary.kind, summary.text) == (NoticeKind.SUMMARY, "2 orders: 2 filled · nothing open")
    assert picker.pick(Note(CLOSED, "PULSE", "2 on")) == []


JOURNAL_CUT: Final = JournalHealthChanged(CLOSED, is_healthy=False, detail="journal cut")
JOURNAL_BACK: Final = JournalHealthChanged(CLOSED, is_healthy=True, detail="journal back")
NO_ROUTE: Final = BrokerHealthChanged(CLOSED, is_healthy=False, detail="no route")
ROUTE: Final = BrokerHealthChanged(CLOSED, is_healthy=True, detail="reads work again")


@every_row(
    "troubles, told",
    [
        ((JOURNAL_CUT, JOURNAL_BACK), []),
        ((NO_ROUTE, ROUTE), ["DEGRADED: no route", "RUNNING: reads work again"]),
        ((JOURNAL_CUT, NO_ROUTE, JOURNAL_BACK), ["nothing can be read from"]),
        (
            (JOURNAL_CUT, NO_ROUTE, JOURNAL_BACK, ROUTE),
            ["nothing can be read from", "RUNNING: reads work again"],
        ),
        (
            (JOURNAL_CUT, NO_ROUTE, ROUTE, JOURNAL_BACK),
            ["nothing can be read from", "RUNNING: journal back"],
        ),
        (
            (NO_ROUTE, JOURNAL_CUT, ROUTE, JOURNAL_BACK),
            ["DEGRADED: no route", "RUNNING: journal back"],
        ),
    ],
)
def test_a_dead_broker_is_told_and_so_is_its_end_whenever_the_journal_is_away(
    troubles: tuple[Event, ...], told: list[str]
) -> None:
    stage, picker = Stage(), Picker(Wording("en", "mine", "live"), lambda _, text, *__: text)
    texts_told = []
    for each in troubles:
        stage.after(5).handle(replace(each, at=stage.now))
        found = [entry for entry in stage.news() if isinstance(entry, (Note, StateChanged))]
        texts_told += [notice.text for entry in found for notice in picker.pick(entry)]

    assert len(texts_told) == len(told)
    assert all(text.startswith(part) for text, part in zip(texts_told, told, strict=True))
