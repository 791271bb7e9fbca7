"""Breaks one place in the code that order safety depends on, and checks whether a test notices.

    python -m tests.mutants 100 [SEED]
    python -m tests.mutants all --results FILE
    python -m tests.mutants all --results FILE --again --only 'held.py:6|asks.py' --tests tests/X

With a file of results, a run can be interrupted and goes on where it ended: a place that is in the
file is not tried again, or with `--again` only if it was let pass. What is let pass and has been
judged is listed with the reason in mutants.yaml, by the text of the place. With `--only` no other
place is tried than those that it matches as they are printed; with `--tests` only the tests there
run, and what they let pass is not written down, since another test may notice it.

A place is a comparison, a condition, a number or a call in one of the modules below. The tests are
collected once, and run once with nothing broken to see which of them reaches which line. Each
broken place then gets a child process of its own: there the changed functions replace the right
ones, and the tests that reach the line run, the quickest first, until one fails. What no test
notices is printed. Tests that start processes are left out: they would start the right program;
those on a real socket too, and those that fail with nothing broken: they would notice anything.

A broken program that is still not through its tests after many times their CPU counts as noticed,
and is `endless` in the file: nobody takes a run that hangs for one that passes. `--again` tries it
again, since the machine may only have been slow.

A run fails where fewer than 90 of 100 are noticed; `all` also for any place that is let pass and is
not judged.
"""

import os
import pickle
import random
import re
import resource
import signal
import sys
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import pytest
from coverage import Coverage

from tests.mutant_places import (
    ENDLESS,
    JUDGED,
    LET_PASS,
    MODULES,
    NOTICED,
    ROOT,
    Mutant,
    mutants_of,
    read_results,
    table,
    unjudged,
)

TESTS: Final = (
    *("tests/engine", "tests/protocol", "tests/scenarios", "tests/faults"),
    *("tests/runtime/test_fence.py", "tests/runtime/test_order_manager.py"),
)
WITHOUT_PROCESSES: Final = "not process and not postgres and not wire"
WORKERS: Final = 2
SPARE_S: Final = 60
"""So much more CPU than its tests take a broken program may use, and ten times what they take."""
PATIENCE: Final = 20
"""So many times as long it may last, since other programs use the CPU, and it may wait for ever."""


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

    def __init__(
        self, mutants: Sequence[Mutant], told: Callable[[Mutant, str, str], None], workers: int
    ) -> None:
        self._mutants = mutants
        self._told = told
        self._workers = workers
        self._failed: set[str] = set()
        self._answer: int | None = None
        self._noticed_by = Counter[tuple[str, str]]()
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
        for each in sorted(self._failed):
            self._say(f"left out, since it fails with nothing broken: {each}")
        self._try_all([item for item in items if item.nodeid not in self._failed], reached)
        return True

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first test that fails is enough."""
        if report.failed:
            if self._answer is not None:
                self._end(NOTICED, report.nodeid)
            self._failed.add(report.nodeid)

    def _reached(self, items: Sequence[pytest.Item]) -> Mapping[str, Reached]:
        """Run all tests with nothing broken, on all workers, and see what each reaches."""
        found: dict[str, Reached] = {}
        with TemporaryDirectory() as folder:
            modules = sorted({item.location[0] for item in items})
            shares = [set(modules[each :: self._workers]) for each in range(self._workers)]
            children = []
            for number, share in enumerate(shares):
                if (child := os.fork()) == 0:
                    _be_quiet()
                    mine = [item for item in items if item.location[0] in share]
                    seen = self._watch(mine)
                    (Path(folder) / str(number)).write_bytes(pickle.dumps((self._failed, seen)))
                    os._exit(0)
                children.append(child)
            for number, child in enumerate(children):
                os.waitpid(child, 0)
                failed, seen = pickle.loads((Path(folder) / str(number)).read_bytes())  # noqa: S301
                self._failed |= failed
                found |= seen
        return found

    def _watch(self, items: Sequence[pytest.Item]) -> dict[str, Reached]:
        modules = {str(ROOT / module): module for module in MODULES}
        watching = Coverage(data_file=None, config_file=False, include=[*modules])
        seconds = dict[str, float]()
        watching.start()
        for item, after in zip(items, [*items[1:], None], strict=True):
            watching.switch_context(item.nodeid)
            begun = time.perf_counter()
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            seconds[item.nodeid] = time.perf_counter() - begun
        watching.stop()
        found = {name: Reached(each) for name, each in seconds.items()}
        data = watching.get_data()
        for file in data.measured_files():
            for line, names in data.contexts_by_lineno(file).items():
                for name in {*names} & {*found}:
                    found[name].lines.add((modules[file], line))
        return found

    def _try_all(self, items: Sequence[pytest.Item], reached: Mapping[str, Reached]) -> None:
        at_line = defaultdict[tuple[str, int], list[pytest.Item]](list)
        for item in sorted(items, key=lambda item: reached[item.nodeid].seconds):
            for place in reached[item.nodeid].lines:
                at_line[place].append(item)
        running: dict[int, tuple[Mutant, float, int]] = {}
        waiting = list(reversed(self._mutants))
        while waiting or running:
            while waiting and len(running) < self._workers:
                mutant = waiting.pop()
                # What is made when the module is loaded reaches every test, and none by a line.
                tests = at_line.get((mutant.module, mutant.line)) or items
                needs_s = sum(reached[item.nodeid].seconds for item in tests)
                cpu_s = round(SPARE_S + 10 * needs_s)
                answer, self._answer = os.pipe()
                if (child := os.fork()) == 0:
                    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
                    self._try(mutant, self._likely_first(mutant, tests, reached))
                os.close(self._answer)
                running[child] = mutant, time.monotonic() + PATIENCE * cpu_s, answer
            time.sleep(0.005)
            for child, (mutant, until, answer) in list(running.items()):
                ended, _ = os.waitpid(child, os.WNOHANG)
                if not ended and time.monotonic() < until:
                    continue
                if not ended:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                del running[child]
                verdict, _, test = os.read(answer, 4096).decode().partition("\t")
                os.close(answer)
                self._noticed_by[mutant.module, test] += 1
                self._told(mutant, verdict or ENDLESS, test)
                if verdict == LET_PASS:
                    self._say(f"nobody noticed {mutant}")
                if sys.stderr.isatty():
                    tried = len(self._mutants) - len(waiting) - len(running)
                    self._say(f"\r{tried} of {len(self._mutants)}", end="")

    def _likely_first(
        self, mutant: Mutant, tests: Sequence[pytest.Item], reached: Mapping[str, Reached]
    ) -> Sequence[pytest.Item]:
        def cost(item: pytest.Item) -> float:
            has_noticed = self._noticed_by[mutant.module, item.nodeid]
            return reached[item.nodeid].seconds / (1 + has_noticed)

        return sorted(tests, key=cost)

    def _try(self, mutant: Mutant, tests: Sequence[pytest.Item]) -> None:
        """Be the broken program: end as soon as a test fails."""
        _be_quiet()
        item = None
        try:
            breaks(mutant)
            for item, after in zip(tests, [*tests[1:], None], strict=True):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
        except BaseException as error:  # noqa: BLE001 (it breaks already while it is loaded)
            self._end(NOTICED, f"{item.nodeid if item else 'loading'}: {type(error).__name__}")
        self._end(LET_PASS, "")

    def _end(self, verdict: str, test: str) -> None:
        assert self._answer is not None, "only a broken program ends like this"
        os.write(self._answer, f"{verdict}\t{test}".encode())
        os._exit(0)


def _be_quiet() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


@click.command()
@click.argument("count", metavar="N|all")
@click.argument("seed", type=int, default=1)
@click.option("--results", type=click.Path(path_type=Path), help="Go on with this file.")
@click.option("--again", is_flag=True, help="Try what is let pass in the file again, and first.")
@click.option("--only", metavar="REGEX", default="", help="Try no other places than these.")
@click.option("--tests", multiple=True, default=TESTS, help="Go by these tests alone.")
@click.option("--workers", default=WORKERS, help="So many processes at a time.")
def main(
    count: str,
    seed: int,
    results: Path | None,
    again: bool,
    only: str,
    tests: Sequence[str],
    workers: int,
) -> None:
    """Break so many places, one at a time; exit 1 where none, or under 90 of 100, are noticed, and
    with `all` where one is let pass that is not judged.
    """
    every = [each for module in MODULES for each in mutants_of(module)]
    size = len(every) if count == "all" else min(int(count), len(every))
    drawn = random.Random(seed).sample(every, size)  # no secret
    found = read_results(results, drawn) if results else {}
    to_try = [each for each in drawn if each not in found]
    if again:
        to_try[:0] = [each for each, verdict in found.items() if verdict != NOTICED]
    to_try = [each for each in to_try if re.search(only, str(each))]

    def told(mutant: Mutant, verdict: str, test: str) -> None:
        if verdict == LET_PASS and tests != TESTS:
            return
        found[mutant] = verdict
        if results:
            with results.open("a") as file:
                file.write(f"{verdict}\t{mutant.key}\t{test}\n")

    ended = _try_all(Trial(to_try, told, workers), tests) if to_try else pytest.ExitCode.OK
    click.echo("\n".join(table(found, every)))
    noticed = sum(verdict != LET_PASS for verdict in found.values())
    click.echo(f"{noticed:,} of {len(found):,} of {len(every):,} places noticed, seed {seed}")
    to_judge = unjudged(found, every) if count == "all" else []
    if to_judge:
        click.echo(f"let pass and not judged in {JUDGED.name}: {len(to_judge)}")
        click.echo("\n".join(f"    {each}" for each in to_judge))
    is_ended = ended != pytest.ExitCode.INTERRUPTED
    if not found or noticed < 0.9 * len(found) or to_judge or not is_ended:
        raise SystemExit(1)


def _try_all(trial: Trial, tests: Sequence[str]) -> int | pytest.ExitCode:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = ["-qq", "--capture=no", "--no-header", "--no-summary", "-p", "no:cacheprovider"]
    options += ["--timeout=0"]  # others may use the CPU: what fails for want of time proves nothing
    ended = pytest.main([*options, "-m", WITHOUT_PROCESSES, *tests], plugins=[trial])
    if ended not in {pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED}:
        raise click.ClickException(f"the tests can't be collected: pytest ended with {ended!r}")
    return ended


if __name__ == "__main__":
    main()
