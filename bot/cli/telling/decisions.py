"""How decisions and skips are printed."""

import re
from datetime import datetime
from typing import Final

from bot.cli.telling.memory import Lines, Memory, line
from bot.cli.telling.wording import minute_of, order_in, order_words
from bot.domain.entry import Decision, Numbers, Verdict

CHECKS_SHOWN: Final = ("MAX_ORDER_VALUE", "MAX_ORDERS", "CASH", "SELLABLE")
"""The checks whose numbers are worth showing when all have passed."""
OWN_WORDS: Final = "SKIP"
"""The code of a skip in a strategy's own words, by which its reasons are distinguished."""
REASONS_MAX: Final = 1_000
"""How many different reasons are counted between two pulses."""
VERDICT: Final = "VERDICT_"
"""Prefix of the codes of a verdict's checks."""
_FIGURE: Final = re.compile(r"[-+]?\d[\d.,:]*")


def decision_lines(memory: Memory, entry: Decision) -> Lines:
    order, who = order_in(entry), entry.request_id or entry.strategy
    at, place = entry.at, (entry.strategy, entry.symbol)
    match entry.verdict:
        case Verdict.PASSED:
            if entry.code == "CANCEL":
                return []
            memory.skips.pop(place, None)
            memory.gaps.pop(place, None)
            shown = [each.text for each in entry.checks if each.text and each.code in CHECKS_SHOWN]
            numbers, many = ", ".join(shown), len(entry.checks)
            request = f"{entry.side or '':<4} {entry.symbol:<4} {entry.why}"
            return [
                line(at, "DECIDE", request, entry.strategy),
                line(at, "CHECK", f"{many} of {many} ok ({numbers})", entry.strategy),
            ]
        case Verdict.SKIPPED:
            _count(memory, entry)
            if (gap := gap_percent(entry.numbers)) is not None:
                memory.gaps[place] = gap
            skip = line(at, "SKIP", f"{entry.symbol:<4} {entry.why}", entry.strategy)
            return [skip] if _is_news(memory, entry) else []
        case Verdict.BLOCKED:
            _count(memory, entry)
            if not _is_news(memory, entry):
                return []
            why = ", ".join(f"{name} {value}" for name, value in entry.numbers.items()) or entry.why
            if entry.checks:
                why = f"{entry.checks[-1].text} ({entry.code})"
            elif (reason := entry.numbers.get("reason")) is not None:
                why = str(reason)
            return [line(at, "BLOCK", _blocked(entry, why), entry.strategy)]
        case Verdict.WATCHED:
            return [line(at, "WATCH", f"{order} not sent · {entry.why}", entry.strategy)]
        case Verdict.HELD:
            until = entry.numbers.get("until")
            ends = datetime.fromisoformat(until) if isinstance(until, str) else None
            limit = f" until {minute_of(ends)}" if ends else ""
            return [line(at, "HELD", f"{order} waits for 2FA{limit}", who)]
        case Verdict.EXPIRED:
            reason = entry.numbers.get("reason") or entry.why
            return [line(at, "EXPIRED", f"{order} not sent: {reason}", who)]
        case Verdict.FAILED:
            text = f"{entry.symbol:<4} {entry.code}: {entry.why}"
            return [line(at, "ALERT", text, entry.strategy)]


def _blocked(entry: Decision, why: str) -> str:
    """Describe what was not done: a verdict is a person's statement about an order, with nothing to
    send.
    """
    if entry.code.startswith(VERDICT):
        return f"the verdict on {entry.request_id or 'an order'} was refused: {why}"
    request = order_words(side=entry.side, quantity=entry.quantity, symbol=entry.symbol)
    name = f" · {entry.request_id}" if entry.request_id else ""
    return f"{request} not sent: {why}{name}"


def gap_percent(numbers: Numbers) -> float | None:
    """The distance between two values of one indicator, such as `sma(5)` and
    `sma(20)`; else None.
    """
    figures = [each for each in numbers.values() if isinstance(each, int | float)]
    indicators = {name.partition("(")[0] for name in numbers}
    if len(figures) != 2 or len(numbers) != 2 or len(indicators) != 1 or not all(figures):
        return None
    return 100 * abs(figures[0] - figures[1]) / max(map(abs, figures))


def _count(memory: Memory, entry: Decision) -> None:
    """Count a decision without a request together with equal ones; the pulse shows the most
    frequent.
    """
    key = entry.strategy, entry.code, _FIGURE.sub("#", entry.why)
    times, _ = memory.reasons.get(key, (0, ""))
    if times or len(memory.reasons) < REASONS_MAX:
        memory.reasons[key] = times + 1, f"{entry.symbol} {entry.why}"


def _is_news(memory: Memory, entry: Decision) -> bool:
    """Return whether this skip has not been shown since something else happened there."""
    shown = memory.skips.setdefault((entry.strategy, entry.symbol), set())
    words = _FIGURE.sub("#", entry.why) if entry.code == OWN_WORDS else ""
    reason = f"{entry.verdict} {entry.code} {words}"
    is_news = reason not in shown
    shown.add(reason)
    return is_news
