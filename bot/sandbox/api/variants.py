"""Answers in another form: what a switch of the scenario makes of a finished payload.

Each variant takes the payload and returns a new one; where every switch stands as usual, nothing is
done at all.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.quotes import QUOTE_KINDS
from bot.protocol.fidelity import FIDELITY
from bot.sandbox.api.call import Call, Handler
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.scenario import Switches

Json = Any
"""A payload that is about to be written; the types of its fields do not matter here."""
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
"""`status_code` as the trading core of 2024 gave it; 4 also for what is partly filled."""
_PARTLY: Final = "4"
_FIGURES: Final = ("actual", "previous", "consensus", "forecast")
_COUNTS: Final = ("advancesArr", "declinesArr", "nochangesArr", "ceilings", "floors")
_WRITES: Final = ("place_order", "amend_order", "cancel_order")
_ROWS: Final = ("todays_orders", "order_detail")
_DEPTHS: Final = ("stock_depth", "bond_depth", "etf_depth")
_HISTORIES: Final = (*(f"{kind}_history" for kind in QUOTE_KINDS), "dealer_product_history")
_FUND_PATH: Final = "/fund-trading/"
_EARLIER: Final = "earlier_"


def with_variants(handlers: Mapping[str, Handler], switches: Switches) -> Mapping[str, Handler]:
    """Return the handlers, those changed whose answers a switch changes."""
    changed = dict(handlers)
    for names, variant in _wanted(switches):
        for name in names:
            changed[name] = _varied(changed[name], variant)
    for name in _gone(handlers, switches):
        changed[name] = _nothing
    return changed


def _wanted(switches: Switches) -> Iterable[tuple[Iterable[str], Variant]]:
    if (code := switches.no_error_code) is not None:
        yield _WRITES, _each(lambda result: {**result, "code": result["code"] or code})
    if switches.status_codes == "core":
        yield ("todays_orders", "order_detail"), _each(_with_core_code)
    if switches.row_account == "numbered":
        yield ("todays_orders", "order_detail"), _each(_with_numbered_account)
    if switches.total_pnl == "quantity":
        yield ("portfolio",), _with_cost_quantity
    if switches.account_type_case == "lower":
        yield ("sub_accounts",), _each(_with_lower_type)
    if switches.depth_order == "worst_first":
        yield _DEPTHS, _worst_first
    if switches.history_order == "descending":
        yield _HISTORIES, _newest_first
    if not switches.index_count_series:
        yield ("index_realtime",), _each(_without_counts)
    if switches.calendar_unit != "item":
        unit = _UNITS[switches.calendar_unit]
        yield ("economic_calendar",), lambda page: _with_results(page, unit)
    if switches.no_reports == "null":
        yield ("recommendation_reports",), _null_for_nothing


def with_fidelity(
    handlers: Mapping[str, Handler], fidelity: Callable[[str], str]
) -> Mapping[str, Handler]:
    """Return the handlers with our own field in every order result and row."""

    def stamped(row: Json) -> Json:
        return {**row, FIDELITY: fidelity(row.get("orderid") or row.get("order_id") or "")}

    changed = {name: _varied(handlers[name], _each(stamped)) for name in (*_WRITES, *_ROWS)}
    return {**handlers, **changed}


def _gone(handlers: Iterable[str], switches: Switches) -> Iterable[str]:
    for name in handlers:
        is_fund = switches.fund_paths == "gone" and ENDPOINTS[name].path.startswith(_FUND_PATH)
        if is_fund or (switches.earlier_paths == "gone" and name.startswith(_EARLIER)):
            yield name


def _nothing(_: Call) -> object:
    raise not_found()


def _varied(handler: Handler, variant: Variant) -> Handler:
    def answer(call: Call) -> object:
        return variant(handler(call))

    return answer


def _each(variant: Variant) -> Variant:
    """Return the variant of an object for a list of them too."""

    def of_all(payload: Json) -> Json:
        return [variant(one) for one in payload] if isinstance(payload, list) else variant(payload)

    return of_all


# ------------------------------------------------------------------------------------- account


def _with_core_code(row: Json) -> Json:
    is_partly = row["status"] == "SENT" and row["execqtty"] and row["remainqtty"]
    return {**row, "status_code": _PARTLY if is_partly else CORE_CODES[row["status"]]}


def _with_numbered_account(row: Json) -> Json:
    return {**row, "afacctno_ext": f"{row['afacctno']}.01", "producttypename": ".1"}


def _with_cost_quantity(portfolio: Json) -> Json:
    rows = [{**row, "total_pnl": row["total"]} for row in portfolio["portfolio"]]
    return {**portfolio, "portfolio": rows}


def _with_lower_type(account: Json) -> Json:
    return {**account, "type": account["type"].lower()}


# -------------------------------------------------------------------------------------- market


def _worst_first(depth: Json) -> Json:
    return {**depth, "bids": depth["bids"][::-1], "asks": depth["asks"][::-1]}


def with_auction_levels(depth: Json, waiting: tuple[int, int]) -> Json:
    """Put a level of price 0 on top of each side where orders wait without a price."""
    sides = {}
    for side, volume in zip(("bids", "asks"), waiting, strict=True):
        level = [{"price": 0, "volume": volume}] if volume else []
        sides[side] = level + depth[side]
    return {**depth, **sides}


def _newest_first(history: Json) -> Json:
    return {**history, "series": history["series"][::-1]}


def _without_counts(index: Json) -> Json:
    return {name: value for name, value in index.items() if name not in _COUNTS}


def _null_for_nothing(reports: Json) -> Json:
    return reports or None


def _with_results(page: Json, variant: Variant) -> Json:
    return {**page, "results": [variant(event) for event in page["results"]]}


def _unit_in_detail(event: Json) -> Json:
    moved = {**event["detail"], "unit": event["unit"]}
    return {**{name: value for name, value in event.items() if name != "unit"}, "detail": moved}


def _unit_behind_figures(event: Json) -> Json:
    """Put the percent sign behind the figures; other units are then not said at all."""
    sign = "%" if event["unit"] == "Percent" else ""
    detail = dict(event["detail"])
    for name in _FIGURES:
        detail[name] = None if detail[name] is None else detail[name] + sign
    return {**{name: value for name, value in event.items() if name != "unit"}, "detail": detail}


_UNITS: Final[Mapping[str, Variant]] = {
    "detail": _unit_in_detail,
    "figure": _unit_behind_figures,
}
