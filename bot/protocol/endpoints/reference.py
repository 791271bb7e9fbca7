"""News, macro, calendar, financials, open-end funds, and the earlier paths.

Source: broker open API 0.2.0-preview.3, sections 4.8 to 4.10.
"""

from dataclasses import replace
from typing import Final

from bot.protocol import words
from bot.protocol.endpoints.endpoint import (
    DAYS_AGO,
    FUND_MONTHS,
    FUND_NAMES,
    FUND_PERIOD,
    FUND_TYPE,
    PAGES,
    PERIOD_OR_MONTHS,
    REPORT_PERIOD,
    RESOLUTION,
    SECONDS,
    SYMBOL,
    Lane,
    Shape,
    read,
)
from bot.protocol.query import ExactlyOne, Kind, OnlyWith, Parameter

_COMPANY: Final = "/market/company-financial"

_NEWS_AND_FINANCIALS: Final = (
    read(
        "market_news",
        "/market/market-news",
        "news.NewsPage",
        Parameter("topic", values=words.NEWS_TOPICS),
        Parameter("symbol"),
        *PAGES,
        rules=(OnlyWith("symbol", "topic", "stock"),),
    ),
    read("market_news_item", "/market/market-news/{news_id}", "news.NewsArticle"),
    read(
        "macro_indicators",
        "/market/macro/indicators",
        "*news.MacroItem",
        Parameter("tags", is_list=True),
        Parameter("search"),
    ),
    read(
        "macro_indicator",
        "/market/macro/indicators/{indicator}",
        "news.MacroSeries",
        Parameter("from", Kind.PERIOD),
        Parameter("to", Kind.PERIOD),
        Parameter("limit", Kind.WHOLE, minimum=1, maximum=500),
    ),
    read(
        "economic_calendar",
        "/market/calendar",
        "news.CalendarPage",
        Parameter("country", values=words.COUNTRIES),
        *(replace(one, is_required=False) for one in SECONDS),
        *PAGES,
    ),
    read("bank_rates", "/market/financial-data/bank-interest-rates", "news.BankRateTable"),
    read(
        "financial_analysis",
        _COMPANY + "/analysis",
        "*financials.AnalysisRow",
        SYMBOL,
        REPORT_PERIOD,
    ),
    read("financial_overview", _COMPANY + "/overview", "financials.FinancialOverview", SYMBOL),
    read(
        "financial_statement",
        "/market/v2/financial-statement/statement",
        "*financials.StatementRow",
        SYMBOL,
        Parameter("type", values=words.STATEMENTS, is_required=True),
        REPORT_PERIOD,
        Parameter("limit", Kind.WHOLE, default="5", minimum=1, maximum=5),
    ),
    read(
        "recommendation_reports",
        "/market/recommendation-reports/{symbol}",
        "financials.MaybeRecommendations",
        shape=Shape.PERHAPS,
    ),
)

# -------------------------------------------------------------------------- open-end funds (4.9)

_FUND: Final = "/fund-trading/public/fund-certificates"
_OF_FUND: Final = _FUND + "/{fund_name}"
_COMPARED: Final = _FUND + "/benchmark"

_FUNDS: Final = (
    read(
        "fund_certificates",
        _FUND,
        "*funds.FundCertificate",
        FUND_TYPE,
        Parameter("fund-company-id", Kind.WHOLE),
    ),
    read("fund_companies", "/fund-trading/public/fund-companies", "*funds.FundCompany"),
    read(
        "fund_nav_histories",
        _OF_FUND + "/nav-histories",
        "funds.NavHistories",
        replace(FUND_PERIOD, default="ALL_TIME"),
    ),
    read("fund_suggestions", _OF_FUND + "/suggestions", "*funds.FundSuggestion"),
    read("fund_portfolio", _OF_FUND + "/portfolio", ""),
    read("fund_asset_allocation", _OF_FUND + "/asset-allocation", ""),
    read("fund_sector_allocation", _OF_FUND + "/sector-allocation", ""),
    read("fund_top_aum", _FUND + "/top-aum", "*funds.FundAssets", FUND_TYPE),
    read("fund_top_investor", _FUND + "/top-investor", "*funds.FundInvestors", FUND_TYPE),
    read("fund_top_flow", _FUND + "/top-fund-flow", "*funds.FundFlow", FUND_TYPE),
    read("fund_top_holdings", _FUND + "/top-holding-symbols", "*funds.HeldSymbol"),
    read(
        "fund_benchmark_growth",
        _COMPARED + "/growth",
        "*funds.FundGrowth",
        FUND_NAMES,
        Parameter("amount", Kind.WHOLE, is_required=True),
        replace(FUND_PERIOD, is_required=True),
    ),
    read(
        "fund_benchmark_nav",
        _COMPARED + "/nav",
        "*funds.FundNavs",
        *FUND_MONTHS,
        rules=PERIOD_OR_MONTHS,
    ),
    read(
        "fund_benchmark_operation",
        _COMPARED + "/operation",
        "",
        *FUND_MONTHS,
        rules=PERIOD_OR_MONTHS,
    ),
)

# --------------------------------------------------------------------------- earlier paths (4.10)

_EARLIER: Final = "/market/financial-data"
_LIMIT: Final = Parameter("limit", Kind.WHOLE, default="50", minimum=1, maximum=500)

_EARLIER_PATHS: Final = (
    read(
        "earlier_stock_realtime",
        "/market/stock-realtime",
        "earlier.EitherBoard",
        Parameter("symbol"),
        Parameter("symbols", is_list=True),
        Parameter("exchange", values=words.STOCK_EXCHANGES),
        lane=Lane.QUOTE,
        key="result",
        shape=Shape.EITHER,
        rules=(ExactlyOne(("symbol", "symbols", "exchange")),),
    ),
    read(
        "earlier_price_chart",
        "/market/price-histories-chart",
        "earlier.PriceChart",
        SYMBOL,
        replace(RESOLUTION, is_required=True),
        *SECONDS,
    ),
    read(
        "earlier_news",
        "/market/news",
        "*earlier.StockEvent",
        Parameter("stock"),
        Parameter("stocks", is_list=True),
        Parameter("from_date", Kind.SLASHED_DAY),
        Parameter("to_date", Kind.SLASHED_DAY),
        key="result",
    ),
    read("earlier_financial_data", _EARLIER, "*earlier.AssetGroup"),
    read("earlier_gold", _EARLIER + "/gold", "*earlier.MetalPrice"),
    read("earlier_silver", _EARLIER + "/silver", "*earlier.MetalPrice"),
    read("earlier_gold_chart", _EARLIER + "/gold-chart", "", DAYS_AGO),
    read("earlier_silver_chart", _EARLIER + "/silver-chart", "", DAYS_AGO),
    read("earlier_gold_providers", _EARLIER + "/gold-providers", "*earlier.MetalPrice"),
    read("earlier_metal_providers", _EARLIER + "/metal-providers", "*earlier.MetalPrice"),
    read("earlier_trending_cryptos", _EARLIER + "/cryptos/top-trending", "*earlier.TrendingCrypto"),
    read(
        "earlier_macro",
        _EARLIER + "/macro",
        "*earlier.MacroDatum",
        Parameter("type", values=words.EARLIER_MACRO_TYPES, is_required=True),
        Parameter("country", values=words.EARLIER_MACRO_COUNTRIES, is_required=True),
        Parameter("period", values=words.EARLIER_MACRO_PERIODS),
    ),
    read(
        "earlier_trading_economics",
        _EARLIER + "/trading-economics",
        "*earlier.EconomicDatum",
        Parameter("country", values=words.COUNTRIES, is_required=True),
        Parameter("category", values=words.EARLIER_CATEGORIES),
        Parameter("year", Kind.WHOLE, minimum=2000, maximum=2100),
    ),
    read(
        "earlier_market",
        _EARLIER + "/market",
        "*earlier.MarketDatum",
        Parameter("type", values=words.EARLIER_MARKETS, is_required=True),
        _LIMIT,
    ),
    read(
        "earlier_calendar",
        _EARLIER + "/economic-calendar-events",
        "*earlier.EconomicEvent",
        Parameter("weeks", Kind.WHOLE, default="1", minimum=1),
        Parameter("country", values=words.COUNTRIES),
    ),
    read(
        "earlier_global_news",
        _EARLIER + "/global-news",
        "earlier.GlobalNewsPage",
        Parameter("category", values=words.EARLIER_NEWS_CATEGORIES),
        *PAGES,
    ),
)

REFERENCE: Final = (*_NEWS_AND_FINANCIALS, *_FUNDS, *_EARLIER_PATHS)
