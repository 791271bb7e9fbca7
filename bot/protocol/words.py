"""The words used in queries and answers, as far as the document lists them.

The lists are not exhaustive for answers: an unlisted word is kept unchanged. Source: broker open
API 0.2.0-preview.3, enumerations and the sections of the calls.
"""

from typing import Final

Words = tuple[str, ...]


def _words(text: str, separator: str = " ") -> Words:
    return tuple(text.split(separator))


ALL: Final = "ALL"
CACHE_CONTROLS: Final[Words] = ("CACHE", "NOCACHE")
SIDES: Final[Words] = ("BUY", "SELL")
EXCHANGES: Final[Words] = _words("HOSE HNX UPCOM HCX")
STOCK_EXCHANGES: Final[Words] = ("HOSE", "HNX", "UPCOM")
RESOLUTIONS: Final[Words] = _words("1D 5 15 30 1H 4H")
DAILY: Final[Words] = ("1D",)
SCREENER_INDICES: Final[Words] = ("VN30", "HNX30")
WINDOWS: Final[Words] = _words("1D 1W 1M 3M 6M 1Y YTD")
SECTORS: Final[Words] = _words(
    "technology telecommunications healthcare financials real-estate consumer-discretionary "
    "consumer-staples industrials basic-materials energy utilities"
)
INDICATORS: Final[Words] = _words(
    "SMA EMA ADX SUPERTREND PSAR ICHIMOKU RSI MACD STOCH CCI WILLIAMS_R BBANDS ATR OBV MFI "
    "VOLUME_SMA"
)
DEFAULT_INDICATORS: Final = (
    "SMA(20),SMA(50),EMA(20),RSI(14),MACD(12,26,9),BBANDS(20,2),VOLUME_SMA(20)"
)
NEWS_TOPICS: Final[Words] = _words("crypto forex stock commodities macro")
COUNTRIES: Final[Words] = _words(
    "China, Euro Area, Japan, United States, United Kingdom, Vietnam", ", "
)
REPORT_PERIODS: Final[Words] = ("annual", "quarterly")
STATEMENTS: Final[Words] = ("income-statement", "balance-sheet", "cash-flow")
FUND_TYPES: Final[Words] = ("STOCK_FUND", "BOND_FUND", "BALANCE_FUND")
FUND_PERIODS: Final[Words] = _words(
    "BEGIN_THE_YEAR ONE_MONTH THREE_MONTHS SIX_MONTHS ONE_YEAR THREE_YEARS FIVE_YEARS "
    "SEVEN_YEARS TEN_YEARS ALL_TIME"
)
RIGHT_STATUSES: Final[Words] = _words(
    "WAIT_FOR_REVIEW WAIT_EXECUTED WAITING_FOR_APPROVE NAVIGATING COMPLETED "
    "ALLOCATION_COMPLETED CANCELED EMPTY_STOCK APPROVED REJECTED READY_FOR_TRADE "
    "READY_FOR_CLOSE STOCK_ALLOTTED MONEY_ALLOTTED PARTIALLY_DONE VERIFIED DELETED REGISTERED "
    "UNKNOWN"
)
RIGHT_REGISTER_STATUSES: Final[Words] = _words(
    "UNREGISTER REGISTERED EXPIRED RECEIVED PARTIAL_REGISTERED PENDING PARTIAL_RECEIVED "
    "WAIT_REGISTER REGISTERED_V2 WAIT_RECEIVE WAIT_STOCK PARTIAL_RECEIVED_V2 UNKNOWN"
)
RIGHT_QUERY_STATUSES: Final[Words] = tuple(
    dict.fromkeys((ALL, *RIGHT_REGISTER_STATUSES, *RIGHT_STATUSES))
)
RIGHT_TYPES: Final[Words] = _words(
    "OTC_BOND_INTEREST SHAREHOLDER_MEETING SOLICIT_SHAREHOLDER_OPINIONS CASH_DIVIDEND "
    "STOCK_DIVIDEND STOCK_RIGHT BOND_INTEREST BOND_PRINCIPAL_AND_INTEREST "
    "CONVERT_BONDS_TO_STOCKS CONVERT_STOCKS_TO_OTHER_STOCKS BONUS_SHARES VOTING_RIGHTS "
    "CONVERTIBLE_BOND TRANSFER_PENDING_STOCKS WARRANT_DIVIDENDS"
)

# --------------------------------------------------------------------------- fields of the screener

MOVING_AVERAGES: Final[Words] = ("ma50", "ma200")
"""Returned, and accepted as a bound of the price, but never a sort key."""
SCREENED_FIELDS: Final[Words] = _words(
    "price change_percent market_cap shares_outstanding pe pb eps volume value "
    "foreign_net_value foreign_net_volume foreign_buy_value foreign_sell_value "
    "foreign_room_available foreign_room_available_pct proprietary_net_value "
    "proprietary_net_volume proprietary_buy_value proprietary_sell_value"
)
"""What the screener filters by: each as `<field>_gt` and `<field>_lt`."""
NAMING_FIELDS: Final[Words] = _words("symbol exchange name sector")
SCREENER_FIELDS: Final[Words] = (*NAMING_FIELDS, *SCREENED_FIELDS, *MOVING_AVERAGES)
DEFAULT_FIELDS: Final = "symbol,exchange,name,price,change_percent"
LIVE_FIELDS: Final[Words] = (
    "market_cap",
    "shares_outstanding",
    "pe",
    "pb",
    "eps",
    "value",
    *MOVING_AVERAGES,
)
"""Null for a past `date`; sorting or filtering by them is refused then."""
SORT_KEYS: Final[Words] = tuple(
    sign + field for field in ("symbol", *SCREENED_FIELDS) for sign in ("", "-")
)
"""What `sort` takes. The document says "field": read here as the ones that filter, and
the symbol.
"""

# ----------------------------------------------------------------------------- the earlier paths

EARLIER_MACRO_TYPES: Final[Words] = _words(
    "IIP CPI PMI PCE CORE_PCE NFP FED_FUNDS_RATE INTERBANK_RATE GOVERNMENT_10Y_BOND_YIELD "
    "UNEMPLOYMENT_RATE"
)
EARLIER_MACRO_COUNTRIES: Final[Words] = _words("VN US JP DE")
EARLIER_MACRO_PERIODS: Final[Words] = ("ONE_MONTH", "ONE_YEAR", "YTD")
EARLIER_CATEGORIES: Final[Words] = _words(
    "GDP Labour Prices Money Trade Government Business Consumer Housing"
)
EARLIER_MARKETS: Final[Words] = _words(
    "SP500 DOW_JONES NASDAQ RUSSELL2000 VIX DXY KOSPI HANGSENG SHANGHAI NIKKEI APPLE MICROSOFT "
    "ALPHABET AMAZON META NVIDIA TESLA GOLD SILVER COPPER CRUDE_OIL BRENT_OIL NATURAL_GAS "
    "EURUSD USDJPY GBPUSD"
)
EARLIER_NEWS_CATEGORIES: Final[Words] = _words(
    "forex commodities economic-indicators stock-market cryptocurrency"
)

# ------------------------------------------------------------------- fields that nothing here fills

SUMMARY_ZEROS: Final[Words] = _words(
    "interest_balance debt_amt trf_buy_amt margin_amt t0_debt_amt advanced_amt "
    "advance_max_amt_fee df_debt_amt td_debt_amt cidepo_fee cidepo_fee_acr sms_fee_amt "
    "ibroker_fee_amt mrcr_limit mrcr_limit_max margin_rate mri_rate mrm_rate emk_amt td_int_amt "
    "add_vnd add_vnd_1"
)
"""Amounts and rates of a sub-account's summary that are always 0: no margin, no interest."""
