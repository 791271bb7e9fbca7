"""Why the broker rejected an order, in words."""

from bot.cli.telling.wording import known_reason
from bot.sandbox.house.order_record import REJECTIONS
from tests.rows import every_row


@every_row(
    ("code", "reason", "words"),
    [
        ("-900017", "Giá nằm ngoài biên độ", "price outside the day's band"),
        ("-900017", "Giá không đúng bước giá", "price off the tick"),
        ("-900017", "", "invalid price or lot"),
        ("-400116", "VƯỢT QUÁ SỨC MUA", "more than the buying power"),
        ("-1", "Lỗi khác", ""),
        (None, None, ""),
    ],
)
def test_a_known_phrase_says_more_than_its_code(code, reason, words) -> None:
    assert known_reason(code, reason) == words


@every_row("rejection", [each for each in REJECTIONS.values() if each.code != "FAILED"])
def test_each_rejection_of_the_sandbox_has_words(rejection) -> None:
    assert known_reason(rejection.code, rejection.reason)
