"""What somebody else could change is not run, and not even looked into."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import bot
from bot.cli.main import run
from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.config.strategies.load import load_strategies
from bot.config.strategies.source_files import require_trusted

ROOT = Path(bot.__file__).parents[1]
PYTHON = "from pathlib import Path\n\nfrom bot import Strategy\n\nPath({0!r}).touch()\n\n\n"
PYTHON += "class Mine(Strategy):\n    def on_bar(self, bar): ...\n"
FILE = (
    "name: mine\nuse: {use}\nsymbols: [FPT]\nwake: {{bar: 1m}}\norder: {{size: {{shares: 100}}}}\n"
)


def project(folder: Path, use: str = "mine") -> Path:
    """A bot whose strategy leaves a trace when it is executed."""
    folder.mkdir()
    (folder / "strategies").mkdir()
    (folder / "strategies" / "mine.py").write_text(PYTHON.format(str(folder / "it-ran")))
    (folder / "strategies" / "mine.yaml").write_text(FILE.format(use=use))
    (folder / "bot.yaml").write_text("mode: sandbox\nstate_dir: var\n")
    return folder


def open_file(folder: Path) -> None:
    (folder / "strategies" / "mine.py").chmod(0o666)


def open_folder(folder: Path) -> None:
    (folder / "strategies").chmod(0o777)


def open_project(folder: Path) -> None:
    folder.chmod(0o757)


def link_to_an_open_file(folder: Path) -> None:
    file = folder / "strategies" / "mine.py"
    (folder / "open").mkdir(mode=0o777)
    (folder / "open").chmod(0o777)
    file.rename(folder / "open" / "mine.py")
    file.symlink_to("../open/mine.py")


def link_by_way_of_an_open_folder(folder: Path) -> None:
    file = folder / "strategies" / "mine.py"
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "shut").mkdir()
    file.rename(folder / "shut" / "mine.py")
    (folder / "open" / "mine.py").symlink_to("../shut/mine.py")
    file.symlink_to("../open/mine.py")


def linked_folder_below_an_open_one(folder: Path) -> None:
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "strategies").rename(folder / "open" / "strategies")
    (folder / "strategies").symlink_to("open/strategies")


def linked_folder_by_way_of_an_open_one(folder: Path) -> None:
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "strategies").rename(folder / "shut")
    (folder / "open" / "on").symlink_to("../shut")
    (folder / "strategies").symlink_to("open/on")


def a_link_of_somebody_else_in_a_sticky_folder(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a link away")
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    (folder / "strategies").rename(folder / "shut")
    (folder / "tmp" / "on").symlink_to("../shut")
    os.chown(folder / "tmp" / "on", 54_321, -1, follow_symlinks=False)
    (folder / "strategies").symlink_to("tmp/on")


def another_group(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another group")
    file = folder / "strategies" / "mine.py"
    os.chown(file, -1, 54_321)
    file.chmod(0o664)


def another_owner(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(folder / "strategies" / "mine.py", 54_321, -1)


OPEN = [
    open_file,
    open_folder,
    open_project,
    link_to_an_open_file,
    link_by_way_of_an_open_folder,
    linked_folder_below_an_open_one,
    linked_folder_by_way_of_an_open_one,
    a_link_of_somebody_else_in_a_sticky_folder,
    another_group,
    another_owner,
]


@pytest.mark.parametrize("spoil", OPEN)
def test_a_strategy_that_somebody_else_could_change_is_not_executed(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    folder = project(tmp_path / "bot")
    spoil(folder)

    with pytest.raises(OperatorMistake) as raised:
        load_strategies(load_settings(folder / "bot.yaml", environment={}))

    assert not (folder / "it-ran").exists()
    assert {problem.code for problem in raised.value.problems} == {"E-CFG-038"}


@pytest.mark.parametrize(
    "command", ["config check", "strategy check", "strategy list", "strategy show mine", "run"]
)
def test_no_command_executes_what_somebody_else_could_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    folder = project(tmp_path / "bot")
    open_file(folder)

    code = run(["-c", str(folder / "bot.yaml"), *command.split()])

    shown = "".join(capsys.readouterr())
    assert not (folder / "it-ran").exists()
    assert "could change what runs" in shown
    assert code == (0 if command == "strategy list" else 3)


def test_a_file_named_by_its_path_in_an_open_folder_is_not_executed(tmp_path: Path) -> None:
    folder = project(tmp_path / "bot", use="open/mine.py:Mine")
    (folder / "strategies" / "mine.py").rename(folder / "mine.py")
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "mine.py").rename(folder / "open" / "mine.py")

    with pytest.raises(OperatorMistake, match="E-CFG-038"):
        load_strategies(load_settings(folder / "bot.yaml", environment={}))

    assert not (folder / "it-ran").exists()


@pytest.mark.parametrize("open_one", ["bot.yaml", "strategies/mine.yaml"])
@pytest.mark.parametrize(("mode", "is_refused"), [("sandbox", False), ("paper", True)])
def test_files_that_say_what_is_traded_are_nobody_elses_but_in_the_sandbox(
    tmp_path: Path, open_one: str, mode: str, is_refused: bool
) -> None:
    folder = project(tmp_path / "bot")
    text = f"mode: {mode}\nbroker: {{base_url: https://broker.example}}\n"
    (folder / "bot.yaml").write_text(text if is_refused else "mode: sandbox\n")
    (folder / open_one).chmod(0o666)
    loaded = load_settings(folder / "bot.yaml", environment={"HOME": "/nowhere"})

    if not is_refused:
        assert load_strategies(loaded)
        return
    with pytest.raises(OperatorMistake) as raised:
        load_strategies(loaded)

    [problem] = raised.value.problems
    assert (problem.code, problem.file) == ("E-CFG-038", str(folder / open_one))
    assert "everybody can write here. Do: chmod o-w" in problem.message


def test_what_the_owners_own_group_may_write_is_trusted(tmp_path: Path) -> None:
    folder = project(tmp_path / "bot")
    for path in (folder, folder / "strategies", folder / "strategies" / "mine.py"):
        path.chmod(path.stat().st_mode | 0o020)

    require_trusted(folder / "strategies" / "mine.py")


@pytest.mark.parametrize("umask", [0o002, 0o000, 0o077])
def test_what_init_writes_runs_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert run(["init", str(tmp_path / "bots" / "mine"), "--template", "blank"]) == 0
    finally:
        os.umask(before)

    loaded = load_settings(tmp_path / "bots" / "mine" / "bot.yaml", environment={})
    assert [each.plan.name for each in load_strategies(loaded)] == ["mine"]


@pytest.mark.process
def test_a_checkout_that_everybody_may_write_to_still_plays_its_own_strategies(
    tmp_path: Path,
) -> None:
    """As on a disk that knows no modes: who could change these could change the program."""
    checkout = tmp_path / "checkout"
    for name in ("bot", "config", "strategies"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", checkout)
    for path in (checkout, checkout / "strategies", checkout / "strategies" / "sma_cross.py"):
        path.chmod(0o777)

    ran = subprocess.run(
        [sys.executable, "-m", "bot", "config", "check", "-c", "config/bot.yaml"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.stderr == ""
    assert ran.returncode == 0


@pytest.mark.process
def test_python_m_bot_imports_nothing_from_the_folder_that_it_is_called_in(tmp_path: Path) -> None:
    folder = project(tmp_path / "bot", use="mine")
    python = (folder / "strategies" / "mine.py").read_text()
    (folder / "strategies" / "mine.py").write_text(f"import beside\n{python}")
    (folder / "beside.py").write_text("from pathlib import Path\n\nPath('beside-ran').touch()\n")

    ran = subprocess.run(
        [sys.executable, "-m", "bot", "-c", "bot.yaml", "config", "check"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 3
    assert "mine.py:1:1: E-CFG-032" in ran.stderr
    assert "No module named 'beside'" in ran.stderr
    assert not (folder / "beside-ran").exists()
