"""`bot halt`: the kill switch, and the result of each cancel.

The file HALT is written first: it needs neither the bot's answer nor its journal, and with --yes no
question comes before it. An accepted cancel is not yet a cancelled order, so the end of each order
is looked up in the journal, and orders without one are named.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import Invocation, define_command
from bot.cli.commands.orders import ended_words
from bot.cli.commands.status import knows_what_is_held
from bot.cli.last_run import open_orders
from bot.cli.operating import OPERATOR, print_accepted, print_state, wait_until
from bot.cli.options import reason_option
from bot.cli.show import (
    ask_shown,
    confirm,
    is_attended,
    print_json,
    show_mistake,
    write_line,
)
from bot.cli.target import (
    SQLITE,
    Fields,
    ask_bot,
    find_bot,
    find_status,
    load,
    no_bot,
    open_journal,
    own_elsewhere,
    own_state_dir,
    refusal,
    which_bot,
)
from bot.cli.telling.wording import counted
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.places import last_bot
from bot.domain.entry import RunState
from bot.domain.local_time import clock_of, minute_of
from bot.domain.plan import StrategyMode
from bot.runtime.brake import is_in_place, is_raised, lower_flag, raise_flag, within

CANCELS_S: Final = 8.0
"""How long to wait for the ends of the cancelled orders."""
FLAG_S: Final = 2.0
"""How long the disk may take for the file, before the bot is asked anyway."""
NAME_S: Final = 2.0
"""How long the question waits for the name of the bot."""
PATIENCE_S: Final = 5.0
"""How long a bot may take to answer; one that takes longer is treated as hanging."""
NOT_YET: Final = "E-CTL-005"
"""The refusal of a bot that waits for another one's journal, or has none yet."""
ANOTHER: Final = "E-RUN-007"
"""The mistake where this bot does not run, and another one that does may be meant."""
_SELL: Final = "FLATTEN"
_NO_CANCEL: Final = "no cancel of it is under way. Do: bot cancel {order_id}"
_BEING_SENT: Final = (
    "BEING SENT: it has no answer yet; if the broker takes it, it is cancelled: bot orders"
)


@define_command("halt", example='bot halt --yes --reason "wrong prices"', changes=True)
@click.option("--yes", is_flag=True, help="Do not ask, not even for --flatten.")
@click.option("--flatten", is_flag=True, help="Also sell what is held; asks a second time.")
@reason_option
@click.pass_obj
def command(invocation: Invocation, yes: bool, flatten: bool, reason: str) -> int:
    """Stop trading at once: no new orders, all open ones are cancelled, positions are kept.

    Exit code 11 when an order is still open, its outcome is unknown, or none was read yet.
    """
    try:
        state_dir = own_state_dir(invocation)
        if not yes and is_attended(invocation):
            _require_leave(invocation, state_dir)
    except OperatorMistake:
        write_line(messages.HALT_NOT, err=True)
        raise
    invocation.patience_s = PATIENCE_S
    _ask_to_halt(invocation, state_dir, reason)
    asked = _at_the_broker(find_status(invocation))
    over = {RunState.HALTED, RunState.STOPPED}
    found = wait_until(invocation, lambda now: now.text("state") in over)
    _require_running(invocation, found)
    if not invocation.json:
        print_state(invocation, found, how_many_open(found))
        print_accepted(invocation, found, "halt", RunState.HALTED)

    def is_settled(now: Fields) -> bool:  # without a token no cancel can be sent any more
        has_no_token = now.inner("two_factor").instant("until") is None
        return not now.words("sending") and (has_no_token or not _open(now))

    found = wait_until(invocation, is_settled, CANCELS_S)
    _require_running(invocation, found)
    asked |= _at_the_broker(found)
    if flatten:
        found = _flatten(invocation, found, yes=yes, reason=reason)
        _require_running(invocation, found)
    left = [*_still(found, asked), *_sending(found, asked), *found.words("unknown")]
    if invocation.json:
        print_json(found)
    elif asked or left:
        _report(invocation, found, asked)
    if not invocation.json:
        for row in found.each("standing"):
            if row.text("code") in {"FLATTEN", "FLATTEN_LEAVES", "JOURNAL_AWAY"}:
                write_line(row.text("text"))
    if own_state_dir(invocation) != state_dir and last_bot(state_dir):
        raise _ended_here(invocation, state_dir)
    is_done = "open_orders" in found and not left
    return ExitCode.DONE if is_done else ExitCode.TIMED_OUT


def _flatten(invocation: Invocation, found: Fields, *, yes: bool, reason: str) -> Fields:
    """Have everything sold that the strategies hold, after a second confirmation; return the bot's
    state.
    """
    held, left = what_is_sold(found)
    if not held and not knows_what_is_held(found):
        message = f"{which_bot(invocation)}: {messages.FLATTEN_UNKNOWN}"
        raise OperatorMistake.of("E-RUN-012", message, ExitCode.REFUSED)
    if left:
        text = f"not sold: {', '.join(left)}. Sell it in the broker's app"
        write_line(text, err=True)
    if not held:
        write_line("nothing to sell: the trading strategies hold nothing", err=True)
        return found
    if not yes:
        if invocation.no_input or not sys.stdin.isatty():
            raise click.UsageError("halted, nothing sold: --flatten without --yes has to ask first")
        write_line(f"{which_bot(invocation)} would sell {', '.join(held)} at the bid", err=True)
        if ask_shown(f"Type {_SELL} to sell all of it").strip() != _SELL:
            write_line("halted, nothing sold", err=True)
            return found
    ask_bot(invocation, "halt", strategy=None, reason=reason, by=OPERATOR, flatten=True)

    def is_begun(now: Fields) -> bool:
        return any(row.text("code") == "FLATTEN" for row in now.each("standing"))

    return wait_until(invocation, is_begun)


def what_is_sold(found: Fields) -> tuple[list[str], list[str]]:
    """Return what a flatten sells, and what it leaves to a person, with reasons."""
    rows = found.each("strategies")
    watching = {row.text("name") for row in rows if row.text("mode") == StrategyMode.WATCH}
    held, left = list[str](), list[str]()
    for row in found.each("positions"):
        shares, name = f"{row.whole('shares'):,} {row.text('symbol')}", row.text("strategy")
        if name in watching:
            left.append(f"{shares} of {name}, which only watches")
        else:
            held.append(shares)
    for row in found.each("unloaded"):
        shares = f"{row.whole('shares'):,} {row.text('symbol')}"
        left.append(f"{shares} of {row.text('strategy')}, which is not running")
    return held, left


def _report(invocation: Invocation, found: Fields, asked: Mapping[str, str]) -> None:
    """Print the result of each order, counts first."""
    still, lines, counts = _still(found, asked), list[str](), Counter[str]()
    cancels = {row.text("order_id"): row for row in found.each("cancels")}
    for order_id in sorted(still):
        cancel = cancels.get(order_id, Fields())
        until = cancel.instant("queued_until")
        counts[f"not cancellable until {minute_of(until)}" if until else "still open"] += 1
        why = cancel.text("why") or _NO_CANCEL.format(order_id=order_id)
        lines.append(f"{order_id} STILL OPEN: {why}")
    for intent_id in (sending := _sending(found, asked)):
        counts["being sent"] += 1
        lines.append(f"{intent_id} {_BEING_SENT}")
    for intent_id in found.words("unknown"):
        counts["UNKNOWN"] += 1
        lines.append(
            f"{intent_id} UNKNOWN: its answer was lost, the bot is asking the broker: bot orders"
        )
    not_over = {*map(_name, still.values()), *sending, *found.words("unknown")}
    ended = sorted(order_id for name, order_id in asked.items() if name not in not_over)
    if found.inner("trouble"):  # it may be the journal, so do not wait for it
        counts["over"] += len(ended)
        listed = ", ".join(sorted(still)) or "none"
        lines.append(f"still open: {listed}; for the rest, once the trouble is over: bot orders")
        ended = []
    if ended:
        try:
            with open_journal(invocation) as reader:
                rows = [reader.order(order_id) for order_id in ended]
            counts.update((row.state or row.status).lower() for row in rows)
            lines += map(ended_words, rows)
        except OperatorMistake as unread:
            counts["over"] += len(ended)
            show_mistake(unread)
    at = found.instant("at")
    counted_up = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    write_line(f"HALTED {clock_of(at) if at else ''}: {counted_up or 'nothing was open'}")
    for text in lines:
        write_line(text)


def _require_leave(invocation: Invocation, state_dir: Path) -> None:
    """Ask whether to halt. Raises Abort if not, and says then how to halt without the question."""
    try:
        if confirm(_question(invocation, state_dir)):
            return
    except (click.Abort, KeyboardInterrupt):
        write_line("", err=True)  # the line of the question is still open
    if not is_raised(state_dir):
        write_line(messages.HALT_DECLINED, err=True)
    raise click.Abort


def _question(invocation: Invocation, state_dir: Path) -> str:
    """Return the question, with the bot's name. One that is dead or hangs cannot say it, and must
    be halted all the same, so the question then names its folder. Raises OperatorMistake if another
    bot may be meant.
    """
    invocation.patience_s = NAME_S
    try:
        found = _ask(invocation, "status")
    except OperatorMistake as silence:
        show_mistake(silence)
    else:
        if found is not None:
            return f"Halt {which_bot(invocation)}: cancel all open orders and send no new ones?"
        for other in own_elsewhere(invocation):
            return messages.HALT_OTHER.format(state_dir=state_dir, other=other)
        if (mistake := no_bot(invocation)).problems[0].code == ANOTHER:
            raise mistake
    return messages.HALT_UNNAMED.format(state_dir=state_dir)


def _ask(invocation: Invocation, do: str, **request: object) -> Fields | None:
    """Ask as `find_bot` does; a folder that cannot be entered is an OperatorMistake, too."""
    try:
        return find_bot(invocation, do, **request)
    except OSError as error:
        text = f"{error.filename}: {error.strerror}"
        raise OperatorMistake.of("E-SYS-001", text, ExitCode.DATABASE) from error


def _ask_to_halt(invocation: Invocation, state_dir: Path, reason: str) -> None:
    """Block by the file, then have the bot halt. Raises OperatorMistake if it does not."""
    was_raised = is_raised(state_dir)
    raising = partial(raise_flag, state_dir, reason)
    try:
        may_raise = state_dir.is_dir()
    except PermissionError:
        may_raise = True  # so that it is told why there is no file
    if may_raise and (trouble := within(FLAG_S, raising, state_dir)):
        write_line(trouble, err=True)
    others: Sequence[Path] = ()
    try:
        reply = _ask(invocation, "halt", strategy=None, reason=reason, by=OPERATOR)
        if reply is not None and reply.get("ok"):
            return
        others = () if reply is not None else own_elsewhere(invocation)
        mistake = no_bot(invocation) if reply is None else refusal(invocation, reply)
    except OperatorMistake as silence:
        mistake = silence
    if others:
        _halt_elsewhere(invocation, state_dir, others, reason)
        return
    if mistake.problems[0].code == ANOTHER and not was_raised:
        lower_flag(state_dir)
    if is_in_place(state_dir):
        mistake = _held_by_file(invocation, state_dir, mistake)
    else:
        write_line(messages.HALT_NOT, err=True)
    raise mistake


def _halt_elsewhere(
    invocation: Invocation, state_dir: Path, others: Sequence[Path], reason: str
) -> None:
    """Halt the bot of this configuration that runs on another folder, and say so: its `state_dir`
    was changed since. The file of this folder stays, as this one's bot may be about to start.
    """
    write_line(messages.HALT_THERE.format(state_dir=state_dir, other=others[0]), err=True)
    for other in others[1:]:
        write_line(messages.HALT_THERE_TOO.format(other=other), err=True)
    if is_in_place(state_dir):
        write_line(messages.HALT_HERE_TOO.format(state_dir=state_dir), err=True)
    invocation.state_dir, invocation.state_dirs = others[0], None
    _ask_to_halt(invocation, others[0], reason)


def _ended_here(invocation: Invocation, state_dir: Path) -> OperatorMistake:
    """Return what is said, after another bot was halted, of the one that has run on the folder that
    was meant, and ended there: nobody cancels its orders.
    """
    invocation.state_dir, invocation.state_dirs = state_dir, None
    _print_open(invocation)
    text = messages.HALT_LATER if is_in_place(state_dir) else messages.NO_BOT
    return OperatorMistake.of("E-RUN-001", text.format(state_dir=state_dir), ExitCode.NOT_RUNNING)


def _held_by_file(
    invocation: Invocation, state_dir: Path, mistake: OperatorMistake
) -> OperatorMistake:
    """Return what is said where the bot has not taken the halt, and the file is in place."""
    code, message = mistake.problems[0].code, mistake.problems[0].message
    if code == NOT_YET:
        kept = messages.HALT_KEPT.format(message=message, state_dir=state_dir)
        return OperatorMistake.of(NOT_YET, kept, mistake.exit_code)
    later = messages.HALT_LATER.format(state_dir=state_dir)
    if mistake.exit_code is ExitCode.CONFIG:  # only read where nobody answers
        show_mistake(mistake)
        return OperatorMistake.of("E-RUN-001", later, ExitCode.NOT_RUNNING)
    _print_open(invocation)
    if code == "E-RUN-001":
        return OperatorMistake.of(code, later, mistake.exit_code)
    if mistake.exit_code is ExitCode.TIMED_OUT:
        text = messages.HALT_HANGS.format(state_dir=state_dir, seconds=f"{PATIENCE_S:g}")
        return OperatorMistake.of("E-RUN-011", text, ExitCode.TIMED_OUT)
    return OperatorMistake.of(code, f"{message}. {messages.HALT_UNSEEN}", mistake.exit_code)


def _require_running(invocation: Invocation, found: Fields) -> None:
    """Raise OperatorMistake if the bot has ended since it was asked: nobody cancels any more."""
    if found.text("state") != RunState.STOPPED:
        return
    mistake, state_dir = no_bot(invocation), own_state_dir(invocation)
    if not is_in_place(state_dir):
        raise mistake
    _print_open(invocation)
    message = f"{messages.HALT_ENDED} {messages.HALT_LATER.format(state_dir=state_dir)}"
    raise OperatorMistake.of("E-RUN-001", message, mistake.exit_code)


def _print_open(invocation: Invocation) -> None:
    """Print which own orders are open according to the journal, as no bot answers."""
    try:
        with open_journal(invocation) as reader:
            orders = open_orders(reader)
    except OperatorMistake as unread:
        show_mistake(unread)
        return
    for order in orders:
        write_line(messages.HALT_OPEN.format(order=order), err=invocation.json)
    if not orders:
        write_line(messages.HALT_NONE_OPEN, err=invocation.json)
    if not load(invocation).journal_url.startswith(SQLITE):
        write_line(messages.HALT_STANDBY, err=True)


def how_many_open(found: Fields) -> str:
    """`2 orders open`; a bot that has not read the broker yet cannot tell."""
    if "open_orders" not in found:
        return (
            "the broker has not been read yet; whatever is open there will be cancelled once it is"
        )
    sending = found.words("sending")
    tail = f", {len(sending)} being sent" if sending else ""
    return f"{counted(len(_open(found)), 'order')} open{tail}"


def _open(found: Fields) -> dict[str, Fields]:
    """The bot's own open orders by their id."""
    rows = found.each("open_orders")
    return {row.text("order_id"): row for row in rows if row.get("intent_id", "") is not None}


def _name(row: Fields) -> str:
    return row.text("intent_id") or row.text("order_id")


def _at_the_broker(found: Fields) -> dict[str, str]:
    """The bot's own orders that are, or may come to be, at the broker: by our id, that to look for
    in the journal.
    """
    names = (*found.words("sending"), *found.words("unknown"))
    opened = {_name(row): order_id for order_id, row in _open(found).items()}
    return {**{name: name for name in names}, **opened}


def _still(found: Fields, asked: Mapping[str, str]) -> dict[str, Fields]:
    """Those of the halt's orders that are open: not the sales of a flatten."""
    return {order_id: row for order_id, row in _open(found).items() if _name(row) in asked}


def _sending(found: Fields, asked: Mapping[str, str]) -> list[str]:
    return [name for name in found.words("sending") if name in asked]
