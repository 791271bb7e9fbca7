"""What ends or turns at one instant wakes strategies in one order: live, and in a backtest."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar, Final

import pytest

from bot.domain.instrument import Exchange, Instrument, Phase
from bot.domain.message import (
    Event,
    InstrumentsRead,
    PhaseChanged,
    QuoteReceived,
    Reconciled,
    Recovered,
)
from bot.domain.plan import StrategyPlan, Wake
from bot.domain.quote import Quote
from bot.domain.recovery import Recovery
from bot.engine.engine import Engine
from bot.engine.settings import EngineSettings, LoadedStrategy, invoke_plainly
from bot.runtime.history.backtest.result import BacktestSpec
from bot.runtime.history.backtest.run import run_backtest
from bot.strategy import BarView, Strategy
from tests.engine.stage import PLAN, RULEBOOK
from tests.runtime.history.backtest.listed import DAY, MINUTE, Written, backtest, bar, clock

POLL: Final = timedelta(seconds=20)
PRICES: Final = {"FPT": 100_000, "HPG": 27_000}


class Told(Strategy):
    """Tells what wakes it."""

    calls: ClassVar[list[tuple[str, str, str, str]]] = []

    def _tell(self, hook: str) -> None:
        assert self.now is not None
        self.calls.append((clock(self.now), self.name, self.symbol, hook))

    def on_bar(self, _bar: BarView) -> None:
        self._tell("on_bar")

    def on_quote(self, _quote: Quote) -> None:
        self._tell("on_quote")

    def on_session(self, _phase: Phase) -> None:
        self._tell("on_session")


def _loaded(plans: Sequence[StrategyPlan]) -> list[LoadedStrategy]:
    return [
        LoadedStrategy(each, Told, tuple(Instrument(name, Exchange.HOSE) for name in each.symbols))
        for each in plans
    ]


def _events(symbols: Sequence[str]) -> Iterator[Event]:
    """A quote of each symbol every twenty seconds, and the phase as soon as it turns."""
    at, until, phase = bar("14:20", 1).start, bar("14:31", 1).start, Phase.CLOSED
    yield Recovered(at, Recovery(DAY))
    yield InstrumentsRead(at, tuple(Instrument(symbol, Exchange.HOSE) for symbol in symbols))
    yield Reconciled(at)
    while at < until:
        if (now := RULEBOOK.phase_at(Exchange.HOSE, at)) is not phase:
            phase = now
            yield PhaseChanged(at, Exchange.HOSE, phase)
        for symbol in symbols:
            last = PRICES[symbol]
            band = RULEBOOK.band(Instrument(symbol, Exchange.HOSE), last)
            prices = (last, last, band.ceiling, band.floor, last, last, last)
            yield QuoteReceived(at, Quote(symbol, Exchange.HOSE, *prices, 1_000, at))
        at += POLL


def _live(plans: Sequence[StrategyPlan]) -> list[tuple[str, str, str, str]]:
    Told.calls.clear()
    engine = Engine(
        rulebook=RULEBOOK,
        strategies=_loaded(plans),
        settings=EngineSettings(),
        invoke=invoke_plainly,
    )
    for event in _events(sorted(PRICES)):
        engine.handle(event)
    return _of_ten_minutes()


def _tested(plans: Sequence[StrategyPlan], why_slow: str) -> list[tuple[str, str, str, str]]:
    Told.calls.clear()
    bars = [
        bar(f"14:{minute}", price, symbol=symbol)
        for symbol, price in PRICES.items()
        for minute in range(15, 35)
    ]
    spec = BacktestSpec(
        strategies=tuple(_loaded(plans)),
        rulebook=RULEBOOK,
        settings=EngineSettings(),
        source=Written(bars),
        first=DAY,
        last=DAY,
        cash=100_000_000,
        holdings={},
        fill="queue",
    )
    run_backtest(spec, invoke=invoke_plainly, why_slow=why_slow)
    return _of_ten_minutes()


def _of_ten_minutes() -> list[tuple[str, str, str, str]]:
    return [each for each in Told.calls if "14:21:30" < each[0] <= "14:30:00"]


def test_a_bar_then_the_phase_and_then_a_quote_wake_at_one_instant() -> None:
    wake = Wake(bar=MINUTE, quote=MINUTE, on_phase=True)
    plans = [replace(PLAN, wake=wake)]

    live = _live(plans)

    assert [each[-1] for each in live if each[0] == "14:30:00"] == [
        "on_bar",
        "on_session",
        "on_quote",
    ]
    assert _tested(plans, "") == live


@pytest.mark.parametrize("why_slow", ["", "it is to be compared"])
def test_bars_that_end_together_wake_in_the_order_of_strategies_and_their_symbols(
    why_slow: str,
) -> None:
    plans = [
        replace(PLAN, name="wide", symbols=("HPG", "FPT"), wake=Wake(bar=5 * MINUTE)),
        replace(PLAN, name="narrow", symbols=("FPT", "HPG"), wake=Wake(bar=MINUTE)),
    ]

    live = _live(plans)

    assert [each[1:3] for each in live if each[0] == "14:25:00"] == [
        ("wide", "HPG"),
        ("wide", "FPT"),
        ("narrow", "FPT"),
        ("narrow", "HPG"),
    ]
    assert _tested(plans, why_slow) == live


SHARES: Final = {"ACV": 52_000, "HPG": 27_000, "SHS": 18_200}
"""Of UPCOM, HOSE and HNX."""


def _told_at_noon(wake: Wake) -> list[tuple[str, str, str, str]]:
    Told.calls.clear()
    bars = [
        bar(clock, price, symbol=symbol)
        for symbol, price in SHARES.items()
        for clock in ("11:28", "11:29", "13:00", "13:01")
    ]
    backtest(Told, bars, wake=wake)
    return Told.calls


def test_exchanges_that_turn_together_are_told_in_the_order_of_their_names() -> None:
    told = _told_at_noon(Wake(on_phase=True))

    turned = [symbol for at, _, symbol, _ in told if at == "11:30:00"]
    assert turned == ["SHS", "HPG", "ACV"]  # HNX, HOSE, UPCOM


def test_no_quote_wakes_in_the_break() -> None:
    told = _told_at_noon(Wake(quote=MINUTE))

    assert {at for at, *_ in told if "11:28:00" < at < "13:02:00"} == {
        *("11:29:00", "13:00:00", "13:01:00")
    }
