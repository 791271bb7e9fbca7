"""How a strategy's class is found, and what is said about a broken one."""

import importlib.util
import os
import py_compile
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bot import Strategy
from bot.config.problems import OperatorMistake, Problem
from bot.config.strategies.plugin_check import Parameter, parameters_of
from bot.config.strategies.plugins import (
    _run,
    find_strategy,
    list_plugins,
    project_of,
    snake_case,
)

HEAD = "from bot import Strategy\n\n\n"
GOOD = HEAD + "class Mine(Strategy):\n    length: int = 3\n\n    def on_quote(self, quote): ...\n"


def project(folder: Path, **files: str) -> Path:
    (folder / "strategies").mkdir()
    for name, text in files.items():
        (folder / "strategies" / f"{name}.py").write_text(text, "utf-8")
    return folder


def problem_of(use: str, folder: Path) -> Problem:
    with pytest.raises(OperatorMistake) as raised:
        find_strategy(use, folder)
    return raised.value.problems[0]


@pytest.mark.parametrize(
    "use",
    [
        "sma_cross",
        "strategies/sma_cross.py:SmaCross",
        "strategies/sma_cross.py",
        "strategies.sma_cross.SmaCross",
        "strategies.sma_cross:SmaCross",
    ],
)
def test_a_shipped_strategy_is_found_by_each_of_its_names(use: str) -> None:
    repository = Path(__file__).parents[2]

    factory = find_strategy(use, repository / "config")

    assert factory.__name__ == "SmaCross"
    assert issubclass(factory, Strategy)


def test_a_project_has_its_own_and_the_shipped_ones(tmp_path: Path) -> None:
    folder = project(tmp_path, mine=GOOD)

    assert find_strategy("mine", folder).__name__ == "Mine"
    assert find_strategy("mine", folder / "strategies").__name__ == "Mine"
    assert find_strategy("sma_cross", folder).__name__ == "SmaCross"


def test_the_projects_own_hides_a_shipped_one(tmp_path: Path) -> None:
    own = HEAD + "class SmaCross(Strategy):\n    other: bool = True\n"

    factory = find_strategy("sma_cross", project(tmp_path, sma_cross=own))

    assert parameters_of(factory) == {"other": Parameter(bool, True)}


@pytest.mark.parametrize("written", ['bool = "no"', "bool = 1", "int = 1e2", 'float = "1.0"'])
def test_a_default_of_another_type_is_refused_as_it_would_be_in_a_file(
    tmp_path: Path, written: str
) -> None:
    folder = project(tmp_path, mine=GOOD.replace("length: int = 3", f"length: {written}"))

    problem = problem_of("mine", folder)

    assert problem.code == "E-CFG-032"
    assert "'length' is annotated as" in problem.message


def test_a_whole_number_is_a_default_of_a_float_and_none_is_no_default(tmp_path: Path) -> None:
    text = GOOD.replace("length: int = 3", "length: float = 3\n    bars: int = None")

    found = parameters_of(find_strategy("mine", project(tmp_path, mine=text)))

    assert found == {"length": Parameter(float, 3), "bars": Parameter(int, None)}


@pytest.mark.parametrize("written", ["str = Side.BUY", "int = Count.ONE", "float = Ratio(1.5)"])
def test_a_default_may_be_of_a_type_below_its_annotation(tmp_path: Path, written: str) -> None:
    of_its_own = """from enum import IntEnum
from bot.domain.order import Side


class Count(IntEnum):
    ONE = 1


class Ratio(float): ...


"""
    text = of_its_own + GOOD.replace("length: int = 3", f"length: {written}")

    [(name, found)] = parameters_of(find_strategy("mine", project(tmp_path, mine=text))).items()

    assert (name, found.default in {"BUY", 1, 1.5}) == ("length", True)


def test_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = find_strategy("mine", project(tmp_path / "a", mine=GOOD))
    second = find_strategy("mine", project(tmp_path / "b", mine=GOOD.replace("3", "4")))

    assert parameters_of(first)["length"] == Parameter(int, 3)
    assert parameters_of(second)["length"] == Parameter(int, 4)


def test_what_a_strategy_prints_is_no_part_of_our_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path, mine="print('loaded', 3, sep='-')\n" + GOOD)

    find_strategy("mine", tmp_path / "config")

    assert capsys.readouterr() == ("", "loaded-3\n")


def test_a_class_is_found_by_its_name_in_a_file_of_another(tmp_path: Path) -> None:
    text = GOOD + "\n\nclass RSIBounce(Mine):\n    bars: int = 14\n"
    folder = project(tmp_path, several=text)

    assert find_strategy("rsi_bounce", folder).__name__ == "RSIBounce"
    assert parameters_of(find_strategy("rsi_bounce", folder)) == {
        "length": Parameter(int, 3),
        "bars": Parameter(int, 14),
    }
    assert problem_of("several", folder).message.startswith(
        "wanted one subclass of Strategy; found"
    )


def test_a_copy_with_the_same_class_does_not_run_in_place_of_the_file_of_that_name(
    tmp_path: Path,
) -> None:
    folder = project(tmp_path, backup_mine=GOOD, mine=GOOD.replace("3", "4"))

    assert parameters_of(find_strategy("mine", folder))["length"].default == 4
    [row] = [row for row in list_plugins(folder) if row.name == "mine"]
    assert row.where.endswith("strategies/mine.py")


def test_a_class_in_several_files_of_other_names_is_ambiguous(tmp_path: Path) -> None:
    folder = project(tmp_path, one=GOOD, two=GOOD)

    message = problem_of("mine", folder).message

    assert "is a class in each of" in message
    assert "two.py. Name the one: strategies/one.py:Class" in message
    assert {row.error for row in list_plugins(folder) if row.name == "mine"} == {message}
    assert find_strategy("strategies/two.py:Mine", folder).__name__ == "Mine"


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("x = (1 +\n", "broken.py:1:5", "SyntaxError"),
        (HEAD + "x = 1 / 0\n", "broken.py:4:1", "ZeroDivisionError"),
        (HEAD + "import no_such_module\n", "broken.py:4:1", "ModuleNotFoundError"),
        (HEAD + "def f():\n    return missing\n\n\nf()\n", "broken.py:5:1", "NameError"),
        ("import sys\n\nsys.exit(9)\n", "broken.py:3:1", "SystemExit"),
        ("class Odd(Exception): ...\n\n\nraise Odd('no')\n", "broken.py:4:1", "Odd: no"),
        ("x = 1\n", "broken.py:1:1", "found none"),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, text: str, place: str, says: str
) -> None:
    problem = problem_of("broken", project(tmp_path, broken=text))

    assert problem.code == "E-CFG-032"
    assert problem.place.endswith(place)
    assert says in problem.message


@pytest.mark.parametrize("text", ["x = (\n", "x = 1" + "+1" * 20_000, "x = " + "-" * 20_000 + "1"])
def test_a_broken_file_does_not_keep_others_from_being_found(tmp_path: Path, text: str) -> None:
    folder = project(tmp_path, broken=text, mine=GOOD)

    assert find_strategy("mine", folder).__name__ == "Mine"
    rows = {row.name: row.error for row in list_plugins(folder)}
    assert rows["mine"] is None
    assert rows["sma_cross"] is None
    assert "this strategy cannot be loaded" in (rows["broken"] or "")


@pytest.mark.timeout(30)
def test_a_pipe_or_a_link_to_nowhere_among_the_strategies_is_waited_for_by_nobody(
    tmp_path: Path,
) -> None:
    folder = project(tmp_path, mine=GOOD)
    os.mkfifo(folder / "strategies" / "a_pipe.py")
    (folder / "strategies" / "a_link.py").symlink_to("nowhere.py")

    assert find_strategy("mine", folder).__name__ == "Mine"
    assert {row.name for row in list_plugins(folder)}.isdisjoint({"a_pipe", "a_link"})
    assert problem_of("a_pipe", folder).code == "E-CFG-031"


@pytest.mark.parametrize(
    ("use", "says"),
    [
        ("sma_cros", "did you mean 'sma_cross'?"),
        ("nothing.like.it", "no strategy is called"),
        ("os.path", "no strategy is called"),
        ("this.Zen", "no strategy is called"),
        ("bot.strategy.Strategy", "no strategy is called"),
        ("strategies/none.py:None", "bot plugin list"),
        ("mine.py:Mine", "did you mean 'strategies/mine.py'?"),
        ("strategies/mine.py:Other", "not a subclass"),
        ("../../etc/passwd.py:X", "relative to its project folder"),
        ("/etc/passwd.py:X", "relative to its project folder"),
    ],
)
def test_a_name_that_means_nothing_is_told(tmp_path: Path, use: str, says: str) -> None:
    problem = problem_of(use, project(tmp_path, mine=GOOD))

    assert problem.code == "E-CFG-031"
    assert says in problem.message


def test_looking_at_strategies_changes_no_file(tmp_path: Path) -> None:
    folder = project(tmp_path, mine=GOOD)

    list_plugins(folder)

    assert [path.name for path in (folder / "strategies").iterdir()] == ["mine.py"]


def test_no_module_outside_the_project_is_imported(
    tmp_path: Path,
) -> None:
    project(tmp_path, mine=GOOD)
    (tmp_path / "elsewhere.py").write_text("raise SystemExit('it ran')\n")
    folder = tmp_path / "below"
    folder.mkdir()

    problem = problem_of("elsewhere.Strange", folder)

    assert problem.message.startswith("no strategy is called 'elsewhere.Strange'")
    for lead in (".", "..", "/"):
        use = f"{lead}{'.'.join((tmp_path / 'elsewhere').parts[1:])}.Strange"
        assert problem_of(use, folder).message.startswith(f"no strategy is called {use!r}")
    assert find_strategy("strategies.mine.Mine", tmp_path).__name__ == "Mine"


def test_bytecode_beside_a_strategy_is_not_run(tmp_path: Path) -> None:
    folder = project(tmp_path, mine=GOOD)
    file = folder / "strategies" / "mine.py"
    evil = tmp_path / "evil.py"
    evil.write_text(GOOD.replace("length: int = 3", "length: int = 9"))
    os.utime(evil, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    cached = Path(importlib.util.cache_from_source(str(file)))
    cached.parent.mkdir()
    py_compile.compile(str(evil), cfile=str(cached), dfile=str(file))

    assert parameters_of(find_strategy("mine", folder))["length"].default == 3


def test_a_parameter_without_default_is_asked_for_and_class_variables_are_none(
    tmp_path: Path,
) -> None:
    text = "from typing import ClassVar\n" + HEAD
    text += "class Mine(Strategy):\n    warm_up: ClassVar[int] = 5\n    size: float\n"
    text += "    _own: int = 1\n"

    factory = find_strategy("mine", project(tmp_path, mine=text))

    assert parameters_of(factory) == {"size": Parameter(float, None)}


@pytest.mark.parametrize("annotation", ["list", "list[int]", "int | None", "Undefined"])
def test_a_parameter_that_no_file_can_give_is_refused(tmp_path: Path, annotation: str) -> None:
    text = "from __future__ import annotations\n" + HEAD
    text += f"class Mine(Strategy):\n    symbols: {annotation} = None\n"

    assert problem_of("mine", project(tmp_path, mine=text)).place.endswith("mine.py:5:1")


@pytest.mark.parametrize("below", [".", "strategies", "config", "config/strategies"])
def test_configuration_and_strategies_belong_to_one_project(below: str) -> None:
    assert project_of(Path("/home/an/mybot") / below) == Path("/home/an/mybot")
    assert project_of(Path("config/demo")) == Path.cwd() / "config/demo"


@pytest.mark.parametrize(
    ("name", "snake"),
    [("SmaCross", "sma_cross"), ("RSI2", "rsi2"), ("HTTPThing", "http_thing"), ("x", "x")],
)
def test_names_of_classes_in_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


STUBBORN = """
import io, time
from datetime import datetime
def ask():
    try:
        time.sleep(1)
    except:
        print("again", file=io.StringIO())
while True:
    try:
        ask()
    except BaseException as error:
        print(error, file=io.StringIO())
        continue
"""
RUN = """
import sys
from pathlib import Path
from bot.config.problems import OperatorMistake
from bot.config.strategies.plugins import _run
try:
    _run(Path(sys.argv[1]), within_s=0.1)
except OperatorMistake as mistake:
    print(mistake.problems[0].message)
"""


@pytest.mark.process
def test_an_import_that_catches_everything_and_goes_on_is_interrupted_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(STUBBORN, "utf-8")

    command = [sys.executable, "-c", RUN, str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)

    assert ran.stdout.startswith("importing this strategy took longer than 0.1 s")


def test_an_import_that_never_ends_is_interrupted_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import math\n\nwhile True:\n    math.sqrt(2)\n", "utf-8")

    handler, (left_s, _) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)

    with pytest.raises(OperatorMistake) as raised:
        _run(file, within_s=0.1)

    [problem] = raised.value.problems
    assert (problem.code, problem.line in {3, 4}) == ("E-CFG-032", True)
    assert problem.message.startswith("importing this strategy took longer than 0.1 s")
    assert signal.getsignal(signal.SIGALRM) is handler
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) is (left_s > 0)
