"""Where the closes come from that confirm a price."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from bot.config.rulebook import load_rulebook
from bot.domain.entry import Note
from bot.domain.instrument import Exchange, Instrument
from bot.domain.message import Noted, ReadHealthChanged
from bot.domain.quote import ClosesRead, LastClose
from bot.runtime.closes import EX_PAUSE, EX_TRIES, Closes
from tests.staging import DAY, Stage, scenario, set_stage

YESTERDAY = DAY - timedelta(days=1)
TRADED = {
    "HPG": Instrument("HPG", Exchange.HOSE),
    "SHS": Instrument("SHS", Exchange.HNX),
}


def closes_of(stage: Stage, *known: LastClose) -> Closes:
    return Closes(
        client=stage.broker.client,
        market=stage.clock,
        rulebook=load_rulebook(),
        post=stage.events.append,
        known={each.symbol: each for each in known},
    )


async def told(folder: Path, url: str, *known: LastClose, **more: Any) -> tuple[LastClose, ...]:
    """What is posted when a day begins."""
    stage = await set_stage(folder, url, scenario(**more))
    await closes_of(stage, *known).read(TRADED)
    [event] = stage.events
    await stage.strike()
    assert isinstance(event, ClosesRead)
    return event.closes


def prices(closes: tuple[LastClose, ...]) -> dict[str, tuple[int | None, date]]:
    return {each.symbol: (each.price, each.day) for each in closes}


async def test_without_a_journal_the_history_tells(tmp_path: Path, sqlite_url: str) -> None:
    found = await told(tmp_path, sqlite_url)

    assert prices(found) == {"HPG": (27_000, YESTERDAY), "SHS": (18_500, YESTERDAY)}
    assert all(each.average_volume for each in found)


async def test_a_history_in_thousands_is_read_in_vnd(tmp_path: Path, sqlite_url: str) -> None:
    found = await told(tmp_path, sqlite_url, switches={"history_scale": "thousand"})

    assert prices(found) == {"HPG": (27_000, YESTERDAY), "SHS": (18_500, YESTERDAY)}


async def test_what_the_journal_knows_of_yesterday_is_not_asked_for(
    tmp_path: Path, sqlite_url: str
) -> None:
    ours = LastClose("HPG", 26_500, YESTERDAY)
    older = LastClose("SHS", 17_000, YESTERDAY - timedelta(days=7))

    found = await told(tmp_path, sqlite_url, ours, older)

    assert prices(found) == {"HPG": (26_500, YESTERDAY), "SHS": (18_500, YESTERDAY)}


async def test_a_morning_takes_the_close_that_this_run_has_journalled_as_a_start_would(
    tmp_path: Path, sqlite_url: str
) -> None:
    fault = {"match": {"path": "*/history", "times": 0}, "action": {"do": "rst"}}
    stage = await set_stage(tmp_path, sqlite_url, scenario(faults=[fault]))
    ours = LastClose("HPG", 26_500, YESTERDAY)
    older = LastClose("SHS", 17_000, YESTERDAY - timedelta(days=7))
    closes = closes_of(stage)
    closes.noted = lambda: (ours, older)

    await closes.read(TRADED)

    [read] = [each for each in stage.events if isinstance(each, ClosesRead)]
    assert prices(read.closes) == {"HPG": (26_500, YESTERDAY), "SHS": (None, date.min)}
    failing = [each for each in stage.events if isinstance(each, ReadHealthChanged)]
    assert [each.about for each in failing] == ["SHS"]
    await stage.strike()


DIVIDEND = {
    "do": "cash_dividend",
    "symbol": "HPG",
    "vnd_per_share": 2_000,
    "ex_date": DAY.isoformat(),
    "pays_on": "2026-12-10",
}
NO_NEWS: Mapping[str, Any] = {
    "match": {"path": "*/market/news", "times": 0},
    "action": {"do": "status", "status": 404, "body": "{}"},
}


def said(stage: Stage) -> list[str]:
    """What is noted beside the events."""
    notes = (each.entry for each in stage.events if isinstance(each, Noted))
    return [each.text for each in notes if isinstance(each, Note)]


async def test_known_ex_dates_come_along(tmp_path: Path, sqlite_url: str) -> None:
    found = await told(tmp_path, sqlite_url, corporate_actions=[DIVIDEND])

    assert [DAY in each.ex_dates for each in found] == [True, False]


async def test_a_history_that_fails_is_asked_for_again(tmp_path: Path, sqlite_url: str) -> None:
    fault = {
        "match": {"path": "*/history", "times": 2},
        "action": {"do": "status", "status": 404, "body": "{}"},
    }
    stage = await set_stage(tmp_path, sqlite_url, scenario(faults=[fault]))
    closes = closes_of(stage, LastClose("HPG", 26_900, YESTERDAY - timedelta(days=7)))

    await closes.read(TRADED)
    was_missing = closes.are_missing
    await closes.read_missing()

    first, second = [each for each in stage.events if isinstance(each, ClosesRead)]
    health = [each for each in stage.events if isinstance(each, ReadHealthChanged)]
    assert [(each.kind, each.about, each.is_healthy) for each in health] == [
        ("the history", symbol, is_healthy)
        for is_healthy in (False, True)
        for symbol in ("HPG", "SHS")
    ]
    assert was_missing
    assert not closes.are_missing
    assert [each.price for each in first.closes] == [26_900, None]
    assert prices(second.closes) == {"HPG": (27_000, YESTERDAY), "SHS": (18_500, YESTERDAY)}
    await stage.strike()


async def test_a_history_that_nobody_needs_any_more_is_not_said_to_fail(
    tmp_path: Path, sqlite_url: str
) -> None:
    fault = {"match": {"path": "*/history", "times": 0}, "action": {"do": "rst"}}
    stage = await set_stage(tmp_path, sqlite_url, scenario(faults=[fault]))
    closes = closes_of(stage)

    await closes.read({"HPG": TRADED["HPG"]})
    closes.known["HPG"] = LastClose("HPG", 27_000, YESTERDAY)
    await closes.read({"HPG": TRADED["HPG"]})

    health = [each for each in stage.events if isinstance(each, ReadHealthChanged)]
    assert [each.is_healthy for each in health] == [False, True]
    await stage.strike()


async def test_ex_dates_that_cannot_be_read_are_asked_for_again_and_said(
    tmp_path: Path, sqlite_url: str
) -> None:
    more = {"faults": [{**NO_NEWS, "match": {**NO_NEWS["match"], "times": 2}}]}
    stage = await set_stage(tmp_path, sqlite_url, scenario(corporate_actions=[DIVIDEND], **more))
    closes, again = closes_of(stage), list[str]()
    closes.on_ex_dates = again.extend

    await closes.read(TRADED)
    was_missing = closes.are_missing
    await closes.read_missing()
    await closes.read_missing()

    read = [each for each in stage.events if isinstance(each, ClosesRead)]
    first, last = said(stage)
    assert was_missing
    assert not closes.are_missing
    assert first.startswith("the ex-dates can't be read (")
    assert "asked again every minute" in first
    assert last == "the ex-dates are known now"
    assert [[DAY in close.ex_dates for close in each.closes] for each in read] == [
        [False, False],
        [True, False],
    ]
    assert again == ["HPG", "SHS"]
    await stage.strike()


async def test_who_has_no_ex_date_hears_too_that_they_are_known_now(
    tmp_path: Path, sqlite_url: str
) -> None:
    news = [
        {**NO_NEWS, "match": {**NO_NEWS["match"], "times": 1}, "action": action}
        for action in (
            {"do": "status", "status": 404, "body": "{}"},
            {"do": "status", "status": 200, "body": '{"garbage": 1}'},
            {"do": "status", "status": 200, "body": '{"result": []}'},
        )
    ]
    stage = await set_stage(tmp_path, sqlite_url, scenario(faults=news))
    closes = closes_of(stage)

    await closes.read(TRADED)
    await closes.read_missing()
    was_missing = closes.are_missing
    await closes.read_missing()

    read = [each for each in stage.events if isinstance(each, ClosesRead)]
    assert (was_missing, closes.are_missing) == (True, False)
    assert [[close.are_ex_dates_unread for close in each.closes] for each in read] == [
        [True, True],
        [False, False],
    ]
    await stage.strike()


async def test_ex_dates_that_never_come_are_not_asked_for_without_end(
    tmp_path: Path, sqlite_url: str
) -> None:
    stage = await set_stage(tmp_path, sqlite_url, scenario(faults=[NO_NEWS]))
    closes = closes_of(stage)

    await closes.read(TRADED)
    for _ in range(EX_TRIES + 3):
        await closes.read_missing()

    assert len(said(stage)) == 2
    assert "asked again every hour" in said(stage)[1]
    failed = [each for each in stage.events if isinstance(each, ReadHealthChanged)]
    assert len(failed) == EX_TRIES
    stage.clock.advance_to(stage.clock.now() + EX_PAUSE)
    await closes.read_missing()
    assert len([each for each in stage.events if isinstance(each, ReadHealthChanged)]) > EX_TRIES
    await stage.strike()


async def test_a_symbol_without_a_history_has_no_close(tmp_path: Path, sqlite_url: str) -> None:
    fault = {
        "match": {"path": "*/HPG/history", "times": 0},
        "action": {"do": "set_fields", "fields": {"series": []}},
    }

    found = await told(tmp_path, sqlite_url, faults=[fault])

    assert prices(found) == {"HPG": (None, date.min), "SHS": (18_500, YESTERDAY)}
    assert replace(found[0], ex_dates=frozenset()) == LastClose("HPG", None, date.min)


async def test_symbols_whose_history_always_fails_keep_nobody_waiting(
    tmp_path: Path, sqlite_url: str
) -> None:
    stage = await set_stage(tmp_path, sqlite_url, scenario())
    closes = closes_of(stage)
    unknown = {each: Instrument(each, Exchange.HOSE) for each in ("AAA", "AAB")}

    await closes.read({**TRADED, **unknown})
    await closes.read_missing()

    assert sorted(closes.known) == ["HPG", "SHS"]
    await stage.strike()


async def test_two_reads_at_once_are_no_fault(tmp_path: Path, sqlite_url: str) -> None:
    stage = await set_stage(tmp_path, sqlite_url, scenario())
    closes = closes_of(stage)

    await asyncio.gather(closes.read(TRADED), closes.read(TRADED))

    assert sorted(closes.known) == ["HPG", "SHS"]
    await stage.strike()
