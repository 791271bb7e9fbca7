"""A scenario that cannot be played is refused with its place, before the first event."""

from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.scenario_file import load_scenario
from bot.config.shipped import scenario_names

HPG = "symbols:\n  - {symbol: HPG, exchange: HOSE, reference: 27_000}\n"
WRONG_SYMBOL = "'symbols[0].symbol': wanted a symbol in capitals, like HPG; found 'hpg'"
DIVIDEND = "corporate_actions:\n  - {do: cash_dividend, symbol: HPG, "


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (f"day: 2031-01-06\n{HPG}", "1:6", "wanted a day of the calendar, 2024 to 2027"),
        (HPG.replace("HOSE", "UPCOM, kind: ETF"), "2:5", "tick size of ETF on UPCOM"),
        (HPG.replace("HOSE", "HCX, kind: BOND"), "2:5", "band of BOND on HCX"),
        (
            HPG.replace(", reference: 27_000", ""),
            "2:5",
            "missing key 'reference' under 'symbols[0]'",
        ),
        (HPG.replace("HPG", "hpg"), "2:14", WRONG_SYMBOL),
        (HPG + HPG.splitlines()[1], "3:14", "symbol HPG appears more than once"),
        (
            f"{HPG}{DIVIDEND}ex_date: 2026-11-21, pays_on: 2026-11-25, vnd_per_share: 500}}\n",
            "4:47",
            "wanted a trading day, found Sat 2026-11-21",
        ),
        (
            f"{HPG}{DIVIDEND}ex_date: 2026-11-20, pays_on: 2026-11-25, vnd_per_share: -5}}\n",
            "4:95",
            "'corporate_actions[0].vnd_per_share': wanted more than 0; found -5",
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


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("symbols: [HPG]\n", "1:11", "'symbols[0]': wanted keys and values; found 'HPG'"),
        ("symbols: []\n", "1:10", "'symbols': wanted at least 1; found 0"),
        ("symbols: HPG\n", "1:10", "'symbols': wanted a list, like [a, b]; found 'HPG'"),
        (HPG.replace("HOSE", "NYSE"), "2:29", "'symbols[0].exchange': wanted one of HOSE, HNX"),
        (HPG.replace("27_000", "soon"), "2:46", "wanted a whole number; found 'soon'"),
        (HPG.replace("27_000", "27.5"), "2:46", "wanted a whole number; found 27.5"),
        (HPG.replace("27_000", "0"), "2:46", "'symbols[0].reference': wanted more than 0; found 0"),
        (
            HPG.replace("27_000", "27_000, level_volume: 1_000_000_000_000"),
            "2:68",
            "'symbols[0].level_volume': wanted at most 10,000,000; found 1000000000000",
        ),
        (HPG.replace("27_000", "27_000, flw: {}"), "2:54", "unknown key 'flw' under 'symbols[0]'"),
        (f"day: soon\n{HPG}", "1:6", "'day': wanted a day, like 2026-11-19; found 'soon'"),
        (f"start: noon\n{HPG}", "1:8", "'start': wanted a time, like 09:15; found 'noon'"),
        (f"speed: -1\n{HPG}", "1:8", "'speed': wanted more than 0; found -1"),
        (f"name: 7\n{HPG}", "1:7", "'name': wanted a text; found 7"),
        (
            HPG.replace("27_000", "27_000, deals: [{at: 10:00, do: buy, price: 1, volume: 100}]"),
            "2:78",
            "'symbols[0].deals[0].do': wanted one of take, give; found 'buy'",
        ),
        (
            HPG.replace("27_000", "27_000, halts: [{at: 10:30, until: 10:00}]"),
            "2:62",
            "'symbols[0].halts[0]': until: wanted a time after 10:30:00",
        ),
        (
            HPG.replace("27_000", "27_000, halts: [{at: '09:00Z', until: 10:00}]"),
            "2:67",
            "'symbols[0].halts[0].at': wanted a time of the exchange's own zone, like 09:15",
        ),
        (
            HPG.replace("27_000", "27_000, imbalances: [{at: 10:30, until: 10:00, bids: 2}]"),
            "2:67",
            "'symbols[0].imbalances[0]': until: wanted a time after 10:30:00",
        ),
        (
            HPG.replace("27_000", "27_000, standstills: [{at: 10:30, until: 10:00}]"),
            "2:68",
            "'symbols[0].standstills[0]': until: wanted a time after 10:30:00",
        ),
        (
            HPG.replace(
                "27_000", "27_000, standstills: [{at: 09:30, until: 10:00, asks: [[27_013, 100]]}]"
            ),
            "2:102",
            "'symbols[0].standstills[0].asks[0][0]': 27_013 is off tick: no order can have it",
        ),
        (
            HPG.replace(
                "27_000", "27_000, deals: [{at: 10:00, do: take, price: 27_013, volume: 100}]"
            ),
            "2:91",
            "'symbols[0].deals[0].price': 27_013 is off tick: no order can have it",
        ),
        (
            HPG.replace("27_000", "27_000, path: [{at: 10:00, price: 100_000_001}]"),
            "2:80",
            "'symbols[0].path[0].price': wanted at most 100,000,000",
        ),
        (
            f"switches: {{row_visible_after_s: 1e15}}\n{HPG}",
            "1:33",
            "'switches.row_visible_after_s': wanted at most 1,000,000",
        ),
        (
            f"start: 9.30\n{HPG}",
            "1:8",
            "'start': wanted a time of the exchange's own zone, like 09:15",
        ),
        (
            f"{HPG}faults: [{{match: {{at: '09:00Z', until: 9:30}}, action: {{do: rst}}}}]\n",
            "3:23",
            "wanted a time of the exchange's own zone, like 09:15",
        ),
        (
            HPG.replace("27_000", "27_000, standstills: [{at: 10:00, until: 10:30, bids: [[1]]}]"),
            "2:101",
            "wanted a price and its shares, like [27_050, 200]",
        ),
        (
            f"{HPG}faults: [{{action: {{do: explode}}}}]\n",
            "3:19",
            "'faults[0].action': wanted one of",
        ),
        (f"{HPG}faults: [{{action: {{}}}}]\n", "3:19", "wanted what it does: do, and its keys"),
        (
            f"{HPG}faults: [{{action: {{do: delay, seconds: long}}}}]\n",
            "3:40",
            "'faults[0].action.seconds': wanted a number; found 'long'",
        ),
        (
            f"accounts: [{{id: '1', holdings: {{FPT: 100}}}}]\n{HPG}",
            "1:38",
            "'accounts[0].holdings.FPT': holdings of FPT, which is not among the symbols",
        ),
        (
            HPG.replace("27_000", "27_000, replay: minutes"),
            "2:62",
            "'symbols[0].replay': HPG is replayed from minutes: name their place under replay",
        ),
    ],
)
def test_a_plain_mistake_is_told_in_the_words_of_every_file_and_where_it_stands(
    tmp_path: Path, text: str, place: str, words: str
) -> None:
    (tmp_path / "story.yaml").write_text(text, "utf-8")

    with pytest.raises(OperatorMistake) as raised:
        load_scenario("story.yaml", tmp_path)

    problem = raised.value.problems[0]
    assert words in problem.message
    assert problem.place.endswith(f"story.yaml:{place}")
    assert "Input should" not in problem.message


@pytest.mark.parametrize("name", scenario_names())
def test_what_is_shipped_can_be_played(tmp_path: Path, name: str) -> None:
    assert load_scenario(name, tmp_path).symbols
