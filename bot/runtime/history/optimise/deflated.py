"""The probability that a Sharpe ratio is real, given that it is the best of many trials.

The deflated Sharpe ratio of D. H. Bailey and M. Lopez de Prado, "The Deflated Sharpe Ratio:
Correcting for Selection Bias, Backtest Overfitting, and Non-Normality", Journal of Portfolio
Management 40 (5), 2014. All ratios here are of one day, not of a year:

    expected best of N worthless trials whose ratios have the variance V
        SR0 = sqrt(V) * ((1 - g) * Z(1 - 1/N) + g * Z(1 - 1/(N e)))      g: Euler-Mascheroni
    probability that the true ratio is above SR0, from T days with skewness s and kurtosis k
        DSR = P((SR - SR0) * sqrt(T - 1) / sqrt(1 - s * SR + (k - 1) / 4 * SR^2))

Z is the inverse of P, the normal distribution; k is 3 for a normal one. N counts trials as if they
were independent; neighbours are not, so the figure is conservative.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import e, sqrt
from statistics import NormalDist, fmean, pstdev, variance
from typing import Final

from bot.runtime.history.backtest.figures import RATIO_DAYS_MIN

EULER_MASCHERONI: Final = 0.5772156649015329
TRIALS_MIN: Final = 2
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class Deflated:
    """The probability and everything it was computed from; ratios are daily."""

    probability: float
    sharpe: float
    expected_best: float
    trials: int
    variance: float
    days: int
    skewness: float
    kurtosis: float


def expected_best(trials: int, of_variance: float) -> float:
    """Return the expected best daily Sharpe ratio among worthless trials."""
    first = _NORMAL.inv_cdf(1 - 1 / trials)
    second = _NORMAL.inv_cdf(1 - 1 / (trials * e))
    return sqrt(of_variance) * ((1 - EULER_MASCHERONI) * first + EULER_MASCHERONI * second)


def probability_above(
    sharpe: float, bar: float, *, days: int, skewness: float, kurtosis: float
) -> float | None:
    """Return the probability that the true daily ratio is above `bar`; None if the moments do not
    allow it.
    """
    spread = 1 - skewness * sharpe + (kurtosis - 1) / 4 * sharpe**2
    if spread <= 0:
        return None
    return _NORMAL.cdf((sharpe - bar) * sqrt(days - 1) / sqrt(spread))


def moments(gains: Sequence[float]) -> tuple[float, float, float] | None:
    """Return daily Sharpe ratio, skewness and kurtosis; None with too few days or
    without movement.
    """
    if len(gains) < RATIO_DAYS_MIN or (deviation := pstdev(gains)) == 0:
        return None
    mean = fmean(gains)
    scaled = [(gain - mean) / deviation for gain in gains]
    sample = deviation * sqrt(len(gains) / (len(gains) - 1))
    return mean / sample, fmean(x**3 for x in scaled), fmean(x**4 for x in scaled)


def deflated_sharpe(gains: Sequence[float], sharpes: Sequence[float]) -> Deflated | None:
    """Return the deflated ratio of the chosen trial's daily gains, given the daily ratios of all
    trials; None with too few of either.
    """
    found = moments(gains)
    if found is None or len(sharpes) < TRIALS_MIN:
        return None
    sharpe, skewness, kurtosis = found
    spread = variance(sharpes)
    bar = expected_best(len(sharpes), spread)
    probability = probability_above(
        sharpe, bar, days=len(gains), skewness=skewness, kurtosis=kurtosis
    )
    if probability is None:
        return None
    return Deflated(
        probability=probability,
        sharpe=sharpe,
        expected_best=bar,
        trials=len(sharpes),
        variance=spread,
        days=len(gains),
        skewness=skewness,
        kurtosis=kurtosis,
    )
