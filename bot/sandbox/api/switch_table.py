"""Every CONFLICT and every "not shown" of the broker's document, and what the sandbox makes of it.

`SWITCHES` are those that a scenario file can turn (`switches:`); `FIXED` are those that it cannot,
with what is done instead. `docs/switches.md` is written from here, and a test compares the two.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from bot.sandbox.scenario import Switches


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """A switch: what it asks, where the document leaves it open, and who decided the default."""

    name: str
    question: str
    section: str
    decided: str


@dataclass(frozen=True, slots=True)
class FixedRow:
    """What cannot be switched: the question, and what the sandbox does."""

    question: str
    section: str
    answer: str


_ANY: Final = "another number"
_SEED: Final = "the document's unmarked facts"
_CHOICE: Final = "our choice"


def _ruling(number: int) -> str:
    return f"ruling {number}"


SWITCHES: Final = (
    # orders
    SwitchRow("partial_status", "Status of a working, partly filled order", "7.3", _ruling(13)),
    SwitchRow("matched_may_cancel", "May an order in MATCHED be cancelled", "7.2", _ruling(13)),
    SwitchRow("matching", "Does the answer to a place show its first fills", "10.6", _ruling(10)),
    SwitchRow("cancel_answer", "Status in the answer to a good cancel", "7.2", _ruling(44)),
    SwitchRow("refused_change", "Form of a refused cancel or modify", "10.4", _ruling(3)),
    SwitchRow("modify_both", "May a modify carry price and quantity", "4.2", _ruling(12)),
    SwitchRow(
        "modify_quantity", "Quantity of a modify: new total, or open part", "4.2", _ruling(12)
    ),
    SwitchRow("modify_id", "Does a modify keep the order's id", "4.2", _ruling(12)),
    SwitchRow("no_error_code", "`code` of a result without an error", "4.2", _ruling(44)),
    SwitchRow("row_visible_after_s", "Seconds until a new order has a row", "9", _CHOICE),
    SwitchRow("rejected_order_id", "Has a refused place an id and a row", "4.2", _SEED),
    SwitchRow("place_names_account", "Is `sub_account` required in a place", "4.2", _SEED),
    SwitchRow("only_routing_account_trades", "Which sub-accounts may trade", "8", _SEED),
    # account data
    SwitchRow("status_codes", "`status_code` of a row", "5.2", _SEED),
    SwitchRow("row_account", "`afacctno_ext` and `producttypename` of a row", "4.3", _CHOICE),
    SwitchRow("total_pnl", "`total_pnl` of a portfolio row", "4.3", _SEED),
    SwitchRow("account_type_case", "Case of a sub-account's `type`", "4.1", _SEED),
    # access
    SwitchRow("error_codes", "`error_code` by name or by number", "6.1", _SEED),
    SwitchRow("verify_body_hash", "Is the body hashed and compared", "2.2", _SEED),
    SwitchRow("check_tier_one_signature", "Is a tier 1 signature looked at", "2.1", _SEED),
    SwitchRow("refused_requests_count", "Do refused requests use up quota", "6.1", _ruling(14)),
    SwitchRow("other_user_status", "HTTP status for another user's id", "10.13", _ruling(16)),
    SwitchRow("otp_refusal_status", "HTTP status of the OTP refusals", "10.2", _SEED),
    # market data
    SwitchRow("listed_types", "Which types `available_order_types` lists", "5.3", _ruling(11)),
    SwitchRow("depth_order", "Order of the levels of a depth", "4.4", _CHOICE),
    SwitchRow("depth_levels", "How many levels a side", "4.4", "the 2024 feed"),
    SwitchRow("auction_levels", "How orders without a price show in a depth", "4.4", _CHOICE),
    SwitchRow("history_scale", "Scale of a stock's history", "4.4", "analogy with the quote"),
    SwitchRow("history_order", "Order of a series", "4.4", _SEED),
    SwitchRow("index_count_series", "Has index-realtime the series of counts", "4.5", _CHOICE),
    SwitchRow("calendar_unit", "Where an event's `unit` sits", "4.8", _SEED),
    SwitchRow("no_reports", "Recommendation reports where there is none", "4.8", _CHOICE),
    SwitchRow("fund_paths", "Are the paths of open-end funds still there", "4.9", _SEED),
    SwitchRow("earlier_paths", "Are the earlier market paths still there", "4.10", _CHOICE),
)

FIXED: Final = (
    FixedRow("Quota classes and numbers", "6.1", "the scenario's `quota`; FREE is 600 a minute"),
    FixedRow(
        "Order of the checks",
        "2.2",
        "key, quota, tier, timestamp, signature, nonce, device-id, 2FA token, body",
    ),
    FixedRow("Code of an unknown key or a stale timestamp", "6.1", "that of a bad signature"),
    FixedRow(
        "A 200 with another envelope, no result, or several",
        "1.1, 4.2",
        "a fault of the scenario makes it (`status`, `swap_row`)",
    ),
    FixedRow("Fields of users/me beyond user_id", "4.1", "none"),
    FixedRow("Conditional-order states", "7.1", "never; a fault can show any (`status_override`)"),
    FixedRow("Partial cancel", "7.2", "status SENT stays, nothing open"),
    FixedRow("End of the day", "10.6", "what is open lapses: EXPIRED"),
    FixedRow("Does a modify lose its place in time", "10.5", "only a smaller quantity keeps it"),
    FixedRow("Fees and taxes of a result", "10.7", "as booked so far; 0 right after placing"),
    FixedRow("Largest order", "10.8", "what the exchange takes"),
    FixedRow("Types in CLOSED and PUT_THROUGH", "5.3", "none listed; LO refused with -300025"),
    FixedRow("Revoke's answer", "3", "200, an empty object"),
    FixedRow("Unknown, used or too old OTP ticket", "3", "OTP_INVALID"),
    FixedRow("Unknown symbol or sub-account", "10.13", "404"),
    FixedRow("Are bars adjusted", "4.4", "there is nothing to adjust for"),
    FixedRow("Start of a daily bar", "4.4", "midnight in Vietnam"),
    FixedRow(
        "Largest span of a history",
        "4.4",
        "days since 2021 (walks: 2023); in parts of a day the newest 60 trading days of the span",
    ),
    FixedRow("Paging of the order history", "10.11", "50 a page, newest first; an empty page ends"),
    FixedRow("`date` on a day without trading", "4.7", "that day, with nothing traded"),
    FixedRow("Shapes that nobody shows", "10.12", "by analogy with those of a stock"),
)


def positions(name: str) -> str:
    """Return what a switch may be set to, the default first and in bold."""
    field: FieldInfo = Switches.model_fields[name]
    others = [one for one in choices(field.annotation) if one != field.default]
    return ", ".join([f"**{_written(field.default)}**", *map(_written, others)])


def choices(annotation: object) -> tuple[object, ...]:
    """Return the positions that a type allows; one that takes any number has a word for them."""
    if annotation is bool:
        return (False, True)
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    inner = [choices(one) for one in get_args(annotation)]
    if inner:
        return tuple(choice for choices in inner for choice in choices)
    return (None,) if annotation is type(None) else (_ANY,)


def _written(choice: object) -> str:
    if choice == _ANY:
        return str(choice)
    return f"`{str(choice).lower() if isinstance(choice, bool) else _quoted(choice)}`"


def _quoted(choice: object) -> str:
    if choice is None:
        return "null"
    is_doubtful = isinstance(choice, str) and (choice in {"", "null"} or choice.isdigit())
    return f'"{choice}"' if is_doubtful else str(choice)


def switches_markdown() -> str:
    """Return `docs/switches.md`."""
    return "\n".join([*_HEAD, *_switch_rows(), *_BETWEEN, *_fixed_rows(), ""])


def _switch_rows() -> Iterable[str]:
    for row in SWITCHES:
        cells = (f"`{row.name}`", row.question, positions(row.name), row.section, row.decided)
        yield f"| {' | '.join(cells)} |"


def _fixed_rows() -> Iterable[str]:
    return (f"| {row.question} | {row.answer} | {row.section} |" for row in FIXED)


_HEAD: Final = (
    "# Switches of the sandbox",
    "",
    "Where the sources of the broker's API differ or are silent, the sandbox has a switch. They",
    "stand under `switches:` in a scenario file; the default is in bold. Sections are those of the",
    "API's description, rulings those of this project. This page is written by",
    "`bot/sandbox/api/switch_table.py`.",
    "",
    "| Switch | What it asks | Positions | Section | Default by |",
    "|---|---|---|---|---|",
)
_BETWEEN: Final = (
    "",
    "## What cannot be switched",
    "",
    "| Open question | What the sandbox does | Section |",
    "|---|---|---|",
)
