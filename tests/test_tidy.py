"""House style as a test: who imports whom, who reads the clock, how long things are.

Each rule is a generator of findings `file:line: what is wrong`; a rule's own test shows it code
that breaks it. Needles that no file may hold are put together from halves, or this file held them.
"""

import ast
import functools
import itertools
import re
import shutil
import statistics
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tests.rows import every_row

ROOT = Path(__file__).resolve().parents[1]

# The table of imports: a part of `bot`, and the parts it may import besides itself.
_PURE = {"domain", "clock"}
_SHELLS = _PURE | {"strategy", "engine", "protocol", "broker", "sandbox", "journal", "config"}
MAY_IMPORT: dict[str, set[str]] = {
    "domain": set(),
    "clock": set(),
    "strategy": {"domain"},
    "engine": {"domain", "strategy"},
    "protocol": _PURE,
    "broker": _PURE | {"protocol"},
    "sandbox": _PURE | {"protocol"},
    "journal": _PURE,
    "config": _PURE | {"strategy", "protocol", "engine", "sandbox"},
    "runtime": _SHELLS,
    "conformance": _PURE | {"runtime", "config", "broker", "protocol"},
    "drill": _PURE | {"runtime", "config", "journal", "sandbox", "protocol"},
    "testing": _SHELLS | {"runtime"},
    "cli": _PURE | {"runtime", "config", "conformance", "drill", "journal"},
    "__main__": {"cli"},
    "__init__": {"strategy"},
}
# Of some parts, a part may import these modules alone.
ONLY = {
    ("config", "engine"): ("bot.engine.settings",),
    ("config", "sandbox"): ("bot.sandbox.scenario", "bot.sandbox.markets"),
    ("conformance", "runtime"): ("bot.runtime.api",),
}
PLUGIN_MAY_IMPORT = {"strategy"}
# Parts that know few libraries: only these besides the standard library.
LIBRARIES = {
    "domain": set[str](),
    "clock": set[str](),
    "strategy": set[str](),
    "engine": {"talib", "numpy"},
    "protocol": {"pydantic", "pydantic_core"},
}
# Libraries with one home: the paths that may import them.
HOMES = {
    "h11": ("bot/broker/answer_reader.py",),
    "httpx": ("bot/broker/http.py",),
    "sqlalchemy": ("bot/journal/",),
    "alembic": ("bot/journal/",),
    "psycopg": ("bot/journal/",),
    "apscheduler": ("bot/runtime/",),
    "talib": ("bot/engine/indicators.py",),
    "numpy": ("bot/engine/indicators.py", "bot/runtime/history/", "tests/", "bench/"),
    "polars": ("bot/runtime/history/", "tests/", "bench/"),
    "optuna": ("bot/runtime/history/", "tests/", "bench/"),
    "distributed": ("bot/runtime/history/", "tests/", "bench/"),
    "jinja2": ("bot/cli/report/",),
    "apprise": ("bot/runtime/notices/",),
}
# Libraries that are not imported by the name under which they are installed.
INSTALLED_AS = {"jwt": "pyjwt", "ruamel": "ruamel-yaml", "talib": "ta-lib"}
INSTALLED_AS |= {"pydantic_core": "pydantic", "pydantic_settings": "pydantic-settings"}
# Parts without I/O and without `async`.
PURE_PARTS = {"domain", "strategy", "engine", "protocol"}
OUTSIDE = {"asyncio", "socket", "socketserver", "ssl", "select", "selectors", "subprocess"}
OUTSIDE |= {"sqlite3", "threading", "urllib.request", "http.client", "http.server"}
FILE_ACCESS = {"open", "read_text", "read_bytes", "write_text", "write_bytes"}

CLOCK = "bot/clock.py"
TIME_FUNCTIONS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
CLOCK_READS = {("time", name) for name in TIME_FUNCTIONS}
CLOCK_READS |= {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}
CLOCK_READS |= {("date", "today"), ("dt", "now"), ("dt", "utcnow"), ("dt", "today")}

# Where an unforeseen exception may be caught: the supervisor of the daemon's tasks, the call of a
# strategy's hook, the guard of the engine's steps (a fault halts entries and ends nothing), the
# journal's thread and the carrier of requests (which hand it to whoever waits), and the command
# line's report of a bug.
# Beside them the thread of the recorder, where a bug ends the recording and must end nothing else,
# and the threads of the notices, whose plug-ins are not ours.
# (Loading a plug-in names its own set.)
MAY_CATCH_ALL = {"bot/runtime/supervisor.py", "bot/config/strategies/invoke.py", "bot/cli/main.py"}
MAY_CATCH_ALL |= {"bot/journal/writing/thread.py", "bot/broker/carrier.py"}
MAY_CATCH_ALL |= {
    "bot/runtime/history/recording/recorder.py",
    "bot/runtime/history/backtest/passed.py",
    "bot/runtime/notices/channels.py",
}

NAMELESS = {"util", "utils", "helper", "helpers", "common", "manager"}

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
FUNCTION_LINES_P90_MAX = 30
FUNCTION_LINES_MEDIAN_MAX = 8
FUNCTIONS_FOR_A_MEDIAN = 50
USED_ONCE_PERCENT_MAX = 15

REGISTRIES = ["py" + "pi.org", "python" + "hosted.org", "py" + "pi.python.org"]
REGISTRIES += ["registry.npm" + "js.org", "registry.yarn" + "pkg.com", "deb.deb" + "ian.org"]
THIS_MACHINE = ["/wo" + "rk/main", "/wo" + "rk/shared", "/opt/" + "py" + "pi", "/opt/" + "wheels"]
THIS_MACHINE += ["/root/" + ".pyenv", "/tmp/" + "bash_jobs"]
BARE_TODO = re.compile(r"\b(TO" + r"DO|FIX" + r"ME)\b(?!\([\w#-]+\))")


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the repository's root, its text, and what it parses to."""

    path: str
    text: str

    @property
    def part(self) -> str:
        """`engine` for `bot/engine/orders/orders.py`, `clock` for `bot/clock.py`."""
        return self.path.removesuffix(".py").split("/")[1]

    @property
    def module(self) -> str:
        """`bot.engine.orders` for `bot/engine/orders/__init__.py`."""
        return ".".join(Path(self.path).with_suffix("").parts).removesuffix(".__init__")

    @functools.cached_property
    def nodes(self) -> Mapping[type[ast.AST], list[Any]]:
        """Every node of the tree by its kind. The tree is walked once for all rules."""
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in ast.walk(ast.parse(self.text, filename=self.path)):
            found.setdefault(type(node), []).append(node)
        return found

    def each(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """Yield the nodes of these kinds."""
        return itertools.chain.from_iterable(self.nodes.get(kind, ()) for kind in kinds)

    @functools.cached_property
    def imports(self) -> list["Import"]:
        """Every import, wherever it stands."""
        found = [Import(n.lineno, alias.name) for n in self.each(ast.Import) for alias in n.names]
        absolute = [node for node in self.each(ast.ImportFrom) if node.level == 0]
        return found + [Import(n.lineno, f"{n.module}.{a.name}") for n in absolute for a in n.names]


class Import(NamedTuple):
    """One imported name, in full: `from a.b import c` is `a.b.c`."""

    line: int
    name: str

    @property
    def library(self) -> str:
        return self.name.split(".")[0]


Rule = Callable[[Source], Iterator[str]]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Add a rule to those that every file of `bot/` and `strategies/` must keep."""
    RULES.append(function)
    return function


@functools.cache
def sources() -> list[Source]:
    """Every Python file of the product."""
    paths = [path for folder in ("bot", "strategies") for path in (ROOT / folder).rglob("*.py")]
    return [Source(p.relative_to(ROOT).as_posix(), p.read_text("utf-8")) for p in sorted(paths)]


def is_within(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def imported_part(imported: Import) -> str | None:
    """Return the part of `bot` that an import reaches; `bot.Strategy` is re-exported from one."""
    steps = imported.name.split(".")
    if steps[0] != "bot" or len(steps) == 1:
        return None
    if steps[1] == "Strategy":
        return "strategy"
    return steps[1] if steps[1] in MAY_IMPORT or len(steps) > 2 else None


@rule
def imports_go_down_only(source: Source) -> Iterator[str]:
    in_bot = source.path.startswith("bot/")
    if in_bot and source.part not in MAY_IMPORT:
        yield f"{source.path}:1: bot.{source.part} has no row in the table of imports"
        return
    allowed = MAY_IMPORT[source.part] | {source.part} if in_bot else PLUGIN_MAY_IMPORT
    importer = f"bot.{source.part}" if in_bot else "a strategy"
    for imported in source.imports:
        part = imported_part(imported)
        if part is not None and part not in allowed:
            yield f"{source.path}:{imported.line}: {importer} may not import bot.{part}"
        only = ONLY.get((source.part, part)) if in_bot and part is not None else None
        if only is not None and not any(is_within(imported.name, module) for module in only):
            wanted = " and ".join(only)
            yield f"{source.path}:{imported.line}: {importer} may import {wanted} alone there"


@rule
def libraries_have_one_home(source: Source) -> Iterator[str]:
    allowed = LIBRARIES.get(source.part) if source.path.startswith("bot/") else None
    for imported in source.imports:
        library, where = imported.library, f"{source.path}:{imported.line}"
        if library in sys.stdlib_module_names or library == "bot":
            continue
        if allowed is not None and library not in allowed:
            yield f"{where}: bot.{source.part} may not import {library}"
        if library in HOMES and not source.path.startswith(HOMES[library]):
            yield f"{where}: {library} is imported in {' and '.join(HOMES[library])} alone"


@functools.cache
def installed() -> set[str]:
    """Return the names of what a user's installation brings along."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    return {re.split(r"[^\w.-]", each)[0].replace(".", "-") for each in wanted}


@rule
def libraries_are_declared(source: Source) -> Iterator[str]:
    for imported in source.imports:
        library = imported.library
        if library in sys.stdlib_module_names or library == "bot":
            continue
        if INSTALLED_AS.get(library, library) not in installed():
            yield f"{source.path}:{imported.line}: {library} is no dependency of the project"


@rule
def imports_are_absolute(source: Source) -> Iterator[str]:
    for node in source.each(ast.ImportFrom):
        if node.level > 0:
            yield f"{source.path}:{node.lineno}: imports are absolute"


@rule
def pure_parts_do_no_io(source: Source) -> Iterator[str]:
    if not source.path.startswith("bot/") or source.part not in PURE_PARTS:
        return
    where = f"in bot.{source.part}, which is pure"
    for imported in source.imports:
        if any(is_within(imported.name, module) for module in OUTSIDE):
            yield f"{source.path}:{imported.line}: {imported.name} {where}"
    for node in source.each(ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith):
        yield f"{source.path}:{node.lineno}: async {where}"
    for call in source.each(ast.Call):
        if FILE_ACCESS.intersection(dotted(call.func)[-1:]):
            yield f"{source.path}:{call.lineno}: file access {where}"


def dotted(node: ast.expr) -> list[str]:
    """Return the names of `a.b.c`, and of `f().c` those behind what is not a name."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [*dotted(node.value), node.attr]
    return []


@rule
def only_the_clock_reads_the_time(source: Source) -> Iterator[str]:
    if source.path == CLOCK:
        return
    wanted = f"the system's time is read in {CLOCK} alone"
    for node in source.each(ast.Attribute):
        if tuple(dotted(node)[-2:]) in CLOCK_READS:
            yield f"{source.path}:{node.lineno}: {'.'.join(dotted(node))}: {wanted}"
    for imported in source.imports:
        if imported.library == "time" and imported.name.removeprefix("time.") in TIME_FUNCTIONS:
            yield f"{source.path}:{imported.line}: {imported.name}: {wanted}"


@rule
def nothing_swallows_every_exception(source: Source) -> Iterator[str]:
    if source.path in MAY_CATCH_ALL:
        return
    allowed = ", ".join(sorted(MAY_CATCH_ALL))
    for node in source.each(ast.ExceptHandler, ast.Call):
        if any(map(catches_all, caught(node))):
            yield f"{source.path}:{node.lineno}: every exception is caught in {allowed} alone"


def caught(node: ast.ExceptHandler | ast.Call) -> list[ast.expr | None]:
    """Return what an `except` or a `suppress(...)` catches; None stands for a bare `except`."""
    if isinstance(node, ast.ExceptHandler):
        return [node.type]
    return list(node.args) if dotted(node.func)[-1:] == ["suppress"] else []


def catches_all(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    if isinstance(kind, ast.Tuple):
        return any(catches_all(one) for one in kind.elts)
    return dotted(kind)[-1:] in (["Exception"], ["BaseException"])


@rule
def nothing_prints(source: Source) -> Iterator[str]:
    for node in source.each(ast.Call):
        if dotted(node.func) == ["print"]:
            yield f"{source.path}:{node.lineno}: no print; the command line uses click.echo"


@rule
def modules_are_named_after_their_job(source: Source) -> Iterator[str]:
    for step in Path(source.path).with_suffix("").parts:
        if step in NAMELESS:
            yield f"{source.path}:1: '{step}' names no job"


@rule
def files_are_short(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{source.path}:{FILE_LINES_MAX}: {lines} lines; at most {FILE_LINES_MAX}"


def functions(source: Source) -> Iterator[tuple[int, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function with its number of lines."""
    for node in source.each(ast.FunctionDef, ast.AsyncFunctionDef):
        yield (node.end_lineno or node.lineno) - node.lineno + 1, node


@rule
def no_function_is_long(source: Source) -> Iterator[str]:
    for lines, node in functions(source):
        if lines > FUNCTION_LINES_MAX:
            where = f"{source.path}:{node.lineno}: {node.name}"
            yield f"{where} has {lines} lines; at most {FUNCTION_LINES_MAX}"


@functools.cache
def tracked() -> Mapping[str, str]:
    """Return the text by path of every file that is committed or by the next `git add` would be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("this is not a git work tree")
    found = {}
    for path in filter(None, listing.stdout.split("\0")):
        with suppress(UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            found[path] = (ROOT / path).read_text("utf-8")
    return found


def places_where(found: Callable[[str], bool]) -> list[str]:
    """Return the lines that hold it; a text without it has no such line."""
    return [
        f"{path}:{number}: {line.strip()[:80]}"
        for path, text in tracked().items()
        if found(text)
        for number, line in enumerate(text.splitlines(), start=1)
        if found(line)
    ]


@pytest.mark.parametrize("kept", RULES, ids=lambda kept: kept.__name__)
def test_every_file_keeps_the_rule(kept: Rule) -> None:
    findings = list(itertools.chain.from_iterable(kept(source) for source in sources()))

    assert not findings, "\n" + "\n".join(findings)


Graph = dict[str, set[str]]


def known_modules(files: Iterable[Source]) -> Graph:
    """Return by file the other files that it imports."""
    names = {source.module: source for source in files}
    return {
        source.path: {
            names[known].path
            for node in source.each(ast.ImportFrom)
            for known in (f"{node.module}.{alias.name}" for alias in node.names)
            for known in (known, node.module)
            if known in names and known != source.module
        }
        for source in names.values()
    }


def known_folders(files: Graph) -> Graph:
    """Return by folder the folders beside it that files in it import."""
    found: Graph = {}
    for importer, imported in files.items():
        for known in imported:
            outermost_first = reversed(Path(importer).parents), reversed(Path(known).parents)
            for folder, other in zip(*outermost_first, strict=False):
                if folder != other:
                    found.setdefault(str(folder), set()).add(str(other))
                    break
    return found


def test_no_modules_and_no_folders_import_each_other_in_a_circle() -> None:
    texts = {"a/x": "from bot.b import y", "a/z": "", "b/y": "", "b/z": "from bot.a import z"}
    modules = known_modules([Source(f"bot/{path}.py", text) for path, text in texts.items()])
    TopologicalSorter(modules).prepare()
    with pytest.raises(CycleError, match="nodes are in a cycle"):
        TopologicalSorter(known_folders(modules)).prepare()

    modules = known_modules(sources())

    TopologicalSorter(modules).prepare()
    TopologicalSorter(known_folders(modules)).prepare()


def test_functions_are_short() -> None:
    longest = sorted((n, s.path, f.lineno, f.name) for s in sources() for n, f in functions(s))
    if len(longest) < FUNCTIONS_FOR_A_MEDIAN:
        pytest.skip(f"{len(longest)} functions are too few for a median")

    lines = [length for length, *_ in longest]
    median, p90 = statistics.median(lines), statistics.quantiles(lines, n=10)[8]

    worst = "\n".join(f"{path}:{at}: {name} {n} lines" for n, path, at, name in longest[-20:])
    assert median <= FUNCTION_LINES_MEDIAN_MAX, f"the median function has {median} lines\n{worst}"
    assert p90 <= FUNCTION_LINES_P90_MAX, f"a tenth of the functions is over {p90} lines\n{worst}"


def is_used_once(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a private function is named in its file by its definition and once more."""
    name = function.name
    is_private = name.startswith("_") and not name.startswith("__")
    return is_private and len(re.findall(rf"\b{name}\b", source.text)) == 2


def test_few_functions_are_private_and_used_once() -> None:
    sliced = Source("bot/x.py", "def f(): return _g()\n\ndef _g(): return 1\n")
    assert [is_used_once(sliced, function) for _, function in functions(sliced)] == [False, True]

    found = [(s.path, is_used_once(s, f)) for s in sources() for _, f in functions(s)]
    once = sum(is_once for _, is_once in found)

    worst = Counter(path for path, is_once in found if is_once).most_common(10)
    assert once * 100 <= USED_ONCE_PERCENT_MAX * len(found), f"{once} of {len(found)}: {worst}"


def test_no_file_names_a_package_registry_or_a_path_of_one_machine() -> None:
    found = places_where(lambda line: any(needle in line for needle in REGISTRIES + THIS_MACHINE))

    assert not found, "\n" + "\n".join(found)


def test_the_lock_holds_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8")

    assert "://" not in lock
    assert lock.count("==") <= lock.count("--hash=sha256:")


def test_no_file_holds_a_bare_to_do() -> None:
    found = places_where(lambda line: BARE_TODO.search(line) is not None)

    assert not found, "\n" + "\n".join(found)


def test_every_yaml_file_parses() -> None:
    found = []
    for path, text in tracked().items():
        if path.endswith((".yaml", ".yml")):
            try:
                list(YAML(typ="safe").load_all(text))
            except YAMLError as error:
                found.append(f"{path}: {error}")

    assert not found, "\n" + "\n".join(found)


BROKEN = [
    (imports_go_down_only, "bot/domain/order.py", "import bot.clock"),
    (imports_go_down_only, "bot/engine/risk/checks.py", "from bot.protocol import status"),
    (imports_go_down_only, "bot/engine/risk/checks.py", "from bot import clock"),
    (imports_go_down_only, "bot/journal/writer.py", "from bot.broker.client import Client"),
    (imports_go_down_only, "bot/journal/writer.py", "from bot import Strategy"),
    (imports_go_down_only, "bot/cli/run.py", "def f():\n    import bot.broker.client"),
    (imports_go_down_only, "bot/novelty/thing.py", ""),
    (imports_go_down_only, "bot/config/limits.py", "from bot.runtime import live"),
    (imports_go_down_only, "bot/config/limits.py", "from bot.engine.risk.checks import checks"),
    (imports_go_down_only, "bot/conformance/reads.py", "from bot.runtime.run import run"),
    (imports_go_down_only, "bot/runtime/api.py", "from bot.conformance.run import run"),
    (imports_go_down_only, "strategies/sma.py", "from bot.runtime import live"),
    (imports_are_absolute, "bot/engine/risk/checks.py", "from . import orders"),
    (libraries_are_declared, "bot/cli/show.py", "def f():\n    from rich.table import Table"),
    (libraries_have_one_home, "bot/domain/order.py", "import pydantic"),
    (libraries_have_one_home, "bot/broker/client.py", "import httpx"),
    (libraries_have_one_home, "bot/broker/carrier.py", "import h11"),
    (libraries_have_one_home, "bot/runtime/live.py", "from sqlalchemy import select"),
    (libraries_have_one_home, "bot/engine/view.py", "import talib"),
    (pure_parts_do_no_io, "bot/engine/engine.py", "async def f(): pass"),
    (pure_parts_do_no_io, "bot/protocol/codec.py", "from urllib import request"),
    (pure_parts_do_no_io, "bot/domain/rules.py", "open('x')"),
    (only_the_clock_reads_the_time, "bot/runtime/live.py", "x = datetime.datetime.now()"),
    (only_the_clock_reads_the_time, "bot/runtime/live.py", "from time import monotonic"),
    (only_the_clock_reads_the_time, "strategies/sma.py", "x = date.today()"),
    (nothing_swallows_every_exception, "bot/runtime/live.py", "try: f()\nexcept Exception: g()"),
    (nothing_swallows_every_exception, "bot/runtime/live.py", "try: f()\nexcept: g()"),
    (nothing_swallows_every_exception, "bot/runtime/live.py", "with suppress(Exception): f()"),
    (nothing_prints, "bot/cli/run.py", "print('x')"),
    (modules_are_named_after_their_job, "bot/runtime/utils.py", ""),
    (files_are_short, "bot/runtime/live.py", "\n" * (FILE_LINES_MAX + 1)),
    (no_function_is_long, "bot/runtime/live.py", "def f():\n" + " x = 1\n" * FUNCTION_LINES_MAX),
]
KEPT = [
    (imports_go_down_only, "bot/runtime/order_manager.py", "from bot.engine import orders"),
    (imports_go_down_only, "bot/cli/run.py", "from bot import __version__"),
    (imports_go_down_only, "strategies/sma.py", "from bot import Strategy"),
    (libraries_have_one_home, "bot/broker/http.py", "import httpx"),
    (libraries_are_declared, "bot/config/yaml_file.py", "from ruamel.yaml import YAML"),
    (libraries_have_one_home, "bot/engine/indicators.py", "import talib.stream"),
    (pure_parts_do_no_io, "bot/protocol/codec.py", "from http import HTTPStatus"),
    (only_the_clock_reads_the_time, "bot/runtime/live.py", "x = clock.now()"),
    (modules_are_named_after_their_job, "bot/runtime/order_manager.py", ""),
]


@every_row(("kept", "path", "text"), BROKEN)
def test_a_rule_finds_what_breaks_it(kept: Rule, path: str, text: str) -> None:
    assert [finding.split(":")[0] for finding in kept(Source(path, text))] == [path]


@every_row(("kept", "path", "text"), KEPT)
def test_a_rule_leaves_alone_what_keeps_it(kept: Rule, path: str, text: str) -> None:
    assert list(kept(Source(path, text))) == []
