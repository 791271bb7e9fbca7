"""`bot notify list|test|mute`: who gets which notices, and whether they arrive."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from bot.cli import messages
from bot.cli.command import Invocation, define_command, define_group
from bot.cli.options import length_from
from bot.cli.show import UNCUT, print_json, print_result, print_table, say, write_line
from bot.cli.target import ask_bot, load, readable, which_bot
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.domain.entry import NOTICE_NOTE, Note
from bot.domain.local_time import day_and_clock_of, minute_of
from bot.domain.notice import MUTE_MAX, SEVERITIES, NoticeKind, Severity, Volume

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.config.settings.notify import ChannelPlan

LATELY: Final = 200
"""How many of the last messages are examined for recent results."""
HEADS: Final = ("CHANNEL", "FROM", "ON", "SILENT", "OFF", "LAST")


@define_group("notify", example="bot notify test")
def command() -> None:
    """Notices while you are away: what goes where, and whether it arrives."""


@define_command("list", group=command, example="bot notify list")
@click.pass_obj
def list_(invocation: Invocation) -> None:
    """Show each channel, what it gets, and how its last notice fared. Never an address."""
    loaded = readable(invocation)
    plans = loaded.channels(os.environ)
    sent, faults = last_of_each(loaded), faults_of(plans)
    fields, rows = list[dict[str, object]](), list[tuple[str, ...]]()
    for plan in plans:
        note = sent.get(plan.name)
        kinds = {volume.value: kinds_of(plan, volume) for volume in Volume}
        arrived = note and {
            "at": note.at.isoformat(),
            "taken": note.numbers.get("is_taken"),
            "text": note.text,
        }
        fault = faults[plan.name].message if plan.name in faults else ""
        told = {**kinds, "last": arrived, "fault": fault}
        fields.append({"channel": plan.name, "from": plan.origin, **told})
        shown = [", ".join(each) or "-" for each in kinds.values()]
        if not kinds[Volume.SILENT] and not kinds[Volume.OFF]:
            shown[0] = "all"
        last = f"{day_and_clock_of(note.at)} {note.text}" if note else "nothing yet"
        rows.append((plan.name, plan.origin, *shown, "can't be used: see below" if fault else last))
    hours = {
        s.name.lower(): f"{a:%H:%M}-{b:%H:%M}"
        for s, (a, b) in loaded.settings.notify.quiet_hours.of.items()
    }
    if invocation.json:
        print_json({"channels": fields, "quiet_hours": hours})
    elif not plans:
        write_line(messages.NO_CHANNELS)
    else:
        print_table(invocation, HEADS, rows, limit=UNCUT)
        critical = ", ".join(kind for kind in NoticeKind if SEVERITIES[kind] is Severity.CRITICAL)
        quiet = "; ".join(f"{name} {span}" for name, span in hours.items()) or "none"
        say(invocation, f"quiet hours: {quiet}. Never held or muted: {critical}")
    if faults:
        raise OperatorMistake(dict.fromkeys(faults.values()))


@define_command("test", group=command, example="bot notify test phone")
@click.argument("channel", required=False)
@click.option("--text", metavar="TEXT", help="The text, such as: the service has failed.")
@click.pass_obj
def test(invocation: Invocation, channel: str | None, text: str | None) -> None:
    """Send a message to each channel, or to one, and show what came back."""
    # Slow to import, and help pages do not need it.
    from bot.runtime.notices.channels import Message, open_channels
    from bot.runtime.notices.wording import Wording, safe

    loaded = load(invocation)
    plans = [each for each in loaded.channels(os.environ) if channel in {None, each.name}]
    if not plans:
        named = ", ".join(each.name for each in loaded.channels(os.environ))
        what = f"no channel '{channel}'; available: {named}" if named else messages.NO_CHANNELS
        raise click.UsageError(what)
    settings = loaded.settings
    wording = Wording(settings.notify.language or settings.language, loaded.name, settings.mode)
    message = Message(
        severity=Severity.INFO,
        volume=Volume.ON,
        title=wording.title("test"),
        body=safe(text) if text else wording.said("test"),
    )
    found = {each.plan.name: each.send(message) for each in open_channels(plans)}
    lines = [f"{name:<12} {sent.words}" for name, sent in found.items()]
    fields = [
        {"channel": name, "taken": sent.is_taken, "words": sent.words}
        for name, sent in found.items()
    ]
    print_result(invocation, {"sent": fields}, lines)
    if not all(each.is_taken for each in found.values()):
        raise click.exceptions.Exit(ExitCode.UNREACHABLE)


@define_command("mute", group=command, changes=True, example="bot notify mute 1h")
@click.argument("length", type=length_from(0.0), metavar="TIME")
@click.pass_obj
def mute(invocation: Invocation, length: float) -> None:
    """Hold back notices for a while, at most 24h, then send them together; 0s ends it.

    A missing 2FA token, a halt and an order of unknown outcome are still sent at once.
    """
    if length > MUTE_MAX.total_seconds():
        raise click.BadParameter("wanted at most 24h", param_hint="TIME")
    reply = ask_bot(invocation, "notify_mute", seconds=length, by="operator")
    until = reply.instant("until")
    line = f"muted until {minute_of(until)}" if until else "no longer muted"
    print_result(invocation, {"until": reply.get("until")}, [f"{which_bot(invocation)}: {line}"])


def last_of_each(loaded: "Loaded") -> Mapping[str, Note]:
    """Return the last message of each channel, from the journal; empty if there is none yet."""
    from bot.journal.errors import JournalError
    from bot.journal.reading.events import last_notes

    try:
        notes = last_notes(loaded.journal_url, NOTICE_NOTE, limit=LATELY)
    except JournalError:
        return {}
    return {str(note.numbers.get("channel")): note for note in notes}


def faults_of(plans: "Sequence[ChannelPlan]") -> Mapping[str, Problem]:
    """Return why a channel cannot be used, for each such channel."""
    from bot.runtime.notices.channels import open_channels

    found = dict[str, Problem]()
    for plan in plans:
        try:
            open_channels([plan])
        except OperatorMistake as mistake:
            found[plan.name] = mistake.problems[0]
    return found


def kinds_of(plan: "ChannelPlan", volume: Volume) -> list[str]:
    return [kind.value for kind in NoticeKind if plan.volume(kind) is volume]
