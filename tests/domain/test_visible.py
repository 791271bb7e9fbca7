"""Text from outside as it is shown: seen, on one line, and unable to do anything."""

import csv
import io
import json
from typing import Literal
from unicodedata import category, normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.domain.visible import csv_text, visible, visible_json

ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
ANY_TEXT = st.text(st.characters(codec=None), max_size=60)
VIETNAMESE = "Giá nằm ngoài biên độ: đặt lệnh ở mức thấp hơn, Nguyễn Thị Thuỷ ưu ữ ỡ ệ Ẫ"


@given(ANY_TEXT)
def test_nothing_that_acts_is_left(text: str) -> None:
    shown = visible(text)

    assert not [each for each in shown if category(each) in ACTING]
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


@given(ANY_TEXT)
def test_what_is_visible_already_stays_as_it_is(text: str) -> None:
    once = visible(text)

    assert visible(once, len(once)) == once


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_vietnamese_stays_readable_in_both_its_forms(form: Literal["NFC", "NFD"]) -> None:
    text = normalize(form, VIETNAMESE)

    assert visible(text) == text
    assert visible_json(text) == text


def test_each_kind_that_acts_is_written_out() -> None:
    shown = [visible(each) for each in "\x1b\n\x7f\x85\xad\u200b\u202e\u2066\u2028\ud800\U000e0041"]

    assert shown == [
        "\\x1b", "\\x0a", "\\x7f", "\\x85", "\\xad", "\\u200b", "\\u202e", "\\u2066", "\\u2028",
        "\\ud800", "\\U000e0041",
    ]  # fmt: skip


def test_fillers_and_choosers_of_variants_are_written_out() -> None:
    assert visible("a\ufe0fb\u3164c\u2800") == "a\\ufe0fb\\u3164c\\u2800"


def test_marks_do_not_pile_up_over_other_lines() -> None:
    assert visible("o" + 5 * "\u0301") == "o" + 3 * "\u0301" + 2 * "\\u0301"


def test_a_long_text_is_cut() -> None:
    assert visible("x" * 501) == "x" * 499 + "…"


@settings(max_examples=40)
@given(st.text(max_size=30))
def test_json_says_the_same_and_nothing_in_it_acts(text: str) -> None:
    written = visible_json(json.dumps({"message": text}, ensure_ascii=False))

    assert json.loads(written) == {"message": text}
    assert not [each for each in written if category(each) in ACTING]


def test_json_keeps_its_own_lines_and_no_other_blank() -> None:
    assert visible_json('{\r\n\t"é": 1}') == '{ \n "é": 1}'


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "@x", "-x", "-2+3", "-1+cmd|x", "\t=1", "\r=1", "\n=1", "\uff1d1"]
)
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text: str) -> None:
    assert csv_text(text).startswith("'")


@pytest.mark.parametrize("text", ["-900017", "-1.5", "FPT", "Giá", "2026-11-19", ""])
def test_numbers_and_words_stay_as_they_are_in_a_cell(text: str) -> None:
    assert csv_text(text) == text


@given(ANY_TEXT)
def test_a_cell_is_one_line_of_the_file(text: str) -> None:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow([csv_text(text), "end"])

    assert len(stream.getvalue().splitlines()) == 1
