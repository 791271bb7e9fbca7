"""Stories of a start that an operator's mistake keeps from being one."""

import json
from pathlib import Path

import pytest

from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import load_settings
from bot.domain.entry import KILLED_NOTE, Fill, Note, OrderUpdated, StateChanged
from bot.domain.order import OrderState
from bot.journal.reading.reader import JournalReader
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.start.strategies import strategies_to_run
from tests.cli.stage import call
from tests.staging import QUIET
from tests.story import Shown, in_process, once, tell, write_project


async def test_symbols_that_the_broker_does_not_know_are_all_named_with_their_places(
    tmp_path: Path,
) -> None:
    strategies = [
        once(symbols=["ZZZ", "HPG", "YYY"]),
        once("twice", symbols=["HPG", "YYY"]),
        once("sound"),
    ]
    config = write_project(tmp_path, scenario=QUIET, strategies=strategies)
    (tmp_path / "strategies" / "once.yaml").write_text(
        "name: once\nuse: once\nsymbols: [ZZZ, HPG, YYY]\nparams: {price: 1}\n"
        "wake: {quote: 5s}\norder: {size: {shares: 100}}\n"
    )

    shown = Shown()
    with pytest.raises(OperatorMistake) as mistake:
        await run_bot(load_settings(config), RunOptions(), shown, make=in_process)

    problems = mistake.value.problems
    assert shown.troubles == []
    assert mistake.value.exit_code == ExitCode.CONFIG
    assert [(each.file, each.line, each.column) for each in problems[:2]] == [
        (f"{tmp_path}/strategies/once.yaml", 3, 11),
        (f"{tmp_path}/strategies/once.yaml", 3, 21),
    ]
    assert [(each.code, Path(each.file or "").name) for each in problems] == [
        ("E-SYM-001", "once.yaml"),
        ("E-SYM-001", "once.yaml"),
        ("E-SYM-001", "twice.yaml"),
    ]
    assert problems[0].message == "the broker does not know ZZZ: correct the symbol, or remove it"


async def test_a_symbol_that_has_not_traded_yet_stops_no_other(tmp_path: Path) -> None:
    config = never_traded(tmp_path, "SHS", symbols=["SHS", "HPG"])

    story = await tell(config, minutes=1)

    [told] = [text for text in story.shown.troubles if "no quote" in text]
    assert told == (
        "SHS has no quote (stock quote: price: Input should be greater than 0): nothing is sent "
        "in it until there is one. The bot goes on without it"
    )
    assert story.posts() == ["L-0001"]


@pytest.mark.parametrize(("of", "symbols"), [("*", ["SHS", "HPG"]), ("QQQ", ["HPG", "QQQ"])])
async def test_a_start_without_any_quote_or_one_of_no_known_exchange_names_the_symbol(
    tmp_path: Path, of: str, symbols: list[str]
) -> None:
    config = never_traded(tmp_path, of, symbols=symbols)

    with pytest.raises(OperatorMistake) as mistake:
        await tell(config, minutes=1)

    [problem] = mistake.value.problems
    assert (problem.code, mistake.value.exit_code) == ("E-NET-001", ExitCode.UNREACHABLE)
    assert problem.message == (
        f"the broker's answer can't be used: stock quote: {max(of, 'HPG')}: price: Input should be "
        "greater than 0. Nothing was sent."
    )


def never_traded(folder: Path, of: str, *, symbols: list[str]) -> Path:
    """Write a project whose broker gives 0 as the price of some symbols."""
    fault = {
        "match": {"path": f"/market/quotes/stocks/{of}", "times": 0},
        "action": {"do": "set_fields", "fields": {"price": 0}},
    }
    exchanges = {"HPG": "HOSE", "SHS": "HNX", "QQQ": "HOSE"}
    listed = [{"symbol": s, "exchange": e, "reference": 27_000} for s, e in exchanges.items()]
    scene = {**QUIET, "symbols": listed, "faults": [fault]}
    return write_project(folder, scenario=scene, strategies=[once(symbols=symbols)])


async def test_a_start_that_a_mistake_ended_has_its_end_and_is_not_told_as_a_death(
    tmp_path: Path,
) -> None:
    """Three deaths within ten minutes would have halted the bot."""
    write_project(tmp_path, scenario=QUIET, strategies=[once(symbols=["ZZZ"])])
    with pytest.raises(OperatorMistake):
        await tell(tmp_path / "bot.yaml", minutes=1)

    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    story = await tell(config, minutes=1)

    with JournalReader(story.loaded.journal_url) as reader:
        failed, _ = reader.runs()
    assert failed.ended_at is not None
    assert (failed.end_reason or "").endswith(
        "the broker does not know ZZZ: correct the symbol, or remove it"
    )
    assert story.shown.recoveries[-1].killed_since is None
    assert not [note for note in story.shown.all(Note) if note.kind == KILLED_NOTE]


MISSPELT = "from bot import Strategy\n\n\nclass Broken(Strategy):\n    def on_quote(self, quote)\n"
BAD_SIZE = """\
name: resting
use: once
symbols: [HPG]
params: {price: 26000}
wake: {quote: 5s}
order: {size: {shares: 150}, type: LIMIT, price: ask}
"""


async def test_broken_strategies_stop_no_other_and_are_named_wherever_one_looks(
    tmp_path: Path,
) -> None:
    resting = once("resting", params={"price": 26_000})
    sound = once("sound", symbols=["SHS"], params={"price": 19_000})
    config = write_project(tmp_path, scenario=QUIET, strategies=[resting])
    await tell(config, minutes=1)
    strategies = [resting, sound, once("lost", use="broken")]
    write_project(tmp_path, scenario=QUIET, strategies=strategies)
    (tmp_path / "strategies" / "resting.yaml").write_text(BAD_SIZE)
    (tmp_path / "strategies" / "broken.py").write_text(MISSPELT)

    story = await tell(config, minutes=2)

    places = {
        "lost": f"{tmp_path}/strategies/broken.py:5:30: E-CFG-032 this strategy cannot be loaded",
        "resting": f"{tmp_path}/strategies/resting.yaml:6:24: E-CFG-021 'order.size.shares' is 150",
    }
    notes = [note.numbers for note in story.shown.all(Note)]
    alerts = [each for each in notes if each.get("alert") == "STRATEGY_BROKEN"]
    assert [each["strategy"] for each in alerts] == ["lost", "resting"]
    empty = [note.text for note in story.shown.all(Note) if "holds no shares" in note.text]
    assert len(empty) == len(alerts)
    for alert, (name, place) in zip(alerts, places.items(), strict=True):
        assert str(alert["what"]).startswith(place)
        assert any(f"{name} does not run: {place}" in line for line in story.shown.troubles)
    assert story.shown.rows[0][1].endswith("1 strategy, 2 broken, 1 symbol")
    orders = story.shown.all(OrderUpdated)
    assert [each.symbol for each in orders if each.state is OrderState.FILLED] == ["SHS"]
    assert story.posts() == ["L-0001", "L-0002"]
    [left] = [row for row in story.broker_orders().values() if row["symbol"] == "HPG"]
    assert (left["status"], left["amount"], left["cancelled"]) == ("SENT", 0, 0)


async def test_the_alert_says_which_shares_nobody_looks_after(tmp_path: Path) -> None:
    sound = once("sound", symbols=["SHS"], params={"price": 19_000})
    config = write_project(tmp_path, scenario=QUIET, strategies=[once("holder"), sound])
    await tell(config, minutes=1)
    (tmp_path / "strategies" / "holder.yaml").write_text("name: holder\n")

    story = await tell(config, minutes=2)

    notes = [note.numbers for note in story.shown.all(Note)]
    [alert] = [each for each in notes if each.get("alert") == "STRATEGY_BROKEN"]
    assert (alert["strategy"], alert["held"]) == ("holder", "HPG 100")
    assert any("Its shares (HPG 100) stay" in note.text for note in story.shown.all(Note))
    assert "SHARES_LEFT" not in {each.get("alert") for each in notes}, "they are told once"
    assert "BREAK" not in {each.get("alert") for each in notes}, "they are in the account's sum"


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (once("other", params={"price": 1}), "once does not run, and it holds 100 HPG"),
        (
            once(symbols=["SHS"], params={"price": 1}),
            "once does not trade HPG any more, and it holds 100 of it",
        ),
    ],
)
async def test_shares_of_a_strategy_that_got_another_name_or_other_symbols_are_told(
    tmp_path: Path, second: dict[str, object], told: str
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    await tell(config, minutes=1)
    (tmp_path / "strategies" / "once.yaml").unlink()
    write_project(tmp_path, scenario=QUIET, strategies=[second])

    story = await tell(config, minutes=2)

    alerts = [note.text for note in story.shown.all(Note) if note.kind == "ALERT"]
    assert any(text.startswith(f"{told}: no strategy looks after") for text in alerts)


LADDER = """
from bot import Strategy


class Ladder(Strategy):
    def on_quote(self, quote):
        if self.position.qty < 200:
            self.buy(100, limit=26_500 if self.position.qty else 27_500, why="a rung")
"""
FALLING = [{"at": "09:21:30", "price": 27_000}, {"at": "09:22:30", "price": 26_000}]


async def test_what_fills_while_its_strategy_is_broken_is_all_there_when_it_is_mended(
    tmp_path: Path,
) -> None:
    hpg = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "swing_ticks": 0}
    scenario = {**QUIET, "symbols": [{**hpg, "path": FALLING}]}
    ladder, other = once("ladder", use="ladder", params={}), once("other", mode="watch")
    config = write_project(tmp_path, scenario=scenario, strategies=[ladder, other])
    (tmp_path / "strategies" / "ladder.py").write_text(LADDER)
    await tell(config, minutes=1)
    (tmp_path / "strategies" / "ladder.py").write_text(MISSPELT)

    broken = await tell(config, minutes=3)
    at_broker = broken.broker_orders()
    (tmp_path / "strategies" / "ladder.py").write_text(LADDER)
    mended = await tell(config, minutes=2)

    first, second = at_broker.values()
    assert (first["amount"], second["amount"]) == (2_705_000, 2_650_000)
    [fill] = broken.shown.all(Fill)
    assert (fill.strategy, fill.amount, fill.position) == ("ladder", 2_650_000, 200)
    assert len(mended.posts()) == 2, "with less than 200 it buys once more"
    both = (*broken.shown.all(StateChanged), *mended.shown.all(StateChanged))
    assert [each.scope for each in both if each.scope.startswith("break:")] == []
    pnl = json.loads(call("pnl", "--json", "-c", str(config)).out)
    [held], total, cost = pnl["held"], pnl["total"], 5_355_000
    assert (held["strategy"], held["quantity"], held["cost"]) == ("ladder", 200, cost)
    assert (total["bought_amount"], total["realised"], total["fee"]) == (cost, 0, 8_033)
    timeline = call("order", str(fill.intent_id), "--timeline", "-c", str(config)).out
    assert "BUY 100 HPG LIMIT 26,500  ladder" in timeline.split("\n")[0]
    steps = [line.split()[2] for line in timeline.split("\n") if line.startswith("+")]
    assert steps == ["decided", "checked", "sent", "answered", "alert", "filled"]
    assert "100 @ 26,500 · 100 of 100 · fee 3,975 · position HPG 200" in timeline


async def test_a_strategy_that_fails_for_one_of_its_symbols_stops_no_other(tmp_path: Path) -> None:
    picky = once("picky", use="picky", symbols=["HPG", "SHS"], params={})
    config = write_project(tmp_path, scenario=QUIET, strategies=[once(), picky])
    (tmp_path / "strategies" / "picky.py").write_text(
        "from bot import Strategy\n\n\nclass Picky(Strategy):\n"
        "    def check(self):\n        self.rate = {'HPG': 1}[self.symbol]\n\n"
        "    def on_quote(self, quote):\n        pass\n"
    )

    story = await tell(config, minutes=1)

    [alert] = [note.numbers for note in story.shown.all(Note) if note.kind == "ALERT"]
    assert (alert["strategy"], story.posts()) == ("picky", ["L-0001"])
    why = "picky.py:6:1: E-CFG-032 Picky cannot check itself: KeyError: 'SHS'"
    assert why in str(alert["what"])


def test_two_files_of_one_name_are_both_left_out(tmp_path: Path) -> None:
    strategies = [once(), once("twin"), once("twin-copy")]
    config = write_project(tmp_path, scenario=QUIET, strategies=strategies)
    copied = (tmp_path / "strategies" / "twin.yaml").read_text()
    (tmp_path / "strategies" / "twin-copy.yaml").write_text(copied)

    found = strategies_to_run(load_settings(config), ())

    assert [each.plan.name for each in found.strategies] == ["once"]
    assert [(each.name, Path(each.file).name) for each in found.broken] == [
        ("twin", "twin-copy.yaml"),
        ("twin", "twin.yaml"),
    ]


def test_with_real_money_a_broken_strategy_is_left_out_by_a_person_alone(tmp_path: Path) -> None:
    config = write_project(
        tmp_path,
        scenario=QUIET,
        strategies=[once()],
        mode="live",
        legal={"automation_allowed_by_broker": "2026-11-02, letter of the broker, N. V. An"},
        broker={"base_url": "https://broker.example", "account": ".1"},
    )
    (tmp_path / "strategies" / "resting.yaml").write_text(BAD_SIZE)
    loaded = load_settings(config)

    with pytest.raises(OperatorMistake) as refused:
        strategies_to_run(loaded, ())
    with pytest.raises(OperatorMistake) as asked_for:
        strategies_to_run(loaded, ("resting",))
    chosen = strategies_to_run(loaded, ("once",))

    codes = [problem.code for problem in refused.value.problems]
    assert codes == ["E-CFG-021", "E-CFG-052"]
    assert refused.value.problems[1].message.endswith("bot run --only once")
    assert [problem.code for problem in asked_for.value.problems] == ["E-CFG-021"]
    assert ([each.plan.name for each in chosen.strategies], chosen.broken) == (["once"], ())


async def test_where_every_strategy_is_broken_nothing_starts(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once(use="nobody")])

    with pytest.raises(OperatorMistake) as mistake:
        await tell(config, minutes=1)

    assert [problem.code for problem in mistake.value.problems] == ["E-CFG-031"]
    assert mistake.value.exit_code == ExitCode.CONFIG
