"""What every call answers: one row for each, by the call's name.

A row gives decoder and encoder at once. `shaped` makes both from the payload's dataclass, `by_hand`
names functions written for trading, `unshaped` hands out the checked payload where no source shows
a shape. The order writes, the 2FA exchange and the rows of the day order book are not here: they
need more than a payload (`decode.py`, `encode.py`). Adding a path is one row in `endpoints.py`, one
in `parameters.py` and one here. Source: broker open API 0.2.0-preview.3, sections 4.1 to 4.10.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from bot.protocol import accounts, market, users
from bot.protocol.shaped import Codec, by_hand, shaped, unshaped
from bot.protocol.values import (
    account,
    earlier,
    financials,
    funds,
    index,
    news,
    quotes,
    series,
    stocks,
)

# ------------------------------------------------------------------- bootstrap and account data
USER: Final = by_hand("user", users.decode_user, users.encode_user)
SUB_ACCOUNTS: Final = by_hand("sub_accounts", users.decode_sub_accounts, users.encode_sub_accounts)
PORTFOLIO: Final = by_hand("portfolio", accounts.decode_portfolio, accounts.encode_portfolio)
SUMMARY: Final = by_hand("summary", accounts.decode_summary, accounts.encode_summary)
AVAILABLE_TRADE: Final = by_hand(
    "available_trade", accounts.decode_available_trade, accounts.encode_available_trade
)
MARKET_PHASE: Final = by_hand(
    "market_phase", market.decode_market_phase, market.encode_market_phase
)
ASSETS_SUMMARY: Final = shaped("assets_summary", account.AssetsSummary)
USER_RIGHTS: Final = shaped("user_rights", tuple[account.UserRight, ...])
PNL_TODAY: Final = shaped("pnl_today", account.PnlToday)
ORDER_HISTORY: Final = shaped("order_history", account.OrderHistory)

# ------------------------------------------------------------------------------ unified quotes
STOCK_CATALOGUE: Final = shaped("stock_catalogue", tuple[quotes.CatalogueItem, ...])
INDEX_CATALOGUE: Final = shaped("index_catalogue", tuple[quotes.CatalogueItem, ...])
FOREX_CATALOGUE: Final = shaped("forex_catalogue", tuple[quotes.CatalogueItem, ...])
CRYPTO_CATALOGUE: Final = shaped("crypto_catalogue", tuple[quotes.CatalogueItem, ...])
COMMODITY_CATALOGUE: Final = shaped("commodity_catalogue", tuple[quotes.CommodityItem, ...])
FUND_CATALOGUE: Final = shaped("fund_catalogue", tuple[quotes.FundItem, ...])
BOND_CATALOGUE: Final = shaped("bond_catalogue", tuple[quotes.BondItem, ...])
ETF_CATALOGUE: Final = shaped("etf_catalogue", tuple[quotes.EtfItem, ...])
STOCK_QUOTE: Final = shaped("stock_quote", quotes.ListedQuote)
INDEX_QUOTE: Final = shaped("index_quote", quotes.IndexQuote)
FOREX_QUOTE: Final = shaped("forex_quote", quotes.ForexQuote)
CRYPTO_QUOTE: Final = shaped("crypto_quote", quotes.AssetQuote)
COMMODITY_QUOTE: Final = shaped("commodity_quote", quotes.AssetQuote)
FUND_QUOTE: Final = shaped("fund_quote", quotes.FundQuote)
BOND_QUOTE: Final = shaped("bond_quote", quotes.BondQuote)
ETF_QUOTE: Final = shaped("etf_quote", quotes.ListedQuote)
STOCK_HISTORY: Final = shaped("stock_history", series.PriceHistory)
INDEX_HISTORY: Final = shaped("index_history", series.IndexHistory)
FOREX_HISTORY: Final = shaped("forex_history", series.PriceHistory)
CRYPTO_HISTORY: Final = shaped("crypto_history", series.PriceHistory)
COMMODITY_HISTORY: Final = shaped("commodity_history", series.PriceHistory)
FUND_HISTORY: Final = shaped("fund_history", series.FundHistory)
BOND_HISTORY: Final = shaped("bond_history", series.BondHistory)
ETF_HISTORY: Final = shaped("etf_history", series.PriceHistory)
STOCK_DEPTH: Final = shaped("stock_depth", series.ListedDepth)
BOND_DEPTH: Final = shaped("bond_depth", series.ListedDepth)
ETF_DEPTH: Final = shaped("etf_depth", series.ListedDepth)
STOCK_DEPTH_HISTORY: Final = shaped("stock_depth_history", series.DepthHistory)
DEALER_PRODUCTS: Final = shaped("dealer_products", tuple[quotes.DealerItem, ...])
DEALER_PRODUCT: Final = shaped("dealer_product", quotes.DealerQuote)
DEALER_PRODUCT_HISTORY: Final = shaped("dealer_product_history", series.DealerHistory)

# ------------------------------------------------------------- indices and sectors (shapes unshown)
INDEX_REALTIME: Final = shaped("index_realtime", tuple[index.IndexNow, ...])
INDEX_LIST: Final = unshaped("index_list")
INDEX_BREADTH: Final = unshaped("index_breadth")
INDEX_CONSTITUENTS: Final = unshaped("index_constituents")
INDEX_FOREIGN: Final = unshaped("index_foreign")
INDEX_FOREIGN_HISTORY: Final = unshaped("index_foreign_history")
SECTOR_LIST: Final = unshaped("sector_list")
SECTOR_BREADTH: Final = unshaped("sector_breadth")
SECTOR_CONSTITUENTS: Final = unshaped("sector_constituents")
SECTOR_PERFORMANCE: Final = unshaped("sector_performance")
SECTOR_PERFORMANCE_HISTORY: Final = unshaped("sector_performance_history")
SECTOR_FOREIGN: Final = unshaped("sector_foreign")
SECTOR_FOREIGN_HISTORY: Final = unshaped("sector_foreign_history")

# ------------------------------------------------------------- screener and per-stock statistics
SCREENER: Final = shaped("screener", stocks.Screen)
STOCK_PROFILE: Final = shaped("stock_profile", stocks.Profile)
STOCK_LISTING: Final = shaped("stock_listing", stocks.Listing)
STOCK_OWNERSHIP: Final = shaped("stock_ownership", stocks.Ownership)
STOCK_FOREIGN_ROOM: Final = shaped("stock_foreign_room", stocks.ForeignRoom)
STOCK_FOREIGN_ROOM_HISTORY: Final = shaped("stock_foreign_room_history", stocks.ForeignRoomHistory)
STOCK_TECHNICALS: Final = shaped("stock_technicals", stocks.Technicals)
STOCK_TRADING: Final = shaped("stock_trading", stocks.Trading)
STOCK_TRADING_HISTORY: Final = shaped("stock_trading_history", stocks.TradingHistory)
STOCK_FOREIGN: Final = shaped("stock_foreign", stocks.GroupTrading)
STOCK_FOREIGN_HISTORY: Final = shaped("stock_foreign_history", stocks.GroupTradingHistory)
STOCK_PROPRIETARY: Final = shaped("stock_proprietary", stocks.GroupTrading)
STOCK_PROPRIETARY_HISTORY: Final = shaped("stock_proprietary_history", stocks.GroupTradingHistory)
STOCK_ORDERS: Final = shaped("stock_orders", stocks.OrderStatistics)
STOCK_ORDERS_HISTORY: Final = shaped("stock_orders_history", stocks.OrderStatisticsHistory)
STOCK_EVENTS: Final = unshaped("stock_events")
STOCK_INSIDER: Final = unshaped("stock_insider")
STOCK_ANALYST_REPORTS: Final = unshaped("stock_analyst_reports")

# --------------------------------------------------------------- news, macro, calendar, financials
MARKET_NEWS: Final = shaped("market_news", news.Page[news.NewsItem])
MARKET_NEWS_ITEM: Final = shaped("market_news_item", news.NewsArticle)
MACRO_INDICATORS: Final = shaped("macro_indicators", tuple[news.MacroItem, ...])
MACRO_INDICATOR: Final = shaped("macro_indicator", news.MacroSeries)
ECONOMIC_CALENDAR: Final = shaped("economic_calendar", news.CalendarPage)
BANK_RATES: Final = shaped("bank_rates", news.BankRateTable)
FINANCIAL_ANALYSIS: Final = shaped("financial_analysis", tuple[financials.AnalysisRow, ...])
FINANCIAL_OVERVIEW: Final = shaped("financial_overview", financials.FinancialOverview)
FINANCIAL_STATEMENT: Final = shaped("financial_statement", tuple[financials.StatementRow, ...])
RECOMMENDATION_REPORTS: Final = shaped("recommendation_reports", financials.MaybeRecommendations)

# ------------------------------------------------------------------------------------------ funds
FUND_CERTIFICATES: Final = shaped("fund_certificates", tuple[funds.FundCertificate, ...])
FUND_COMPANIES: Final = shaped("fund_companies", tuple[funds.FundCompany, ...])
FUND_NAV_HISTORIES: Final = shaped("fund_nav_histories", funds.NavHistories)
FUND_SUGGESTIONS: Final = shaped("fund_suggestions", tuple[funds.FundSuggestion, ...])
FUND_PORTFOLIO: Final = unshaped("fund_portfolio")
FUND_ASSET_ALLOCATION: Final = unshaped("fund_asset_allocation")
FUND_SECTOR_ALLOCATION: Final = unshaped("fund_sector_allocation")
FUND_TOP_AUM: Final = shaped("fund_top_aum", tuple[funds.FundAssets, ...])
FUND_TOP_INVESTOR: Final = shaped("fund_top_investor", tuple[funds.FundInvestors, ...])
FUND_TOP_FLOW: Final = shaped("fund_top_flow", tuple[funds.FundFlow, ...])
FUND_TOP_HOLDINGS: Final = shaped("fund_top_holdings", tuple[funds.HeldSymbol, ...])
FUND_BENCHMARK_GROWTH: Final = shaped("fund_benchmark_growth", tuple[funds.FundGrowth, ...])
FUND_BENCHMARK_NAV: Final = shaped("fund_benchmark_nav", tuple[funds.FundNavs, ...])
FUND_BENCHMARK_OPERATION: Final = unshaped("fund_benchmark_operation")

# ---------------------------------------------------------------------------------- earlier paths
EARLIER_STOCK_REALTIME: Final = shaped("earlier_stock_realtime", earlier.EitherBoard)
EARLIER_PRICE_CHART: Final = shaped("earlier_price_chart", earlier.PriceChart)
EARLIER_NEWS: Final = shaped("earlier_news", tuple[earlier.StockEvent, ...])
EARLIER_FINANCIAL_DATA: Final = shaped("earlier_financial_data", tuple[earlier.AssetGroup, ...])
EARLIER_GOLD: Final = shaped("earlier_gold", tuple[earlier.MetalPrice, ...])
EARLIER_SILVER: Final = shaped("earlier_silver", tuple[earlier.MetalPrice, ...])
EARLIER_GOLD_CHART: Final = unshaped("earlier_gold_chart")
EARLIER_SILVER_CHART: Final = unshaped("earlier_silver_chart")
EARLIER_GOLD_PROVIDERS: Final = shaped("earlier_gold_providers", tuple[earlier.MetalPrice, ...])
EARLIER_METAL_PROVIDERS: Final = shaped("earlier_metal_providers", tuple[earlier.MetalPrice, ...])
EARLIER_TRENDING_CRYPTOS: Final = shaped(
    "earlier_trending_cryptos", tuple[earlier.TrendingCrypto, ...]
)
EARLIER_MACRO: Final = shaped("earlier_macro", tuple[earlier.MacroDatum, ...])
EARLIER_TRADING_ECONOMICS: Final = shaped(
    "earlier_trading_economics", tuple[earlier.EconomicDatum, ...]
)
EARLIER_MARKET: Final = shaped("earlier_market", tuple[earlier.MarketDatum, ...])
EARLIER_CALENDAR: Final = shaped("earlier_calendar", tuple[earlier.EconomicEvent, ...])
EARLIER_GLOBAL_NEWS: Final = shaped("earlier_global_news", earlier.GlobalNewsPage)

CODECS: Final[Mapping[str, Codec[Any]]] = MappingProxyType(
    {row.endpoint.name: row for row in tuple(vars().values()) if isinstance(row, Codec)}
)
"""Every row by the name of its call."""
