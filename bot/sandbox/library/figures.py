"""Figures as the API writes them: Decimals of a few digits, made of scaled whole numbers.

Everything that can be added up is kept whole inside the library (VND, shares, hundredths of a
point); a Decimal appears only in what is answered.
"""

from decimal import Decimal
from typing import Final

_PERCENT_DIGITS: Final = 2


def scaled(units: int, digits: int) -> Decimal:
    """Return whole units of 10^-digits as a number."""
    return Decimal(units).scaleb(-digits)


def maybe(units: int | None, digits: int) -> Decimal | None:
    return None if units is None else scaled(units, digits)


def units_of(text: str, digits: int) -> int:
    """Return a number of a table as whole units of 10^-digits."""
    return int(Decimal(text).scaleb(digits))


def rounded(value: float, digits: int) -> Decimal:
    return Decimal(f"{value:.{digits}f}")


def ratio(part: float, whole: float, digits: int = _PERCENT_DIGITS) -> Decimal | None:
    """Return a quotient, None when there is nothing to divide by."""
    return rounded(part / whole, digits) if whole else None


def percent(part: float, whole: float, digits: int = _PERCENT_DIGITS) -> Decimal | None:
    """Return part of whole in percent, None when there is no whole."""
    return ratio(100 * part, whole, digits)


def share(amount: int, part: int, whole: int) -> int:
    """Return `part` of `whole` of an amount, rounded half up; 0 of nothing."""
    return (2 * amount * part + whole) // (2 * whole) if whole else 0
