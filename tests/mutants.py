"""Breaks one place in the code that order safety depends on, and checks whether a test notices.

    python -m tests.mutants 100 [SEED]
    python -m tests.mutants all

A place is a comparison, a condition, a number or a call in one of the modules below. The tests are
collected once, and run once with nothing broken to see which of them reaches which line. Each
broken place then gets a child process of its own: there the changed functions replace the right
ones, and the tests that reach the line run, the quickest first, until one fails. What no test
notices is printed. Tests that start processes are left out: they would start the right program.
"""

import ast
import os
import pickle
import random
import signal
import sys
import threading
import time
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import pytest

ROOT: Final = Path(__file__).parents[1]
MODULES: Final = (
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "bot/engine/orders").glob("[!_]*.py")),
    *("bot/engine/risk/breaks.py", "bot/engine/risk/ledgers.py", "bot/protocol/classify.py"),
)
TESTS: Final = (
    *("tests/engine", "tests/protocol", "tests/scenarios", "tests/faults"),
    "tests/runtime/test_order_manager.py",
)
WITHOUT_PROCESSES: Final = "not process and not postgres"
WORKERS: Final = 2
SPARE_S: Final = 60.0
"""So much longer than its tests take by themselves a broken program may run, and ten times that."""
NOTICED: Final = 3
LET_PASS: Final = 0
OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True)
class Mutant:
    """One broken place: what stands there, and what instead."""

    module: str
    line: int
    start: int
    end: int
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.was} -> {self.now}"

    @property
    def text(self) -> bytes:
        """The module with this place broken."""
        text = (ROOT / self.module).read_bytes()
        return text[: self.start] + self.now.encode() + text[self.end :]


def mutants_of(module: str) -> Iterator[Mutant]:
    """Yield every way in which a module is broken; places are counted in bytes."""
    text = (ROOT / module).read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(text)):
        if (broken := _broken(node)) is None or not isinstance(node, ast.expr | ast.stmt):
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        was = " ".join(text[start:end].decode().split())
        yield Mutant(module, node.lineno, start, end, was, broken)


def _broken(node: ast.AST) -> str | None:
    match node:
        case ast.Compare(ops=[one]) if type(one) in OPPOSITES:
            swapped = ast.Compare(node.left, [OPPOSITES[type(one)]()], node.comparators)
            return f"({ast.unparse(swapped)})"
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            return f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            return f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool() as value):
            return str(not value)
        case ast.Constant(value=int() as value):
            return str(value + 1)
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            return "pass"
    return None


# ---------------------------------------------------------------------------- in the same process


def breaks(mutant: Mutant) -> None:
    """Put the broken functions, and what else differs, in the place of those that are loaded."""
    loaded = sys.modules[mutant.module.removesuffix(".py").replace("/", ".")]
    broken = types.ModuleType(loaded.__name__)
    exec(compile(mutant.text, mutant.module, "exec"), broken.__dict__)  # noqa: S102 (it is ours)
    for name, new in vars(broken).items():
        old = vars(loaded).get(name)
        if isinstance(new, type) and new.__module__ == loaded.__name__ and isinstance(old, type):
            for each, attribute in vars(new).items():
                _take_place(vars(old).get(each), attribute)
        elif not _take_place(old, new) and not name.startswith("__") and old != new:
            for module in list(sys.modules.values()):
                for known in [key for key, value in vars(module).items() if value is old]:
                    setattr(module, known, new)


def _take_place(old: Any, new: Any) -> bool:
    """Have a function, or what is wrapped around one, do what the other does."""
    for inside in ("fget", "__func__", "func", "__wrapped__"):
        while hasattr(new, inside) and not isinstance(new, types.FunctionType):
            old, new = getattr(old, inside, None), getattr(new, inside)
    if not (isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType)):
        return False
    if old.__module__ == new.__module__:
        old.__code__, old.__defaults__ = new.__code__, new.__defaults__
        old.__kwdefaults__ = new.__kwdefaults__
    return True


@dataclass
class Reached:
    """Which lines of the modules a test reaches, and how long it takes."""

    seconds: float
    lines: set[tuple[str, int]] = field(default_factory=set)


class Trial:
    """Takes over what pytest has collected."""

    def __init__(self, mutants: Sequence[Mutant]) -> None:
        self._mutants = mutants
        self.survivors: list[Mutant] = []
        self.failed: str | None = None
        self._is_broken = False
        self._screen = os.fdopen(os.dup(1), "w", buffering=1)

    def _say(self, words: str, end: str = "\n") -> None:
        """Tell the terminal, or whatever else waits for it, past pytest's capture."""
        print(words, end=end, file=self._screen, flush=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every mutant on the tests of this session."""
        items = list(session.items)
        begun = time.monotonic()
        reached = self._reached(items)
        self._say(f"{len(items):,} tests looked at in {time.monotonic() - begun:.0f} s")
        if self.failed is None:
            self._try_all(items, reached)
        return True

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first test that fails is enough."""
        if report.failed:
            if self._is_broken:
                os._exit(NOTICED)
            self.failed = self.failed or f"{report.nodeid}\n{report.longreprtext}"

    def _reached(self, items: Sequence[pytest.Item]) -> Mapping[str, Reached]:
        """Run all tests with nothing broken, on all workers, and see what each reaches."""
        found: dict[str, Reached] = {}
        with TemporaryDirectory() as folder:
            modules = sorted({item.location[0] for item in items})
            shares = [set(modules[number::WORKERS]) for number in range(WORKERS)]
            children = []
            for number, share in enumerate(shares):
                if (child := os.fork()) == 0:
                    _be_quiet()
                    mine = [item for item in items if item.location[0] in share]
                    seen = self._watch(mine)
                    (Path(folder) / str(number)).write_bytes(pickle.dumps((self.failed, seen)))
                    os._exit(0)
                children.append(child)
            for number, child in enumerate(children):
                os.waitpid(child, 0)
                failed, seen = pickle.loads((Path(folder) / str(number)).read_bytes())  # noqa: S301
                self.failed = self.failed or failed
                found |= seen
        return found

    def _watch(self, items: Sequence[pytest.Item]) -> dict[str, Reached]:
        watched = {str(ROOT / module): module for module in MODULES}
        found: dict[str, Reached] = {}
        lines: set[tuple[str, int]] = set()

        def trace(frame: types.FrameType, event: str, argument: object) -> Any:
            module = watched.get(frame.f_code.co_filename)
            if module is None:
                return None

            def each_line(inner: types.FrameType, event: str, argument: object) -> Any:
                lines.add((module, inner.f_lineno))
                return each_line

            lines.add((module, frame.f_lineno))
            return each_line

        for item, after in zip(items, [*items[1:], None], strict=True):
            lines = set()
            begun = time.perf_counter()
            threading.settrace(trace)
            sys.settrace(trace)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            sys.settrace(None)
            found[item.nodeid] = Reached(time.perf_counter() - begun, lines)
        return found

    def _try_all(self, items: Sequence[pytest.Item], reached: Mapping[str, Reached]) -> None:
        at_line = defaultdict[tuple[str, int], list[pytest.Item]](list)
        for item in sorted(items, key=lambda item: reached[item.nodeid].seconds):
            for place in reached[item.nodeid].lines:
                at_line[place].append(item)
        running: dict[int, tuple[Mutant, float]] = {}
        waiting = list(reversed(self._mutants))
        while waiting or running:
            while waiting and len(running) < WORKERS:
                mutant = waiting.pop()
                # What is made when the module is loaded reaches every test, and none by a line.
                tests = at_line.get((mutant.module, mutant.line)) or items
                needs_s = sum(reached[item.nodeid].seconds for item in tests)
                until = time.monotonic() + SPARE_S + 10 * needs_s
                if (child := os.fork()) == 0:
                    self._try(mutant, tests)
                running[child] = mutant, until
            time.sleep(0.005)
            for child, (mutant, until) in list(running.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                if not ended and time.monotonic() < until:
                    continue
                if not ended:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                del running[child]
                if ended and status == LET_PASS:
                    self.survivors.append(mutant)
                    self._say(f"nobody noticed {mutant}")
                if sys.stderr.isatty():
                    tried = len(self._mutants) - len(waiting) - len(running)
                    words = f"{tried} of {len(self._mutants)}, {len(self.survivors)} unnoticed"
                    self._say(f"\r{words}", end="")

    def _try(self, mutant: Mutant, tests: Sequence[pytest.Item]) -> None:
        """Be the broken program: end with NOTICED as soon as a test fails."""
        self._is_broken = True
        _be_quiet()
        try:
            breaks(mutant)
            for item, after in zip(tests, [*tests[1:], None], strict=True):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
        except BaseException:  # noqa: BLE001 (it breaks already while it is loaded)
            os._exit(NOTICED)
        os._exit(LET_PASS)


def _be_quiet() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


@click.command()
@click.argument("count", metavar="N|all")
@click.argument("seed", type=int, default=1)
def main(count: str, seed: int) -> None:
    """Break so many places, one at a time; exit 1 where under 90 of 100 are noticed."""
    every = [each for module in MODULES for each in mutants_of(module)]
    size = len(every) if count == "all" else min(int(count), len(every))
    trial = Trial(random.Random(seed).sample(every, size))  # no secret
    options = ["-qq", "--capture=no", "--no-header", "--no-summary", "-p", "no:cacheprovider"]
    ended = pytest.main([*options, "-m", WITHOUT_PROCESSES, *TESTS], plugins=[trial])
    if ended != pytest.ExitCode.OK:
        raise click.ClickException(f"the tests can't be collected: pytest ended with {ended!r}")
    if trial.failed is not None:
        raise click.ClickException(f"a test fails with nothing broken: {trial.failed}")
    noticed = size - len(trial.survivors)
    click.echo(f"{noticed} of {size} of {len(every):,} places noticed, seed {seed}")
    if noticed < 0.9 * size:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
