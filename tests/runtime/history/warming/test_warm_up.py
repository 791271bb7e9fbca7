"""Where earlier bars come from, and what is said of them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from bot.broker.errors import BrokerError
from bot.clock import SimulatedClock
from bot.config.rulebook import load_rulebook
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument
from bot.domain.message import Event, Noted
from bot.domain.quote import DAY, Bar, BarsRead, WentEx
from bot.runtime.history.bars import BarColumns
from bot.runtime.history.store.archive import Archive, Origin
from bot.runtime.history.warming import kept as module
from bot.runtime.history.warming.kept import KeptBars, KeptExDates, append, line_of
from bot.runtime.history.warming.sources import StoredBars
from bot.runtime.history.warming.warm_up import Earlier, Source, UnusableHistory, WarmUp

RULES: Final = load_rulebook()
HPG: Final = Instrument("HPG", Exchange.HOSE)
MINUTE: Final = timedelta(minutes=1)
NOW: Final = datetime(2026, 11, 19, 3, 0, tzinfo=UTC)
"""10:00 in Vietnam."""


def _bar(minutes_ago: int, close: int = 27_000) -> Bar:
    return Bar("HPG", NOW - minutes_ago * MINUTE, 60, close, close, close, close, 100)


@dataclass
class Listed:
    """A source of what a test lists; an error is raised once."""

    name: str
    bars: Sequence[Bar] = ()
    gaps: tuple[str, ...] = ()
    error: Exception | None = None
    asked: list[str] = field(default_factory=list)

    costs: bool = True

    def asks(self, _width: timedelta) -> bool:
        return self.costs

    def give_again(self, symbols: Collection[str]) -> None:
        assert symbols

    async def read(
        self, instrument: Instrument, width: timedelta, count: int, now: datetime
    ) -> Earlier | None:
        assert (width, now >= NOW) == (MINUTE, True)
        self.asked.append(f"{instrument.symbol} {count}")
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return Earlier(tuple(self.bars), gaps=self.gaps)


def _warm_up(
    *sources: Source, quota: int = 60, ex_dates: Sequence[date] = ()
) -> tuple[WarmUp, list[Event]]:
    posted: list[Event] = []
    instruments = {
        f"S{number:02}": Instrument(f"S{number:02}", Exchange.HOSE) for number in range(50)
    }
    warm_up = WarmUp(
        sources=sources,
        market=SimulatedClock(NOW),
        post=posted.append,
        quota=quota,
        instruments={**instruments, "HPG": HPG},
        ex_dates={"HPG": ex_dates},
    )
    return warm_up, posted


def _told(posted: Sequence[Event]) -> list[str]:
    return [each.entry.text for each in posted if isinstance(each, Noted)]  # type: ignore[union-attr]


async def test_what_a_trusted_source_lacks_comes_from_the_next_one() -> None:
    first = Listed("the first", [_bar(2, 27_200), _bar(1, 27_100)], ("gap 2026-11-18 morning",))
    second = Listed("the second", [_bar(3, 26_000), _bar(2, 26_000)])
    warm_up, posted = _warm_up(first, second)

    warm_up.want("HPG", MINUTE, 4)
    await warm_up.read()

    origin = "3 of 4 bars since 2026-11-19 09:57 from the first and the second"
    bars = (_bar(3, 26_000), _bar(2, 27_200), _bar(1, 27_100))
    assert posted[0] == BarsRead(NOW, "HPG", MINUTE, bars, 300, origin, "gap 2026-11-18 morning")
    assert _told(posted) == [f"HPG 1m: {origin}; gap 2026-11-18 morning"]
    assert not warm_up.is_missing


async def test_a_day_that_another_source_has_is_no_gap() -> None:
    known = Listed("the first", [_bar(2), _bar(1)])
    older = Listed("the second", [_bar(3)], ("gap 2026-11-18", "gap 2026-11-19"))
    warm_up, posted = _warm_up(known, older)

    warm_up.want("HPG", MINUTE, 0)
    await warm_up.read()

    assert _told(posted) == [
        "HPG 1m: 3 bars since 2026-11-19 09:57 from the first and the second; gap 2026-11-18"
    ]


async def test_a_source_that_cannot_be_read_is_asked_again_and_told_of_once() -> None:
    broken = Listed("the first", [_bar(1)], error=BrokerError("stock_history", "HTTP 503"))
    warm_up, posted = _warm_up(broken)
    warm_up.want("HPG", MINUTE, 0)

    await warm_up.read()
    assert warm_up.is_missing
    broken.error = BrokerError("stock_history", "HTTP 503")
    await warm_up.read()
    await warm_up.read()

    assert _told(posted) == [
        "HPG 1m: the first can't be read (HTTP 503): asked again every minute",
        "HPG 1m: 1 bar since 2026-11-19 09:59 from the first",
    ]
    assert not warm_up.is_missing


async def test_a_source_that_answers_what_cannot_be_true_is_named_and_not_used() -> None:
    wrong = Listed("the first", error=UnusableHistory("it has two bars of 2026-11-18 10:05"))
    warm_up, posted = _warm_up(wrong, Listed("the second", [_bar(1)]))

    warm_up.want("HPG", MINUTE, 0)
    await warm_up.read()

    why = "it has two bars of 2026-11-18 10:05"
    [told] = _told(posted)
    assert told == (
        f"HPG 1m: 1 bar since 2026-11-19 09:59 from the second; the first is not used: {why}; "
        "it is asked again"
    )


async def test_a_history_that_cannot_be_true_is_asked_again_ever_later_and_not_for_ever() -> None:
    wrong = Listed("the first")
    warm_up, posted = _warm_up(wrong)
    clock = warm_up.market
    assert isinstance(clock, SimulatedClock)
    warm_up.want("HPG", MINUTE, 0)
    asked = list[int]()
    for minute in range(200):
        wrong.error, before = UnusableHistory("it has two bars"), len(wrong.asked)
        await warm_up.read()
        asked += [minute] * (len(wrong.asked) - before)
        clock.advance_to(clock.now() + MINUTE)

    assert asked == [0, 1, 3, 7, 15, 31, 63, 127]
    assert not warm_up.is_missing
    assert _told(posted) == [
        "HPG 1m: the first is not used: it has two bars; it is asked again",
        "HPG 1m: the first is not used: it has two bars",
    ]


async def test_more_bars_are_not_kept_waiting_by_an_untrue_answer_to_another_question() -> None:
    wrong = Listed("the first", error=UnusableHistory("it has two bars"))
    warm_up, _ = _warm_up(wrong)
    warm_up.want("HPG", MINUTE, 0)
    await warm_up.read()

    warm_up.want("HPG", MINUTE, 250)
    await warm_up.read()
    warm_up.want("HPG", MINUTE, 401)
    await warm_up.read()

    assert wrong.asked == ["HPG 300", "HPG 401"]
    assert not warm_up.is_missing


async def test_a_history_that_is_true_in_the_end_is_taken() -> None:
    warm_up, posted = _warm_up(Listed("the first", [_bar(1)], error=UnusableHistory("no")))
    clock = warm_up.market
    assert isinstance(clock, SimulatedClock)
    warm_up.want("HPG", MINUTE, 0)

    await warm_up.read()
    await warm_up.read()
    clock.advance_to(clock.now() + MINUTE)
    await warm_up.read()

    read = [each for each in posted if isinstance(each, BarsRead)]
    assert [(len(each.bars), each.is_asked_again) for each in read] == [(0, True), (1, False)]


async def test_where_nothing_is_found_nothing_is_told() -> None:
    warm_up, posted = _warm_up(Listed("the first"))

    warm_up.want("HPG", MINUTE, 0)
    await warm_up.read()

    assert posted == [BarsRead(NOW, "HPG", MINUTE, (), 300)]


async def test_many_symbols_cost_a_fifth_of_the_quota_of_a_minute() -> None:
    source = Listed("the first")
    warm_up, _ = _warm_up(source, quota=60)
    for number in range(50):
        warm_up.want(f"S{number:02}", MINUTE, 20)

    asked = []
    while warm_up.is_missing:
        await warm_up.read()
        asked.append(len(source.asked))

    assert asked == [12, 24, 36, 48, 50]


async def test_a_broker_that_is_away_is_not_asked_for_every_symbol() -> None:
    class Away(Listed):
        async def read(self, *_: object) -> Earlier | None:
            self.asked.append("once more")
            raise BrokerError("stock_history", "no answer")

    source = Away("the first")
    warm_up, _ = _warm_up(source)
    for number in range(50):
        warm_up.want(f"S{number:02}", MINUTE, 20)

    await warm_up.read()

    assert len(source.asked) == 2


async def test_symbols_that_cannot_be_read_do_not_keep_the_others_waiting() -> None:
    class Partly(Listed):
        async def read(self, instrument: Instrument, *_: object) -> Earlier | None:
            self.asked.append(instrument.symbol)
            if instrument.symbol in {"S00", "S01"}:
                raise BrokerError("stock_history", "HTTP 500")
            return Earlier(())

    source = Partly("the first")
    warm_up, _ = _warm_up(source, quota=10)
    for number in range(4):
        warm_up.want(f"S{number:02}", MINUTE, 20)

    for _minute in range(3):
        await warm_up.read()

    assert source.asked == ["S00", "S01", "S02", "S03", "S00", "S01"]


async def test_what_costs_no_request_is_read_at_once_whatever_the_broker_does() -> None:
    class Away(Listed):
        async def read(self, *_: object) -> Earlier | None:
            raise BrokerError("stock_history", "no answer")

    kept = Listed("the second", [_bar(1)], costs=False)
    alone, _ = _warm_up(kept)
    behind, posted = _warm_up(Away("the first"), Listed("the second", [_bar(1)], costs=False))
    for number in range(50):
        alone.want(f"S{number:02}", MINUTE, 20)
        behind.want(f"S{number:02}", MINUTE, 20)

    await alone.read()
    await behind.read()

    assert (len(kept.asked), alone.is_missing) == (50, False)
    found = [each for each in posted if isinstance(each, BarsRead)]
    assert [each.bars for each in found] == [(_bar(1),)] * 50
    assert {each.lacks for each in found} == {
        "the first can't be read (no answer): asked again every minute"
    }


async def test_a_look_that_lasts_is_not_begun_twice_and_what_is_wanted_meanwhile_is_kept() -> None:
    class Slow(Listed):
        async def read(self, *arguments: Any) -> Earlier | None:
            if not self.asked:
                warm_up.want("HPG", MINUTE, 401)
                await warm_up.read()
            return await Listed.read(self, *arguments)

    source = Slow("the first")
    warm_up, _ = _warm_up(source)
    warm_up.want("HPG", MINUTE, 20)

    await warm_up.read()
    is_wanted = warm_up.is_missing
    await warm_up.read()

    assert (source.asked, is_wanted) == (["HPG 300", "HPG 401"], True)
    assert not warm_up.is_missing


async def test_of_many_gaps_a_few_are_named() -> None:
    gaps = tuple(f"gap {number}" for number in range(1, 9))
    warm_up, posted = _warm_up(Listed("the first", gaps=gaps))

    warm_up.want("HPG", MINUTE, 0)
    await warm_up.read()

    assert _told(posted) == ["HPG 1m: gap 1; gap 2; gap 3; 5 more gaps"]


async def test_bars_of_before_an_ex_date_are_left_out_but_for_todays() -> None:
    bars = [_bar(2 * 1_440), _bar(1_440), _bar(1)]
    days = [date(2026, 11, 18), date(2026, 11, 19), date(2026, 1, 5)]
    warm_up, posted = _warm_up(Listed("the first", bars), ex_dates=days)

    warm_up.want("HPG", MINUTE, 0)
    await warm_up.read()

    [text] = _told(posted)
    assert isinstance(posted[0], BarsRead)
    assert posted[0].bars == tuple(bars[1:])
    assert text.endswith("bars before its ex-date 2026-11-18 are left out, its ratio is not known")


@dataclass
class Seen:
    """What is known of ex-dates."""

    known: Sequence[WentEx] = ()
    error: Exception | None = None

    async def went_ex(self, symbol: str, days: Sequence[date]) -> Sequence[WentEx]:
        assert symbol == "HPG"
        if self.error is not None:
            raise self.error
        return [each for each in self.known if each.day in days]


EX_DAY: Final = date(2026, 11, 18)


@pytest.mark.parametrize(
    ("last", "bars", "ratios"),
    [
        pytest.param(30_000, 3, ((EX_DAY, 0.9),), id="as quoted"),
        pytest.param(27_000, 3, ((EX_DAY, 1.0),), id="adjusted already"),
        pytest.param(29_000, 2, (), id="neither"),
    ],
)
async def test_bars_of_before_a_past_ex_date_count_by_what_was_seen_of_it(
    last: int, bars: int, ratios: tuple[tuple[date, float], ...]
) -> None:
    listed = [_bar(2 * 1_440, last), _bar(1_440), _bar(1)]
    warm_up, posted = _warm_up(Listed("the first", listed), ex_dates=[EX_DAY])
    broken = Seen(error=UnusableHistory("the file is damaged"))
    warm_up.past = [broken, Seen([WentEx("HPG", EX_DAY, 30_000, 27_000)])]

    warm_up.want("HPG", MINUTE, 0)
    await warm_up.read()

    [read, _] = posted
    assert isinstance(read, BarsRead)
    assert (read.bars, read.ex_ratios) == (tuple(listed[-bars:]), ratios)
    assert ("0.9000 in indicators" in read.origin) == (ratios == ((EX_DAY, 0.9),))
    assert read.lacks.startswith("what its ex-dates were is not all known: the file is damaged")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(BrokerError("stock_history", "HTTP 503"), id="unread"),
        pytest.param(UnusableHistory("it has two bars of 2026-11-18 10:05"), id="untrue"),
    ],
)
async def test_an_ex_date_known_only_later_counts_while_a_source_stays_ill(
    error: Exception,
) -> None:
    ill, listed = Listed("the first", error=error), [_bar(2 * 1_440, 30_000), _bar(1)]
    warm_up, posted = _warm_up(ill, Listed("the second", listed, costs=False))
    warm_up.past, warm_up.ex_dates = [Seen([WentEx("HPG", EX_DAY, 30_000, 27_000)])], {}
    warm_up.want("HPG", MINUTE, 0)
    await warm_up.read()

    warm_up.ex_dates, ill.error = {"HPG": [EX_DAY]}, error
    warm_up.look_again(["HPG"])
    await warm_up.read()

    found = [each.ex_ratios for each in posted if isinstance(each, BarsRead)]
    assert found == [(), ((EX_DAY, 0.9),)]


async def test_two_ex_dates_count_both_and_an_unknown_one_cuts_off_what_was_before() -> None:
    listed = [_bar(3 * 1_440, 32_000), _bar(2 * 1_440, 30_000), _bar(1_440), _bar(1)]
    days = [date(2026, 11, 17), EX_DAY]
    known = [WentEx("HPG", EX_DAY, 30_000, 27_000), WentEx("HPG", days[0], 32_000, 30_400)]
    both, posted = _warm_up(Listed("the first", listed), ex_dates=days)
    one, cut = _warm_up(Listed("the first", listed), ex_dates=days)
    both.past, one.past = [Seen(known)], [Seen(known[:1])]

    for warm_up in (both, one):
        warm_up.want("HPG", MINUTE, 0)
        await warm_up.read()

    assert isinstance(posted[0], BarsRead)
    assert isinstance(cut[0], BarsRead)
    assert posted[0].ex_ratios == ((days[0], 0.95), (EX_DAY, 0.9))
    assert (cut[0].bars, cut[0].ex_ratios) == (tuple(listed[1:]), ((EX_DAY, 0.9),))


async def test_what_a_run_has_seen_of_an_ex_date_is_there_for_the_next_one(tmp_path: Path) -> None:
    kept = KeptExDates(tmp_path / "ex-dates.csv")
    seen = WentEx("HPG", EX_DAY, 30_000, 27_000)
    for _ in range(2):
        await kept.keep(seen)
    with (tmp_path / "ex-dates.csv").open("a") as file:
        file.write("FPT,2026-11-18,abc,1\nHPG,2026-11-17,9,0\nHPG,2026-11-1")

    found = await KeptExDates(tmp_path / "ex-dates.csv").went_ex("HPG", [EX_DAY, NOW.date()])

    assert found == [seen]
    assert (tmp_path / "ex-dates.csv").read_text().count("HPG,2026-11-18") == 1
    assert await KeptExDates(tmp_path / "none.csv").went_ex("HPG", [EX_DAY]) == []


async def test_an_ex_date_that_a_run_has_seen_counts_though_the_broker_does_not_say_it(
    tmp_path: Path,
) -> None:
    kept = KeptExDates(tmp_path / "ex-dates.csv")
    await kept.keep(WentEx("HPG", EX_DAY, 30_000, 27_000))
    warm_up, posted = _warm_up(Listed("the first", [_bar(2 * 1_440, 30_000), _bar(1)]))
    warm_up.past, warm_up.seen = [kept], kept.days_of

    warm_up.want("HPG", MINUTE, 0)
    await warm_up.read()

    assert [each.ex_ratios for each in posted if isinstance(each, BarsRead)] == [((EX_DAY, 0.9),)]
    assert await kept.days_of("FPT") == frozenset()


async def test_an_ex_date_is_kept_whole_after_a_line_that_a_kill_has_cut_short(
    tmp_path: Path,
) -> None:
    (tmp_path / "ex-dates.csv").write_text("FPT,2026-11-1")
    kept, seen = KeptExDates(tmp_path / "ex-dates.csv"), WentEx("HPG", EX_DAY, 30_000, 27_000)

    await kept.keep(seen)

    assert await kept.went_ex("HPG", [EX_DAY]) == [seen]


async def test_an_ex_date_for_which_there_is_no_thread_is_kept_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, seen = KeptExDates(tmp_path / "ex-dates.csv"), WentEx("HPG", EX_DAY, 30_000, 27_000)

    async def no_thread(*_: object) -> None:
        raise OSError(11, "no thread")

    with monkeypatch.context() as now:
        now.setattr(module, "in_time", no_thread)
        await kept.keep(seen)
    await kept.keep(seen)

    assert await kept.went_ex("HPG", [EX_DAY]) == [seen]


async def test_lines_of_an_ex_date_that_contradict_each_other_say_nothing(tmp_path: Path) -> None:
    before = WentEx("HPG", date(2026, 11, 17), 9, 8)
    said = [before, WentEx("HPG", EX_DAY, 30_000, 27_000), WentEx("HPG", EX_DAY, 30_000, 2_700)]
    (tmp_path / "ex-dates.csv").write_text("".join(map(line_of, said)))

    found = await KeptExDates(tmp_path / "ex-dates.csv").went_ex(
        "HPG", [EX_DAY, date(2026, 11, 17)]
    )

    assert found == [before]


async def test_a_line_of_an_ex_date_with_a_damaged_digit_is_not_believed_and_said(
    tmp_path: Path,
) -> None:
    path, seen = tmp_path / "ex-dates.csv", WentEx("HPG", EX_DAY, 30_000, 27_000)
    path.write_text(line_of(seen).replace("27000", "21000"))
    kept = KeptExDates(path)

    with pytest.raises(UnusableHistory, match=r"ex-dates\.csv: 1 of its lines damaged"):
        await kept.went_ex("HPG", [EX_DAY])
    await kept.keep(seen)

    assert await kept.went_ex("HPG", [EX_DAY]) == [seen]


async def test_the_store_tells_of_ex_dates_whose_ratio_its_daily_files_have(tmp_path: Path) -> None:
    folder = tmp_path / "bars" / "1m"
    folder.mkdir(parents=True)
    rows = ["2026-11-17 14:44:00,30000,30000,30000,30000,100"]
    (folder / "HPG.csv").write_text("\n".join(["time,open,high,low,close,volume", *rows, ""]))
    (tmp_path / "ex_dates.csv").write_text("symbol,ex_date,ratio\nHPG,2026-11-18,0.9\n")

    found = await StoredBars(tmp_path, RULES).went_ex("HPG", [EX_DAY, date(2026, 11, 17)])

    assert found == [WentEx("HPG", EX_DAY, 30_000, 27_000)]
    assert await StoredBars(tmp_path / "none", RULES).went_ex("HPG", [EX_DAY]) == ()


async def test_the_store_tells_of_ex_dates_of_a_symbol_with_wider_bars_than_others(
    tmp_path: Path,
) -> None:
    prices = ",open,high,low,close,volume"
    files = {
        "1d/HPG.csv": f"date{prices}\n2026-11-17,30000,30000,30000,30000,1\n",
        "1m/HPG.csv": f"time{prices}\n2026-11-19 09:45,27000,27000,27000,27000,1\n",
        "1m/FPT.csv": "damaged",
    }
    for name, text in files.items():
        path = tmp_path / "bars" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "ex_dates.csv").write_text("symbol,ex_date,ratio\nHPG,2026-11-18,0.9\n")

    found = await StoredBars(tmp_path, RULES).went_ex("HPG", [EX_DAY])

    assert found == [WentEx("HPG", EX_DAY, 30_000, 27_000)]


async def test_bars_of_before_a_long_pause_are_left_out() -> None:
    bars = [_bar(16 * 1_440), _bar(15 * 1_440 + 5), _bar(1)]
    warm_up, posted = _warm_up(Listed("the first", bars))

    warm_up.want("HPG", MINUTE, 0)
    await warm_up.read()

    assert isinstance(posted[0], BarsRead)
    assert posted[0].bars == (_bar(1),)
    assert posted[0].lacks == "older bars are left out: more than 14 days lie between"


# ------------------------------------------------------------------------------------- stored bars


async def test_bars_of_the_store_are_filled_and_made_as_wide_as_wanted(tmp_path: Path) -> None:
    folder = tmp_path / "bars" / "1m"
    folder.mkdir(parents=True)
    rows = [
        "2026-11-18 14:44:00,27000,27100,26900,27050,100",
        "2026-11-19 09:17:00,27000,27200,27000,27200,300",
    ]
    text = "\n".join(["time,open,high,low,close,volume", *rows, ""])
    (folder / "HPG.csv").write_text(text)
    store = StoredBars(tmp_path, RULES)

    two = await store.read(HPG, 2 * MINUTE, 300, NOW)
    third = await store.read(HPG, timedelta(seconds=90), 300, NOW)
    none = await StoredBars(tmp_path / "none", RULES).read(HPG, MINUTE, 300, NOW)

    assert two is not None
    assert [(bar.close, bar.volume) for bar in two.bars] == [
        (27_050, 100),
        (27_050, 0),
        (27_200, 300),
    ]
    assert (third, none) == (None, None)


async def test_adjusted_bars_and_damaged_files_of_the_store_are_not_used(tmp_path: Path) -> None:
    start = np.array([int((NOW - MINUTE).timestamp())])
    one = BarColumns("HPG", 60, start, *[np.array([27_000])] * 5)
    adjusted, damaged = Archive(tmp_path / "adjusted"), Archive(tmp_path / "damaged")
    with adjusted.writing() as writer:
        writer.add([one], Origin.IMPORT, source="x", at=NOW, is_adjusted=True)
    with damaged.writing() as writer:
        writer.add([one], Origin.IMPORT, source="x", at=NOW)
    path, _ = damaged.stored(one)
    path.write_bytes(path.read_bytes()[:20] + bytes(40) + path.read_bytes()[60:])

    with pytest.raises(UnusableHistory, match="its prices are adjusted"):
        await StoredBars(adjusted.folder, RULES).read(HPG, MINUTE, 300, NOW)
    with pytest.raises(UnusableHistory, match="damaged"):
        await StoredBars(damaged.folder, RULES).read(HPG, MINUTE, 300, NOW)


async def test_a_symbol_of_the_store_needs_its_own_files_alone(tmp_path: Path) -> None:
    row = "time,open,high,low,close,volume\n2026-11-19 09:45,27000,27000,27000,27000,100\n"
    files = {"1m/HPG.csv": row, "1m/FPT.csv": "damaged", "5m/FPT.csv": row}
    for name, text in files.items():
        path = tmp_path / "bars" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    found = await StoredBars(tmp_path, RULES).read(HPG, 5 * MINUTE, 300, NOW)

    start = NOW - 15 * MINUTE
    prices = 27_000, 27_000, 27_000, 27_000
    assert found == Earlier((Bar("HPG", start, 300, *prices, 100),))


async def test_wide_bars_of_the_store_that_end_early_do_not_hide_narrower_ones(
    tmp_path: Path,
) -> None:
    header = "time,open,high,low,close,volume\n"
    files = {
        "30m": "2026-11-17 10:00,27000,27000,27000,27000,100\n",
        "1m": "2026-11-17 10:05,26900,26900,26900,26900,100\n"
        "2026-11-18 10:05,27100,27100,27100,27100,100\n",
    }
    for width, rows in files.items():
        path = tmp_path / "bars" / width / "HPG.csv"
        path.parent.mkdir(parents=True)
        path.write_text(header + rows)

    store = StoredBars(tmp_path, RULES)

    found = await store.read(HPG, 30 * MINUTE, 300, NOW)
    (tmp_path / "bars" / "1m" / "HPG.csv").write_text("damaged")
    wide = await store.read(HPG, 30 * MINUTE, 300, NOW)

    assert found is not None
    assert wide is not None
    assert [bar.close for bar in found.bars if bar.volume] == [27_000, 27_100]
    assert [bar.close for bar in wide.bars] == [27_000]
    assert wide.gaps == ("its bars of 1m are not used: bot data check",)


async def test_days_that_the_store_lacks_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bars" / "1d" / "HPG.csv"
    path.parent.mkdir(parents=True)
    days = "".join(f"2026-11-{day},27000,27000,27000,27000,100\n" for day in (11, 12, 16, 17))
    path.write_text(f"date,open,high,low,close,volume\n{days}")

    found = await StoredBars(tmp_path, RULES).read(HPG, DAY, 300, NOW)

    assert found is not None
    assert (len(found.bars), found.gaps) == (4, ("gap 2026-11-13", "gap 2026-11-18"))


async def test_of_what_is_wrong_in_the_store_the_first_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bars" / "1m" / "HPG.csv"
    path.parent.mkdir(parents=True)
    wrong = "2026-11-19 09:45,1,1,1,1,-1\n" * 3
    path.write_text(f"time,open,high,low,close,volume\n{wrong}")

    with pytest.raises(UnusableHistory) as caught:
        await StoredBars(tmp_path, RULES).read(HPG, MINUTE, 300, NOW)

    told = str(caught.value)
    assert "HPG.csv:2:26: E-MKT-003 volume is a whole number" in told
    assert told.endswith("; 2 more: bot data check HPG")
    assert "\n" not in told


# ---------------------------------------------------------------------------------------- kept bars


def _kept(folder: Path, *bars: Bar, more: str = "") -> KeptBars:
    path = folder / "bars-sandbox.csv"
    writer = KeptBars(path, RULES)
    for bar in bars:
        writer.keep(bar)
    writer.close()
    with path.open("a") as file:
        file.write(more)
    return KeptBars(path, RULES)


async def _found(kept: KeptBars, now: datetime = NOW) -> Earlier:
    found = await kept.read(HPG, MINUTE, 300, now)
    assert found is not None
    return found


async def test_kept_bars_come_back_and_what_lacks_between_them_is_named(tmp_path: Path) -> None:
    bars = [_bar(minutes) for minutes in (20, 19, 15, 14, 13, 1)]

    found = await _found(_kept(tmp_path, *bars))

    assert found.bars == tuple(bars)
    assert found.gaps == (
        "gap 2026-11-19 09:42 to 2026-11-19 09:45",
        "gap 2026-11-19 09:48 to 2026-11-19 09:59",
    )


async def test_nights_and_lunch_are_no_gaps(tmp_path: Path) -> None:
    local = datetime(2026, 11, 18, 14, 44, tzinfo=EXCHANGE_TZ).astimezone(UTC)
    first = Bar("HPG", local, 60, 1, 1, 1, 1, 1)
    auction = Bar("HPG", local + MINUTE, 60, 1, 1, 1, 1, 1)
    morning = [_bar(minutes) for minutes in range(45, 0, -1)]

    found = await _found(_kept(tmp_path, first, auction, *morning))

    assert (len(found.bars), found.gaps) == (47, ())


async def test_a_line_cut_short_and_one_of_the_future_are_left_out(tmp_path: Path) -> None:
    cut = "HPG,60,17950\nHPG,x,1,1,1,1,1,1\nHPG,60,1795056840,27000,27000,27000,270"

    found = await _found(_kept(tmp_path, _bar(1), _bar(0), more=cut))

    assert found.bars == (_bar(1),)


async def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    damaged = (
        "HPG,60,99999999999999,1,1,1,1,1\n",
        f"HPG,60,{'9' * 5_000},1,1,1,1,1\n",
        "HPG,60,1795056840,0,0,0,0,0\n",
        "HPG,60,1795056840,5,1,9,7,5\n",
        "HPG,60,1795056840,270HPG,60,1795056840,1,1,1,1,1\n",
    )

    found = await _found(_kept(tmp_path, _bar(1), more="".join(damaged)))

    assert found.bars == (_bar(1),)


async def test_who_wants_more_of_them_later_gets_all_and_who_wants_as_many_none(
    tmp_path: Path,
) -> None:
    kept = _kept(tmp_path, _bar(3), _bar(2), _bar(1))

    found = [await kept.read(HPG, MINUTE, count, NOW) for count in (2, 2, 3)]

    assert [each and len(each.bars) for each in found] == [2, 0, 3]


async def test_kept_bars_are_given_again_of_the_symbols_that_begin_anew(tmp_path: Path) -> None:
    kept = _kept(tmp_path, _bar(3), _bar(2), _bar(1))
    for _ in range(2):
        await _found(kept)

    kept.give_again({"FPT"})
    others = await _found(kept)
    kept.give_again({"HPG"})
    own = await _found(kept)

    assert (len(others.bars), len(own.bars)) == (0, 3)


async def test_a_gap_that_lasts_until_a_night_is_named(tmp_path: Path) -> None:
    late = NOW + timedelta(hours=10)

    found = await _found(_kept(tmp_path, _bar(1)), late)

    assert found.gaps == ("gap 2026-11-19 10:00 to 2026-11-19 20:00",)


def test_the_file_of_a_run_that_lasts_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "bars-sandbox.csv"
    sizes, modes = [], set()

    for number in range(200):
        append(path, f"HPG,60,{number:010},27000,27000,27000,27000,100\n", 1_000)
        sizes.append(path.stat().st_size)
        modes.add(path.stat().st_mode & 0o777)

    assert 1_900 < max(sizes) <= 2_000
    assert modes == {0o600}
    assert path.read_text().splitlines()[-1].startswith("HPG,60,0000000199,")


async def test_a_file_that_has_grown_long_is_cut_to_its_newer_half(tmp_path: Path) -> None:
    path = tmp_path / "bars-sandbox.csv"
    line = "FPT,60,1795056840,27000,27000,27000,27000,100\n"
    path.write_text(line * 100)
    _kept(tmp_path, _bar(1))

    found = await _found(KeptBars(path, RULES, bytes_max=1_000))

    assert found.bars == (_bar(1),)
    assert 400 < path.stat().st_size <= 500
    assert path.read_text().splitlines()[0] == line.strip()


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bars-sandbox.csv").mkdir()

    found = await _found(KeptBars(tmp_path / "bars-sandbox.csv", RULES))

    assert found.gaps[0].startswith("bars-sandbox.csv can't be read: ")
