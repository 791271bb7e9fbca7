"""A search's result: in-sample and out-of-sample figures, the best's neighbours, and how likely it
is that the best is more than luck. On a screen, as JSON and as a page.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from bot.cli.report.html import render, write_whole
from bot.cli.report.summary import DASH, percent, ratio
from bot.cli.rows import Plain, plain
from bot.cli.show import aligned
from bot.runtime.history.optimise.result import FOLDS, Objective, Search, Trial, TrialState
from bot.runtime.history.optimise.space import Values, words_of

SHOWN_TRIALS = 10
DOTS_MAX = 1_000
NAMES = {Objective.SHARPE: "Sharpe", Objective.SORTINO: "Sortino", Objective.RETURN: "return"}
WIDTH = 400
"""Columns of a table's line; the terminal folds what is longer."""
_LABEL = 15

Table = tuple[Sequence[str], list[list[str]]]


def search_lines(found: Search, name: str) -> Iterator[str]:
    """Yield the lines of a search for the screen."""
    yield headline(found, name)
    for label, text in sections(found):
        yield f"  {label:<{_LABEL}}{text}"
    for title, (heads, rows) in tables(found):
        if rows:
            yield ""
            yield title
            yield from (f"  {line}" for line in aligned(heads, rows, limit=WIDTH))


def headline(found: Search, name: str) -> str:
    return f"search for {name} · {_days(found, 0, len(found.days))} with bars"


def sections(found: Search) -> Iterator[tuple[str, str]]:
    """Yield label and text of each part, for the screen and for the page."""
    size = "" if found.size is None else f" ({found.size:,} combinations)"
    yield "space", " ".join(map(str, found.space)) + size
    made = [f"{found.count(TrialState.PLAYED):,} played"]
    if refused := found.count(TrialState.REFUSED):
        made.append(f"{refused:,} refused by the strategy's own check")
    if idle := _idle(found):
        made.append(f"{idle:,} that traded on none of the days searched")
    if without := found.count(TrialState.SILENT) - idle:
        made.append(f"{without:,} with too few days for a figure")
    few = f"; {found.wanted:,} were wanted, but there are no more"
    few = few if len(found.trials) < found.wanted else ""
    yield "trials", f"{len(found.trials):,} made: {', '.join(made)}{few}"
    objective = NAMES[found.objective]
    unseen = "that is all: there is no test, so nothing is known about other days"
    if found.folds:
        unseen = f"the {_days(found, found.seen, len(found.days))} are the test"
    yield "searched by", f"{objective} of {_days(found, 0, found.seen)}; {unseen}"
    if 0 < len(found.folds) < FOLDS:
        yield "", f"so few days allow only {len(found.folds)} of the usual {FOLDS} folds"
    best = found.best
    if best is None:
        yield "best", f"{DASH} (no trial has a figure)"
        return
    yield "best", f"{words_of(best.values)} (trial {best.number})"
    yield "", f"in-sample {objective} {_both(found, best)}"
    yield "unchanged", f"in-sample {objective} {_both(found, found.before)}"
    luck = f"{DASH} (too few trials or days for a deflated Sharpe ratio)"
    if deflated := found.deflated():
        yearly = 250**0.5  # daily ratios, annualised
        chance, shows = deflated.expected_best * yearly, deflated.sharpe * yearly
        luck = (
            f"{_likely(deflated.probability)} (deflated Sharpe ratio): the best of "
            f"{deflated.trials:,} worthless trials would show {chance:.2f}, "
            f"this one shows {shows:.2f} over {deflated.days} days"
        )
    yield "more than luck", luck


def tables(found: Search) -> Iterator[tuple[str, Table]]:
    """Yield title, heads and rows of each table, for the screen and for the page."""
    names = [each.name for each in found.space]
    inside, outside = "in-sample", "out-of-sample"
    neighbours = [
        [*_values(names, each.values), _told(found, each.inside), _told(found, each.outside)]
        for each in found.neighbours
    ]
    yield (
        "one step from the best: a plateau is more trustworthy than a peak",
        ([*names, inside, outside], neighbours),
    )
    folds = [
        [
            f"{fold.searched[0]} to {fold.searched[1]}",
            f"{fold.tested[0]} to {fold.tested[1]}",
            *_values(names, fold.values),
            _told(found, fold.inside),
            _told(found, fold.outside),
        ]
        for fold in found.fold_figures()
    ]
    yield (
        "walk forward: the best on the days before each test, and how it then did in the test",
        (["searched", "tested", *names, inside, outside], folds),
    )
    best = [
        [
            str(trial.number),
            *_values(names, trial.values),
            _told(found, found.inside(trial)),
            _told(found, found.outside(trial)),
            f"{trial.outcome.trades:,}" if trial.outcome else DASH,
        ]
        for trial in found.ranked()[:SHOWN_TRIALS]
    ]
    yield "the best trials", (["trial", *names, inside, outside, "trades"], best)


def search_json(found: Search, name: str) -> Plain:
    """Return the search under stable keys; None for unknown figures."""
    best = found.best
    return {
        "strategy": name,
        "space": [str(each) for each in found.space],
        "combinations": found.size,
        "objective": str(found.objective),
        "seed": found.seed,
        "first": found.days[0].isoformat() if found.days else None,
        "last": found.days[-1].isoformat() if found.days else None,
        "days": len(found.days),
        "days_searched": found.seen,
        "trials": len(found.trials),
        "played": found.count(TrialState.PLAYED),
        "refused": found.count(TrialState.REFUSED),
        "idle_when_searched": _idle(found),
        "repeated": found.repeated,
        "best": None if best is None else _trial_json(found, best),
        "as_it_is": _trial_json(found, found.before),
        "deflated_sharpe": plain(found.deflated()),
        "neighbours": plain(found.neighbours),
        "folds": plain(found.fold_figures()),
        "ranked": [_trial_json(found, trial) for trial in found.ranked()[:SHOWN_TRIALS]],
    }


def write_search_page(path: Path, found: Search, name: str) -> None:
    """Write the page of a search atomically."""
    write_whole(path, search_page(found, name))


def search_page(found: Search, name: str) -> str:
    """Return the page as HTML; its picture shows each trial, 0 to 100 from left and below."""
    pairs = [
        (trial, inside, outside)
        for trial in found.ranked()[:DOTS_MAX]
        if (inside := found.inside(trial)) is not None
        and (outside := found.outside(trial)) is not None
    ]
    low = min((min(x, y) for _, x, y in pairs), default=0.0)
    wide = (max((max(x, y) for _, x, y in pairs), default=0.0) - low) or 1.0
    dots = [
        {
            "x": (x - low) / wide * 100,
            "y": 100 - (y - low) / wide * 100,
            "is_best": trial is found.best,
        }
        for trial, x, y in pairs
    ]
    return render(
        "search.html.j2",
        title=f"Search for {name}",
        subtitle=headline(found, name),
        sections=list(sections(found)),
        tables=[(title, heads, rows) for title, (heads, rows) in tables(found)],
        dots=dots,
        objective=NAMES[found.objective],
        has_test=bool(found.folds),
    )


def progress_words(done: int, wanted: int, best: Trial | None, objective: Objective) -> str:
    """Return a line on the progress of a search, with the best so far."""
    if best is None:
        return f"{done:,} of {wanted:,} trials"
    value = percent(best.value) if objective is Objective.RETURN else ratio(best.value)
    shown = f"best {NAMES[objective]} {value} with {words_of(best.values)}"
    return f"{done:,} of {wanted:,} trials · {shown}"


def _idle(found: Search) -> int:
    """Return how many trials traded on none of the days searched; others have too few days."""
    silent = (trial for trial in found.trials if trial.state is TrialState.SILENT)
    return sum(not each.outcome or not any(each.outcome.gains[: found.seen]) for each in silent)


def _likely(probability: float) -> str:
    """Return a probability in per cent; what is not certain is neither 0 nor 100 %."""
    whole = min(max(probability * 100, 1), 99)
    more = "over " if probability > 0.99 else "under " if probability < 0.01 else ""
    return f"{more}{whole:.0f} %"


def _both(found: Search, trial: Trial) -> str:
    inside, outside = _told(found, found.inside(trial)), _told(found, found.outside(trial))
    return f"{inside}, out-of-sample {outside}"


def _told(found: Search, value: float | None) -> str:
    return percent(value) if found.objective is Objective.RETURN else ratio(value)


def _values(names: Sequence[str], values: Values) -> list[str]:
    shown = (values[name] for name in names)
    return [f"{each:.6g}" if isinstance(each, float) else str(each) for each in shown]


def _days(found: Search, start: int, end: int) -> str:
    if start >= end:
        return "0 days"
    return f"{end - start} days from {found.days[start]} to {found.days[end - 1]}"


def _trial_json(found: Search, trial: Trial) -> Plain:
    outcome = trial.outcome
    return {
        "trial": trial.number if trial.number >= 0 else None,
        "params": dict(trial.values),
        "in_sample": found.inside(trial),
        "out_of_sample": found.outside(trial),
        "profit": outcome.profit if outcome else None,
        "trades": outcome.trades if outcome else None,
        "costs": outcome.costs if outcome else None,
    }
