import re
from collections.abc import Mapping
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "bot/config/error_codes.yaml"
ERROR_CODES: Mapping[str, str] = YAML(typ="safe").load(TABLE.read_text("utf-8"))
CODE = re.compile(r"\"(E-[A-Z0-9]{2,4}-[0-9]{3})\"")


def codes_in_source() -> set[str]:
    texts = [f.read_text("utf-8") for f in (ROOT / "bot").rglob("*.py")]
    return {code for text in texts for code in CODE.findall(text)}


def test_every_code_has_a_meaning_and_every_meaning_a_use() -> None:
    assert codes_in_source() == set(ERROR_CODES)


def test_no_code_stands_twice() -> None:
    codes = re.findall(r"^(E-[A-Z0-9]{2,4}-[0-9]{3}):", TABLE.read_text("utf-8"), re.MULTILINE)

    assert len(codes) == len(ERROR_CODES)


def test_no_two_codes_mean_the_same() -> None:
    assert len(set(ERROR_CODES.values())) == len(ERROR_CODES)
