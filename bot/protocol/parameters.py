"""What every call takes besides its path: one row of parameters for each, by the call's name.

The typed client, `bot api NAME key=value` and the sandbox's checks are driven by this table. Names
and words are the wire's. The bodies of order writes and of the 2FA exchange are no queries and are
in `bodies.py` and `two_factor.py`. Source: broker open API 0.2.0-preview.3, sections 4.1 to 4.10.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Final

from bot.protocol import words
from bot.protocol.endpoints import ENDPOINTS, QUOTE_KINDS
from bot.protocol.query import (
    AtMostOne,
    DayRange,
    EitherOr,
    ExactlyOne,
    Kind,
    LiveOnly,
    OnlyWith,
    Parameter,
    QueryFault,
    Rule,
    Together,
    faults_of,
)

Parameters = tuple[Parameter, ...]

PAGE_SIZE_MAX: Final = 50
INDICATORS_MAX: Final = 20

_UNCACHED: Final = Parameter("cache-control", values=words.CACHE_CONTROLS, default="NOCACHE")
_CACHED: Final = replace(_UNCACHED, default="CACHE")
_FROM_SECONDS: Final = Parameter("from", Kind.UNIX_SECONDS, is_required=True, minimum=0)
_TO_SECONDS: Final = Parameter("to", Kind.UNIX_SECONDS, is_required=True, minimum=0)
_FROM_DAY: Final = Parameter("from", Kind.DAY)
_TO_DAY: Final = Parameter("to", Kind.DAY)
_DATE: Final = Parameter("date", Kind.DAY)
_RESOLUTION: Final = Parameter("resolution", values=words.RESOLUTIONS, default="1D")
_DAILY: Final = Parameter("resolution", values=words.DAILY, default="1D")
_WINDOW: Final = Parameter("window", values=words.WINDOWS, default="1D")
_PAGE: Final = Parameter("page", Kind.WHOLE, default="1", minimum=1)
_PAGE_SIZE: Final = Parameter(
    "page_size", Kind.WHOLE, default="20", minimum=1, maximum=PAGE_SIZE_MAX
)
_SYMBOL: Final = Parameter("symbol", is_required=True)
_REPORT_PERIOD: Final = Parameter("period", values=words.REPORT_PERIODS, default="annual")
_FUND_TYPE: Final = Parameter("fund-type", values=words.FUND_TYPES, is_required=True)
_FUND_NAMES: Final = Parameter("fund-names", is_list=True, is_required=True)
_FUND_PERIOD: Final = Parameter("period", values=words.FUND_PERIODS)
_MONTHS: Final = (Parameter("from-month", Kind.MONTH), Parameter("to-month", Kind.MONTH))
_DAYS_AGO: Final = Parameter("days", Kind.WHOLE, default="30", minimum=1)

_INTRADAY_KINDS: Final = frozenset({"stock", "bond", "etf"})
_WITHOUT_RESOLUTION: Final = frozenset({"fund"})


def _history(kind: str) -> Parameters:
    """Return what the history of a kind of quote takes (section 4.4)."""
    if kind in _WITHOUT_RESOLUTION:
        return (_FROM_SECONDS, _TO_SECONDS)
    resolution = _RESOLUTION if kind in _INTRADAY_KINDS else _DAILY
    return (_FROM_SECONDS, _TO_SECONDS, resolution)


def _filters() -> Parameters:
    """Return the lower and upper bounds of the screener; a price may be bounded by an average."""
    return tuple(
        Parameter(
            f"{field}_{bound}",
            Kind.NUMBER,
            values=words.MOVING_AVERAGES if field == "price" else (),
        )
        for field in words.SCREENED_FIELDS
        for bound in ("gt", "lt")
    )


_SCREENER: Final = (
    Parameter("exchange", values=words.STOCK_EXCHANGES),
    Parameter("index", values=words.SCREENER_INDICES),
    Parameter("sector", values=words.SECTORS),
    _WINDOW,
    _DATE,
    Parameter("sort", values=words.SORT_KEYS),
    Parameter("fields", values=words.SCREENER_FIELDS, default=words.DEFAULT_FIELDS, is_list=True),
    _PAGE,
    _PAGE_SIZE,
    *_filters(),
)

_TAKING_SOMETHING: Final[Mapping[str, Parameters]] = {
    # account data (4.3)
    "todays_orders": (_UNCACHED,),
    "order_detail": (_UNCACHED,),
    "portfolio": (_UNCACHED,),
    "assets_summary": (_CACHED,),
    "user_rights": (
        Parameter("fromDate", Kind.DAY),
        Parameter("toDate", Kind.DAY),
        Parameter("catType", values=(words.ALL, *words.RIGHT_TYPES), default="ALL", is_list=True),
        Parameter("isCom", default="ALL"),
        Parameter("symbol", default="ALL"),
        Parameter(
            "status",
            values=tuple(
                dict.fromkeys((words.ALL, *words.RIGHT_REGISTER_STATUSES, *words.RIGHT_STATUSES))
            ),
            default="ALL",
            is_list=True,
        ),
    ),
    "pnl_today": (Parameter("sub-account-id", default="ALL"),),
    "available_trade": (
        Parameter("orderSide", values=words.SIDES, is_required=True),
        _SYMBOL,
        Parameter("quotePrice", Kind.WHOLE, is_required=True, minimum=0),
    ),
    "order_history": (
        Parameter("fromDate", Kind.DAY, is_required=True),
        Parameter("toDate", Kind.DAY, is_required=True),
        _PAGE,
        Parameter("orderStatus", default="ALL"),
        Parameter("symbol", default="ALL"),
    ),
    "market_phase": (Parameter("exchange", values=words.EXCHANGES, is_required=True),),
    # unified quotes (4.4)
    **{f"{kind}_history": _history(kind) for kind in QUOTE_KINDS},
    "dealer_product_history": (_FROM_SECONDS, _TO_SECONDS),
    # index analysis (4.5) and sectors (4.6); but for the first by analogy with a stock's
    "index_realtime": (Parameter("index", is_list=True, is_required=True),),
    "index_foreign": (_DATE,),
    "index_foreign_history": (_FROM_DAY, _TO_DAY, _DAILY),
    "sector_performance": (_WINDOW,),
    "sector_performance_history": (_FROM_DAY, _TO_DAY, _DAILY),
    "sector_foreign": (_DATE,),
    "sector_foreign_history": (_FROM_DAY, _TO_DAY, _DAILY),
    # screener and per-stock statistics (4.7)
    "screener": _SCREENER,
    "stock_foreign_room_history": (_FROM_DAY, _TO_DAY, _DAILY, _PAGE, _PAGE_SIZE),
    "stock_technicals": (
        Parameter(
            "indicators",
            Kind.INDICATOR,
            values=words.INDICATORS,
            default=words.DEFAULT_INDICATORS,
            is_list=True,
            items_max=INDICATORS_MAX,
        ),
        _FROM_DAY,
        _TO_DAY,
    ),
    "stock_trading": (_DATE,),
    "stock_trading_history": (_FROM_DAY, _TO_DAY, _DAILY),
    "stock_foreign": (_DATE,),
    "stock_foreign_history": (_FROM_DAY, _TO_DAY, _DAILY),
    "stock_proprietary": (_DATE,),
    "stock_proprietary_history": (_FROM_DAY, _TO_DAY, _DAILY),
    "stock_orders": (_DATE,),
    "stock_orders_history": (_FROM_DAY, _TO_DAY),
    # news, macro figures, calendar and financials: section 4.8
    "market_news": (
        Parameter("topic", values=words.NEWS_TOPICS),
        Parameter("symbol"),
        _PAGE,
        _PAGE_SIZE,
    ),
    "macro_indicators": (Parameter("tags", is_list=True), Parameter("search")),
    "macro_indicator": (
        Parameter("from", Kind.PERIOD),
        Parameter("to", Kind.PERIOD),
        Parameter("limit", Kind.WHOLE, minimum=1, maximum=500),
    ),
    "economic_calendar": (
        Parameter("country", values=words.COUNTRIES),
        replace(_FROM_SECONDS, is_required=False),
        replace(_TO_SECONDS, is_required=False),
        _PAGE,
        _PAGE_SIZE,
    ),
    "financial_analysis": (_SYMBOL, _REPORT_PERIOD),
    "financial_overview": (_SYMBOL,),
    "financial_statement": (
        _SYMBOL,
        Parameter("type", values=words.STATEMENTS, is_required=True),
        _REPORT_PERIOD,
        Parameter("limit", Kind.WHOLE, default="5", minimum=1, maximum=5),
    ),
    # open-end funds (4.9)
    "fund_certificates": (_FUND_TYPE, Parameter("fund-company-id", Kind.WHOLE)),
    "fund_nav_histories": (replace(_FUND_PERIOD, default="ALL_TIME"),),
    "fund_top_aum": (_FUND_TYPE,),
    "fund_top_investor": (_FUND_TYPE,),
    "fund_top_flow": (_FUND_TYPE,),
    "fund_benchmark_growth": (
        _FUND_NAMES,
        Parameter("amount", Kind.WHOLE, is_required=True),
        replace(_FUND_PERIOD, is_required=True),
    ),
    "fund_benchmark_nav": (_FUND_NAMES, _FUND_PERIOD, *_MONTHS),
    "fund_benchmark_operation": (_FUND_NAMES, _FUND_PERIOD, *_MONTHS),
    # earlier paths (4.10)
    "earlier_stock_realtime": (
        Parameter("symbol"),
        Parameter("symbols", is_list=True),
        Parameter("exchange", values=words.STOCK_EXCHANGES),
    ),
    "earlier_price_chart": (_SYMBOL, replace(_RESOLUTION, is_required=True), *_history("fund")),
    "earlier_news": (
        Parameter("stock"),
        Parameter("stocks", is_list=True),
        Parameter("from_date", Kind.SLASHED_DAY),
        Parameter("to_date", Kind.SLASHED_DAY),
    ),
    "earlier_gold_chart": (_DAYS_AGO,),
    "earlier_silver_chart": (_DAYS_AGO,),
    "earlier_macro": (
        Parameter("type", values=words.EARLIER_MACRO_TYPES, is_required=True),
        Parameter("country", values=words.EARLIER_MACRO_COUNTRIES, is_required=True),
        Parameter("period", values=words.EARLIER_MACRO_PERIODS),
    ),
    "earlier_trading_economics": (
        Parameter("country", values=words.COUNTRIES, is_required=True),
        Parameter("category", values=words.EARLIER_CATEGORIES),
        Parameter("year", Kind.WHOLE, minimum=2000, maximum=2100),
    ),
    "earlier_market": (
        Parameter("type", values=words.EARLIER_MARKETS, is_required=True),
        Parameter("limit", Kind.WHOLE, default="50", minimum=1, maximum=500),
    ),
    "earlier_calendar": (
        Parameter("weeks", Kind.WHOLE, default="1", minimum=1),
        Parameter("country", values=words.COUNTRIES),
    ),
    "earlier_global_news": (
        Parameter("category", values=words.EARLIER_NEWS_CATEGORIES),
        _PAGE,
        _PAGE_SIZE,
    ),
}

PARAMETERS: Final[Mapping[str, Parameters]] = MappingProxyType(
    {name: _TAKING_SOMETHING.get(name, ()) for name in ENDPOINTS}
)
"""What a call takes, by its name; nothing for most."""

_DAY_RANGE: Final = (Together(("from", "to")), DayRange("from", "to"))
_DAY_RANGES: Final = tuple(
    name
    for name, parameters in _TAKING_SOMETHING.items()
    if {_FROM_DAY, _TO_DAY} <= set(parameters)
)
_PERIOD_OR_MONTHS: Final = (EitherOr("period", ("from-month", "to-month")),)

RULES: Final[Mapping[str, tuple[Rule, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(_DAY_RANGES, _DAY_RANGE),
        "screener": (AtMostOne(("window", "date")), LiveOnly(words.LIVE_FIELDS)),
        "market_news": (OnlyWith("symbol", "topic", "stock"),),
        "fund_benchmark_nav": _PERIOD_OR_MONTHS,
        "fund_benchmark_operation": _PERIOD_OR_MONTHS,
        "earlier_stock_realtime": (ExactlyOne(("symbol", "symbols", "exchange")),),
    }
)
"""What the parameters of a call may not say together."""


def query_faults(name: str, query: Mapping[str, str]) -> tuple[QueryFault, ...]:
    """Find everything for which the API would answer a query with 400; unknown names are passed."""
    missing = [
        QueryFault(one.name, "required")
        for one in PARAMETERS[name]
        if one.is_required and one.name not in query
    ]
    alone = chain.from_iterable(
        faults_of(one, query[one.name]) for one in PARAMETERS[name] if one.name in query
    )
    found = (*missing, *alone)
    return found or tuple(chain.from_iterable(rule.faults(query) for rule in RULES.get(name, ())))


def unknown_parameters(name: str, query: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that the call does not take, for a client to refuse its user's slip."""
    known = {one.name for one in PARAMETERS[name]}
    return tuple(one for one in query if one not in known)


def with_defaults(name: str, query: Mapping[str, str]) -> Mapping[str, str]:
    """Return the query as the server reads it: what is left out is there with its default.

    A default gives way to what it may not stand beside (the screener's window to a date).
    """
    assumed = {one.name: one.default for one in PARAMETERS[name] if one.default is not None}
    for rule in RULES.get(name, ()):
        if isinstance(rule, AtMostOne) and not query.keys().isdisjoint(rule.names):
            assumed = {one: text for one, text in assumed.items() if one not in rule.names}
    return MappingProxyType({**assumed, **query})
