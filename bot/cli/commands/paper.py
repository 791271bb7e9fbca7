"""`bot paper serve`: the sandbox broker alone, as an HTTP server for any client."""

import math
from datetime import datetime
from functools import partial

import click

from bot.cli.command import define_command, define_group
from bot.cli.show import write_json, write_line
from bot.config.field_types import PACE_MAX, PACE_MIN
from bot.domain.instrument import EXCHANGE_TZ


def _number(_: click.Context, option: click.Parameter, given: float | None) -> float | None:
    """Refuse what is no number, which lies in any range."""
    if given is not None and math.isnan(given):
        raise click.BadParameter("nan is no number", param=option)
    return given


@define_group("paper", example="bot paper serve --port 8790")
def command() -> None:
    """Serve the sandbox broker to other clients."""


@define_command(
    "serve",
    group=command,
    example="bot paper serve --port 8790 --speed 60 --now 2026-11-19T09:14:55",
)
@click.option("--port", type=click.IntRange(0, 65_535), default=8790, help="0 picks a free one.")
@click.option("--scenario", default="quiet", metavar="F", help="A shipped scenario, or a file.")
@click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="The same seed gives the same day."
)
@click.option(
    "--speed",
    type=click.FloatRange(PACE_MIN, PACE_MAX),
    callback=_number,
    metavar="X",
    help="Market seconds per second.",
)
@click.option(
    "--now",
    metavar="ISO",
    help="Market time to start at, like 2026-11-19T11:45; the day is played up to then.",
)
def serve(port: int, scenario: str, seed: int | None, speed: float | None, now: str | None) -> None:
    """Serve the broker's API on loopback until SIGTERM or Ctrl-C.

    Started again, it knows no earlier order. The first line on stdout is JSON: base_url, api_key,
    api_secret, otp, accounts.
    """
    # The sandbox and its server: slow to import, and help pages do not need them.
    from bot.runtime.worlds.standalone import PaperPlan, serve_paper

    starts_at = None
    if now is not None:
        try:
            at = datetime.fromisoformat(now)
        except ValueError as error:
            wanted = "a date and time like 2026-11-19T09:14:55"
            raise click.BadParameter(f"{now!r}: wanted {wanted}", param_hint="--now") from error
        starts_at = at if at.tzinfo else at.replace(tzinfo=EXCHANGE_TZ)
    plan = PaperPlan(port=port, scenario=scenario, seed=seed, speed=speed, starts_at=starts_at)
    serve_paper(plan, announce=write_json, remark=partial(write_line, err=True))
