"""The codes of the checks, and the texts of their refusals.

A passed check has a short text (`order 13.2M of 50M`), as every order has a dozen of them. A
refusal is a sentence with the exact, deciding figures: a template whose fields are the numbers of
the check.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from bot.domain.entry import CheckResult
from bot.domain.instrument import PHASE_WORDS, Phase
from bot.domain.order import type_word

ACCOUNT: Final = "account"
"""The scope of a limit shared by all strategies of an account."""
STRATEGY: Final = "strategy"
SYMBOL: Final = "symbol"
OF_ACCOUNT: Final = "risk.account."
OF_STRATEGIES: Final = "risk.limits."
"""Prefix of the keys of these limits in bot.yaml."""
_OF_SCOPE: Final = {STRATEGY: "", ACCOUNT: " for the whole account", SYMBOL: " in one symbol"}
"""How a limit's scope is worded; a strategy's own is the default."""


@dataclass(frozen=True, slots=True)
class CheckCode:
    """`refused`: the text of a refusal; `unknown`: its text if one of the numbers is missing.

    `key`: the setting that it enforces, with fields like `refused`; without a dot it is a limit of
    the strategy or the account, according to `scope`.
    """

    refused: str
    unknown: str = ""
    key: str = ""


def judged(
    code: str,
    is_ok: bool,  # noqa: FBT001
    words: str = "",
    /,
    **numbers: int | str | None,
) -> CheckResult:
    """Return a check that passed if `is_ok`, with its numbers; `words` are the text of having
    passed.
    """
    if is_ok:
        return CheckResult(code, is_ok, numbers, words)
    found = _ALL[code]
    template = (None in numbers.values() and found.unknown) or found.refused
    shown = {name: _shown(name, value) for name, value in numbers.items()}
    return CheckResult(code, is_ok, numbers, template.format_map(shown))


def with_key(
    result: CheckResult, shared: frozenset[str], at_default: frozenset[str]
) -> CheckResult:
    """Return a refusal that names the setting behind it, if there is one.

    `shared`: the strategy's limits that `risk.limits` sets, not its file. `at_default`: keys
    that nobody has set.
    """
    template = _ALL[result.code].key
    if not template:
        return result
    scope = result.numbers.get("scope", STRATEGY)
    keys = [key.format_map(result.numbers) for key in template.split()]
    if scope != STRATEGY:
        keys = [f"{OF_ACCOUNT}{key}{'_per_symbol' * (scope == SYMBOL)}" for key in keys]
    elif "." not in keys[0]:
        keys = [f"{OF_STRATEGIES}{key}" if key in shared else f"limits.{key}" for key in keys]
    words = " or ".join(keys)
    if words.startswith(("limits.", "when.")):
        words += " in its file"
    elif at_default.issuperset(keys):
        words += ", left at its default"
    return replace(result, text=f"{result.text}; {words}")


def tightest(own: int | None, shared: int | None) -> tuple[int | None, str]:
    """Return the smaller of a strategy's and an account's limit, and its scope."""
    if shared is None or (own is not None and own <= shared):
        return own, STRATEGY
    return shared, ACCOUNT


def short_money(amount: int) -> str:
    """Return VND as `64.7M`, `1.2B` or, under a million, in full: `19,800`."""
    for unit, word in ((1_000_000_000, "B"), (1_000_000, "M")):
        if abs(amount) >= unit:
            return f"{amount / unit:.1f}".removesuffix(".0") + word
    return f"{amount:,}"


def amounts(part: int, whole: int) -> str:
    """Return `13.2M of 50M`, in full if two different amounts would look the same."""
    short, short_whole = short_money(part), short_money(whole)
    is_clear = short != short_whole or part == whole
    return f"{short} of {short_whole}" if is_clear else f"{part:,} of {whole:,}"


def percent(ppm: int) -> str:
    """Return parts per million as `0.15%`."""
    return f"{ppm / 10_000:.8g}%"


def type_words(names: str) -> str:
    """Return the words of order types: `LO/MTL` as `LIMIT/MTL`."""
    return "/".join([type_word(name) for name in names.split("/")])


def or_none(value: int | str | None) -> str:
    """Return a number or a word as shown, `none` if there is none."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else "none" if value is None else str(value)


def _shown(name: str, value: int | str | None) -> str:
    """Return a number or word of a refusal as shown."""
    if name == "scope":
        return _OF_SCOPE[str(value)]
    if isinstance(value, Phase):
        return PHASE_WORDS[value]
    if isinstance(value, str) and name in {"order_type", "accepted"}:
        return type_words(value)
    return percent(value) if isinstance(value, int) and "_ppm" in name else or_none(value)


CODES: Final[Mapping[str, CheckCode]] = {
    "GATE": CheckCode("the bot is {state}"),
    "SYMBOL": CheckCode(
        "no trading rules are known for {symbol} on {exchange}",
        "it is not known where {symbol} trades",
    ),
    "SYMBOL_HALTED": CheckCode("the symbol is halted: {reason}"),
    "HELD_DATA": CheckCode("the market data is held: {reason}"),
    "UNIVERSE": CheckCode(
        "{symbol} is none of the {symbols} symbols that may be traded", key="risk.account.symbols"
    ),
    "PHASE": CheckCode("no order in this phase: {exchange} {phase}", key="when.sessions"),
    "WINDOW": CheckCode("{time} is outside {start}-{end}", key="when.between"),
    "ORDER_TYPE": CheckCode(
        "no {order_type} order in this phase ({phase}), which takes {accepted}"
    ),
    "LOT": CheckCode("{quantity} shares is not a valid lot: multiples of 100, or 1 to 99"),
    "ODD_LOT": CheckCode("an odd lot of {quantity} shares is not taken now as {order_type}"),
    "MAX_QUANTITY": CheckCode("{quantity} shares, the exchange takes at most {maximum}"),
    "MAX_ORDER_QUANTITY": CheckCode(
        "an order of {quantity} shares, at most {limit}", key="risk.account.max_order_quantity"
    ),
    "PRICE": CheckCode(
        "price {price} does not go with order type {order_type}",
        "{order_type} order without a price",
    ),
    "TICK": CheckCode("price {price} is off the tick of {tick}"),
    "BAND": CheckCode(
        "price {price} is outside the day's band {floor}-{ceiling}",
        "the day's band is not known",
    ),
    "QUOTE_AGE": CheckCode(
        "the quote is {age_s} s old, at most {age_s_max}", key="risk.max_quote_age_s"
    ),
    "PRICE_GAP": CheckCode(
        "the price is {gap_ppm} off the last one, at most {gap_ppm_max}{scope}", key="max_price_gap"
    ),
    "REFERENCE_GAP": CheckCode(
        "the price is {gap_ppm} off the day's reference, at most {gap_ppm_max}{scope}",
        key="max_reference_gap",
    ),
    "UNIT_SLIP": CheckCode(
        "price {price} looks like one in another unit: the last is {last} (x{times})"
    ),
    "FAT_FINGER": CheckCode(
        "an order of {value_vnd} VND, at most {times} times {median_vnd}, the median of this "
        "strategy's last {orders} buys",
        key="max_times_median",
    ),
    "DEPTH_SHOWN": CheckCode(
        "the depth shows {shown} of {quantity} shares: what a market order costs is not known",
        "no fresh depth: what a market order costs is not known",
    ),
    "MAX_ORDER_VALUE": CheckCode(
        "an order of {value_vnd} VND, at most {limit_vnd}{scope}", key="max_order_value"
    ),
    "CAPITAL": CheckCode(
        "the strategy would have {value_vnd} VND in shares, at most {limit_vnd}", key="capital"
    ),
    "MAX_POSITION": CheckCode(
        "the position would be {position} shares, at most {limit}", key="max_position"
    ),
    "MAX_ORDERS": CheckCode(
        "{orders} orders today already, at most {limit}{scope}", key="max_orders_per_day"
    ),
    "OPEN_ORDERS": CheckCode(
        "{orders} orders are open already, at most {limit}{scope}", key="max_open_orders"
    ),
    "ORDER_RATE": CheckCode(
        "order requests within the last {span}: {sent}, at most {limit}{scope}; cancels count too",
        key="max_orders_per_{span}",
    ),
    "EXIT_RATE": CheckCode(
        "{sent} sales went out within the last {span}, at most {limit}{scope}: ask again after it",
        key="max_orders_per_{span}",
    ),
    "DAY_LOSS": CheckCode(
        "{loss_vnd} VND lost today{scope}; from {limit_vnd} on nothing is bought until tomorrow",
        key="max_loss_per_day max_loss_of_nav",
    ),
    "FLIPS": CheckCode(
        "side changed {flips} times today in {symbol}, at most {limit}{scope}",
        key="max_flips_per_symbol",
    ),
    "ACCOUNT_AGE": CheckCode(
        "the account was read {age_s} s ago, at most {age_s_max}: its value is not known now",
        "the account has not been read: its value is not known",
        key="risk.account.max_account_age_s",
    ),
    "LAST_ENTRY": CheckCode(
        "{exchange} {phase} begins within {seconds} s: no more entries",
        key="risk.account.last_entry_s",
    ),
    "POSITION_VALUE": CheckCode(
        "{value_vnd} VND of {symbol}, at most {limit_vnd}{scope}",
        key="max_position_value max_position_of_nav",
    ),
    "GROSS": CheckCode(
        "{value_vnd} VND in shares, at most {limit_vnd}{scope}", key="max_gross_of_nav"
    ),
    "AUCTION_SHARE": CheckCode(
        "{quantity} of the {shown} shares that the auction shows, at most {share_ppm}",
        "no fresh depth: what the auction shows is not known. wake: {{depth: 10s}} in the "
        "strategy's file has it read",
        key="risk.account.max_auction_share",
    ),
    "MIN_CASH": CheckCode(
        "{left_vnd} VND of cash would be left, at least {limit_vnd}{scope}", key="min_cash"
    ),
    "MAX_LOSS": CheckCode(
        "{loss_vnd} VND lost today; from {limit_vnd} on nothing is bought", key="max_loss_per_day"
    ),
    "CASH": CheckCode(
        "needs {need_vnd} VND with the fee, and {cash_vnd} are free",
        "free cash is not known",
    ),
    "UNPRICED_BUY": CheckCode(
        "{order} buys {symbol} without a limit, and no quote of {symbol} has been read: what it "
        "takes of the cash is not known. Nothing is bought until it ends; it can be cancelled"
    ),
    "SELLABLE": CheckCode("{sellable} of {quantity} shares can be sold now"),
    "DUPLICATE": CheckCode("the same order already exists: {twin}"),
    "SELF_CROSS": CheckCode("an order of our own is on the other side: {other}"),
    "UNKNOWN_ORDERS": CheckCode(
        "orders with an unknown outcome: {unknown}; from {limit} on nothing new is sent"
    ),
}

ASK_CODES: Final[Mapping[str, CheckCode]] = {
    "AMEND_ENABLED": CheckCode("changes are off: risk.allow_amend is {allow_amend}"),
    "ONE_FIELD": CheckCode("one field at a time, above 0: price {price}, quantity {quantity}"),
    "OPEN_ORDER": CheckCode("{order_id} is {state}"),
    "LIMIT_ORDER": CheckCode("only a LIMIT order can be changed, not {order_type}"),
    "CHANGE": CheckCode("the {field} is {old} already"),
    "ONE_COMMAND": CheckCode("another command is under way on it: {command}"),
    "AMEND_PHASE": CheckCode("{exchange} takes no change in this phase: {phase}"),
    "ABOVE_EXECUTED": CheckCode("quantity {quantity} is not above the {executed} shares filled"),
    "SAME_LOT": CheckCode("a round lot can't become an odd lot, nor the reverse"),
    "ROW_ALLOWS": CheckCode("the broker does not let it be changed now ({status})"),
    "VERDICT_REASON": CheckCode("a verdict on {intent_id} needs a reason"),
    "VERDICT_OPEN": CheckCode("{intent_id} is {state}"),
    "VERDICT_ROW": CheckCode("{order_id} is {why}"),
    "VERDICT_LIKENESS": CheckCode(
        "{order_id} is in the day order book and looks like {intent_id}, and counts nowhere before "
        "every row can be read: if it is that order, say so with --is, else wait"
    ),
    "ROW_READ": CheckCode("the broker's row did not come within {seconds} s"),
}
"""The checks of a request to change or cancel an order, besides those above."""

_ALL: Final = {**CODES, **ASK_CODES}
