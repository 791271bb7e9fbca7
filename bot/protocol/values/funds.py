"""Open-end funds on the broker's own shelf.

Net asset values are VND a unit with fractions; assets under management, flows and amounts are VND;
percentages are percent. Funds go by their short names. Source: the broker's public command-line
client (May 2026) and an earlier snapshot of its open API description.
"""

from dataclasses import dataclass

from bot.protocol.fields import Count, CountOrNone, Day, NumberOrNone, Text, VndOrNone


@dataclass(frozen=True, slots=True)
class FundCertificate:
    """A fund; the list is by the profit of one year, best first."""

    id: Count
    name: Text
    type: Text = ""
    aum: VndOrNone = None
    rating: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class FundCompany:
    """A fund manager; `id` is what the list of funds filters by."""

    id: Count
    name: Text
    short_name: Text = ""
    image_url: Text = ""


@dataclass(frozen=True, slots=True)
class NavRecord:
    """A fund's value on a day, and its benchmark's in points."""

    date: Day
    nav: NumberOrNone = None
    benchmark_value: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class NavHistories:
    nav_histories: tuple[NavRecord, ...] = ()
    benchmark_name: Text = ""


@dataclass(frozen=True, slots=True)
class FundSuggestion:
    """A fund like another one: `criteria` is NET_ASSET_EQUIVALENT or GROWTH_EQUIVALENT."""

    fund_name: Text
    criteria: Text = ""


@dataclass(frozen=True, slots=True)
class FundAssets:
    """A fund's assets under management in a month (`YYYY-MM`)."""

    fund_name: Text
    month: Text = ""
    aum: VndOrNone = None


@dataclass(frozen=True, slots=True)
class FundInvestors:
    """How many hold a fund in a month (`YYYY-MM`)."""

    fund_name: Text
    month: Text = ""
    investors: CountOrNone = None


@dataclass(frozen=True, slots=True)
class FundFlow:
    """The money of a month (`YYYY-MM`): `fund_flow` is what came in less what went out."""

    fund_name: Text
    month: Text = ""
    fund_flow: VndOrNone = None
    fund_inflow: VndOrNone = None
    fund_outflow: VndOrNone = None


@dataclass(frozen=True, slots=True)
class HeldSymbol:
    """A stock, and how many funds hold it."""

    symbol: Text
    number_of_funds: CountOrNone = None


@dataclass(frozen=True, slots=True)
class FundGrowth:
    """What an amount would have become in a fund."""

    fund_name: Text
    profit_percent: NumberOrNone = None
    current_amount: VndOrNone = None


@dataclass(frozen=True, slots=True)
class NavChange:
    """A fund's value a unit on a day, and its change since the start."""

    date: Day
    navpf: NumberOrNone = None
    change_percent: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class FundNavs:
    fund_name: Text
    nav_records: tuple[NavChange, ...] = ()
