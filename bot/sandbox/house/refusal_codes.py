"""The broker's code and words for each reason why an order or a change is not taken.

The table is `refusals.csv`. Codes: broker open API 0.2.0-preview.3, order-level codes. The
Vietnamese texts are our own.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from bot.domain.instrument import Lot
from bot.sandbox.exchange.order import Refusal

AMENDED_IN_PART: Final = "-701111"
"""A partly matched order was amended: only its unmatched part changed. Not a rejection."""
AMENDED_IN_PART_TEXT: Final = "Chỉ sửa được phần chưa khớp"
FAILED: Final = "FAILED"


@dataclass(frozen=True, slots=True)
class Rejection:
    code: str
    reason: str


_TEXT: Final = files("bot.sandbox.house").joinpath("refusals.csv").read_text(encoding="utf-8")
REJECTIONS: Final[Mapping[Refusal, Rejection]] = {
    Refusal(row["refusal"]): Rejection(row["code"], row["reason"])
    for row in csv.DictReader(_TEXT.splitlines())
}
_ODD_LOT_TAKES_ONLY_LIMIT: Final = Rejection("-700114", "Lô lẻ chỉ chấp nhận lệnh LO")


def rejection_of(refusal: Refusal, lot: Lot | None) -> Rejection:
    """Return what the broker says; an odd lot of a wrong type has a code of its own."""
    if refusal is Refusal.ORDER_TYPE and lot is Lot.ODD:
        return _ODD_LOT_TAKES_ONLY_LIMIT
    return REJECTIONS[refusal]
