"""Finds the class that a strategy file's `use` names, and says why a broken one is broken.

The order of lookup is: entry points of the group `bot.strategies`, the files of the project's
`strategies/` folder and of the shipped one (by class or file name in snake case), a dotted path
below the project; `path.py:Class` names a file. A file is executed only if it is the one wanted, or
to list all, and only if nobody else can write to it. A plug-in is trusted code in our process: it
can do anything, and the docs say so.
"""

import ast
import builtins
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
import sys
import traceback
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn, TextIO, TypeGuard

from bot.config.model_check import did_you_mean
from bot.config.problems import OperatorMistake, Problem, shown_path
from bot.config.shipped import shipped
from bot.config.strategies.invoke import Interrupted, call_within
from bot.config.strategies.plugin_check import FAILURES, require_sound
from bot.config.strategies.source_files import require_trusted
from bot.config.yaml_file import Span, read_text, snippet_of
from bot.strategy import Strategy

GROUP: Final = "bot.strategies"
FOLDER: Final = "strategies"
IMPORT_S_MAX: Final = 30.0
"""How long the import of a file may take: a loop that never ends would keep a start silent."""
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class PluginRow:
    """One strategy that `use` can name, or one file that cannot be used, and why."""

    name: str
    where: str
    error: str | None = None
    factory: type[Strategy] | None = None
    """None: it is broken."""


def project_of(folder: Path) -> Path:
    """Return the folder whose `strategies/` holds the plug-ins of a configuration in `folder`.

    `DIR`, `DIR/strategies`, `DIR/config` and `DIR/config/strategies` all belong to `DIR`.
    """
    folder = folder.absolute()
    for name in (FOLDER, "config"):
        folder = folder.parent if folder.name == name else folder
    return folder


def plugin_folders(base_dir: Path) -> tuple[Path, ...]:
    """Return the folders of plug-ins, the project's own first."""
    folders = [project_of(base_dir) / FOLDER, shipped(FOLDER)]
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def find_strategy(use: str, base_dir: Path) -> type[Strategy]:
    """Return the class that `use` names.

    Raises OperatorMistake: E-CFG-031 without a file if there is no such strategy, E-CFG-032 with
    file and line if its file is broken.
    """
    path, _, name = use.partition(":")
    if path.endswith(".py"):
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise _unknown(f"{path}: name a strategy's file relative to its project folder")
        found: type[Strategy] | None = _class_of_file(project_of(base_dir) / path, name)
    else:
        found = _by_name(use, base_dir)
    if found is None:
        files = [file for folder in plugin_folders(base_dir) for file in _files(folder)]
        known = [snake_case(each) for file in files for each in _class_names(file)]
        names = list(dict.fromkeys([*(point.name for point in _points()), *known]))
        hint = did_you_mean(use, names) or f"known: {', '.join(names)}."
        raise _unknown(f"no strategy is called {use!r}: {hint} To list all: bot strategy list")
    require_sound(found)
    return found


def place_of_name(use: str, base_dir: Path) -> str | None:
    """Return what a name means already, as it may be shown; None if nothing."""
    for point in _points().select(name=use):
        return f"entry point {point.value}"
    found = (_file_meant(folder, use) for folder in plugin_folders(base_dir))
    return next((shown_path(file) for file in found if file is not None), None)


def list_plugins(base_dir: Path) -> tuple[PluginRow, ...]:
    """Return everything that can be used, and broken files with the reason."""
    rows: list[PluginRow] = []
    for point in _points():
        where = f"entry point {point.value}"
        try:
            require_sound(found := _loaded(point))
        except OperatorMistake as mistake:
            rows.append(PluginRow(point.name, where, mistake.problems[0].message))
        else:
            rows.append(PluginRow(point.name, where, factory=found))
    of_files: dict[str, PluginRow] = {}  # a project file hides a shipped one of the same name
    for file in (file for folder in plugin_folders(base_dir) for file in _files(folder)):
        try:
            classes = _strategies_in(_run(file))
            for each in classes:
                require_sound(each)
        except OperatorMistake as mistake:
            problem = mistake.problems[0]
            where = problem.place or shown_path(file)
            of_files.setdefault(file.stem, PluginRow(file.stem, where, problem.message))
        else:
            for each in classes:
                name = snake_case(each.__name__)
                try:
                    is_meant = _file_meant(file.parent, name) in {file, None}
                except OperatorMistake as mistake:
                    text = mistake.problems[0].message
                    of_files.setdefault(name, PluginRow(name, shown_path(file), text))
                    continue
                if is_meant:
                    of_files.setdefault(name, PluginRow(name, shown_path(file), factory=each))
    return (*rows, *of_files.values())


def snake_case(name: str) -> str:
    """Return `sma_cross` for `SmaCross`."""
    return _WORDS.sub("_", name).lower()


def _by_name(use: str, base_dir: Path) -> type[Strategy] | None:
    """Look among entry points, then in the folders, then treat it as a dotted path.

    A project file hides a shipped one of the same name. `strategies.sma.SmaCross` means
    `strategies/sma.py:SmaCross`; nothing else is ever imported.
    """
    for point in _points().select(name=use):
        return _loaded(point)
    for folder in plugin_folders(base_dir):
        if (meant := _file_meant(folder, use)) is not None:
            return _class_of_file(meant, "", use)
    module, _, name = use.replace(":", ".").rpartition(".")
    below = Path(f"{module.replace('.', '/')}.py")
    if not module or below.is_absolute():  # a leading dot would lead out of the project
        return None
    file = project_of(base_dir) / below
    return _class_of_file(file, name) if file.is_file() else None


def _file_meant(folder: Path, use: str) -> Path | None:
    """Return the file of a folder that a name means: the one that holds the class of that name, or
    that has it itself.

    Of several with such a class, as after a copy was made, only one of the same name can be meant;
    without one nobody knows which, and OperatorMistake is raised.
    """
    files = _files(folder)
    holding = [file for file in files if use in map(snake_case, _class_names(file))]
    by_name = [file for file in files if file.stem == use]
    same = [file for file in holding if file in by_name]
    if len(holding) > 1 and not same:
        names = ", ".join(shown_path(file) for file in holding)
        raise _unknown(
            f"{use!r} is a class in each of {names}. Name the one: {FOLDER}/{holding[0].name}:Class"
        )
    return next(iter([*same, *holding, *by_name]), None)


# ------------------------------------------------------------------------------------- entry points


@lru_cache(maxsize=1)
def _points_on(_path: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    """Read the entry points installed on a path; later installs are seen at the next start."""
    return importlib.metadata.entry_points(group=GROUP)


def _points() -> importlib.metadata.EntryPoints:
    return _points_on(tuple(sys.path))


def _loaded(point: importlib.metadata.EntryPoint) -> type[Strategy]:
    what = f"the entry point {point.name!r}"
    try:
        found = point.load()
    except FAILURES as error:
        message = f"{what} ({point.value}) cannot be loaded: {_words_of(error)}"
        raise OperatorMistake.of("E-CFG-032", message) from error
    return _require_strategy(found, what)


# -------------------------------------------------------------------------------------------- files


def _files(folder: Path) -> list[Path]:
    """Skip pipes, which would block, and dangling links."""
    found = sorted(folder.glob("*.py"))
    return [file for file in found if file.is_file() and not file.stem.startswith("_")]


def _class_names(file: Path) -> list[str]:
    """Return the names of a file's classes without running it; empty if it cannot be parsed."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
        return []
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.bases]


def _class_of_file(file: Path, name: str, use: str = "") -> type[Strategy]:
    """Return the class of that name, or the one that `use` means, or the only one."""
    if not file.is_file():
        raise _unknown(f"there is no {shown_path(file)}. {_where_it_may_be(file)}")
    module = _run(file)
    if name:
        return _require_strategy(getattr(module, name, None), f"{name!r} in {shown_path(file)}")
    classes = _strategies_in(module)
    wanted = [each for each in classes if snake_case(each.__name__) == use] or classes
    if len(wanted) != 1:
        names = ", ".join(each.__name__ for each in classes) or "none"
        text = f"wanted one subclass of Strategy; found {names}. Name it: {file.name}:Class"
        raise OperatorMistake((Problem("E-CFG-032", text, shown_path(file), 1, 1),))
    return wanted[0]


def _strategies_in(module: ModuleType) -> list[type[Strategy]]:
    values = vars(module).values()
    return [each for each in values if _is_strategy(each) and each.__module__ == module.__name__]


def _is_strategy(value: object) -> TypeGuard[type[Strategy]]:
    return inspect.isclass(value) and issubclass(value, Strategy) and value is not Strategy


def _require_strategy(value: object, what: str) -> type[Strategy]:
    if not _is_strategy(value):
        raise _unknown(f"{what} is not a subclass of bot.Strategy")
    return value


class _Loader(SourceFileLoader):
    """Neither reads nor writes bytecode: the text that was checked is what runs."""

    def path_stats(self, path: str) -> NoReturn:
        """Report nothing about a cached file, so that none is used."""
        raise OSError(path)


def _print(*values: object, file: TextIO | None = None, **how: Any) -> None:
    """Print for a plug-in: to stderr, as other programs may read stdout."""
    builtins.print(*values, file=file or sys.stderr, **how)


def _run(file: Path, within_s: float = IMPORT_S_MAX) -> ModuleType:
    """Import a file under a unique name, so that two `sma.py` do not collide.

    A file that somebody else can write to is never run, whatever the mode; shipped files are as
    safe as the program itself.
    """
    ours = shipped(FOLDER)
    if not (file.absolute().is_relative_to(ours) and file.resolve().is_relative_to(ours.resolve())):
        require_trusted(file)
    path = file.resolve()
    name = f"bot_plugin_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    loader = _Loader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None, "a file with a loader has a spec"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    vars(module)["print"] = _print
    try:
        call_within(within_s, lambda: loader.exec_module(module))
    except (*FAILURES, Interrupted) as error:
        del sys.modules[name]
        frames = traceback.extract_tb(error.__traceback__)
        ran = [frame.lineno for frame in frames if Path(frame.filename) == path]
        line, column = next((line for line in reversed(ran) if line), 1), 1
        if isinstance(error, SyntaxError):
            line, column = error.lineno or line, max(error.offset or 1, 1)
        snippet = snippet_of(read_text(file), Span(line, column)) if line > 1 else ""
        message = f"this strategy cannot be loaded: {_words_of(error)}"
        if isinstance(error, Interrupted):
            message = (
                f"importing this strategy took longer than {within_s:g} s, and was interrupted "
                "here: what takes long belongs into a hook, what never ends nowhere"
            )
        problem = Problem("E-CFG-032", message, shown_path(file), line, column, snippet)
        raise OperatorMistake((problem,)) from error
    return module


def _words_of(error: BaseException) -> str:
    words = error.msg if isinstance(error, SyntaxError) else error
    return f"{type(error).__name__}: {words}"


def _where_it_may_be(file: Path) -> str:
    """Name the file of that name in the plug-in folders, for a path given relative to another
    folder.
    """
    if (file.parent / FOLDER / file.name).is_file():
        return f"Names are relative to the project folder: did you mean '{FOLDER}/{file.name}'?"
    return "What can be used: bot plugin list"


def _unknown(message: str) -> OperatorMistake:
    return OperatorMistake.of("E-CFG-031", message)
