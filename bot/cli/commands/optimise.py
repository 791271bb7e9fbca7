"""`bot optimise`: search a strategy's parameters on past days, with an out-of-sample test."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from bot.cli.command import Invocation, define_command
from bot.cli.past_days import PastDays, past_days_options, tell_simulated, wanted_of
from bot.cli.show import ProgressLine, print_json, print_lines, say
from bot.config.problems import ExitCode, OperatorMistake, shown_path

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.runtime.history.optimise.result import Search, Trial
    from bot.runtime.history.optimise.workers import MakeExecutor

OWN_AS_GOOD: Final = "your own values did as well as the best, or better, on the searched days"
OBJECTIVES: Final = ("sharpe", "sortino", "return")
WORKERS_MAX: Final = 64
FOLDS_MAX: Final = 20
PAGE: Final = "search.html"
BEST_PAGE: Final = "best.html"
_REFUSED: Final = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.EEXIST),
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENAMETOOLONG),
    }
)
_PATH: Final = click.Path(path_type=Path)
_FOLDS: Final = click.IntRange(0, FOLDS_MAX)
_WORKERS: Final = click.IntRange(1, WORKERS_MAX)
_SPACE: Final = "NAME=LOW..HIGH, NAME=LOW..HIGH:STEP or NAME=A|B; repeatable."
_OBJECTIVE: Final = "What to maximise on the searched days."


@define_command(
    "optimise", example="bot optimise strategies/mine.yaml --space fast=3..20 slow=20..100:5"
)
@click.argument("file", type=_PATH, metavar="FILE")
@click.argument("more", nargs=-1, metavar="[SPACE...]")
@click.option("--space", multiple=True, metavar="SPACE", help=_SPACE)
@click.option("--trials", type=click.IntRange(1), default=100, metavar="N", help="How many in all.")
@click.option("--objective", type=click.Choice(OBJECTIVES), default="sharpe", help=_OBJECTIVE)
@click.option("--folds", type=_FOLDS, default=3, metavar="N", help="Walk-forward tests; 0: none.")
@click.option(
    "--seed", type=click.IntRange(0), default=7, metavar="N", help="The seed of the search."
)
@click.option("--workers", type=_WORKERS, metavar="N", help="Processes; default: one per core.")
@click.option("--cluster", metavar="ADDRESS", help="A Dask scheduler, like tcp://host:8786.")
@past_days_options
@click.option(
    "--study", type=_PATH, metavar="DIR", help="Where trials are kept; default: NAME.search."
)
@click.option("--apply", "applies", is_flag=True, help="Write the best values into FILE itself.")
@click.pass_obj
def command(
    invocation: Invocation,
    file: Path,
    more: tuple[str, ...],
    space: tuple[str, ...],
    trials: int,
    objective: str,
    folds: int,
    seed: int,
    workers: int | None,
    cluster: str | None,
    study: Path | None,
    applies: bool,
    **days: Unpack[PastDays],
) -> None:
    """Search parameters by backtests, and say how far the best can be trusted.

    The last part of the days is reserved for a test: no trial is chosen by it. Finished trials are
    kept in a folder, so the same command continues after an interruption. The best values go into
    a new strategy file, with its comments (bot docs optimise).
    """
    # Optuna, NumPy, the engine: slow to import, and help pages do not need them.
    from bot.cli.report.search import progress_words, search_json, search_lines
    from bot.runtime.history.optimise.result import Objective
    from bot.runtime.history.optimise.search import search
    from bot.runtime.history.optimise.trial import question_of

    wanted = wanted_of(invocation, (file,), days)
    kind, words = Objective(objective), " ".join((*space, *more)).split()
    name, question = question_of(
        wanted, words, objective=kind, trials=trials, folds=folds, seed=seed
    )
    folder, applied = study or Path(f"{name}.search"), file if applies else None
    with (
        _workers(cluster, workers) as (make, count),
        ProgressLine(invocation) as progress,
    ):

        def told(done: int, best: "Trial | None") -> None:
            progress.show(progress_words(done, trials, best, kind))

        where = f"workers of {cluster}: {count}" if cluster else f"processes: {count}"
        with _writable(folder):
            if folder.exists() and not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "not a folder")
            say(invocation, f"{name}: trials are kept in {shown_path(folder)}; {where}")
            try:
                found = search(question, folder, make, workers=count, told=told)
            except KeyboardInterrupt:
                say(invocation, "interrupted: the same command continues from the finished trials")
                raise
    target = _target(found, applied, folder / f"{name}.yaml")
    with _writable(folder):
        written = _write(found, folder, target, name, wanted.loaded)
    if invocation.json:
        print_json({**search_json(found, name), "written": str(target) if target else None})
    else:
        print_lines(search_lines(found, name))
    _tell(invocation, found, written, applied)
    tell_simulated(invocation, wanted)


def _target(found: "Search", file: Path | None, beside: Path) -> Path | None:
    """Return where the best is to be written: over no values that are as good."""
    if found.best is None or (file is not None and found.is_own_as_good):
        return None
    return file or beside


def _tell(
    invocation: Invocation, found: "Search", written: Sequence[Path], file: Path | None
) -> None:
    """Say what was written, and that own values are as good: then `file` was not."""
    say(invocation, f"wrote {', '.join(map(shown_path, written))}")
    if found.is_own_as_good:
        unchanged = f": {shown_path(file)} is unchanged" if file else ""
        say(invocation, f"{OWN_AS_GOOD}{unchanged}")


def _write(
    found: "Search", folder: Path, target: Path | None, name: str, loaded: "Loaded | None"
) -> list[Path]:
    """Write the search's page, the backtest of the best as a page, and the best as a strategy file
    if there is a target.
    """
    from bot.cli.report.page import write_page
    from bot.cli.report.search import write_search_page
    from bot.config.strategies.load import market_of
    from bot.config.strategies.rewrite import write_with
    from bot.runtime.history.backtest.figures import benchmarks_of, figures_of
    from bot.runtime.history.optimise.trial import play, prepared

    page, best_page = folder / PAGE, folder / BEST_PAGE
    write_search_page(page, found, name)
    if found.best is None:
        return [page]
    job, values = found.job, found.best.values
    result, source = play(job, values), prepared(job).source
    write_page(best_page, result, figures_of(result, benchmarks_of(result, source)), source)
    if target is None:
        return [page, best_page]
    write_with(Path(job.strategy), target, values, market_of(job.last, loaded))
    return [page, best_page, target]


@contextmanager
def _workers(address: str | None, count: int | None) -> Iterator[tuple["MakeExecutor", int]]:
    """Yield the factory of executors, and the number of workers."""
    from bot.runtime.history.optimise.workers import cluster, processes

    if address is None:
        number = count or min(os.cpu_count() or 1, WORKERS_MAX)
        yield processes(number), number
        return
    with cluster(address) as found:
        yield found


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Turn what the system refuses into a mistake with advice."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        text = f"--study {folder}: it can't be written ({(error.strerror or str(error)).lower()})"
        text += ". Free some space or name another; finished trials are kept"
        raise OperatorMistake.of("E-OPT-005", text, ExitCode.USAGE) from error
