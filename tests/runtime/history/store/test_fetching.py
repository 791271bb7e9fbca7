"""A fetch keeps what it has, goes on where it was, and takes nothing that can't be true."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from bot.broker.errors import RateLimited
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.rulebook import load_rulebook, load_symbols
from bot.protocol.values.series import PriceBar, PriceHistory
from bot.runtime.history.store.archive import Archive, Overlap
from bot.runtime.history.store.fetching import (
    TRIES_MAX,
    Fetched,
    FetchPlan,
    HistoryFetch,
    Query,
)
from bot.runtime.history.store.importing import ALWAYS, Rules
from bot.runtime.history.store.store import WIDTHS
from tests.cli.stage import call
from tests.processes import BotProcess

pytestmark = pytest.mark.anyio
RULES = Rules(load_rulebook(), load_symbols())
DAY = timedelta(days=1)
TODAY = date(2026, 11, 20)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Waits:
    """Time that passes only when it is waited for."""

    at: datetime = datetime(2026, 11, 20, 3, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    async def sleep_until(self, instant: datetime) -> None:
        self.at = max(self.at, instant)


@dataclass
class Broker:
    """Answers daily bars of every trading day asked for; `refusals` come first."""

    close: Callable[[date], Decimal] = lambda _: Decimal(27_000)
    refusals: list[RateLimited] = field(default_factory=list)
    asked: list[tuple[date, date]] = field(default_factory=list)

    async def ask(self, symbol: str, query: Query) -> PriceHistory:
        if self.refusals:
            raise self.refusals.pop()
        words = dict(query)
        first, last = (
            datetime.fromtimestamp(int(words[name]), UTC) + timedelta(hours=7)
            for name in ("from", "to")
        )
        self.asked.append((first.date(), last.date()))
        days = [
            day
            for day in RULES.rulebook.calendar.trading_days
            if first.date() <= day <= min(last.date(), TODAY)
        ]
        bars = []
        for day in days:
            start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=7)
            price = self.close(day)
            bars.append(PriceBar(start, price, price, price, price, Decimal(1_000)))
        return PriceHistory(symbol, tuple(bars))


async def fetched(
    folder: Path,
    broker: Broker,
    first: str = "2026-10-01",
    last: str = "2026-11-30",
    *,
    symbol: str = "HPG",
    waits: Waits | None = None,
    overlap: Overlap = Overlap.KEEP,
) -> Fetched:
    plan = FetchPlan((symbol,), DAY, overlap=overlap)
    fetch = HistoryFetch(Archive(folder), RULES, broker.ask, waits or Waits(), TODAY, "test", plan)
    days = (date.fromisoformat(first), date.fromisoformat(last))
    return await fetch.fetch(symbol, *days, lambda _: None)


def closes(folder: Path, symbol: str = "HPG") -> dict[str, int]:
    """The close of each stored day."""
    bars = [
        bar
        for columns in Archive(folder).source().chunks(symbol, *ALWAYS)
        for bar in columns.bars()
    ]
    return {f"{bar.start + timedelta(hours=7):%Y-%m-%d}": bar.close for bar in bars}


async def test_days_come_in_whole_vnd_and_without_today(tmp_path: Path) -> None:
    broker = Broker(lambda _: Decimal("27.05"))

    found = await fetched(tmp_path, broker)

    stored = closes(tmp_path)
    assert (min(stored), max(stored), set(stored.values())) == (
        "2026-10-01",
        "2026-11-19",
        {27_050},
    )
    assert (found.new, found.same, found.differing) == (len(stored), 0, 0)


async def test_an_index_comes_with_the_digits_after_its_point(tmp_path: Path) -> None:
    await fetched(tmp_path, Broker(lambda _: Decimal("249.37")), symbol="HNXINDEX")

    assert set(closes(tmp_path, "HNXINDEX").values()) == {24_937}


async def test_what_is_known_is_not_asked_for_again(tmp_path: Path) -> None:
    broker = Broker()
    await fetched(tmp_path, broker, "2025-01-02", "2025-12-31")
    before = len(broker.asked)

    again = await fetched(tmp_path, broker, "2025-01-02", "2025-12-31")
    more = await fetched(tmp_path, broker, "2025-01-02", "2026-11-19")

    assert (again.asked, again.new, len(broker.asked) - before) == (0, 0, more.asked)
    assert (more.spared > 0, more.new > 0) == (True, True)
    assert all(last > date(2025, 12, 31) for _, last in broker.asked[before:])


async def test_days_between_two_fetches_are_not_taken_as_known(tmp_path: Path) -> None:
    await fetched(tmp_path, Broker(), "2026-11-02", "2026-11-03")
    await fetched(tmp_path, Broker(), "2026-11-06", "2026-11-10")

    found = await fetched(tmp_path, Broker(), "2026-11-02", "2026-11-10")

    assert (found.new, found.same) == (2, 5)


async def test_days_without_a_bar_are_asked_for_once(tmp_path: Path) -> None:
    weekend = ("2026-11-14", "2026-11-15")
    first = await fetched(tmp_path, Broker(), *weekend)
    again = await fetched(tmp_path, Broker(), *weekend)

    assert (first.asked, first.new, again.asked, again.spared) == (1, 0, 0, 1)


async def test_stored_bars_that_differ_stay_unless_told_and_are_counted(tmp_path: Path) -> None:
    await fetched(tmp_path, Broker(), "2026-11-02", "2026-11-10")
    (tmp_path / "manifest.json").unlink()  # so that it is asked for again
    other = Broker(lambda day: Decimal(27_000 if day != date(2026, 11, 4) else 27_050))

    kept = await fetched(tmp_path, other, "2026-11-02", "2026-11-10")
    assert (kept.same, kept.differing, closes(tmp_path)["2026-11-04"]) == (6, 1, 27_000)
    assert kept.first_difference.startswith("2026-11-04 00:00: open 27,000 stored, 27,050 new")

    await fetched(tmp_path, other, "2026-11-02", "2026-11-10", overlap=Overlap.REPLACE)
    assert closes(tmp_path)["2026-11-04"] == 27_050


async def test_a_full_quota_is_waited_for_and_not_for_ever(tmp_path: Path) -> None:
    waits = Waits()
    later = waits.at + timedelta(seconds=40)
    full = RateLimited("stock_history", "the quota is used up", later)

    await fetched(tmp_path, Broker(refusals=[full]), waits=waits)

    assert waits.at == later
    with pytest.raises(RateLimited):
        await fetched(tmp_path / "other", Broker(refusals=[full] * TRIES_MAX))


async def test_useless_bars_end_a_fetch_and_what_came_before_is_kept(tmp_path: Path) -> None:
    wrong = date(2026, 11, 18)
    broker = Broker(lambda day: Decimal(27_010 if day == wrong else 27_000))

    with pytest.raises(OperatorMistake) as caught:
        await fetched(tmp_path, broker, "2024-01-02")

    (problem,) = caught.value.problems
    assert str(problem).startswith("E-MKT-007 HPG 2026-11-18: 27,010 is off the tick of 50 VND")
    assert min(closes(tmp_path)) == "2024-01-02"
    assert max(closes(tmp_path)) < "2026-11-18"


async def test_the_history_of_another_symbol_is_not_stored(tmp_path: Path) -> None:
    class Confused(Broker):
        async def ask(self, symbol: str, query: Query) -> PriceHistory:
            return replace(await super().ask(symbol, query), symbol="VCB")

    with pytest.raises(OperatorMistake) as caught:
        await fetched(tmp_path, Confused())

    (problem,) = caught.value.problems
    assert str(problem).startswith("E-DATA-016 HPG: the broker answered with bars of VCB; none of")
    assert not (tmp_path / "bars").exists()
    assert Archive(tmp_path).ranges() == ()


@pytest.mark.parametrize(
    ("close", "volume"),
    [("27000", "-100"), ("27000", "1e15"), ("27000", "1e30"), ("1e15", "100"), ("-27000", "100")],
)
async def test_figures_that_no_bar_has_are_not_stored(
    tmp_path: Path, close: str, volume: str
) -> None:
    class Absurd(Broker):
        async def ask(self, symbol: str, _: Query) -> PriceHistory:
            price, start = Decimal(close), datetime(2026, 11, 18, tzinfo=UTC)
            bar = PriceBar(start, price, price, price, price, Decimal(volume))
            return PriceHistory(symbol, (bar,))

    with pytest.raises(OperatorMistake) as caught:
        await fetched(tmp_path, Absurd(), "2026-11-18", "2026-11-18")

    assert "HPG" in str(caught.value)
    assert not (tmp_path / "bars").exists()


@pytest.mark.parametrize(
    ("width", "wanted"),
    [
        ("15m", "E-DATA-016 HPG: a bar of 2026-11-18 09:05 is none of 15m; none of this answer"),
        ("1d", "E-DATA-016 HPG: two bars of 1d hold 2026-11-18 09:05; none of this answer"),
    ],
)
async def test_bars_of_another_width_are_not_stored(
    tmp_path: Path, width: str, wanted: str
) -> None:
    opening, price = datetime(2026, 11, 18, 2, tzinfo=UTC), Decimal(27_000)

    async def ask(symbol: str, _: Query) -> PriceHistory:
        starts = [opening + timedelta(minutes=5 * number) for number in range(12)]
        bars = tuple(PriceBar(each, price, price, price, price, Decimal(100)) for each in starts)
        return PriceHistory(symbol, bars)

    plan = FetchPlan(("HPG",), timedelta(seconds=WIDTHS[width]))
    fetch = HistoryFetch(Archive(tmp_path), RULES, ask, Waits(), TODAY, "test", plan)

    with pytest.raises(OperatorMistake) as caught:
        await fetch.fetch("HPG", date(2026, 11, 16), date(2026, 11, 19), lambda _: None)

    (problem,) = caught.value.problems
    assert str(problem).startswith(wanted)
    assert not (tmp_path / "bars").exists()


def test_without_an_address_there_is_nothing_to_fetch_from(tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text("mode: sandbox\nstate_dir: state\n")

    ran = call("data", "fetch", "HPG", "-c", str(tmp_path / "bot.yaml"))

    assert ran.code == ExitCode.NOT_RUNNING
    assert "broker.base_url names no broker" in ran.err


@pytest.mark.wire
def test_a_fetch_keeps_where_a_symbol_trades_that_the_table_lacks_for_a_backtest(
    tmp_path: Path,
) -> None:
    (tmp_path / "story.yaml").write_text(
        "name: fetched\nday: 2026-11-19\nstart: '09:20'\n"
        "accounts: [{id: '0009000011', cash: 100_000_000}]\n"
        "symbols: [{symbol: BVB, exchange: UPCOM, reference: 12_400}]\n"
    )
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nuse: sma_cross\nparams: {fast: 3, slow: 8}\nsymbols: [BVB]\n"
        "wake: {bar: 5m}\norder: {size: {shares: 100}}\n"
    )
    place = ("--now", "2026-11-19T10:00:00+07:00", "--scenario", str(tmp_path / "story.yaml"))
    server = BotProcess("paper", "serve", "--port", "0", *place)
    try:
        given = json.loads(server.stdout.readline())
        (tmp_path / "bot.yaml").write_text(
            "mode: paper\nstate_dir: state\nstrategies: mine.yaml\n"
            f"broker: {{base_url: '{given['base_url']}', device_id: test, account: normal}}\n"
        )
        keys = {
            "BOT_BROKER__API_KEY": given["api_key"],
            "BOT_BROKER__API_SECRET": given["api_secret"],
        }
        at = ("-c", str(tmp_path / "bot.yaml"))
        came = call("data", "fetch", "BVB", "--from", "2026-11-12", *at, environment=keys)
    finally:
        server.end()

    played = call("backtest", str(tmp_path / "mine.yaml"), "--data", str(tmp_path / "state/data"))

    assert (came.code, played.code) == (0, 0), (came, played)
    days = gzip.decompress((tmp_path / "state/data/daily/days.csv.gz").read_bytes()).decode()
    assert days.splitlines()[1].startswith("BVB,UPCOM,2026-11-18")


@pytest.mark.wire
def test_the_history_of_a_served_sandbox_is_fetched_once(tmp_path: Path) -> None:
    server = BotProcess("paper", "serve", "--port", "0", "--now", "2026-11-19T10:00:00+07:00")
    try:
        given = json.loads(server.stdout.readline())
        (tmp_path / "bot.yaml").write_text(
            "mode: paper\nstate_dir: state\n"
            f"broker: {{base_url: '{given['base_url']}', device_id: test, account: normal}}\n"
        )
        keys = {
            "BOT_BROKER__API_KEY": given["api_key"],
            "BOT_BROKER__API_SECRET": given["api_secret"],
        }
        words = ("data", "fetch", "hpg", "--from", "2026-11-02", "--json")
        first, again, unknown = (
            call(*arguments, "-c", str(tmp_path / "bot.yaml"), environment=keys)
            for arguments in (words, words, ("data", "fetch", "NOPE"))
        )
    finally:
        server.end()

    (came,), (known,) = (json.loads(ran.out)["fetched"] for ran in (first, again))
    assert (came["symbol"], came["new"] > 400, came["differing"]) == ("HPG", True, 0)
    assert (known["asked"], known["new"]) == (0, 0)
    assert (unknown.code, unknown.err.splitlines()[-1]) == (
        ExitCode.USAGE,
        "E-SYM-001 the broker knows no 'NOPE'",
    )
    (row,) = json.loads(call("data", "list", "--json", "-c", str(tmp_path / "bot.yaml")).out)[
        "bars"
    ]
    assert (row["width"], row["first"], row["last"]) == ("5m", "2026-11-02", "2026-11-18")
