"""Variants of answers: how the scenario's switches change a finished payload.

Each variant takes the payload and returns a new one; with every switch at its default nothing is
changed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.quotes import QUOTE_KINDS
from bot.protocol.fields import FIDELITY
from bot.sandbox.api.call import Call, Handler
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.scenario import Switches

Json = Any
"""A payload about to be written; the types of its fields do not matter here."""
Variant = Callable[[Json], Json]

CORE_CODES: Final[Mapping[str, str]] = {
    "WAITING_TO_SEND": "8",
    "SENT": "2",
    "MATCHED": "4",
    "MATCHED_ALL": "12",
    "CANCELLING": "C",
    "CANCELLED": "3",
    "EXPIRED": "5",
    "REJECTED": "6",
    "FAILED": "6",
}
"""`status_code` as the trading core of 2024 had it; 4 also for a partly filled order."""
_PARTLY: Final = "4"
_FIGURES: Final = ("actual", "previous", "consensus", "forecast")
_COUNTS: Final = ("advancesArr", "declinesArr", "nochangesArr", "ceilings", "floors")
_WRITES: Final = ("place_order", "amend_order", "cancel_order")
_OTP_CALLS: Final = ("request_otp", "verify_otp")
_ROWS: Final = ("todays_orders", "order_detail")
_DEPTHS: Final = ("stock_depth", "bond_depth", "etf_depth")
_HISTORIES: Final = (*(f"{kind}_history" for kind in QUOTE_KINDS), "dealer_product_history")
_FUND_PATH: Final = "/fund-trading/"
_EARLIER: Final = "earlier_"


def with_variants(handlers: Mapping[str, Handler], switches: Switches) -> Mapping[str, Handler]:
    """Return the handlers, replacing those that a switch makes answer differently."""
    changed = dict(handlers)
    for names, variant in _wanted(switches):
        for name in names:
            changed[name] = _varied(changed[name], variant)
    if switches.otp_refusal_status == "400":
        changed |= {name: _refused_with(400, changed[name]) for name in _OTP_CALLS}
    for name in handlers:
        is_fund = switches.fund_paths == "gone" and ENDPOINTS[name].path.startswith(_FUND_PATH)
        if is_fund or (switches.earlier_paths == "gone" and name.startswith(_EARLIER)):
            changed[name] = _gone
    return changed


def _wanted(switches: Switches) -> Iterable[tuple[Iterable[str], Variant]]:
    if (code := switches.no_error_code) is not None:
        yield _WRITES, _each(lambda result: {**result, "code": result["code"] or code})
    if switches.status_codes == "core":
        yield _ROWS, _each(_with_core_code)
    if switches.row_account == "numbered":
        account = {"producttypename": ".1"}
        yield _ROWS, _each(lambda row: {**row, "afacctno_ext": f"{row['afacctno']}.01", **account})
    if switches.total_pnl == "quantity":
        counted = _each(lambda row: {**row, "total_pnl": row["total"]})
        yield ("portfolio",), lambda all_: {**all_, "portfolio": counted(all_["portfolio"])}
    if switches.account_type_case == "lower":
        yield ("sub_accounts",), _each(lambda each: {**each, "type": each["type"].lower()})
    if switches.depth_order == "worst_first":
        yield _DEPTHS, lambda it: {**it, "bids": it["bids"][::-1], "asks": it["asks"][::-1]}
    if switches.history_order == "descending":
        yield _HISTORIES, lambda history: {**history, "series": history["series"][::-1]}
    if not switches.index_count_series:
        yield ("index_realtime",), _each(lambda index: _without(index, *_COUNTS))
    if switches.calendar_unit != "item":
        moved = _each(_UNITS[switches.calendar_unit])
        yield ("economic_calendar",), lambda page: {**page, "results": moved(page["results"])}
    if switches.no_reports == "null":
        yield ("recommendation_reports",), lambda reports: reports or None


def with_fidelity(
    handlers: Mapping[str, Handler], fidelity: Callable[[str], str]
) -> Mapping[str, Handler]:
    """Return the handlers with our own field added to every order result and row."""

    def marked(row: Json) -> Json:
        return {**row, FIDELITY: fidelity(row.get("orderid") or row.get("order_id") or "")}

    changed = {name: _varied(handlers[name], _each(marked)) for name in (*_WRITES, *_ROWS)}
    return {**handlers, **changed}


def with_auction_levels(depth: Json, waiting: tuple[int, int]) -> Json:
    """Put a level of price 0 on top of each side where orders wait without a price."""
    sides = {}
    for side, volume in zip(("bids", "asks"), waiting, strict=True):
        level = [{"price": 0, "volume": volume}] if volume else []
        sides[side] = level + depth[side]
    return {**depth, **sides}


def _gone(_: Call) -> object:
    raise not_found()


def _refused_with(status: int, handler: Handler) -> Handler:
    def answer(call: Call) -> object:
        try:
            return handler(call)
        except HttpRefusal as refusal:
            raise HttpRefusal(status, refusal.code, refusal.message) from refusal

    return answer


def _varied(handler: Handler, variant: Variant) -> Handler:
    def answer(call: Call) -> object:
        return variant(handler(call))

    return answer


def _each(variant: Variant) -> Variant:
    """Apply a variant of an object to lists of them too."""

    def of_all(payload: Json) -> Json:
        return [variant(one) for one in payload] if isinstance(payload, list) else variant(payload)

    return of_all


def _without(row: Json, *names: str) -> Json:
    return {name: value for name, value in row.items() if name not in names}


def _with_core_code(row: Json) -> Json:
    is_partly = row["status"] == "SENT" and row["execqtty"] and row["remainqtty"]
    return {**row, "status_code": _PARTLY if is_partly else CORE_CODES[row["status"]]}


def _with_sign(event: Json) -> Json:
    """Append the percent sign to the figures; other units are then omitted."""
    sign = "%" if event["unit"] == "Percent" else ""
    detail = dict(event["detail"])
    for name in _FIGURES:
        detail[name] = None if detail[name] is None else detail[name] + sign
    return {**_without(event, "unit"), "detail": detail}


_UNITS: Final[Mapping[str, Variant]] = {
    "detail": lambda event: {
        **_without(event, "unit"),
        "detail": {**event["detail"], "unit": event["unit"]},
    },
    "figure": _with_sign,
}
