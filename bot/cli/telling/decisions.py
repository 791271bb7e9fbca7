"""How decisions and skips are printed."""

import re
from datetime import datetime
from typing import Final

from bot.cli.telling.memory import Lines, Memory, line
from bot.cli.telling.wording import minute_of, order_in, order_words
from bot.domain.entry import Decision, Numbers, Verdict

CHECKS_SHOWN: Final = ("MAX_ORDER_VALUE", "MAX_ORDERS", "CASH", "SELLABLE")
"""The checks whose numbers are worth a look when all have passed."""
OWN_WORDS: Final = "SKIP"
"""The code of a skip in a strategy's own words; these tell its reasons apart."""
_FIGURE: Final = re.compile(r"[-+]?\d[\d.,:]*")


def decision_lines(memory: Memory, entry: Decision) -> Lines:
    who = entry.request_id or entry.strategy
    match entry.verdict:
        case Verdict.PASSED:
            return _passed(memory, entry)
        case Verdict.SKIPPED:
            if (gap := gap_percent(entry.numbers)) is not None:
                memory.gaps[entry.strategy, entry.symbol] = gap
            if not _is_news(memory, entry):
                return []
            return [line(entry.at, "SKIP", f"{entry.symbol:<4} {entry.why}", entry.strategy)]
        case Verdict.BLOCKED:
            return _blocked(entry) if _is_news(memory, entry) else []
        case Verdict.WATCHED:
            return [
                line(entry.at, "WATCH", f"{order_in(entry)} not sent · {entry.why}", entry.strategy)
            ]
        case Verdict.HELD:
            until = entry.numbers.get("until")
            text = f"{order_in(entry)} waits for 2FA"
            if isinstance(until, str):
                text += f" until {minute_of(datetime.fromisoformat(until))}"
            return [line(entry.at, "HELD", text, who)]
        case Verdict.EXPIRED:
            reason = entry.numbers.get("reason") or entry.why
            return [line(entry.at, "EXPIRED", f"{order_in(entry)} not sent: {reason}", who)]
        case Verdict.FAILED:
            text = f"{entry.symbol:<4} {entry.code}: {entry.why}"
            return [line(entry.at, "ALERT", text, entry.strategy)]


def _passed(memory: Memory, entry: Decision) -> Lines:
    if entry.code == "CANCEL":
        return []
    memory.skips.pop((entry.strategy, entry.symbol), None)
    memory.gaps.pop((entry.strategy, entry.symbol), None)
    request = f"{entry.side or '':<4} {entry.symbol:<4} {entry.why}"
    shown = [check.text for check in entry.checks if check.text and check.code in CHECKS_SHOWN]
    numbers, many = ", ".join(shown), len(entry.checks)
    return [
        line(entry.at, "DECIDE", request, entry.strategy),
        line(entry.at, "CHECK", f"{many} of {many} ok ({numbers})", entry.strategy),
    ]


def _blocked(entry: Decision) -> Lines:
    if entry.checks:
        why = f"{entry.checks[-1].text} ({entry.code})"
    elif (reason := entry.numbers.get("reason")) is not None:
        why = str(reason)
    else:
        why = ", ".join(f"{name} {value}" for name, value in entry.numbers.items()) or entry.why
    request = order_words(side=entry.side, quantity=entry.quantity, symbol=entry.symbol)
    name = f" · {entry.request_id}" if entry.request_id else ""
    return [line(entry.at, "BLOCK", f"{request} not sent: {why}{name}", entry.strategy)]


def gap_percent(numbers: Numbers) -> float | None:
    """How far apart two values of one indicator are: `sma(5)` and `sma(20)`; else None."""
    figures = [each for each in numbers.values() if isinstance(each, int | float)]
    indicators = {name.partition("(")[0] for name in numbers}
    if len(figures) != 2 or len(numbers) != 2 or len(indicators) != 1 or not all(figures):
        return None
    return 100 * abs(figures[0] - figures[1]) / max(map(abs, figures))


def _is_news(memory: Memory, entry: Decision) -> bool:
    """Whether this skip has not been shown since something else happened there."""
    shown = memory.skips.setdefault((entry.strategy, entry.symbol), set())
    words = _FIGURE.sub("#", entry.why) if entry.code == OWN_WORDS else ""
    reason = f"{entry.verdict} {entry.code} {words}"
    is_news = reason not in shown
    shown.add(reason)
    return is_news
