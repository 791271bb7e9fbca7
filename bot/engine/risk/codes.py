"""The words of the checks: one code each, and how it reads.

One that has passed reads short (`order 13.2M of 50M`), and is put together by a function, as every
order has a dozen of them. A refusal is a sentence with exact figures, for they decided: a template
whose fields are the numbers of the check.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Never

from bot.domain.entry import CheckResult
from bot.domain.instrument import PHASE_WORDS, Phase
from bot.domain.order import type_word


@dataclass(frozen=True, slots=True)
class CheckCode:
    """`passed` makes the words of a check that has passed, of its numbers by name; `refused`: why
    not; `unknown`: instead of `refused` where one of the numbers is missing.
    """

    passed: Callable[..., str]
    refused: str
    unknown: str = ""


def judged(code: str, is_ok: bool, /, **numbers: int | str | None) -> CheckResult:  # noqa: FBT001
    """Return a check that passed when `is_ok`, with its numbers and words."""
    words = _ALL[code]
    if is_ok:
        return CheckResult(code, is_ok, numbers, words.passed(**numbers))
    template = (None in numbers.values() and words.unknown) or words.refused
    shown = {name: _shown(name, value) for name, value in numbers.items()}
    return CheckResult(code, is_ok, numbers, template.format_map(shown))


def short_money(amount: int) -> str:
    """Return VND as `64.7M`, `1.2B` or, under a million, in full: `19,800`."""
    for unit, word in ((1_000_000_000, "B"), (1_000_000, "M")):
        if abs(amount) >= unit:
            return f"{amount / unit:.1f}".removesuffix(".0") + word
    return f"{amount:,}"


def _shown(name: str, value: int | str | None) -> str:
    """Return a number or word of a refusal as it is read."""
    if isinstance(value, int):
        return _percent(value) if "_ppm" in name else f"{value:,}"
    if isinstance(value, Phase):
        return PHASE_WORDS[value]
    return _types(value) if value and name in {"order_type", "accepted"} else _or_none(value)


def _amounts(part: int, whole: int) -> str:
    """Return `13.2M of 50M`, in full where two different amounts would read the same."""
    short, short_whole = short_money(part), short_money(whole)
    is_clear = short != short_whole or part == whole
    return f"{short} of {short_whole}" if is_clear else f"{part:,} of {whole:,}"


def _percent(ppm: int) -> str:
    return f"{ppm / 10_000:.8g}%"


def _types(names: str) -> str:
    return "/".join([type_word(name) for name in names.split("/")])


def _or_none(value: int | str | None) -> str:
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _never(**numbers: object) -> Never:
    raise AssertionError(f"a check that only ever refuses has passed: {numbers}")


CODES: Final[Mapping[str, CheckCode]] = {
    "GATE": CheckCode(lambda state: f"{state}", "the bot is {state}"),
    "SYMBOL": CheckCode(
        lambda symbol, exchange: f"{symbol} on {exchange}",
        "no trading rules are known for {symbol} on {exchange}",
        "it is not known where {symbol} trades",
    ),
    "SYMBOL_HALTED": CheckCode(_never, "the symbol is halted: {reason}"),
    "PHASE": CheckCode(
        lambda exchange, phase: f"{exchange} {PHASE_WORDS[phase]}",
        "no order in this phase: {exchange} {phase}",
    ),
    "WINDOW": CheckCode(
        lambda time, start, end: f"{time} in {start}-{end}", "{time} is outside {start}-{end}"
    ),
    "ORDER_TYPE": CheckCode(
        lambda order_type, phase, accepted: (
            f"{type_word(order_type)} in {PHASE_WORDS[phase]}, takes {_types(accepted)}"
        ),
        "no {order_type} order in this phase ({phase}), which takes {accepted}",
    ),
    "LOT": CheckCode(
        lambda quantity: f"quantity {quantity:,}",
        "{quantity} shares is not a valid lot: multiples of 100, or 1 to 99",
    ),
    "ODD_LOT": CheckCode(
        lambda quantity, order_type: f"odd lot {quantity:,} as {type_word(order_type)}",
        "an odd lot of {quantity} shares is not taken now as {order_type}",
    ),
    "MAX_QUANTITY": CheckCode(
        lambda quantity, maximum: f"quantity {quantity:,} of {maximum:,}",
        "{quantity} shares, the exchange takes at most {maximum}",
    ),
    "PRICE": CheckCode(
        _never,
        "price {price} does not go with order type {order_type}",
        "{order_type} order without a price",
    ),
    "TICK": CheckCode(
        lambda price, tick: f"price {price:,}, tick {tick:,}",
        "price {price} is off the tick of {tick}",
    ),
    "BAND": CheckCode(
        lambda price, floor, ceiling: f"price {_or_none(price)} in {floor:,}-{ceiling:,}",
        "price {price} is outside the day's band {floor}-{ceiling}",
        "the day's band is not known",
    ),
    "QUOTE_AGE": CheckCode(
        lambda age_s, age_s_max: f"quote {age_s:,} s old of {age_s_max:,}",
        "the quote is {age_s} s old, at most {age_s_max}",
        "no quote has come yet",
    ),
    "PRICE_GAP": CheckCode(
        lambda gap_ppm, gap_ppm_max: f"{_percent(gap_ppm)} off last of {_percent(gap_ppm_max)}",
        "the price is {gap_ppm} off the last one, at most {gap_ppm_max}",
    ),
    "MAX_ORDER_VALUE": CheckCode(
        lambda value_vnd, limit_vnd: f"order {_amounts(value_vnd, limit_vnd)}",
        "an order of {value_vnd} VND, at most {limit_vnd}",
    ),
    "MAX_POSITION": CheckCode(
        lambda position, limit: f"position {position:,} of {limit:,}",
        "the position would be {position} shares, at most {limit}",
    ),
    "MAX_ORDERS": CheckCode(
        lambda orders, limit: f"day {orders:,} of {limit:,}",
        "{orders} orders today already, at most {limit}",
    ),
    "MAX_LOSS": CheckCode(
        lambda loss_vnd, limit_vnd: f"loss {_amounts(loss_vnd, limit_vnd)}",
        "{loss_vnd} VND lost today; from {limit_vnd} on nothing is bought",
    ),
    "CASH": CheckCode(
        lambda need_vnd, cash_vnd: f"cash {_amounts(need_vnd, cash_vnd)}",
        "needs {need_vnd} VND with the fee, and {cash_vnd} are free",
        "free cash is not known",
    ),
    "SELLABLE": CheckCode(
        lambda quantity, sellable: f"sell {quantity:,} of {sellable:,}",
        "{sellable} of {quantity} shares can be sold now",
    ),
    "DUPLICATE": CheckCode(_never, "the same order already exists: {twin}"),
    "SELF_CROSS": CheckCode(
        lambda other: f"own opposite order {_or_none(other)}",
        "an order of our own is on the other side: {other}",
    ),
    "UNKNOWN_ORDERS": CheckCode(
        _never, "orders with an unknown outcome: {unknown}; from {limit} on nothing new is sent"
    ),
}

ASK_CODES: Final[Mapping[str, CheckCode]] = {
    "AMEND_ENABLED": CheckCode(
        lambda allow_amend: f"risk.allow_amend is {allow_amend}",
        "changes are off: risk.allow_amend is {allow_amend}",
    ),
    "ONE_FIELD": CheckCode(
        lambda price, quantity: (
            f"one field at a time: price {_or_none(price)}, quantity {_or_none(quantity)}"
        ),
        "one field at a time, above 0: price {price}, quantity {quantity}",
    ),
    "OPEN_ORDER": CheckCode(
        lambda order_id, state: f"{order_id} is {state}", "{order_id} is {state}"
    ),
    "LIMIT_ORDER": CheckCode(
        lambda order_type: f"order type {type_word(order_type)}",
        "only a LIMIT order can be changed, not {order_type}",
    ),
    "CHANGE": CheckCode(
        lambda field, old, new: f"{field} {_or_none(old)} to {new:,}",
        "the {field} is {old} already",
    ),
    "ONE_COMMAND": CheckCode(
        lambda command: f"other command on it: {_or_none(command)}",
        "another command is under way on it: {command}",
    ),
    "AMEND_PHASE": CheckCode(
        lambda exchange, phase: f"changes in {exchange} {PHASE_WORDS[phase]}",
        "{exchange} takes no change in this phase: {phase}",
    ),
    "ABOVE_EXECUTED": CheckCode(
        lambda quantity, executed: f"quantity {quantity:,}, executed {executed:,}",
        "quantity {quantity} is not above the {executed} shares filled",
    ),
    "SAME_LOT": CheckCode(
        lambda old, new: f"lot {_or_none(old)} to {new}",
        "a round lot can't become an odd lot, nor the reverse",
    ),
    "ROW_ALLOWS": CheckCode(
        lambda status, allowed: f"the broker's row: {status}, may be changed {allowed}",
        "the broker does not let it be changed now ({status})",
    ),
    "ROW_READ": CheckCode(_never, "the broker's row did not come within {seconds} s"),
}
"""The checks of an ask to change or cancel an order, beside those above."""

_ALL: Final = {**CODES, **ASK_CODES}
