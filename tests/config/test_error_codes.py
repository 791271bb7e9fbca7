import re
from pathlib import Path

from bot.config.error_codes import ERROR_CODES

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "bot/config/error_codes.py"
CODE = re.compile(r"\"(E-[A-Z0-9]{2,3}-[0-9]{3})\"")


def codes_in_source() -> set[str]:
    texts = [f.read_text("utf-8") for f in (ROOT / "bot").rglob("*.py") if f != TABLE]
    return {code for text in texts for code in CODE.findall(text)}


def test_every_code_has_a_meaning_and_every_meaning_a_use() -> None:
    assert codes_in_source() == set(ERROR_CODES)


def test_no_code_stands_twice() -> None:
    assert len(CODE.findall(TABLE.read_text("utf-8"))) == len(ERROR_CODES)


def test_no_two_codes_mean_the_same() -> None:
    assert len(set(ERROR_CODES.values())) == len(ERROR_CODES)
