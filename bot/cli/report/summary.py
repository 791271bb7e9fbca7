"""A backtest's result on one screen, in plain words, and the same figures as JSON.

Every result names its model, its assumptions and what was missing; an unknown figure is a dash,
with a reason where the reader would expect one.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from bot.cli.rows import Plain, plain
from bot.cli.telling.wording import counted
from bot.domain.quote import width_name
from bot.runtime.history.backtest.figures import (
    CONVENTIONS,
    RATIO_DAYS_MIN,
    YEAR_DAYS_MIN,
    Drawdown,
    Figures,
)
from bot.runtime.history.backtest.result import BacktestResult
from bot.runtime.history.bars import Gap

DASH = "–"
GAPS_SHOWN = 5
CODES_SHOWN = 6
_LABEL = 13


def summary_lines(result: BacktestResult, figures: Figures) -> Iterator[str]:
    """Yield the lines of a result for the screen."""
    yield headline(result)
    for label, text in sections(result, figures):
        yield f"  {label:<{_LABEL}}{text}"
    for number, sentence in enumerate((*result.assumptions, *CONVENTIONS)):
        yield f"  {'' if number else 'assumed':<{_LABEL}}{sentence}"
    if not result.gaps:
        yield f"  {'missing':<{_LABEL}}nothing known"
    for number, gap in enumerate(result.gaps[:GAPS_SHOWN]):
        yield f"  {'' if number else 'missing':<{_LABEL}}{gap_words(gap)}"
    if (left := len(result.gaps) - GAPS_SHOWN) > 0:
        yield f"  {'':<{_LABEL}}and {counted(left, 'more gap')} (for all: --json, or the page)"


def headline(result: BacktestResult) -> str:
    """Describe what was run on what: names, symbols, days, width and number of the bars."""
    names = ", ".join(f"{plan.name} ({plan.use})" for plan in result.plans)
    symbols = ", ".join(sorted({symbol for plan in result.plans for symbol in plan.symbols}))
    bars = f"{result.bars:,} bars of {width_name(timedelta(seconds=result.bar_seconds))}"
    if result.looks:
        bars = f"{result.looks:,} recorded quotes and depths"
    return f"backtest of {names} on {symbols} · {result.first} to {result.last} · {bars}"


def sections(result: BacktestResult, figures: Figures) -> Iterator[tuple[str, str]]:
    """Yield label and text of each figure, for the screen and for the page."""
    change = f"{figures.profit:+,} VND, {percent(figures.total_return)}"
    yield "account", f"{figures.capital:,} -> {figures.equity:,} VND  ({change})"
    year = percent(figures.year_return)
    if figures.year_return is None:
        year += f" (needs {YEAR_DAYS_MIN} days, there are {figures.days})"
    yield "a year", year
    index = f" · VN-Index {percent(figures.index_return)}"
    index = index if figures.index_return is not None else ""
    yield "buy and hold", f"{percent(figures.buy_and_hold)} for the same symbols{index}"
    yield "drawdown", drawdown_words(figures.drawdown)
    ratios = f"Sharpe {ratio(figures.sharpe)} · Sortino {ratio(figures.sortino)}"
    if figures.days < RATIO_DAYS_MIN:
        ratios += f" (needs {RATIO_DAYS_MIN} days, there are {figures.days})"
    yield "ratios", ratios
    yield "trades", _trade_words(figures)
    yield (
        "invested",
        (
            f"{percent(figures.days_invested, signed=False)} of the days, "
            f"{percent(figures.money_invested, signed=False)} of the money on average · "
            f"turnover {ratio(figures.turnover)} times the account"
        ),
    )
    costs = figures.costs
    unpriced = (
        f" ({counted(costs.unpriced, 'fill')} without a visible price)" if costs.unpriced else ""
    )
    yield (
        "costs",
        (
            f"{costs.total:,} VND: fee {costs.fee:,}, tax {costs.tax:,}, "
            f"slippage {costs.slippage:+,}{unpriced}"
        ),
    )
    worst = " · ".join(f"{day.day} {percent(day.gain)}" for day in figures.worst_days)
    yield "worst days", worst or "no day lost money"
    yield (
        "orders",
        (
            f"{figures.orders:,} sent: {figures.orders_filled:,} filled, "
            f"{figures.orders_cancelled:,} cancelled or lapsed, "
            f"{sum(figures.rejected.values()):,} rejected{_counted(figures.rejected)}"
        ),
    )
    yield (
        "refused",
        f"{sum(figures.refused.values()):,} before they were sent{_counted(figures.refused)}",
    )
    yield "T+2", f"{counted(figures.unsettled_exits, 'exit')} came before the shares had settled"
    if result.why_slow:
        yield "slow gear", result.why_slow


def summary_json(result: BacktestResult, figures: Figures) -> Plain:
    """Return the result's figures under stable keys; None for unknown ones."""
    shown = plain(figures)
    assert isinstance(shown, dict), "figures are a frozen value"
    shown["costs"]["total"] = figures.costs.total
    return {
        "strategies": [
            {
                "name": plan.name,
                "use": plan.use,
                "symbols": list(plan.symbols),
                "params": dict(plan.parameters),
                "sha256": plan.source_sha256,
            }
            for plan in result.plans
        ],
        "first": result.first.isoformat(),
        "last": result.last.isoformat(),
        "bars": result.bars,
        "bar_seconds": result.bar_seconds,
        "looks": result.looks,
        "figures": shown,
        "decisions": dict(result.counts),
        "assumptions": [*result.assumptions, *CONVENTIONS],
        "gaps": plain(result.gaps),
        "why_slow": result.why_slow,
    }


def percent(value: float | None, *, signed: bool = True) -> str:
    """Return a ratio as percent with two decimals, a dash for None."""
    if value is None:
        return DASH
    return f"{value * 100:+.2f} %" if signed else f"{value * 100:.1f} %"


def ratio(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def drawdown_words(found: Drawdown | None) -> str:
    if found is None:
        return f"{DASH} (the account never fell below its highest close)"
    back = f"back on {found.recovered}" if found.recovered else "not back by the end"
    return (
        f"{percent(found.depth)} from {found.peak} to {found.trough}, {back}: "
        f"{counted(found.days, 'trading day')}"
    )


def _trade_words(figures: Figures) -> str:
    if not figures.trades:
        text = "none closed, so no hit rate"
    else:
        wins = percent(figures.hit_rate, signed=False)
        text = f"{figures.trades:,} closed, {wins} won"
        means = [("win", figures.mean_win), ("loss", figures.mean_loss)]
        told = [f"mean {word} {mean:+,.0f}" for word, mean in means if mean is not None]
        text = " · ".join([text, *told])
    if figures.open_positions:
        text += f" · {figures.open_positions} still open"
    if figures.unmatched_shares:
        text += f" · {counted(figures.unmatched_shares, 'share')} sold that no trade had bought"
    return text


def _counted(codes: Mapping[str, int]) -> str:
    """Return `: 12 CASH, 3 BAND`, the most frequent codes; empty without any."""
    shown = [f"{count:,} {code}" for code, count in list(codes.items())[:CODES_SHOWN]]
    left = len(codes) - len(shown)
    return f": {', '.join(shown)}{f' and {left} more' if left else ''}" if shown else ""


def gap_words(gap: Gap) -> str:
    days = gap.first if gap.first == gap.last else f"{gap.first} to {gap.last}"
    return f"{gap.symbol} {days}: {gap.what}"
