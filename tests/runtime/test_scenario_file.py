"""A scenario that cannot be played is refused with its place, before the first event."""

from pathlib import Path

import pytest

from bot.runtime.problems import OperatorMistake
from bot.runtime.scenario_file import load_scenario, scenario_names

HPG = "symbols:\n  - {symbol: HPG, exchange: HOSE, reference: 27_000}\n"
DIVIDEND = "corporate_actions:\n  - {do: cash_dividend, symbol: HPG, "


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (f"day: 2031-01-06\n{HPG}", "1:6", "wanted a day of the calendar, 2025 to 2027"),
        (HPG.replace("HOSE", "UPCOM, kind: ETF"), "2:5", "tick size of ETF on UPCOM"),
        (HPG.replace("HOSE", "HCX, kind: BOND"), "2:5", "band of BOND on HCX"),
        (HPG.replace(", reference: 27_000", ""), "2:5", "symbols.0.reference: Field required"),
        (HPG.replace("HPG", "hpg"), "2:14", "symbols.0.symbol: String should match"),
        (HPG + HPG.splitlines()[1], "1:1", "symbol HPG appears more than once"),
        (
            f"{HPG}{DIVIDEND}ex_date: 2026-11-21, pays_on: 2026-11-25, vnd_per_share: 500}}\n",
            "4:47",
            "wanted a trading day, found Sat 2026-11-21",
        ),
        (
            f"{HPG}{DIVIDEND}ex_date: 2026-11-20, pays_on: 2026-11-25, vnd_per_share: -5}}\n",
            "4:95",
            "corporate_actions.0.vnd_per_share: Input should be greater than 0",
        ),
        (
            f"{HPG}{DIVIDEND}ex_date: 2026-11-20, pays_on: 2026-11-20, vnd_per_share: 5}}\n",
            "4:5",
            "pays_on: wanted a day after ex_date",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_with_its_place(
    tmp_path: Path, text: str, place: str, words: str
) -> None:
    (tmp_path / "story.yaml").write_text(text, "utf-8")

    with pytest.raises(OperatorMistake) as raised:
        load_scenario("story.yaml", tmp_path)

    problem = raised.value.problems[0]
    assert f"story.yaml:{place}" in problem.place
    assert words in problem.message


@pytest.mark.parametrize("name", scenario_names())
def test_what_is_shipped_can_be_played(tmp_path: Path, name: str) -> None:
    assert load_scenario(name, tmp_path).symbols
