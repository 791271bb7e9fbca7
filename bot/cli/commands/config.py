"""`bot config check|show|path`: what is configured, whether it holds, and where things lie."""

from collections.abc import Iterator
from typing import Final

import click

from bot.cli.command import child, group
from bot.cli.invocation import Invocation
from bot.cli.places import load
from bot.cli.show import aligned, print_json, print_text, say, show_mistake, show_problem
from bot.config.masking import masked_url
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.config.settings.load import Loaded
from bot.config.settings.secrets import SECRETS_FILE

PLACES: Final = ("config", "journal", "state", "secrets")
UNCUT: Final = 10_000
"""Paths and origins are for copying: they are never cut to the screen."""


@group("config", example="bot config check")
def config() -> None:
    """Check and show the configuration."""


@child(config, "check", example="bot config check -c ~/mybot/bot.yaml")
@click.pass_obj
def check(invocation: Invocation) -> int:
    """Check configuration and strategy files. Talks to no network and changes nothing."""
    from bot.cli.plan_view import cost_fields, cost_lines
    from bot.config.scenario_file import load_scenario
    from bot.config.strategies.load import load_plans, rehearse

    try:
        loaded = load(invocation)
        checked = rehearse(load_plans(loaded))
        if loaded.settings.is_embedded:
            load_scenario(loaded.settings.sandbox.scenario, loaded.base_dir)
    except OperatorMistake as mistake:
        return report(invocation, mistake)
    plans = [each.plan for each in checked]
    warnings = [problem for each in checked for problem in each.warnings]
    quota = loaded.settings.broker.requests_per_minute
    warn(invocation, warnings)
    if invocation.json:
        print_json({**_summary(loaded), **good(warnings), "cost": cost_fields(plans, quota)})
    else:
        symbols = {symbol for plan in plans for symbol in plan.symbols}
        counts = f"{count(len(plans), 'strategy')}, {count(len(symbols), 'symbol')}"
        print_text(f"ok {loaded.path}: mode {loaded.settings.mode}, {counts}")
        for line in cost_lines(plans, quota):
            print_text(line)
    return ExitCode.DONE


@child(config, "show", example="bot config show --origin")
@click.option("--origin", is_flag=True, help="Also where each value was set.")
@click.pass_obj
def show(invocation: Invocation, origin: bool) -> None:
    """Show every setting in effect. Secrets and passwords are masked."""
    loaded = load(invocation)
    rows = [(key, value, loaded.origin_of(key)) for key, value in effective(loaded)]
    if invocation.json:
        print_json({key: {"value": value, "origin": where} for key, value, where in rows})
        return
    cells = [(key, _text(value), where)[: 3 if origin else 2] for key, value, where in rows]
    heads = ("KEY", "VALUE", "ORIGIN")[: 3 if origin else 2]
    for line in aligned(heads, cells, limit=UNCUT):
        print_text(line)


@child(config, "path", example='sqlite3 -readonly "$(bot config path journal)"')
@click.argument("place", type=click.Choice(PLACES), required=False)
@click.pass_obj
def path(invocation: Invocation, place: str | None) -> None:
    """Print where configuration, journal, state and secrets lie."""
    found = places(load(invocation))
    if invocation.json:
        print_json({place: found[place]} if place else found)
    elif place:
        print_text(found[place])
    else:
        for line in aligned(("WHAT", "WHERE"), list(found.items()), limit=UNCUT):
            print_text(line)


def places(loaded: Loaded) -> dict[str, str]:
    """Return where things lie; the journal as a file's path or a masked address."""
    secrets = loaded.base_dir / (loaded.settings.broker.secrets_file or SECRETS_FILE)
    return {
        "config": str(loaded.path.absolute()),
        "journal": masked_url(loaded.journal_url).removeprefix("sqlite:///"),
        "state": str(loaded.state_dir),
        "secrets": str(secrets),
    }


def effective(loaded: Loaded) -> Iterator[tuple[str, object]]:
    """Yield dotted keys and values as they may be shown."""
    yield from _leaves(loaded.settings.model_dump(mode="json"), "", loaded)
    for key in ("api_key", "api_secret"):
        is_there = bool(getattr(loaded.settings.broker, key))
        yield f"broker.{key}", "***" if is_there else None


def _leaves(tree: dict[str, object], above: str, loaded: Loaded) -> Iterator[tuple[str, object]]:
    base_url = loaded.settings.broker.base_url
    shown = {
        "journal.url": masked_url(loaded.journal_url),
        "broker.base_url": base_url and masked_url(base_url),
        "state_dir": str(loaded.state_dir),
    }
    for name, value in tree.items():
        key = f"{above}{name}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{key}.", loaded)
        else:
            yield key, shown.get(key, value)


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _summary(loaded: Loaded) -> dict[str, object]:
    return {"config": str(loaded.path), "mode": loaded.settings.mode, "sha256": loaded.sha256}


# ----------------------------------------------------------------------------- shared by the checks


def good(warnings: list[Problem]) -> dict[str, object]:
    """Return what a check says in JSON when nothing is wrong."""
    return {"ok": True, "problems": [], "warnings": [problem_fields(each) for each in warnings]}


def report(invocation: Invocation, mistake: OperatorMistake) -> int:
    """Show a mistake and how many there are; return the exit code."""
    if invocation.json:
        problems = [problem_fields(each) for each in mistake.problems]
        print_json({"ok": False, "problems": problems, "warnings": []})
    show_mistake(mistake)
    files = {problem.file for problem in mistake.problems if problem.file}
    where = f" in {count(len(files), 'file')}" if files else ""
    say(invocation, f"{count(len(mistake.problems), 'error')}{where}")
    return int(mistake.exit_code)


def warn(invocation: Invocation, warnings: list[Problem]) -> None:
    """Show warnings on stderr."""
    for problem in warnings:
        if not invocation.quiet:
            show_problem(problem, before="warning ")


def problem_fields(problem: Problem) -> dict[str, object]:
    """Return a problem as JSON-ready fields."""
    return {
        "code": problem.code,
        "message": problem.message,
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
    }


def count(number: int, noun: str) -> str:
    """Return `1 file`, `2 files`, `2 strategies`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{number} {noun}s"
