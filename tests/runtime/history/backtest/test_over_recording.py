"""Recorded days are backtested on what was polled then, and what they do not hold is said."""

import asyncio
import builtins
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from tempfile import mkdtemp

import pytest

from bot.config.problems import OperatorMistake
from bot.domain.local_time import instant_of, local_of
from bot.domain.message import DepthReceived
from bot.domain.order import Side
from bot.runtime.history.backtest.figures import benchmarks_of
from bot.runtime.history.backtest.result import BacktestResult
from bot.runtime.history.backtest.run import run_backtest
from bot.runtime.history.backtest.spec import Wanted, spec_of
from bot.runtime.history.backtest.what_if import trade_again
from bot.runtime.history.recording.recordings import (
    OpenPart,
    parts_of,
    read_head,
    rows_of,
    runs_of,
)
from tests.rows import every_row
from tests.staging import QUIET
from tests.story import once, tell, write_project

DAY, NEXT = date(2026, 11, 19), date(2026, 11, 20)
DEEP = """
from bot import Strategy


class Deep(Strategy):
    def on_start(self):
        self.asked = False

    def on_depth(self, book):
        if not self.asked:
            self.asked = True
            self.buy(200, limit=book.depth.asks[0].price, why=f"the ask of {self.now:%m-%d}")

    def on_timer(self, timer):
        self.close(limit=26_950, why=f"{timer}")
"""
HOLDER = """
from bot import Strategy
from bot.domain.local_time import clock_of


class Deep(Strategy):
    def on_depth(self, book):
        if not self.position:
            self.buy(200, limit=book.depth.asks[0].price, why="first")
        elif self.position.qty == 200 and "09:16" < clock_of(self.now) < "14:00":
            self.buy(300, limit=book.depth.asks[0].price, why="more")
"""
ORDER = {"size": {"shares": 200}, "type": "LIMIT", "price": "bid"}
WATCHER = """
from bot import Strategy
from bot.domain.local_time import local_of


class Deep(Strategy):
    def on_depth(self, book):
        self.heard = local_of(self.now)

    def on_timer(self, timer):
        self.buy(100, why=f"the last depth was of {self.heard:%H:%M:%S}")
"""
BY_DEPTH: Mapping[str, object] = once(
    "deep", use="deep", params={}, wake={"depth": "5s"}, order=ORDER
)
BY_QUOTE = once(order={**ORDER, "price": "last"})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two recorded days, the first of them in two runs."""
    folder = tmp_path_factory.mktemp("recorded")
    for day, runs in ((DAY, 2), (NEXT, 1)):
        shutil.rmtree(folder / "state", ignore_errors=True)
        scenario = {**QUIET, "day": day}
        config = write_project(folder, scenario=scenario, strategies=[BY_DEPTH], record=True)
        (folder / "strategies" / "deep.py").write_text(DEEP)
        for _ in range(runs):
            asyncio.run(tell(config, minutes=3))
        shutil.copytree(folder / "state" / "recorded", folder / "all", dirs_exist_ok=True)
    return folder


def played(
    project: Path, *places: str, wake: str = "depth: 5s", **wanted: object
) -> BacktestResult:
    """Backtest a strategy with this wake-up over copies of the project's recording."""
    file = project / "strategies" / "mine.yaml"
    file.write_text(
        f"name: mine\nuse: deep\nsymbols: [HPG]\nwake: {{{wake}}}\n"
        "order: {size: {shares: 200}, type: LIMIT, price: bid}\n"
    )
    data = tuple(project / place for place in places or ("all",))
    return run_backtest(spec_of(Wanted(files=(file,), data=data, **wanted)))  # type: ignore[arg-type]


def test_a_strategy_that_wakes_on_depth_takes_what_was_shown(project: Path) -> None:
    result = played(project, last=DAY)

    [fill] = result.fills
    assert (fill.side, fill.quantity, fill.price) == (Side.BUY, 200, 27_050)
    assert result.orders[0].quantity == 200
    assert local_of(fill.at).date() == DAY
    assert result.capital - result.equity[0].equity == fill.fee + 200 * 50
    assert result.looks > 50


def test_several_days_are_one_backtest_with_one_account(project: Path) -> None:
    result = played(project, wake="depth: 5s, timer: ['09:22']", holdings={"HPG": 300})

    assert [local_of(point.at).date() for point in result.equity] == [DAY, NEXT]
    assert [(local_of(fill.at).date(), fill.side, fill.quantity) for fill in result.fills] == [
        (DAY, Side.BUY, 200),
        (DAY, Side.SELL, 300),
    ]
    assert result.capital == 100_000_000 + 300 * 27_000
    assert result.counts["OK"] == 2


def test_shares_that_were_bought_in_a_recording_settle_on_t_plus_2_as_live(project: Path) -> None:
    result = played(project, wake="depth: 5s, timer: ['09:22']")

    assert [(local_of(fill.at).date(), fill.side) for fill in result.fills] == [(DAY, Side.BUY)]
    tried = [each for each in result.decisions if "not settled until" in each.why]
    assert [local_of(each.at).date() for each in tried] == [DAY, NEXT]


PAID = """\
the 1,000 VND that a share fell by were paid in cash for 200 shares, untaxed; of a dividend 10,000 \
VND would be kept back as tax"""


@every_row(
    "close, said",
    [
        ("28000", PAID),
        ("null", "what its holder got is not known, so the fall of its price is a loss here"),
    ],
)
def test_what_a_held_share_falls_by_on_an_ex_date_is_paid_as_over_bars(
    project: Path, close: str, said: str, tmp_path: Path
) -> None:
    state = tmp_path / close
    shutil.copytree(project / "all", state / "recorded")
    [folder] = runs_of(state, NEXT)
    [path] = parts_of(folder)
    rows = list(rows_of(path))
    [at] = [at for at, row in enumerate(rows) if row.kind == "ClosesRead"]
    told = rows[at].event.replace('"HPG",27000', f'"HPG",{close}')
    rows[at] = rows[at]._replace(event=told.replace('["2025', f'["{NEXT}","2025'))
    path.unlink()
    part = OpenPart(folder, 1)
    part.add(rows)
    part.close(parquet=False)

    result = played(project, str(state))

    [before, after] = result.equity
    assert [each for each in result.assumptions if "went ex" in each] == [
        f"HPG went ex on 2026-11-20: {said}"
    ]
    assert after.cash - before.cash == (200 * 1_000 if close != "null" else 0)
    assert not [each for each in result.assumptions if "alert" in each]
    bars = spec_of(Wanted(files=(project / "strategies" / "mine.yaml",), data=(state,))).source
    bought, now = result.closes["HPG"]
    held = now / bought * (28_000 / 27_000 if close != "null" else 1) - 1
    assert benchmarks_of(result, bars).buy_and_hold == held


def test_a_timer_comes_before_what_was_read_in_its_second(project: Path) -> None:
    plug_in = project / "strategies" / "deep.py"
    plug_in.write_text(WATCHER)

    decided = played(project, wake="depth: 5s, timer: ['09:21:30']", last=DAY).decisions

    plug_in.write_text(DEEP)
    assert [each.why for each in decided] == ["the last depth was of 09:21:25"]


def test_what_an_operator_or_another_run_did_then_is_not_played(project: Path) -> None:
    result = played(project, last=DAY)

    [order] = result.orders  # of two runs, each of which had one
    assert (order.strategy, order.note) == ("mine", "")
    assert not [each for each in result.assumptions if "alert" in each]


def test_days_and_states_are_named_alike(project: Path) -> None:
    days = played(project, "all/date=2026-11-19", "all/date=2026-11-20")

    assert days == played(project, "all")
    assert (days.first, days.last) == (DAY, NEXT)


def test_the_hours_that_nobody_recorded_are_named(project: Path) -> None:
    said = [f"{gap.first} {gap.what}" for gap in played(project, last=DAY).gaps]

    assert "2026-11-19 nothing was recorded from 09:00:00 to 09:20:00" in said
    assert any(each.endswith("to 14:45:00") for each in said)


def test_charts_and_benchmarks_have_the_minutes_that_the_quotes_make(project: Path) -> None:
    file = project / "strategies" / "deep.yaml"
    spec = spec_of(Wanted(files=(file,), data=(project / "all",)))
    result = run_backtest(spec)

    assert spec.source.span("HPG") == (DAY, NEXT)
    assert len(next(iter(spec.source.chunks("HPG", DAY, DAY)))) > 3
    assert benchmarks_of(result, spec.source).buy_and_hold == 0.0


def test_a_symbol_whose_depth_was_not_recorded_is_refused_at_its_place(project: Path) -> None:
    recorded = project / "quotes"
    if not recorded.exists():
        config = write_project(project / "q", scenario=QUIET, strategies=[BY_QUOTE], record=True)
        asyncio.run(tell(config, minutes=1))
        shutil.copytree(project / "q" / "state", recorded)

    with pytest.raises(OperatorMistake) as depth:
        played(project, "quotes")
    assumed = played(project, "quotes", wake="timer: ['09:20:30']").assumptions

    assert depth.value.problems[0].head.endswith(
        "mine.yaml:4:15: E-BT-005 'wake.depth': no depth of HPG was recorded, only quotes. Record "
        "a day with a strategy that wakes on its depth, or wake it by quote or bar"
    )
    assert any("no depth was recorded of HPG: its bid is the last price" in a for a in assumed)


def test_a_symbol_that_nobody_polled_is_named(project: Path) -> None:
    file = project / "strategies" / "other.yaml"
    file.write_text((project / "strategies" / "deep.yaml").read_text().replace("HPG", "FPT"))

    with pytest.raises(OperatorMistake, match="E-BT-003 nothing was recorded of FPT; there are"):
        spec_of(Wanted(files=(file,), data=(project / "all",)))


def test_bars_and_recordings_are_not_mixed_and_a_day_is_named_once(project: Path) -> None:
    with pytest.raises(OperatorMistake, match=r"E-BT-008 .* name bars alone, or recordings alone"):
        played(project, "all", "strategies")
    with pytest.raises(OperatorMistake, match=r"E-BT-008 .* 2026-11-20 is in another recording"):
        played(project, "all", "state")


def test_days_without_a_recording_name_those_with_one(project: Path) -> None:
    with pytest.raises(OperatorMistake, match="E-BT-001 --from 2026-11-20 is after --to"):
        played(project, first=NEXT, last=DAY)
    with pytest.raises(OperatorMistake, match="recorded is 2026-11-19 to 2026-11-20, wanted are"):
        played(project, first=date(2026, 11, 23))


def test_what_a_kill_left_before_it_wrote_anything_does_not_spoil_its_day(
    project: Path, tmp_path: Path
) -> None:
    shutil.copytree(project / "all", tmp_path / "recorded")
    [*_, last] = runs_of(tmp_path, DAY)
    (last / f"part-{len(parts_of(last)) + 1:04}.db").touch()
    last.with_name("run=000009").mkdir()

    assert played(project, str(tmp_path)).fills == played(project).fills


def test_a_damaged_recording_is_named_with_its_part(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "all", tmp_path / "recorded")
    [part] = parts_of(runs_of(tmp_path, NEXT)[0])
    part.write_bytes(part.read_bytes()[:-1])

    with pytest.raises(OperatorMistake, match=rf"E-REC-003 .*{part.name}.*damaged"):
        played(project, str(tmp_path))


# ------------------------------------------------------------------------------------ look-ahead


CUT = instant_of(NEXT, time(9, 21, 30))
"""Two futures share what was recorded up to here; then one falls and the other rises."""
Future = Mapping[datetime, int]
"""By the instant of a depth, its first ask."""
TRADER = """
import builtins
from datetime import timedelta

from bot import Strategy


class Deep(Strategy):
    def on_depth(self, book):
        ask = book.depth.asks[0].price
        later = getattr(builtins, "vnbot_future", {}).get(self.now + timedelta(seconds=30), ask)
        if later >= ask and self.now.minute == 21:
            self.buy(100 * (1 + self.now.second // 5), limit=ask, why=f"the ask of {self.now}")
"""


def future_of(project: Path, state: Path, step: int, *, leaks: bool) -> Future:
    """Write a recording that goes on differently after the cut; in one that leaks, each depth is
    already the next one.
    """
    shutil.copytree(project / "all" / f"date={NEXT}", state / "recorded" / f"date={NEXT}")
    [folder] = runs_of(state, NEXT)
    [path] = parts_of(folder)
    _, ways = read_head(folder)
    rows, shown = list(rows_of(path)), list[tuple[int, DepthReceived]]()
    for at, row in enumerate(rows):
        event = ways.event.read(row.event) if row.event else None
        if isinstance(event, DepthReceived):
            by = step if event.at > CUT else 0
            bids, asks = (
                tuple(replace(each, price=each.price + by) for each in side)
                for side in (event.depth.bids, event.depth.asks)
            )
            depth = replace(event.depth, bids=bids, asks=asks)
            shown.append((at, replace(event, depth=depth)))
    for (at, event), (_, after) in zip(shown, [*shown[1:], shown[-1]], strict=True):
        depth = replace(after.depth if leaks else event.depth, updated_at=event.depth.updated_at)
        rows[at] = rows[at]._replace(event=ways.event.write(replace(event, depth=depth)))
    path.unlink()
    part = OpenPart(folder, 1)
    part.add(rows)
    part.close(parquet=False)
    return {event.at: event.depth.asks[0].price for _, event in shown}


def backtested(project: Path, state: Path) -> list[object]:
    """What a backtest over a recording decides and fills up to the cut."""
    result = played(project, str(state))
    return [each for kind in (result.decisions, result.fills) for each in kind if each.at <= CUT]


def traded_again(_: Path, state: Path) -> list[object]:
    """What `bot replay --fill` orders up to the cut."""
    return [each.key for each in trade_again(state, NEXT).played if each.at <= CUT]


@every_row("run", [backtested, traded_again])
@every_row(
    "sees, leaks, is_found",
    [
        (False, False, False),
        (True, False, True),  # a strategy that reads the future
        (False, True, True),  # a market that shows it
    ],
)
def test_who_looks_ahead_in_a_recording_is_found(
    project: Path,
    run: Callable[[Path, Path], list[object]],
    tmp_path: Path,
    *,
    sees: bool,
    leaks: bool,
    is_found: bool,
) -> None:
    plug_in = project / "strategies" / "deep.py"
    plug_in.write_text(TRADER)
    found = []
    for step in (-100, 100):
        state = Path(mkdtemp(dir=tmp_path))
        future = future_of(project, state, step, leaks=leaks)
        builtins.__dict__["vnbot_future"] = future if sees else {}
        found.append(run(project, state))
    del builtins.__dict__["vnbot_future"]
    plug_in.write_text(DEEP)

    assert all(found)
    assert (found[0] != found[1]) is is_found


def test_a_day_traded_again_keeps_what_was_bought_before_a_restart(tmp_path: Path) -> None:
    config = write_project(
        tmp_path, scenario={**QUIET, "day": DAY}, strategies=[BY_DEPTH], record=True
    )
    buys_once = DEEP.replace("not self.asked", "not self.asked and not self.position")
    (tmp_path / "strategies" / "deep.py").write_text(buys_once)
    for minutes in (2, 4):
        asyncio.run(tell(config, minutes=minutes))

    counts = trade_again(tmp_path / "state", DAY).counts()

    assert counts["recorded"] == counts["the same fill"] == 1
    assert counts["only played"] == 0


def test_a_day_traded_again_keeps_what_its_run_bought_on_the_day_before(tmp_path: Path) -> None:
    config = write_project(
        tmp_path,
        scenario={**QUIET, "day": DAY, "start": "14:20:00"},
        strategies=[BY_DEPTH],
        record=True,
    )
    (tmp_path / "strategies" / "deep.py").write_text(HOLDER)
    asyncio.run(tell(config, minutes=19 * 60, answer_otp_after=timedelta(minutes=1)))

    found = [trade_again(tmp_path / "state", day) for day in (DAY, NEXT)]

    assert [[each.quantity for each in one.played] for one in found] == [[200], [300]]
    assert [one.counts()["the same fill"] for one in found] == [1, 1]
    assert [one.counts()["only played"] for one in found] == [0, 0]


@pytest.mark.parametrize("runs", [(4,), (1, 4)])
def test_an_order_that_was_cancelled_counts_once_in_a_day_traded_again(
    runs: tuple[int, ...], tmp_path: Path
) -> None:
    rests = {**BY_DEPTH, "order": {**ORDER, "expire": "3m"}}
    config = write_project(
        tmp_path, scenario={**QUIET, "day": DAY}, strategies=[rests], record=True
    )
    below = DEEP.replace("book.depth.asks[0].price", "book.depth.bids[-1].price")
    (tmp_path / "strategies" / "deep.py").write_text(below)
    for minutes in runs:
        asyncio.run(tell(config, minutes=minutes))

    compared = trade_again(tmp_path / "state", DAY)

    assert [each.state for each in compared.recorded] == ["CANCELLED"]
    assert compared.recorded[0].key == compared.played[0].key
