"""`bot doctor`: checks that everything is in order before money depends on it."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from bot.cli.command import Invocation, define_command
from bot.cli.show import print_json, print_table, say, write_line
from bot.cli.target import load
from bot.clock import SystemClock
from bot.config.problems import ExitCode, OperatorMistake

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.runtime.health.doctor_here import Finding

STYLES = {"ok": "green", "warn": "yellow", "fail": "red", "skipped": "bright_black"}


@define_command("doctor", example="bot doctor --offline")
@click.option("--offline", is_flag=True, help="Ask neither the broker nor the network.")
@click.pass_obj
def command(invocation: Invocation, offline: bool) -> None:
    """Check everything that a run needs; each row that is not ok names its fix.

    Only reads: it changes no file, sends no order and uses no 2FA code. Exit code 0 when no row
    fails, else 1.
    """
    findings = findings_of(invocation, offline=offline)
    failed = [each for each in findings if each.verdict == "fail"]
    if invocation.json:
        print_json({"ok": not failed, "rows": [asdict(each) for each in findings]})
    else:
        rows = [(each.verdict, each.name, each.found) for each in findings]
        print_table(invocation, ("", "WHAT", "FOUND"), rows, styles=STYLES)
        for each in findings:
            if each.fix:
                write_line(f"{each.verdict} {each.name}: {each.fix}")
    if failed:
        raise click.exceptions.Exit(ExitCode.BUG)
    say(invocation, "nothing stands in the way of a run")


def findings_of(invocation: Invocation, *, offline: bool) -> "Sequence[Finding]":
    # Nearly the whole program: imported for a check, not for its help page.
    from bot.runtime.health.doctor_broker import ASKED, look_at_broker
    from bot.runtime.health.doctor_here import Machine, fail, look_here, ok, skipped

    try:
        loaded: Loaded = load(invocation)
    except OperatorMistake as mistake:
        found = "; ".join(problem.head for problem in mistake.problems)
        is_secret = mistake.exit_code == ExitCode.SECRET
        fix = "bot secret list" if is_secret else "bot config check shows each place"
        return [fail("secrets" if is_secret else "config", found, fix=fix)]
    here = [ok("config", str(loaded.path)), *look_here(loaded, Machine(), SystemClock())]
    if offline:
        return [*here, *(skipped(name, "offline") for name in ASKED)]
    return [*here, *asyncio.run(look_at_broker(loaded))]
