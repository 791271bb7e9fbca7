"""Scenario files: what may stand in them, and the shipped ones."""

from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

import bot.sandbox
from bot.sandbox.scenario import Scenario
from tests.sandbox.client import DEFAULTS, bench, scenario

SHIPPED = sorted((Path(bot.sandbox.__file__).parent / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_scenario_is_valid_and_named_after_its_file(path: Path) -> None:
    played = Scenario.model_validate(YAML(typ="safe").load(path))

    assert played.name == path.stem


def test_the_demo_is_pinned_to_its_day_and_has_what_the_demo_shows() -> None:
    demo = Scenario.model_validate(YAML(typ="safe").load(SHIPPED[0]))

    assert demo.starts_at == datetime(2026, 11, 19, 2, 14, 55, tzinfo=UTC)
    assert {s.exchange for s in demo.symbols} == {"HOSE", "HNX", "UPCOM"}
    assert {fault.action.do for fault in demo.faults} == {"reject", "too_many", "drop_2fa"}
    assert (demo.speed, demo.quota) == (60, "PRO")


@pytest.mark.parametrize(
    "change",
    [
        {"sped": 60},
        {"symbols": []},
        {"symbols": [{"symbol": "X", "exchange": "NYSE", "reference": 10_000}]},
        {"symbols": [DEFAULTS["symbols"][0]] * 2},
        {"accounts": [{"id": "1"}, {"id": "2"}]},
        {"accounts": [{"id": "1", "holdings": {"NOPE": 100}}]},
        {"accounts": [{"id": "1", "cash": -1}]},
        {"faults": [{"action": {"do": "explode"}}]},
        {"faults": [{"match": {"nth": 0}, "action": {"do": "rst"}}]},
        {"faults": [{"point": "nowhere", "action": {"do": "rst"}}]},
        {"switches": {"partial_status": "HALF"}},
        {"quota": "GOLD"},
        {"speed": 0},
    ],
)
def test_what_no_scenario_means_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        scenario(**change)


def test_key_and_secret_come_from_name_and_seed_unless_they_are_set() -> None:
    first, second = scenario(), scenario(seed=8)
    stated = scenario(api_key="ak_test_mine", api_secret="s" * 64)

    assert first.key_text.startswith("ak_test_")
    assert first.key_text != second.key_text
    assert len(first.secret_text) == 64
    assert (stated.key_text, stated.secret_text) == ("ak_test_mine", "s" * 64)
    assert "ak_test_mine" not in repr(stated)


def test_a_scenario_without_a_day_is_given_one() -> None:
    nameless = scenario(day=None)
    with pytest.raises(ValueError, match="names no day"):
        _ = nameless.starts_at

    moved = nameless.on(datetime(2026, 11, 18, 3, 0, 5, tzinfo=UTC))

    assert (moved.trading_day, moved.start) == (date(2026, 11, 18), time(10, 0, 5))


def test_another_seed_is_another_market_and_another_key() -> None:
    symbols = [{"symbol": "HPG", "exchange": "HOSE", "reference": 27_000}]
    accounts = [{"id": "1"}]

    def board(seed: int) -> str:
        b = bench(scenario(symbols=symbols, accounts=accounts), seed=seed)
        b.pass_time(600)
        return f"{b.sandbox.credentials.api_key} {b.sandbox._house.venue.board('HPG')}"

    assert board(1) == board(1) != board(2)
