"""The lines of what strategies wished for, and of their noes."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from bot.cli.telling.memory import Lines, Memory, line
from bot.cli.telling.wording import minute_of, order_words
from bot.domain.entry import Decision, Numbers, Verdict

CHECKS_SHOWN: Final = ("MAX_ORDER_VALUE", "MAX_ORDERS", "CASH", "SELLABLE")
"""The checks whose numbers a person wants to see when all have passed."""
OWN_WORDS: Final = "SKIP"
"""The code of a no in a strategy's own words; these tell its reasons apart."""
_FIGURE: Final = re.compile(r"[-+]?\d[\d.,:]*")


def tell_decision(memory: Memory, entry: Decision) -> Lines:
    """Tell one decision."""
    return _VERDICTS[entry.verdict](memory, entry)


def _passed(memory: Memory, entry: Decision) -> Lines:
    if entry.code == "CANCEL":
        return []
    memory.told_noes.pop((entry.strategy, entry.symbol), None)
    memory.gaps.pop((entry.strategy, entry.symbol), None)
    wish = f"{entry.side or '':<4} {entry.symbol:<4} {entry.why}"
    shown = {check.code: check.text for check in entry.checks if check.text}
    numbers = ", ".join(shown[code] for code in CHECKS_SHOWN if code in shown)
    many = len(entry.checks)
    return [
        line(entry.at, "DECIDE", wish, entry.strategy),
        line(entry.at, "CHECK", f"{many} of {many} ok ({numbers})", entry.strategy),
    ]


def _skipped(memory: Memory, entry: Decision) -> Lines:
    gap = gap_percent(entry.numbers)
    if gap is not None:
        memory.gaps[entry.strategy, entry.symbol] = gap
    if not _is_news(memory, entry):
        return []
    return [line(entry.at, "SKIP", f"{entry.symbol:<4} {entry.why}", entry.strategy)]


def _blocked(memory: Memory, entry: Decision) -> Lines:
    if not _is_news(memory, entry):
        return []
    wish = order_words(side=entry.side, quantity=entry.quantity, symbol=entry.symbol)
    text = f"{wish} not sent: {_why_blocked(entry)}"
    name = f" · {entry.request_id}" if entry.request_id else ""
    return [line(entry.at, "BLOCK", text + name, entry.strategy)]


def _watched(_memory: Memory, entry: Decision) -> Lines:
    return [line(entry.at, "WATCH", f"{_wish(entry)} not sent · {entry.why}", entry.strategy)]


def _held_back(_memory: Memory, entry: Decision) -> Lines:
    until = entry.numbers.get("until")
    limit = _until(until) if isinstance(until, str) else ""
    text = f"{_wish(entry)} waits for 2FA{limit}"
    return [line(entry.at, "HELD", text, entry.request_id or entry.strategy)]


def _expired(_memory: Memory, entry: Decision) -> Lines:
    reason = entry.numbers.get("reason") or entry.why
    who = entry.request_id or entry.strategy
    return [line(entry.at, "EXPIRED", f"{_wish(entry)} not sent: {reason}", who)]


def _failed(_memory: Memory, entry: Decision) -> Lines:
    text = f"{entry.symbol:<4} {entry.code}: {entry.why}"
    return [line(entry.at, "ALERT", text, entry.strategy)]


def gap_percent(numbers: Numbers) -> float | None:
    """How far apart two values of one indicator stand: `sma(5)` and `sma(20)`; else None."""
    figures = [each for each in numbers.values() if isinstance(each, int | float)]
    indicators = {name.partition("(")[0] for name in numbers}
    if len(figures) != 2 or len(numbers) != 2 or len(indicators) != 1 or not all(figures):
        return None
    return 100 * abs(figures[0] - figures[1]) / max(map(abs, figures))


def _is_news(memory: Memory, entry: Decision) -> bool:
    """Whether this no has not been told since something else happened there."""
    told = memory.told_noes.setdefault((entry.strategy, entry.symbol), set())
    words = _FIGURE.sub("#", entry.why) if entry.code == OWN_WORDS else ""
    reason = f"{entry.verdict} {entry.code} {words}"
    is_news = reason not in told
    told.add(reason)
    return is_news


def _until(instant: str) -> str:
    return f" until {minute_of(datetime.fromisoformat(instant))}"


def _wish(entry: Decision) -> str:
    return order_words(
        side=entry.side,
        quantity=entry.quantity,
        symbol=entry.symbol,
        order_type=entry.order_type,
        price=entry.price,
    )


def _why_blocked(entry: Decision) -> str:
    if entry.checks:
        return f"{entry.checks[-1].text} ({entry.code})"
    reason = entry.numbers.get("reason")
    if reason is not None:
        return str(reason)
    return ", ".join(f"{name} {value}" for name, value in entry.numbers.items()) or entry.why


_VERDICTS: Final[Mapping[Verdict, Callable[[Memory, Decision], Lines]]] = {
    Verdict.PASSED: _passed,
    Verdict.SKIPPED: _skipped,
    Verdict.BLOCKED: _blocked,
    Verdict.WATCHED: _watched,
    Verdict.HELD: _held_back,
    Verdict.EXPIRED: _expired,
    Verdict.FAILED: _failed,
}
