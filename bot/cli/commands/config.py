"""`bot config check|show|path`: the configuration, whether it is valid, and where files are."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import Invocation, define_command, define_group
from bot.cli.show import aligned, print_result
from bot.cli.target import load
from bot.cli.telling.wording import counted
from bot.config.masking import masked_url
from bot.config.problems import OperatorMistake

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded

PLACES: Final = ("config", "journal", "state", "secrets")
UNCUT: Final = 10_000
"""Paths and origins are for copying: they are never cut to the screen width."""


@define_group("config", example="bot config check")
def command() -> None:
    """Check and show the configuration."""


@define_command("check", group=command, example="bot config check -c ~/mybot/bot.yaml")
@click.pass_obj
def check(invocation: Invocation) -> int:
    """Check the configuration and the strategy files. Needs no network and changes nothing."""
    from bot.cli.checks import Plain, rehearsed, report, report_good
    from bot.config.limits import removed
    from bot.config.scenario_file import load_scenario
    from bot.config.strategies.load import always_refused, load_plans
    from bot.runtime.notices.channels import open_channels

    try:
        loaded = load(invocation)
        channels = open_channels(loaded.channels(os.environ))
        checked = rehearsed(load_plans(loaded))
        if loaded.settings.is_embedded:
            load_scenario(loaded.settings.sandbox.scenario, loaded.base_dir)
    except OperatorMistake as mistake:
        return report(invocation, mistake)
    quota, mode = loaded.settings.broker.requests_per_minute, loaded.settings.mode
    symbols = {symbol for each in checked for symbol in each.plan.symbols}
    strategies = counted(len(checked), "strategy", "strategies")
    line = f"ok {loaded.path}: mode {mode}, {strategies}, {counted(len(symbols), 'symbol')}"
    if channels:
        line += f", {counted(len(channels), 'channel')} for notices"
    risk = loaded.settings.risk
    sections = {"risk.limits": risk.limits, "risk.account": risk.account}
    gone = [
        f"  no limit ({name}): {', '.join(each)}"
        for name, section in sections.items()
        if (each := removed(section))
    ]
    summary: Plain = {"config": str(loaded.path), "mode": mode, "sha256": loaded.sha256}
    also = [*loaded.warnings, *always_refused(loaded, [each.plan for each in checked])]
    return report_good(
        invocation,
        checked,
        quota,
        [line, *gone],
        quote_age_max_s=loaded.settings.risk.max_quote_age_s,
        before=summary,
        also=also,
    )


@define_command("show", group=command, example="bot config show --origin")
@click.option("--origin", is_flag=True, help="Also show where each value was set.")
@click.pass_obj
def show(invocation: Invocation, origin: bool) -> None:
    """Show every setting in effect. Secrets and passwords are masked."""
    from bot.config.limits import PERCENTAGES  # slow to import

    loaded = load(invocation)
    rows = [(key, value, loaded.origin_of(key)) for key, value in effective(loaded)]
    found = {key: {"value": value, "origin": where} for key, value, where in rows}
    columns = 3 if origin else 2
    cells = []
    for key, value, where in rows:
        text = "-" if value is None else str(value)
        if isinstance(value, list):
            text = ", ".join(map(str, value)) or "-"
        elif isinstance(value, bool):
            text = text.lower()
        elif isinstance(value, int) and key.rpartition(".")[2] in PERCENTAGES:
            text = f"{value / 10_000:g}%"  # as it is written in the file
        cells.append((key, text, where)[:columns])
    table = aligned(("KEY", "VALUE", "ORIGIN")[:columns], cells, limit=UNCUT)
    print_result(invocation, found, table)


@define_command("path", group=command, example='sqlite3 -readonly "$(bot config path journal)"')
@click.argument("place", type=click.Choice(PLACES), required=False)
@click.pass_obj
def path(invocation: Invocation, place: str | None) -> None:
    """Print the paths of the configuration, journal, state and secrets."""
    # Slow to import, and help pages do not need it.
    from bot.config.settings.secrets import SECRETS_FILE

    loaded = load(invocation)
    secrets = loaded.base_dir / (loaded.settings.broker.secrets_file or SECRETS_FILE)
    found = {
        "config": str(loaded.path.absolute()),
        "journal": masked_url(loaded.journal_url).removeprefix("sqlite:///"),
        "state": str(loaded.state_dir),
        "secrets": str(secrets),
    }
    if place:
        print_result(invocation, {place: found[place]}, [found[place]])
    else:
        table = aligned(("WHAT", "WHERE"), list(found.items()), limit=UNCUT)
        print_result(invocation, found, table)


def effective(loaded: "Loaded") -> Iterator[tuple[str, object]]:
    """Yield dotted keys and their displayable values."""
    base_url = loaded.settings.broker.base_url
    shown = {
        "journal.url": masked_url(loaded.journal_url),
        "broker.base_url": base_url and masked_url(base_url),
        "state_dir": str(loaded.state_dir),
    }

    def leaves(tree: dict[str, object], above: str) -> Iterator[tuple[str, object]]:
        for name, value in tree.items():
            key = f"{above}{name}"
            if isinstance(value, dict):
                yield from leaves(value, f"{key}.")
            else:
                yield key, shown.get(key, value)

    yield from leaves(loaded.settings.model_dump(mode="json"), "")
    yield "notify.urls", ["***"] * len(loaded.settings.notify.urls)
    for key in ("api_key", "api_secret"):
        yield f"broker.{key}", "***" if getattr(loaded.settings.broker, key) else None
