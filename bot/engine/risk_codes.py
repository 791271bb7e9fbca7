"""The words of the checks: one code each, its number in the risk catalogue, and how it reads.

A template's fields are the numbers of the check; those that end in `_vnd` read short (`13.2M`), the
others with thousands separated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bot.domain.entry import CheckResult, Numbers


@dataclass(frozen=True, slots=True)
class CheckCode:
    """`risk_id` is the catalogue's number; `short` the template of the check's one line."""

    risk_id: str
    short: str


CODES: Final[Mapping[str, CheckCode]] = {
    "GATE": CheckCode("-", "{state}"),
    "SYMBOL": CheckCode("R22", "{symbol} on {exchange}"),
    "SYMBOL_HALTED": CheckCode("R27", "halted: {reason}"),
    "PHASE": CheckCode("R20", "{exchange} {phase}"),
    "WINDOW": CheckCode("R20", "{time} in {start}-{end}"),
    "ORDER_TYPE": CheckCode("R05", "{order_type} in {phase}, takes {accepted}"),
    "LOT": CheckCode("R05", "quantity {quantity}"),
    "ODD_LOT": CheckCode("R05", "odd lot {quantity} as {order_type}"),
    "MAX_QUANTITY": CheckCode("R02", "quantity {quantity} of {maximum}"),
    "PRICE": CheckCode("R05", "price {price} for {order_type}"),
    "TICK": CheckCode("R05", "price {price}, tick {tick}"),
    "BAND": CheckCode("R03", "price {price} in {floor}-{ceiling}"),
    "QUOTE_AGE": CheckCode("R18", "quote {age_s} s old of {age_s_max}"),
    "PRICE_GAP": CheckCode("R03", "{gap_ppm} ppm off last of {gap_ppm_max}"),
    "MAX_ORDER_VALUE": CheckCode("R01", "order {value_vnd} of {limit_vnd}"),
    "MAX_POSITION": CheckCode("R10", "position {position} of {limit}"),
    "MAX_ORDERS": CheckCode("R08", "day {orders} of {limit}"),
    "MAX_LOSS": CheckCode("R12", "loss {loss_vnd} of {limit_vnd}"),
    "CASH": CheckCode("R13", "cash {need_vnd} of {cash_vnd}"),
    "SELLABLE": CheckCode("R21", "sell {quantity} of {sellable}"),
    "DUPLICATE": CheckCode("R14", "same order {twin}"),
    "SELF_CROSS": CheckCode("R15", "own opposite order {other}"),
    "UNKNOWN_ORDERS": CheckCode("R23", "unknown {unknown} of {limit}"),
}

ASK_CODES: Final[Mapping[str, CheckCode]] = {
    "AMEND_ENABLED": CheckCode("-", "risk.allow_amend is {allow_amend}"),
    "ONE_FIELD": CheckCode("R05", "one field at a time: price {price}, quantity {quantity}"),
    "OPEN_ORDER": CheckCode("R22", "{order_id} is {state}"),
    "LIMIT_ORDER": CheckCode("R05", "order type {order_type}"),
    "CHANGE": CheckCode("R05", "{field} {old} to {new}"),
    "ONE_COMMAND": CheckCode("R23", "other command on it: {command}"),
    "AMEND_PHASE": CheckCode("R20", "changes in {exchange} {phase}"),
    "ABOVE_EXECUTED": CheckCode("R05", "quantity {quantity}, executed {executed}"),
    "SAME_LOT": CheckCode("R05", "lot {old} to {new}"),
    "ROW_ALLOWS": CheckCode("R22", "the broker's row: {status}, may be changed {allowed}"),
    "ROW_READ": CheckCode("R18", "the broker's row, read within {seconds} s"),
}
"""The checks of an ask to change or cancel an order, beside those above."""

_ALL: Final = {**CODES, **ASK_CODES}


def passed(code: str, **numbers: int | str | None) -> CheckResult:
    """Return a passed check with its numbers."""
    return CheckResult(code, True, numbers, text_of(code, numbers))


def judged(code: str, is_ok: bool, /, **numbers: int | str | None) -> CheckResult:  # noqa: FBT001
    """Return a check that passed when `is_ok`."""
    return CheckResult(code, is_ok, numbers, text_of(code, numbers))


def text_of(code: str, numbers: Numbers) -> str:
    """Return the check's one line."""
    shown = {name: _shown(name, value) for name, value in numbers.items()}
    return _ALL[code].short.format_map(shown)


def _shown(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return short_money(value) if name.endswith("_vnd") else f"{value:,}"
    return "none" if value is None else str(value)


def short_money(amount: int) -> str:
    """Return VND as `64.7M`, `1.2B` or, under a million, in full: `19,800`."""
    for unit, word in ((1_000_000_000, "B"), (1_000_000, "M")):
        if abs(amount) >= unit:
            return f"{amount / unit:.1f}".removesuffix(".0") + word
    return f"{amount:,}"
