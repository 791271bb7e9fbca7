"""The words of the checks: one code each, and how it reads.

A template's fields are the numbers of the check. One that has passed reads short (`order 13.2M of
50M`); a refusal is a sentence with exact figures, for they decided.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Final

from bot.domain.entry import CheckResult
from bot.domain.instrument import PHASE_WORDS, Phase
from bot.domain.order import type_word


@dataclass(frozen=True, slots=True)
class CheckCode:
    """`short`: the check in a few words; `refused`: why not; `unknown`: instead of `refused` where
    one of the numbers is missing.
    """

    short: str
    refused: str
    unknown: str = ""


CODES: Final[Mapping[str, CheckCode]] = {
    "GATE": CheckCode("{state}", "the bot is {state}"),
    "SYMBOL": CheckCode(
        "{symbol} on {exchange}",
        "no trading rules are known for {symbol} on {exchange}",
        "it is not known where {symbol} trades",
    ),
    "SYMBOL_HALTED": CheckCode("halted: {reason}", "the symbol is halted: {reason}"),
    "PHASE": CheckCode("{exchange} {phase}", "no order in this phase: {exchange} {phase}"),
    "WINDOW": CheckCode("{time} in {start}-{end}", "{time} is outside {start}-{end}"),
    "ORDER_TYPE": CheckCode(
        "{order_type} in {phase}, takes {accepted}",
        "no {order_type} order in this phase ({phase}), which takes {accepted}",
    ),
    "LOT": CheckCode(
        "quantity {quantity}", "{quantity} shares is not a valid lot: multiples of 100, or 1 to 99"
    ),
    "ODD_LOT": CheckCode(
        "odd lot {quantity} as {order_type}",
        "an odd lot of {quantity} shares is not taken now as {order_type}",
    ),
    "MAX_QUANTITY": CheckCode(
        "quantity {quantity} of {maximum}",
        "{quantity} shares, the exchange takes at most {maximum}",
    ),
    "PRICE": CheckCode(
        "price {price} for {order_type}",
        "price {price} does not go with order type {order_type}",
        "{order_type} order without a price",
    ),
    "TICK": CheckCode("price {price}, tick {tick}", "price {price} is off the tick of {tick}"),
    "BAND": CheckCode(
        "price {price} in {floor}-{ceiling}",
        "price {price} is outside the day's band {floor}-{ceiling}",
        "the day's band is not known",
    ),
    "QUOTE_AGE": CheckCode(
        "quote {age_s} s old of {age_s_max}",
        "the quote is {age_s} s old, at most {age_s_max}",
        "no quote has come yet",
    ),
    "PRICE_GAP": CheckCode(
        "{gap_ppm} off last of {gap_ppm_max}",
        "the price is {gap_ppm} off the last one, at most {gap_ppm_max}",
    ),
    "MAX_ORDER_VALUE": CheckCode(
        "order {value_vnd} of {limit_vnd}",
        "an order of {value_vnd} VND, at most {limit_vnd}",
    ),
    "MAX_POSITION": CheckCode(
        "position {position} of {limit}",
        "the position would be {position} shares, at most {limit}",
    ),
    "MAX_ORDERS": CheckCode(
        "day {orders} of {limit}", "{orders} orders today already, at most {limit}"
    ),
    "MAX_LOSS": CheckCode(
        "loss {loss_vnd} of {limit_vnd}",
        "{loss_vnd} VND lost today; from {limit_vnd} on nothing is bought",
    ),
    "CASH": CheckCode(
        "cash {need_vnd} of {cash_vnd}",
        "needs {need_vnd} VND with the fee, and {cash_vnd} are free",
        "free cash is not known",
    ),
    "SELLABLE": CheckCode(
        "sell {quantity} of {sellable}", "{sellable} of {quantity} shares can be sold now"
    ),
    "DUPLICATE": CheckCode("same order {twin}", "the same order already exists: {twin}"),
    "SELF_CROSS": CheckCode(
        "own opposite order {other}", "an order of our own is on the other side: {other}"
    ),
    "UNKNOWN_ORDERS": CheckCode(
        "unknown {unknown} of {limit}",
        "orders with an unknown outcome: {unknown}; from {limit} on nothing new is sent",
    ),
}

ASK_CODES: Final[Mapping[str, CheckCode]] = {
    "AMEND_ENABLED": CheckCode(
        "risk.allow_amend is {allow_amend}",
        "changes are off: risk.allow_amend is {allow_amend}",
    ),
    "ONE_FIELD": CheckCode(
        "one field at a time: price {price}, quantity {quantity}",
        "one field at a time, above 0: price {price}, quantity {quantity}",
    ),
    "OPEN_ORDER": CheckCode("{order_id} is {state}", "{order_id} is {state}"),
    "LIMIT_ORDER": CheckCode(
        "order type {order_type}", "only a LIMIT order can be changed, not {order_type}"
    ),
    "CHANGE": CheckCode("{field} {old} to {new}", "the {field} is {old} already"),
    "ONE_COMMAND": CheckCode(
        "other command on it: {command}", "another command is under way on it: {command}"
    ),
    "AMEND_PHASE": CheckCode(
        "changes in {exchange} {phase}", "{exchange} takes no change in this phase: {phase}"
    ),
    "ABOVE_EXECUTED": CheckCode(
        "quantity {quantity}, executed {executed}",
        "quantity {quantity} is not above the {executed} shares filled",
    ),
    "SAME_LOT": CheckCode(
        "lot {old} to {new}", "a round lot can't become an odd lot, nor the reverse"
    ),
    "ROW_ALLOWS": CheckCode(
        "the broker's row: {status}, may be changed {allowed}",
        "the broker does not let it be changed now ({status})",
    ),
    "ROW_READ": CheckCode(
        "the broker's row, read within {seconds} s",
        "the broker's row did not come within {seconds} s",
    ),
}
"""The checks of an ask to change or cancel an order, beside those above."""


def judged(code: str, is_ok: bool, /, **numbers: int | str | None) -> CheckResult:  # noqa: FBT001
    """Return a check that passed when `is_ok`, with its numbers and words.

    A passed one reads short: its amounts too, where that leaves them different.
    """
    short, refused, unknown = _WORDS[code]
    words = short if is_ok else refused
    if not is_ok and unknown.text and None in numbers.values():
        words = unknown
    if is_ok and code in _MONEY:
        amounts = [amount for amount in numbers.values() if isinstance(amount, int)]
        shown = [short_money(amount) for amount in amounts]
        if len(set(shown)) == len(set(amounts)):
            return CheckResult(code, is_ok, numbers, words.text.format(*shown))
    shown = [show(numbers[name]) for name, show in words.fields]
    return CheckResult(code, is_ok, numbers, words.text.format(*shown))


def short_money(amount: int) -> str:
    """Return VND as `64.7M`, `1.2B` or, under a million, in full: `19,800`."""
    for unit, word in ((1_000_000_000, "B"), (1_000_000, "M")):
        if abs(amount) >= unit:
            return f"{amount / unit:.1f}".removesuffix(".0") + word
    return f"{amount:,}"


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "none" if value is None else str(value)


def _percent(ppm: object) -> str:
    return f"{ppm / 10_000:.8g}%" if isinstance(ppm, int) else _plain(ppm)


def _phase(phase: object) -> str:
    assert isinstance(phase, Phase), phase
    return PHASE_WORDS[phase]


def _types(names: object) -> str:
    return "/".join([type_word(name) for name in str(names).split("/")])


_SHOWN: Final[Mapping[str, Callable[[object], str]]] = {
    "phase": _phase,
    "order_type": _types,
    "accepted": _types,
    "gap_ppm": _percent,
    "gap_ppm_max": _percent,
}
"""How a field is shown where it is not shown as it is."""


@dataclass(frozen=True, slots=True)
class _Words:
    """A template taken apart, once: the text with its gaps, and what is put into each of them."""

    text: str
    fields: tuple[tuple[str, Callable[[object], str]], ...]


def _taken_apart(template: str) -> _Words:
    names = tuple(name for _, name, _, _ in Formatter().parse(template) if name)
    fields = tuple((name, _SHOWN.get(name, _plain)) for name in names)
    return _Words(template.format_map(dict.fromkeys(names, "{}")), fields)


_WORDS: Final = {
    code: (_taken_apart(each.short), _taken_apart(each.refused), _taken_apart(each.unknown))
    for code, each in {**CODES, **ASK_CODES}.items()
}
_MONEY: Final = {code for code, each in CODES.items() if "_vnd}" in each.short}
"""The checks whose numbers are all amounts."""
