"""`bot strategy …` and `bot config …` as a user calls them, in this process."""

import json
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from bot.cli.main import run
from bot.config.shipped import DEMO, shipped

GOOD = """\
name: mine
use: sma_cross
symbols: [FPT, HPG]
wake: {bar: 1m}
order: {size: {shares: 100}, price: last}
"""
OWN = "config/bot.yaml"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """A working directory without any configuration."""
    with chdir(tmp_path):
        yield tmp_path


def called(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = run(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def said(capsys: Capture, *arguments: str) -> object:
    code, out, _ = called(capsys, *arguments, "--json")
    assert code == 0
    return json.loads(out)


# ------------------------------------------------------------------------------------------- check


def test_a_named_file_is_checked_without_any_configuration(capsys: Capture, folder: Path) -> None:
    (folder / "mine.yaml").write_text(GOOD, "utf-8")

    code, out, err = called(capsys, "strategy", "check", "mine.yaml")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "ok mine.yaml: mine, sma_cross on FPT, HPG, woken by bar 1m",
        "  quote FPT      every 10s       6.0 a minute",
        "  quote HPG      every 10s       6.0 a minute",
        "  together 12.0 a minute, polls may use 30 of 60 requests, the rest is for orders",
        "  orders and account 3 a minute; with open orders 4 more, 7 in an order's first minute",
    ]


SLOWED = "each comes 4.4 times less often, 26.7 a minute"


def test_wakes_that_cost_more_than_the_quota_are_said(capsys: Capture, folder: Path) -> None:
    text = GOOD.replace("bar: 1m", "bar: 1m, depth: 1s")
    (folder / "mine.yaml").write_text(text, "utf-8")

    _, out, err = called(capsys, "strategy", "check", "mine.yaml")

    assert "warning E-CFG-054 the polls need 132 a minute" in err
    assert out.splitlines()[1:6] == [
        "  depth FPT      every 1s asked, 5s made   12.0 a minute",
        "  depth HPG      every 1s asked, 5s made   12.0 a minute",
        "  quote FPT      every 10s asked, 44s made    1.4 a minute",
        "  quote HPG      every 10s asked, 44s made    1.4 a minute",
        "  together 132.0 a minute asked, the quota of 60 leaves 30: " + SLOWED,
    ]


def test_every_mistake_is_on_stderr_and_counted(capsys: Capture, folder: Path) -> None:
    (folder / "mine.yaml").write_text(GOOD.replace("100", "150") + "lmits: {}\n", "utf-8")

    code, out, err = called(capsys, "strategy", "check", "mine.yaml")

    assert (code, out) == (3, "")
    assert "mine.yaml:5:24: E-CFG-021 'order.size.shares' is 150" in err
    assert "mine.yaml:6:1: E-CFG-012 unknown key 'lmits'" in err
    assert "| ^^^^^ did you mean 'limits'?" in err
    assert err.endswith("2 errors in 1 file\n")
    assert "Traceback" not in err


def test_json_of_a_failed_check_is_one_value_on_stdout(capsys: Capture, folder: Path) -> None:
    (folder / "mine.yaml").write_text(GOOD.replace("100", "150"), "utf-8")

    code, out, _ = called(capsys, "strategy", "check", "mine.yaml", "--json")

    assert code == 3
    told = json.loads(out)
    assert told["ok"] is False
    assert [(each["code"], each["line"], each["column"]) for each in told["problems"]] == [
        ("E-CFG-021", 5, 24)
    ]


def test_json_of_a_check_has_plan_and_cost(capsys: Capture, folder: Path) -> None:
    (folder / "mine.yaml").write_text(GOOD, "utf-8")

    told = said(capsys, "strategy", "check", "mine.yaml")

    assert isinstance(told, dict)
    assert told["ok"] is True
    assert told["strategies"][0]["wake"] == {"bar": "1m"}
    assert told["cost"]["per_minute"] == 12.0


def test_an_unknown_symbol_is_a_warning(capsys: Capture, folder: Path) -> None:
    (folder / "mine.yaml").write_text(GOOD.replace("HPG", "NO"), "utf-8")

    code, _, err = called(capsys, "strategy", "check", "mine.yaml")

    assert code == 0
    assert err.startswith("warning mine.yaml:3:16: E-CFG-025 NO is not in the shipped table")


def test_without_a_file_the_configured_ones_are_checked(capsys: Capture) -> None:
    code, out, _ = called(capsys, "strategy", "check", "-c", str(shipped(DEMO)))

    assert code == 0
    assert [line.split(": ")[1].split(",")[0] for line in out.splitlines()[:2]] == [
        "depth-hpg",
        "sma-fpt",
    ]


# ------------------------------------------------------------------------------ list, show, schema


def test_the_list_names_what_runs_and_what_could(capsys: Capture) -> None:
    told = said(capsys, "strategy", "list", "-c", str(shipped(DEMO)))

    assert isinstance(told, dict)
    assert [row["strategy"] for row in told["strategies"]] == ["depth-hpg", "sma-fpt"]
    assert {"sma_cross", "depth_imbalance"} <= {row["name"] for row in told["usable"]}


def test_a_broken_one_does_not_hide_the_others(capsys: Capture, folder: Path) -> None:
    (folder / "strategies").mkdir()
    (folder / "strategies" / "good.yaml").write_text(GOOD, "utf-8")
    (folder / "strategies" / "bad.yaml").write_text("name: bad\n", "utf-8")
    (folder / "strategies" / "own.py").write_text("x = (\n", "utf-8")
    (folder / "bot.yaml").write_text("mode: sandbox\n", "utf-8")

    code, out, _ = called(capsys, "strategy", "list", "-c", "bot.yaml")

    assert code == 0
    assert "broken: bad" in out
    assert "mine" in out
    assert "own             broken strategies/own.py:1:5\n" in out


def test_the_reasons_of_broken_ones_stand_below_the_table_uncut(
    capsys: Capture, folder: Path
) -> None:
    (folder / "strategies").mkdir()
    (folder / "strategies" / "good.yaml").write_text(GOOD, "utf-8")
    (folder / "strategies" / "bad.yaml").write_text("name: bad\n", "utf-8")
    (folder / "strategies" / "own.py").write_text("x = (\n", "utf-8")
    (folder / "bot.yaml").write_text("mode: sandbox\n", "utf-8")

    _, out, _ = called(capsys, "strategy", "list", "-c", "bot.yaml")

    below = out.split("strategies/own.py:1:5\n", 1)[1]
    assert "\nstrategies/bad.yaml:1:1: E-CFG-011 missing key 'use'\n   1 | name: bad\n" in below
    reason = "this strategy cannot be loaded: SyntaxError: '(' was never closed"
    assert below.endswith(f"\nstrategies/own.py:1:5: {reason}\n")


def test_a_strategy_is_shown_in_the_words_of_its_file(capsys: Capture) -> None:
    code, out, _ = called(capsys, "strategy", "show", "sma-fpt", "-c", str(shipped(OWN)))

    assert code == 0
    assert "wake:\n  bar: 1m\n" in out
    assert "max_order_value: 50,000,000" in out


def test_a_class_is_shown_with_its_parameters(capsys: Capture) -> None:
    told = said(capsys, "strategy", "show", "depth_imbalance", "-c", str(shipped(DEMO)))

    assert told == {
        "bot": {"name": "demo", "mode": "sandbox", "config": str(shipped(DEMO))},
        "use": "depth_imbalance",
        "class": "DepthImbalance",
        "params": {
            "ratio": {"type": "float", "default": 3.0},
            "levels": {"type": "int", "default": 3},
        },
    }


def test_a_strategy_that_is_none_is_refused_with_the_names_there_are(capsys: Capture) -> None:
    code, _, err = called(capsys, "strategy", "show", "sma-vnm", "-c", str(shipped(DEMO)))

    assert code == 3
    assert "configured: depth-hpg, sma-fpt" in err


def test_a_class_that_is_broken_is_shown_with_what_is_wrong_with_it(
    capsys: Capture, folder: Path
) -> None:
    (folder / "bot.yaml").write_text("strategies: strategies/*.yaml\n", "utf-8")
    called(capsys, "strategy", "new", "mine")
    text = "from bot import Strategy\n\n\nclass Bad(Strategy):\n    def on_bars(self, bar): ...\n"
    (folder / "strategies" / "bad.py").write_text(text, "utf-8")

    code, _, err = called(capsys, "strategy", "show", "bad")

    assert code == 3
    assert "strategies/bad.py:5:1: E-CFG-032" in err


def test_the_schema_is_printed_or_written(capsys: Capture, folder: Path) -> None:
    _, out, _ = called(capsys, "strategy", "schema")
    code, nothing, said = called(capsys, "strategy", "schema", "-o", ".bot/s.json")

    assert (code, nothing, said) == (0, "", f"wrote .bot/s.json ({len(out)} bytes)\n")
    assert json.loads(out) == json.loads((folder / ".bot/s.json").read_text("utf-8"))


def test_a_schema_that_cannot_be_written_is_no_traceback(capsys: Capture, folder: Path) -> None:
    (folder / "file").touch()

    code, _, err = called(capsys, "strategy", "schema", "-o", "file/s.json")

    assert code == 3
    assert "E-CFG-001 cannot write file/s.json" in err


# --------------------------------------------------------------------------------------------- new


@pytest.mark.parametrize("name", ["account", "false", "none", "null", "true"])
def test_a_name_that_its_file_could_not_have_is_refused(
    capsys: Capture, name: str, folder: Path
) -> None:
    code, _, err = called(capsys, "strategy", "new", name, "-t", "blank")

    assert code == 2
    assert "means something else in a file" in err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("template", ["sma", "depth", "blank"])
def test_a_new_strategy_passes_its_check(capsys: Capture, template: str) -> None:
    code, out, err = called(capsys, "strategy", "new", "my-2nd", "-t", template)

    assert code == 0
    assert out.splitlines()[0] == "wrote strategies/my-2nd.yaml"
    assert err == "next: bot strategy check strategies/my-2nd.yaml\n"
    assert called(capsys, *err.split()[2:])[0] == 0


def test_a_new_strategy_lies_where_the_configuration_looks(capsys: Capture, folder: Path) -> None:
    (folder / "config").mkdir()
    (folder / "config" / "bot.yaml").write_text("strategies: mine/*.yaml\n", "utf-8")

    code, out, err = called(capsys, "strategy", "new", "own", "-t", "blank")

    assert code == 0
    assert out.splitlines() == ["wrote config/mine/own.yaml", "wrote strategies/own.py"]
    assert err == "next: bot strategy check config/mine/own.yaml -c config/bot.yaml\n"
    assert called(capsys, *err.split()[2:])[0] == 0
    assert called(capsys, "config", "check")[0] == 0


def test_nothing_is_written_over(capsys: Capture, folder: Path) -> None:
    (folder / "strategies").mkdir()
    (folder / "strategies" / "own.py").write_text("mine\n", "utf-8")

    code, _, err = called(capsys, "strategy", "new", "own", "-t", "blank")

    assert code == 3
    assert "strategies/own.py: E-CFG-046 already exists" in err
    assert [path.name for path in (folder / "strategies").iterdir()] == ["own.py"]


def test_a_new_strategy_does_not_take_the_place_of_one_that_files_use(
    capsys: Capture, folder: Path
) -> None:
    code, _, err = called(capsys, "strategy", "new", "sma-cross", "-t", "blank")

    assert code == 3
    assert "strategies/sma_cross.py: E-CFG-046 sma_cross is a strategy already" in err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *(
            (name, "a name is up to 40 of a-z")
            for name in ("../x", "A", "a b", "x" * 41, "a/b", "é")
        ),
        ("", "'NAME' is empty"),
    ],
)
def test_a_name_that_is_none_is_a_usage_error(
    capsys: Capture, name: str, said: str, folder: Path
) -> None:
    code, _, err = called(capsys, "strategy", "new", "--", name)

    assert code == 2
    assert said in err
    assert list(folder.iterdir()) == []


def test_plug_ins_are_listed_with_what_they_have_and_why_one_is_broken(
    capsys: Capture, folder: Path
) -> None:
    (folder / "strategies").mkdir()
    (folder / "bot.yaml").write_text("mode: sandbox\n", "utf-8")
    (folder / "strategies" / "mine.yaml").write_text(GOOD, "utf-8")
    (folder / "strategies" / "wrong.yaml").write_text(GOOD.replace("mine", "wrong") + "x: 1\n")
    lost = GOOD.replace("mine", "lost").replace("sma_cross", "strategies/oops.py:Oops")
    (folder / "strategies" / "lost.yaml").write_text(lost, "utf-8")
    (folder / "strategies" / "oops.py").write_text("import bot\n\ndef f(\n", "utf-8")

    found = said(capsys, "plugin", "list")
    _, out, _ = called(capsys, "plugin", "list")

    assert isinstance(found, dict)
    rows = {row["name"]: row for row in found["plugins"]}
    assert {name: row["used_by"] for name, row in rows.items()} == {
        "oops": ["lost"],
        "depth_imbalance": [],
        "drill_trader": [],
        "sma_cross": ["mine", "wrong"],
    }
    assert rows["sma_cross"]["hooks"] == ["on_bar"]
    assert rows["sma_cross"]["params"]["fast"] == {"type": "int", "default": 5}
    error = "this strategy cannot be loaded: SyntaxError: '(' was never closed"
    assert (rows["oops"]["where"], rows["oops"]["error"]) == ("strategies/oops.py:3:6", error)
    assert out.splitlines()[-1] == f"strategies/oops.py:3:6: {error}"
    assert "oops            broken" in out


def test_a_broken_file_keeps_no_other_from_being_shown(capsys: Capture, folder: Path) -> None:
    (folder / "strategies").mkdir()
    (folder / "bot.yaml").write_text("mode: sandbox\n", "utf-8")
    (folder / "strategies" / "mine.yaml").write_text(GOOD, "utf-8")
    (folder / "strategies" / "wrong.yaml").write_text(GOOD.replace("mine", "wrong") + "x: 1\n")

    sound, broken = (called(capsys, "strategy", "show", name) for name in ("mine", "wrong"))

    assert (sound[0], sound[1].splitlines()[0]) == (0, "name: mine")
    assert (broken[0], broken[2].splitlines()[0]) == (
        3,
        "strategies/wrong.yaml:6:1: E-CFG-012 unknown key 'x'",
    )
