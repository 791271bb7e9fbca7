from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path

import pytest

from bot import Strategy
from bot.domain.entry import Verdict
from bot.domain.instrument import Exchange
from bot.domain.order import OrderState, OrderType, Side
from bot.domain.plan import Limits, OrderPlan
from bot.domain.quote import Bar, Depth, DepthLevel
from bot.strategy import FROM_FILE, Context, DepthView, PositionView, Request, RequestKind
from bot.testing import play, read_bars


def _context(qty=0):
    context = Context("HPG", "mine")
    context.position = PositionView(qty, qty, qty * 27_000)
    return context


def test_requests_lie_in_the_context_until_they_are_taken():
    context = _context(200)
    strategy = Strategy(context)

    strategy.buy(why="up")
    strategy.buy(100, limit=27_000)
    strategy.sell(market="MTL")
    strategy.close(limit=None)
    strategy.cancel()
    strategy.skip("enough")

    assert context.requests == [
        Request(RequestKind.BUY, None, FROM_FILE, None, "up"),
        Request(RequestKind.BUY, 100, 27_000),
        Request(RequestKind.SELL, None, FROM_FILE, OrderType.MTL),
        Request(RequestKind.CLOSE, None, None),
        Request(RequestKind.CANCEL),
        Request(RequestKind.SKIP, why="enough"),
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"limit": 27_000.5}, TypeError),
        ({"limit": "27000"}, TypeError),
        ({"quantity": 1.5}, TypeError),
        ({"quantity": True}, TypeError),
        ({"quantity": FROM_FILE}, TypeError),
        ({"market": "NOW"}, ValueError),
        ({"market": "MTL", "limit": 27_000}, ValueError),
        ({"quantity": 10**20}, ValueError),
        ({"limit": -(10**20)}, ValueError),
        ({"why": object()}, TypeError),
        ({"why": 5}, TypeError),
    ],
)
def test_a_request_that_is_no_order_raises_where_it_is_made(arguments, error):
    strategy = Strategy(_context())

    with pytest.raises(error):
        strategy.buy(**arguments)

    assert strategy.context.requests == []


class Text(str):
    """A plug-in's own kind of text, with a bug."""

    __slots__ = ()

    def __str__(self) -> str:
        raise ZeroDivisionError


class Number(IntEnum):
    LOT = 100

    def __format__(self, spec: str) -> str:
        raise ZeroDivisionError


def test_a_plug_ins_own_kinds_of_text_and_number_end_where_they_are_given():
    strategy = Strategy(_context())

    strategy.buy(Number.LOT, limit=Number.LOT, why=Text("its own"))

    [request] = strategy.context.requests
    given = request.quantity, request.limit, request.why
    assert given == (100, 100, "its own")
    assert [type(each) for each in given] == [int, int, str]


def test_of_an_endless_reason_the_beginning_is_kept():
    strategy = Strategy(_context())

    strategy.skip("x" * 1_000_000)

    assert strategy.context.requests[0].why == "x" * 1_000 + "… (1,000,000 characters)"


@pytest.mark.parametrize("ask", [Strategy.sell, Strategy.cancel, Strategy.skip])
def test_a_reason_that_is_no_text_raises_where_it_is_given(ask):
    strategy = Strategy(_context())

    with pytest.raises(TypeError, match="why must be a text, not 5"):
        ask(strategy, why=5)

    assert strategy.context.requests == []


def test_a_strategy_knows_its_name_and_symbol_and_no_more():
    strategy = Strategy(_context())

    assert (strategy.name, strategy.symbol) == ("mine", "HPG")
    assert (strategy.now, strategy.phase, strategy.quote, strategy.depth) == (None,) * 4
    assert not strategy.position
    assert strategy.position.average_price == 0
    assert strategy.account.cash == 0


def test_a_depth_view_sums_the_best_levels_and_notes_what_was_read():
    levels = tuple(DepthLevel(27_000 - 50 * n, 1_000) for n in range(3))
    view = DepthView(Depth("HPG", levels, (), None))

    assert (view.bid, view.ask) == (27_000, None)
    assert (view.bid_volume(2), view.ask_volume(3)) == (2_000, 0)
    assert view.reads == {"bid_volume(2)": 2_000, "ask_volume(3)": 0}


def test_all_hooks_are_optional():
    strategy = Strategy()

    for hook in ("on_start", "on_stop"):
        assert getattr(strategy, hook)() is None


# ------------------------------------------------------------------------------------------- play


class BuyAndHold(Strategy):
    size: int = 100

    def on_bar(self, bar):
        if not self.position:
            self.buy(self.size, limit=bar.close)


def _bars(*closes, volume=1_000):
    start = datetime(2026, 11, 19, 2, 30, tzinfo=UTC).timestamp()
    return [
        Bar("HPG", datetime.fromtimestamp(start + 60 * n, UTC), 60, c, c + 50, c - 50, c, volume)
        for n, c in enumerate(closes)
    ]


CSV = """time,open,high,low,close,volume
2026-11-19 09:30,27000,27050,26950,27000,1200
2026-11-19 09:31,27000,27100,27000,27100,900
2026-11-19 09:33,27100,27100,27000,27050,300
"""


def test_three_lines_are_a_test(tmp_path: Path):
    (tmp_path / "HPG.csv").write_text(CSV)

    r = play(BuyAndHold, bars=tmp_path / "HPG.csv", size=200)

    assert r.orders[0].side == "BUY"
    assert (r.orders[0].symbol, r.orders[0].quantity, r.orders[0].price) == ("HPG", 200, 27_000)
    assert (r.fills[0].quantity, r.fills[0].amount) == (200, 5_400_000)


def test_bars_are_read_with_their_width_and_in_utc(tmp_path: Path):
    (tmp_path / "HPG.csv").write_text(CSV)

    first, *_, last = read_bars(tmp_path / "HPG.csv")

    start = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
    assert first == Bar("HPG", start, 60, 27_000, 27_050, 26_950, 27_000, 1_200)
    assert last.start == datetime(2026, 11, 19, 2, 33, tzinfo=UTC)


def test_an_empty_file_says_so(tmp_path: Path):
    (tmp_path / "HPG.csv").write_text("time,open,high,low,close,volume\n")

    with pytest.raises(ValueError, match=r"HPG\.csv holds no bar"):
        read_bars(tmp_path / "HPG.csv")


def test_bars_with_the_newest_first_are_played_like_those_with_the_oldest_first(tmp_path: Path):
    head, *rows = CSV.strip().splitlines()
    (tmp_path / "HPG.csv").write_text(CSV)
    (tmp_path / "turned").mkdir()
    (tmp_path / "turned" / "HPG.csv").write_text("\n".join(["\ufeff" + head, *reversed(rows)]))

    assert read_bars(tmp_path / "turned" / "HPG.csv") == read_bars(tmp_path / "HPG.csv")


def test_a_time_with_its_zone_is_taken_as_it_says(tmp_path: Path):
    row = "2026-11-19T02:30:00+00:00,27000,27050,26950,27000,1200\n"
    (tmp_path / "HPG.csv").write_text("time,open,high,low,close,volume\n" + row)

    [bar] = read_bars(tmp_path / "HPG.csv")

    assert bar.start == datetime(2026, 11, 19, 2, 30, tzinfo=UTC)


def test_two_bars_of_one_time_and_no_bar_at_all_are_named(tmp_path: Path):
    head, first, *_ = CSV.strip().splitlines()
    (tmp_path / "HPG.csv").write_text("\n".join([head, first, first]))

    with pytest.raises(ValueError, match=r"HPG\.csv holds two bars of 2026-11-19"):
        read_bars(tmp_path / "HPG.csv")
    with pytest.raises(ValueError, match="at least one bar"):
        play(BuyAndHold, bars=[])


def test_an_order_fills_in_a_later_bar_that_reaches_it():
    r = play(BuyAndHold, bars=_bars(27_000, 27_200, 27_200, 27_000))

    assert r.orders[0].state is OrderState.FILLED
    assert r.fills[0].at == datetime(2026, 11, 19, 2, 34, tzinfo=UTC)


def test_limits_block_in_a_play_as_anywhere():
    r = play(BuyAndHold, bars=_bars(27_000), limits=Limits(max_order_value=1))

    assert r.of(Verdict.BLOCKED)[0].code == "MAX_ORDER_VALUE"
    assert r.orders == ()


def test_what_a_hook_raises_is_raised_in_the_test():
    class Broken(Strategy):
        def on_bar(self, _bar):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(Broken, bars=_bars(27_000))


class CancelsThenSells(Strategy):
    def on_bar(self, bar):
        if not self.position and bar.close == 27_000:
            self.buy()
        elif self.position:
            self.close(market="MTL")
        else:
            self.cancel(why="too far")


def test_cancels_and_market_orders_play_too():
    r = play(
        CancelsThenSells,
        bars=_bars(27_000, 27_300, 27_000, 27_000, 27_100),
        settled_shares=100,
        order=OrderPlan(),
        exchange=Exchange.HOSE,
    )

    assert [(one.side, one.state) for one in r.orders] == [
        (Side.BUY, OrderState.CANCELLED),
        (Side.BUY, OrderState.FILLED),
        (Side.SELL, OrderState.FILLED),
    ]


class SellsAtOnce(Strategy):
    def on_bar(self, bar):
        self.sell(100, limit=bar.close)


def test_settled_shares_are_the_accounts_and_no_strategy_sells_them():
    r = play(SellsAtOnce, bars=_bars(27_000, 27_000), settled_shares=1_000)

    assert {one.code for one in r.of(Verdict.BLOCKED)} <= {"SELLABLE", "PHASE"}
    assert "SELLABLE" in {one.code for one in r.decisions}
    assert r.orders == ()
    told = " ".join(str(play.__doc__).split())
    assert "are the account's: with them the strategy sells on the same day what it bought" in told
