"""What a company reports and what analysts make of it.

Metric names are the broker's own, about two hundred that differ by kind of company; null metrics
are left out. Whether a ratio is a fraction or percent is not documented, so ratios are passed on
unchanged. Amounts are VND. Source: broker open API 0.2.0-preview.3, financials.
"""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BeforeValidator, Field, WrapSerializer

from bot.protocol.fields import Count, CountOrNone, NumberOrNone, Numbers, StampOrNone, Text
from bot.protocol.shaped import SPARSE, Rest


@dataclass(frozen=True, slots=True)
class MetricsRow:
    """The metrics of a year, or of one of its quarters (1 to 4)."""

    year: Count
    quarter: CountOrNone = None
    metrics: Numbers = field(default_factory=dict)


AnalysisRow = Annotated[MetricsRow, SPARSE, Rest("metrics")]
"""A year has no `quarter`."""
StatementRow = Annotated[MetricsRow, Rest("metrics")]
"""A year has `quarter` null."""


@dataclass(frozen=True, slots=True)
class IndustryRatios:
    pe: NumberOrNone = None
    pb: NumberOrNone = None
    ev_ebitda: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class FinancialOverview:
    """The ratios of a company today. `nim` is for banks, `margin_loan_to_equity_ratio` for brokers;
    `eps` is VND a share.
    """

    pe: NumberOrNone = None
    pb: NumberOrNone = None
    ev_ebitda: NumberOrNone = None
    industry: IndustryRatios | None = None
    gross_margin: NumberOrNone = None
    roe: NumberOrNone = None
    roa: NumberOrNone = None
    eps: NumberOrNone = None
    dividend_yield: NumberOrNone = None
    nim: NumberOrNone = None
    margin_loan_to_equity_ratio: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class RecommendationReport:
    """A report of analysts; prices are VND."""

    stock: Text = ""
    title: Text | None = None
    source: Text | None = None
    recommendation_price: NumberOrNone = None
    target_price: NumberOrNone = None
    publish_date: StampOrNone = None
    description: Text | None = None
    download_url: Text | None = None
    created_at: StampOrNone = None
    updated_at: StampOrNone = None


@dataclass(frozen=True, slots=True)
class Recommendations:
    """The analysts' reports on a stock, latest first; empty if there are none."""

    recommendation: Text | None = None
    reports: Annotated[tuple[RecommendationReport, ...], Field(alias="recommendationReports")] = ()


MaybeRecommendations = Annotated[
    Recommendations,
    BeforeValidator(lambda value: {} if value is None or value == [] else value),
    WrapSerializer(lambda found, write: write(found) if found != Recommendations() else []),
]
"""The broker sends null or an empty list when there is no report."""
