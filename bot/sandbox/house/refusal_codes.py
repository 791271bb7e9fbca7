"""The broker's code and words for each reason why an order or a change is not taken.

Codes: broker open API 0.2.0-preview.3, order-level codes. The Vietnamese texts are our own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
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


_R = Refusal
REJECTIONS: Final[Mapping[Refusal, Rejection]] = MappingProxyType(
    {
        _R.UNKNOWN_SYMBOL: Rejection("-400099", "Mã chứng khoán không được phép giao dịch"),
        _R.NOT_TRADING: Rejection("-300025", "Thị trường đóng cửa, vui lòng quay lại phiên sau"),
        _R.HALTED: Rejection("-700069", "Mã chứng khoán đang bị hạn chế hoặc tạm ngừng giao dịch"),
        _R.ORDER_TYPE: Rejection("-100113", "Loại lệnh không phù hợp với phiên giao dịch"),
        _R.NO_CLOSE: Rejection("-100113", "Chưa có giá đóng cửa cho lệnh sau giờ"),
        _R.QUANTITY: Rejection("-700104", "Khối lượng không đúng lô giao dịch"),
        _R.TOO_LARGE: Rejection("-700105", "Khối lượng vượt mức tối đa của một lệnh"),
        _R.ODD_LOT_BAN: Rejection("-700105", "Chưa được giao dịch lô lẻ với mã này"),
        _R.PRICE_MISSING: Rejection("-700106", "Lệnh LO phải có giá"),
        _R.PRICE_UNWANTED: Rejection("-700106", "Lệnh thị trường không được có giá"),
        _R.OFF_TICK: Rejection("-900017", "Giá không đúng bước giá"),
        _R.OUTSIDE_BAND: Rejection("-900017", "Giá nằm ngoài biên độ"),
        _R.OPPOSITE_ORDER: Rejection(FAILED, "Đang có lệnh ngược chiều trong phiên định kỳ"),
        _R.BUYING_POWER: Rejection("-400116", "Vượt quá sức mua"),
        _R.SELLABLE: Rejection("-400116", "Vượt quá số chứng khoán được bán"),
        _R.NOT_OPEN: Rejection(FAILED, "Lệnh không còn hiệu lực"),
        _R.CHANGE_NOT_NOW: Rejection("-300025", "Không được sửa hoặc hủy lệnh trong phiên này"),
        _R.TWO_FIELDS: Rejection("-700106", "Chỉ được sửa giá hoặc khối lượng"),
        _R.NOTHING_CHANGED: Rejection("-700106", "Giá và khối lượng không thay đổi"),
        _R.BELOW_EXECUTED: Rejection("-700105", "Khối lượng không lớn hơn phần đã khớp"),
        _R.LOT_CHANGED: Rejection("-700104", "Không được đổi giữa lô chẵn và lô lẻ"),
    }
)
_ODD_LOT_TAKES_ONLY_LIMIT: Final = Rejection("-700114", "Lô lẻ chỉ chấp nhận lệnh LO")


def rejection_of(refusal: Refusal, lot: Lot | None) -> Rejection:
    """Return what the broker says; an odd lot of a wrong type has a code of its own."""
    if refusal is Refusal.ORDER_TYPE and lot is Lot.ODD:
        return _ODD_LOT_TAKES_ONLY_LIMIT
    return REJECTIONS[refusal]
