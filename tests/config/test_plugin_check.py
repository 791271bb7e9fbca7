"""What the check of a strategy finds before a start does, and where it points."""

from datetime import date
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake, Problem
from bot.config.strategies.load import CheckedFile, check_file, check_files, market_of, rehearse
from bot.config.strategies.plugins import find_strategy, list_plugins

MARKET = market_of(date(2026, 11, 19))
HEAD = "from bot import Strategy\n\n\nclass Mine(Strategy):\n    length: int = 3\n"
FILE = """\
name: mine
use: mine
symbols: [FPT]
wake: {bar: 1m}
order: {size: {shares: 100}, price: ask}
"""
ON_BAR = "    def on_bar(self, bar): ...\n"


def project(folder: Path, python: str, params: str = "", use: str = "mine") -> Path:
    (folder / "strategies").mkdir(exist_ok=True)
    (folder / "strategies" / "mine.py").write_text(python, "utf-8")
    file = folder / "strategies" / "mine.yaml"
    text = FILE.replace("use: mine", f"use: {use}")
    file.write_text(text + (f"params: {params}\n" if params else ""), "utf-8")
    return file


def check(file: Path) -> CheckedFile:
    return rehearse([check_file(file, market=MARKET)])[0]


def problems_of(file: Path) -> tuple[Problem, ...]:
    with pytest.raises(OperatorMistake) as raised:
        check(file)
    return raised.value.problems


@pytest.mark.parametrize(
    ("body", "line", "says"),
    [
        ("    def __init__(self, a, b): ...\n", 6, "its __init__ wants arguments"),
        (
            "    def __init__(self, desk):\n        self.n = 0\n",
            4,
            "keeps what it gets from Strategy's",
        ),
        ("    def __init__(self): ...\n", 6, "its __init__ lacks the argument that it gets"),
        ("    async def on_bar(self, bar): ...\n", 6, "on_bar is not a plain function"),
        ("    def on_bar(self, bar):\n        yield 1\n", 6, "on_bar is not a plain function"),
        ("    def on_bars(self, bar): ...\n", 6, "did you mean 'on_bar'?"),
        ("    def onBar(self, bar): ...\n", 6, "did you mean 'on_bar'?"),
        ("    def on_the_whole(self): ...\n", 6, "hooks are on_start, on_bar, on_quote"),
        ("    def on_bar(self): ...\n", 6, "wanted def on_bar(self, bar)"),
        ("    def on_bar(self, bar, depth): ...\n", 6, "wanted def on_bar(self, bar)"),
        ("    def on_start(self, day): ...\n", 6, "wanted def on_start(self)"),
        ('    warm_up = "20"\n' + ON_BAR, 4, "warm_up is a number of bars, like 20; found '20'"),
        ("    warm_up: bool = True\n" + ON_BAR, 4, "like 20; found True"),
        ("    warm_up = -1\n" + ON_BAR, 4, "like 20; found -1"),
        ("    on_bar = 5\n", 4, "wanted on_bar to be a function"),
        ("    async def check(self): ...\n", 6, "check is not a plain function"),
        ("    def check(self, params): ...\n", 6, "wanted def check(self)"),
        ("    position: int = 5\n", 4, "every strategy already has a 'position'"),
        ("    context: str = 'x'\n", 4, "every strategy already has a 'context'"),
        ("    def check(self):\n        self.lenght\n", 7, "has no attribute 'lenght'"),
        ("    def __init__(self, desk):\n        1 / 0\n", 7, "Mine cannot be made: ZeroDiv"),
    ],
)
def test_a_class_that_would_fail_or_be_silent_is_refused_with_its_line(
    tmp_path: Path, body: str, line: int, says: str
) -> None:
    [problem] = problems_of(project(tmp_path, HEAD + body))

    assert problem.code == "E-CFG-032"
    assert (Path(problem.file or "").name, problem.line) == ("mine.py", line)
    assert says in problem.message


@pytest.mark.parametrize(
    "body",
    [
        "    def on_bar(self, candle): ...\n",
        "    def on_bar(self, *any, **more): ...\n",
        "    @staticmethod\n    def on_bar(bar): ...\n",
        "    def __init__(self, desk=None, *, spare=1):\n        super().__init__(desk)\n",
        "    def bar_is_up(self, bar): ...\n    def _on_the_whole(self): ...\n",
        "    def on_bar(self, bar):\n        raise ValueError('at the first bar')\n",
        "    def on_start(self): self.n = 1\n    def on_bar(self, bar): bar.sma(self.n + 1)\n",
    ],
)
def test_a_class_that_the_engine_can_use_passes(tmp_path: Path, body: str) -> None:
    hook = "" if "def on_" in body else ON_BAR

    assert check(project(tmp_path, HEAD + body + hook)).warnings == ()


@pytest.mark.parametrize(
    ("attribute", "says"),
    [
        ("closes = []", "'closes' is one list for all symbols"),
        ("last = {'FPT': 0}", "'last' is one dict for all symbols"),
        ("seen = set()", "'seen' is one set for all symbols"),
        ("recent = collections.deque(maxlen=5)", "'recent' is one deque for all symbols"),
        ("counts = collections.Counter()", "'counts' is one Counter for all symbols"),
        ("days = collections.defaultdict(list)", "'days' is one defaultdict for all symbols"),
        ("line = bytearray()", "'line' is one bytearray for all symbols"),
        ("_closes = []", "set self._closes in on_start alone"),
        ("_closes: list[int] = []", "or they are to share it, write its name in capitals"),
        ("closes: list = []", "bool; what changes in a run is set up in on_start"),
    ],
)
def test_what_a_class_would_mix_up_between_its_symbols_is_refused(
    tmp_path: Path, attribute: str, says: str
) -> None:
    body = f"import collections\n{HEAD}    {attribute}\n{ON_BAR}"

    [problem] = problems_of(project(tmp_path, body))

    assert (problem.code, problem.line) == ("E-CFG-032", 5)
    assert says in problem.message


def test_what_a_base_class_would_mix_up_is_refused_until_the_class_has_another(
    tmp_path: Path,
) -> None:
    base = "from bot import Strategy\n\n\nclass Base(Strategy):\n    closes = []\n\n\n"
    mine = "class Mine(Base):\n" + ON_BAR

    [problem] = problems_of(project(tmp_path, base + mine, use="strategies/mine.py:Mine"))

    assert "'closes' is one list for all symbols" in problem.message
    check(project(tmp_path, base + mine + "    closes = ()\n", use="strategies/mine.py:Mine"))


def test_what_each_symbol_sets_anew_when_it_starts_is_its_own(tmp_path: Path) -> None:
    body = f"{HEAD}    closes = []\n\n    def on_start(self):\n        {{}}\n\n{ON_BAR}"

    check(project(tmp_path, body.format("self.closes = []")))
    for line in ("self.closes.clear()", "self.closes += [1]", "self.other = self.closes"):
        [problem] = problems_of(project(tmp_path, body.format(line)))
        assert "'closes' is one list for all symbols" in problem.message


@pytest.mark.parametrize(
    "attribute",
    [
        "HOURS = [10, 11]",
        "_BY_DAY = {}",
        "hours = (10, 11)",
        "days = frozenset({1})",
        "latest: ClassVar[dict[str, int]] = {}",
        "latest: ClassVar = {}",
        "__slots__ = []",
    ],
)
def test_what_cannot_change_or_is_meant_to_be_shared_passes(tmp_path: Path, attribute: str) -> None:
    body = f"from typing import ClassVar\n{HEAD}    {attribute}\n{ON_BAR}"

    assert check(project(tmp_path, body)).warnings == ()


def test_all_that_is_wrong_with_a_class_is_told_at_once(tmp_path: Path) -> None:
    body = "    def __init__(self, a, b): ...\n    def on_bars(self, b): ...\n"
    body += "    async def on_quote(self, quote): ...\n"

    problems = problems_of(project(tmp_path, HEAD + body))

    assert [problem.line for problem in problems] == [6, 7, 8]


def test_a_broken_class_among_sound_files_is_one_problem_of_all(tmp_path: Path) -> None:
    broken = project(tmp_path, HEAD + "    def __init__(self, a, b): ...\n")
    wrong = tmp_path / "strategies" / "wrong.yaml"
    wrong.write_text(FILE.replace("use: mine", "use: sma_cross").replace("1m", "1x"))

    with pytest.raises(OperatorMistake) as raised:
        check_files([broken, wrong], market=MARKET)

    assert [problem.code for problem in raised.value.problems] == ["E-CFG-032", "E-CFG-017"]


def test_the_list_of_strategies_shows_an_unusable_class_as_broken(tmp_path: Path) -> None:
    project(tmp_path, HEAD + "    def on_bars(self, bar): ...\n")

    rows = {row.name: row for row in list_plugins(tmp_path)}

    assert "did you mean 'on_bar'?" in (rows["mine"].error or "")
    assert rows["sma_cross"].error is None


@pytest.mark.parametrize(
    ("use", "wake", "params", "column", "says"),
    [
        ("sma_cross", "bar: 1m", "{fast: 0, slow: 5}", 16, "wanted fast above 1 and below slow"),
        ("sma_cross", "bar: 1m", "{slow: 4, fast: 30}", 25, "wanted fast above 1 and below slow"),
        ("sma_cross", "bar: 1m", "{slow: 1_000_000}", 16, "sma(1000000): wanted 2 to 5000 bars"),
        ("depth_imbalance", "depth: 5s", "{ratio: 0.5}", 17, "wanted ratio above 1"),
        ("mine", "bar: 1m", "{length: -1}", 18, "mine: length must be above 0"),
        ("mine", "bar: 1m", "{share: 10.0}", 16, "sma(10.0): wanted a whole number of bars, found"),
    ],
)
def test_parameters_that_a_strategy_refuses_are_found_where_they_stand(
    tmp_path: Path, use: str, wake: str, params: str, column: int, says: str
) -> None:
    own = "    def check(self):\n        if self.length < 1:\n"
    own += "            raise ValueError('length must be above 0')\n"
    own += "    share: float = 2\n    def on_bar(self, bar): bar.sma(self.share)\n"
    file = project(tmp_path, HEAD + own, params, use)
    file.write_text(file.read_text().replace("bar: 1m", wake))

    [problem] = problems_of(file)

    assert (problem.code, problem.line) == ("E-CFG-039", 6)
    assert says in problem.message
    if "sma(" not in says:
        assert problem.column == column


def test_a_default_that_a_strategy_refuses_is_found_too(tmp_path: Path) -> None:
    own = "    def check(self):\n        raise ValueError('never')\n"

    [problem] = problems_of(project(tmp_path, HEAD + own))

    assert (problem.code, problem.line, problem.message) == ("E-CFG-039", 2, "mine: never")


@pytest.mark.parametrize(
    ("body", "params", "says"),
    [
        ("", "{slow: 450}", "sma_cross needs 450 bars of 1m before it decides: 2.0 trading"),
        (
            f"    warm_up = 4_000\n{ON_BAR}",
            "",
            "mine needs 4,000 bars of 1m before it decides: 17.8",
        ),
    ],
)
def test_a_window_longer_than_a_day_says_how_much_history_it_needs(
    tmp_path: Path, body: str, params: str, says: str
) -> None:
    use = "sma_cross" if params else "mine"

    [warning] = check(project(tmp_path, HEAD + body, params, use)).warnings

    assert warning.code == "E-CFG-029"
    assert says in warning.message


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("        self.lenght\n", "AttributeError: 'Mine' object has no attribute 'lenght'"),
        (
            "        self.buy(100, price=1)\n",
            "TypeError: Strategy.buy() got an unexpected keyword argument 'price'",
        ),
        ("        sef.buy()\n", "NameError: name 'sef' is not defined"),
        ("        bar.closee\n", "AttributeError: 'BarView' object has no attribute 'closee'"),
        (
            "        bar.sma(5).over(3)\n",
            "AttributeError: 'Indicator' object has no attribute 'over'",
        ),
        (
            "        self.position.size\n",
            "AttributeError: 'PositionView' object has no attribute 'size'",
        ),
    ],
)
def test_a_name_mistyped_in_a_hook_is_told_before_the_run(
    tmp_path: Path, body: str, says: str
) -> None:
    own = f"    def on_bar(self, bar):\n{body}"

    [warning] = check(project(tmp_path, HEAD + own)).warnings

    assert (warning.code, warning.line) == ("E-CFG-032", 2)
    assert warning.message == f"mine fails on its first bar: {says} (mine.py:7)"


def test_what_only_its_check_has_set_is_missing_in_a_run_and_told_before(tmp_path: Path) -> None:
    own = "    def check(self):\n        self.window = 2 * self.length\n\n"
    own += "    def on_bar(self, bar):\n        bar.sma(self.window)\n"

    [warning] = check(project(tmp_path, HEAD + own)).warnings

    says = "AttributeError: 'Mine' object has no attribute 'window' (mine.py:10)"
    assert warning.message == f"mine fails on its first bar: {says}"


def test_what_only_the_made_up_bar_makes_a_hook_raise_is_no_warning(tmp_path: Path) -> None:
    own = "    def on_bar(self, bar):\n        self.quote.last\n"

    assert check(project(tmp_path, HEAD + own)).warnings == ()


def test_a_run_begins_with_classes_that_have_seen_no_bar(tmp_path: Path) -> None:
    body = "    SEEN = []\n\n    def on_bar(self, bar):\n        self.SEEN.append(bar)\n"

    checked = check_file(project(tmp_path, HEAD + body), market=MARKET)

    assert vars(checked.factory)["SEEN"] == []


def test_a_class_is_sound_or_not_whatever_file_names_it(tmp_path: Path) -> None:
    project(tmp_path, HEAD + "    def on_bars(self, bar): ...\n")

    with pytest.raises(OperatorMistake, match="did you mean 'on_bar'"):
        find_strategy("strategies/mine.py:Mine", tmp_path)
