"""The schema that editors get says the same as the check: it takes every example we ship."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.config.shipped import shipped_dir
from bot.config.strategies.model import OrderSection, PriceChoice, StrategyFile, schema
from bot.config.yaml_file import parse_yaml, read_yaml
from bot.domain.plan import PriceBasis

CASES = Path(__file__).parent / "bad_files" / "strategy"
KINDS = {
    "object": dict,
    "array": list | tuple,
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": type(None),
}
KNOWN = {
    "$schema", "$defs", "title", "description", "type", "enum", "const", "pattern", "maxLength",
    "minLength", "minimum", "maximum", "minItems", "maxItems", "minProperties", "maxProperties",
    "properties", "required", "additionalProperties", "items", "anyOf", "$ref",
}  # fmt: skip


def findings(value: object, rule: object, place: str = "") -> Iterator[str]:
    """Yield what a JSON schema has against a value: the part of the standard that ours uses."""
    if not isinstance(rule, dict):
        return
    assert set(rule) <= KNOWN, set(rule) - KNOWN
    if "$ref" in rule:
        yield from findings(value, schema()["$defs"][rule["$ref"].rpartition("/")[2]], place)
    if "anyOf" in rule and all(list(findings(value, each)) for each in rule["anyOf"]):
        yield f"{place}: none of anyOf"
    if "type" in rule and not is_kind(value, rule["type"]):
        yield f"{place}: {value!r} is no {rule['type']}"
        return
    if ("enum" in rule and value not in rule["enum"]) or value != rule.get("const", value):
        yield f"{place}: {value!r} is none of the words"
    if isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        yield f"{place}: {value!r} has another form"
    if isinstance(value, int | float) and not in_range(value, rule):
        yield f"{place}: {value} is out of range"
    if isinstance(value, list):
        if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", 99):
            yield f"{place}: {len(value)} items"
        for index, each in enumerate(value):
            yield from findings(each, rule.get("items"), f"{place}[{index}]")
    if isinstance(value, dict):
        yield from in_mapping(value, rule, place)


def in_range(value: float, rule: dict[str, float]) -> bool:
    return rule.get("minimum", value) <= value <= rule.get("maximum", value)


def in_mapping(value: dict[str, object], rule: dict[str, object], place: str) -> Iterator[str]:
    known = rule.get("properties", {})
    assert isinstance(known, dict)
    sizes = rule.get("minProperties", 0), rule.get("maxProperties", 99)
    if not sizes[0] <= len(value) <= sizes[1]:  # type: ignore[operator]
        yield f"{place}: {len(value)} keys"
    for name in rule.get("required", []):  # type: ignore[attr-defined]
        if name not in value:
            yield f"{place}.{name}: missing"
    for name, each in value.items():
        if name not in known and rule.get("additionalProperties") is False:
            yield f"{place}.{name}: unknown"
        yield from findings(
            each, known.get(name, rule.get("additionalProperties")), f"{place}.{name}"
        )


def is_kind(value: object, kinds: object) -> bool:
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if isinstance(value, KINDS[str(kind)]) and (
            kind == "boolean" or not isinstance(value, bool)
        ):
            return True
    return False


def examples() -> list[Path]:
    return sorted((shipped_dir() / "config").rglob("strategies/*.yaml"))


@pytest.mark.parametrize("file", examples(), ids=lambda file: f"{file.parts[-3]}/{file.name}")
def test_every_shipped_strategy_file_is_valid(file: Path) -> None:
    assert list(findings(read_yaml(file).data, schema())) == []


@pytest.mark.parametrize(
    "name",
    [
        "unknown-key", "wrong-type", "missing-key", "text-where-a-list-belongs", "two-sizes",
        "no-size", "no-symbols", "price-that-is-none", "order-type-that-is-none", "approve",
        "notices",
        "timer-as-a-number", "phase-that-is-none", "interval-without-unit", "hexadecimal",
        "percentage-without-sign", "on-2fa-without-time", "symbol-in-small-letters",
        "truth-as-a-symbol", "name-with-a-blank", "parameter-that-is-a-list", "zero-shares",
    ],
)  # fmt: skip
def test_an_editor_marks_what_the_check_refuses(name: str) -> None:
    text = (CASES / f"{name}.case").read_text("utf-8").split("=====")[0]

    assert list(findings(parse_yaml(text, name).data, schema()))


def test_every_key_is_described() -> None:
    made = schema()
    parts = [made, *made["$defs"].values()]

    bare = [
        name
        for part in parts
        for name, rule in part.get("properties", {}).items()
        if not rule.get("description")
    ]

    assert bare == []
    assert set(made["properties"]) == set(StrategyFile.model_fields)
    assert all(
        "default" not in rule for part in parts for rule in part.get("properties", {}).values()
    )


def test_what_an_order_is_without_its_price_and_expiry_is_said() -> None:
    told = schema()["$defs"]["OrderSection"]["properties"]
    order = OrderSection(size={"shares": 100})

    assert (order.price, order.expire) == (PriceChoice(PriceBasis.LAST), None)
    assert "last (the default)" in told["price"]["description"]
    assert "left out: never" in told["expire"]["description"]


def test_an_editor_without_underscores_in_numbers_is_content() -> None:
    text = "order: {size: {cash: '20_000_000'}}"
    rule = schema()["properties"]["order"]

    assert list(findings(parse_yaml(text, "x").data["order"], rule)) == []
