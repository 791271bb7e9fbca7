"""What a backtest is refused for before its first event: all of it at once, at its place."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from bot.config.problems import OperatorMistake, Problem
from bot.config.yaml_file import Location, YamlDocument, read_yaml
from bot.domain.plan import StrategyPlan
from bot.runtime.history.backtest.result import BacktestSpec
from bot.runtime.history.recording.recorded_days import RecordedDays


def require_possible(spec: BacktestSpec) -> None:
    """Raise OperatorMistake with all that keeps a backtest from running."""
    if problems := [*_of_range(spec), *_of_strategies(spec)]:
        raise OperatorMistake(problems)


def _of_range(spec: BacktestSpec) -> Iterator[Problem]:
    first, last, calendar = spec.first, spec.last, spec.rulebook.calendar
    covered = f"{min(calendar.years)}-01-01 to {max(calendar.years)}-12-31"
    if first > last:
        yield Problem("E-BT-001", f"--from {first} is after --to {last}: turn them round")
        return
    for option, day in (("--from", first), ("--to", last)):
        if not calendar.covers(day):
            text = f"{option} {day}: the calendar knows the trading days of {covered}; choose a day"
            yield Problem("E-BT-002", f"{text} in it, or add the years in market_rules")


def _of_strategies(spec: BacktestSpec) -> Iterator[Problem]:
    source, have = spec.source, spec.source.symbols()
    for plan in (each.plan for each in spec.strategies):
        document = _document(plan)
        if spec.recorded is not None:
            yield from _of_recording(plan, document, spec.recorded)
            continue
        for index, symbol in enumerate(plan.symbols):
            span = source.span(symbol)
            if span is None:
                text = f"there are no bars of {symbol}; there are some of {_some(have)}"
                yield document.at_value(
                    "E-BT-003", f"{text}. bot data list shows all", ("symbols", index)
                )
            elif span[1] < spec.first or spec.last < span[0]:
                text = (
                    f"the bars of {symbol} are of {span[0]} to {span[1]}, wanted are {spec.first}"
                )
                text += f" to {spec.last}: choose days in that range"
                yield document.at_value("E-BT-004", text, ("symbols", index))
        yield from _of_wake(plan, document, source.width)


def _of_recording(
    plan: StrategyPlan, document: YamlDocument, recorded: RecordedDays
) -> Iterator[Problem]:
    """A recording has what its bot polled: a symbol or a depth that none wanted is not in it."""
    for index, symbol in enumerate(plan.symbols):
        place: Location = ("symbols", index)
        if symbol not in recorded.quotes:
            text = f"nothing was recorded of {symbol}; there are quotes of"
            text = f"{text} {_some(tuple(sorted(recorded.quotes)))}"
            yield document.at_value("E-BT-003", f"{text}. Leave it out, or record it", place)
        elif plan.wake.depth is not None and symbol not in recorded.deep:
            text = (
                f"'wake.depth': no depth of {symbol} was recorded, only quotes. Record a day with"
            )
            text = f"{text} a strategy that wakes on its depth, or wake it by quote or bar"
            yield document.at_value("E-BT-005", text, ("wake", "depth"))


def _of_wake(plan: StrategyPlan, document: YamlDocument, width: timedelta) -> Iterator[Problem]:
    wake, shown = plan.wake, words_of(width)

    def wrong(key: str, text: str) -> Problem:
        place: Location = ("wake", key)
        return document.at_value("E-BT-005", text, place)

    if wake.depth is not None:
        text = (
            "'wake.depth': bars hold no depth. Name a recorded day (--data STATE_DIR/recorded, of a"
        )
        yield wrong("depth", f"{text} run with record: on), or wake it by bar")
    if wake.quote is not None and wake.quote < width:
        text = f"'wake.quote' {words_of(wake.quote)}: bars of {shown} show a price each {shown}."
        yield wrong("quote", f"{text} Take finer bars, or wake it by bar")
    if wake.bar is not None and wake.bar < width:
        text = (
            f"'wake.bar' {words_of(wake.bar)}: the bars are of {shown}, and none is cut in parts."
        )
        yield wrong("bar", f"{text} Take finer bars, or a width of {shown} and more")
    elif wake.bar is not None and wake.bar % width:
        text = f"'wake.bar' {words_of(wake.bar)} is no multiple of the bars' {shown}"
        yield wrong("bar", f"{text}: choose one")


def _document(plan: StrategyPlan) -> YamlDocument:
    """Return the strategy's file, to point at; one without lines where it can't be read again."""
    try:
        return read_yaml(Path(plan.source))
    except OperatorMistake:
        return YamlDocument(plan.source, "", {})


def _some(symbols: tuple[str, ...]) -> str:
    shown = ", ".join(symbols[:8])
    more = len(symbols) - 8
    return (f"{shown} and {more} more" if more > 0 else shown) or "no symbol at all"


def words_of(width: timedelta) -> str:
    """Return a width as a strategy file writes it: 1m, 1h, 24h."""
    seconds = round(width.total_seconds())
    for unit, name in ((3_600, "h"), (60, "m")):
        if seconds % unit == 0:
            return f"{seconds // unit}{name}"
    return f"{seconds}s"
