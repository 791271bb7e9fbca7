"""`bot`: the root of the command tree, and the one place where a bug is caught and reported.

Commands are imported when they are called, so that `bot --help` stays quick and a broken library
breaks only the commands that need it.
"""

import atexit
import errno
import gc
import io
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import groupby, islice
from pathlib import Path
from typing import Final, NoReturn

import click

from bot import __version__
from bot.cli import messages
from bot.cli.command import HELP, Invocation, refuse_empty, share_options, shared_options
from bot.cli.show import LogLines, show_mistake, show_traceback, write_line
from bot.config.masking import masked_line
from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.early_signal import EarlySignal
from bot.runtime.hush import HidesValues, tell_without_secrets, trace_of, words_of
from bot.runtime.process import LEAVE_S, forbid_dumps, leave_within

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""Exit codes that a shell reports for a process ended by SIGINT or SIGPIPE."""
COLLECT_AFTER: Final = (50_000, 20, 20)
"""The garbage collector runs later: nearly everything that a start creates stays."""
CAUSES_MAX: Final = 12
NOT_OURS: Final = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ETXTBSY, errno.ENOTDIR),
        *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE),
    }
)
"""System errors that no program can help: no permission, no space, read-only, no directory."""

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": ("begin", "An hour of trading in a minute, on this screen."),
    "init": ("begin", "Create a configuration of your own."),
    "doctor": ("begin", "Is everything in order? Each row names its fix."),
    "run": ("run", "Run the bot in the foreground."),
    "status": ("run", "The state of the running bot."),
    "pause": ("run", "No new orders; open ones stay."),
    "resume": ("run", "Take new orders again."),
    "halt": ("run", "Kill switch: cancel all, no new orders."),
    "stop": ("run", "Stop the running bot cleanly."),
    "modify": ("by hand", "Change the price or size of an order."),
    "cancel": ("by hand", "Cancel orders, or all of them."),
    "reconcile": ("by hand", "Compare the journal with the broker."),
    "otp": ("2FA", "The second factor: state, code, token."),
    "strategy": ("strategies", "List, make and check."),
    "backtest": ("strategies", "What a strategy would have done."),
    "optimise": ("strategies", "Search its parameters on past days."),
    "plugin": ("strategies", "Python strategies, and what uses them."),
    "data": ("strategies", "Bars: list, import, check, fetch."),
    "orders": ("look", "Orders, and why they were made."),
    "order": ("look", "One order and its whole story."),
    "fills": ("look", "What was bought and sold."),
    "limits": ("look", "How much of each limit is used."),
    "errors": ("look", "What a code means, in two languages."),
    "positions": ("look", "What each strategy holds."),
    "pnl": ("look", "Profit and loss, after fees and tax."),
    "balance": ("look", "Cash, settlements due, net assets."),
    "decisions": ("look", "Why it traded, and why it did not."),
    "events": ("look", "2FA, state changes and alerts."),
    "replay": ("look", "Replay a recorded day, decision by decision."),
    "logs": ("look", "The process log."),
    "quote": ("look", "The market in a symbol right now."),
    "session": ("look", "The phase of each exchange."),
    "api": ("look", "Any read of the broker's API, by name."),
    "journal": ("journal", "Verify, back up, prune, query and export."),
    "db": ("journal", "The journal's database."),
    "config": ("set up", "Check and show the configuration."),
    "notify": ("set up", "Notices while you are away: list, test, mute."),
    "secret": ("set up", "The broker's key: set, list, test, remove."),
    "paper": ("set up", "The sandbox broker as a server."),
    "conformance": ("set up", "Check a server against the API document."),
    "drill": ("set up", "Break things on purpose; see how the bot copes."),
    "service": ("set up", "Run the bot as a systemd service."),
    "completion": ("set up", "Shell completion for bot."),
    "docs": ("set up", "The documentation pages."),
    "version": ("set up", "The version."),
}
"""Help section and summary of each command; the command itself is `command` in its module."""


class Root(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found = import_module(f"bot.cli.commands.{name}").command
        assert isinstance(found, click.Command), f"{name} is not a command"
        return share_options(found)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if not context.resilient_parsing:
            refuse_empty(self, context, args)
        return super().parse_args(context, args)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown one, suggest the likely one."""
        try:
            return super().resolve_command(context, args)
        except click.NoSuchCommand as unknown:
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=context) from unknown

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        for section, listed in groupby(COMMANDS.items(), key=lambda item: item[1][0]):
            with formatter.section(section):
                formatter.write_dl([(name.ljust(10), summary) for name, (_, summary) in listed])

    def format_usage(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("Example: bot demo\n\n")
        super().format_usage(context, formatter)

    def format_epilog(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            for line in messages.EXIT_CODES.splitlines():
                formatter.write(f"  {line}\n")


@click.group(cls=Root, invoke_without_command=True, context_settings=HELP)
@click.version_option(__version__, prog_name="vnbot", message="%(prog)s %(version)s")
@click.pass_context
def bot(context: click.Context) -> None:
    """Trade on Vietnam's exchanges, and explain every order.

    Without a command: the state of the running bot, or how to begin. The options below may also
    follow a command.
    """
    if context.invoked_subcommand is None:
        from bot.cli.commands.status import show_status_or_examples

        show_status_or_examples(context.ensure_object(Invocation))


bot.params.extend(shared_options(hidden=False))


def hear_halts(early: Sequence[int]) -> None:
    """From here on remember SIGUSR1 for the run that begins, and the `early` ones."""
    signal.signal(signal.SIGUSR1, EarlySignal())
    if early:
        signal.raise_signal(signal.SIGUSR1)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    forbid_dumps()
    open_closed_streams()
    tell_without_secrets(partial(write_line, err=True))
    gc.set_threshold(*COLLECT_AFTER)
    lines = LogLines(logging.WARNING)
    lines.addFilter(HidesValues(tuple))
    logging.getLogger().addHandler(lines)
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def open_closed_streams() -> None:
    """Send to nowhere what goes to a stream that was closed before the start, as by `>&-`."""
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - until the end
            setattr(sys, name, nowhere)


def leave(ended: SystemExit) -> NoReturn:
    """End the process as that would, without taking the interpreter apart.

    Python would do that under threads which begin just then, or wait in C for a hanging database,
    and it has crashed there after a run that had ended well. What Python waits for is waited for
    here too, but not for long.
    """
    code = ended.code if isinstance(ended.code, int) else 0
    leave_within(LEAVE_S, code, threading.Event(), partial(write_line, err=True))
    for each in threading.enumerate():
        if not each.daemon and each is not threading.current_thread():
            each.join()
    atexit._run_exitfuncs()  # noqa: SLF001 - what os._exit leaves out
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads
            stream.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code. Only `sys.exit` raises."""
    if asked := os.environ.get("_BOT_COMPLETE"):
        from bot.cli.commands.completion import complete

        return complete(bot, (command for _, command in walk()), asked)
    invocation = Invocation()
    try:
        with bot.make_context("bot", list(arguments), obj=invocation) as context:
            done = bot.invoke(context)
        sys.stdout.flush()
        return done if isinstance(done, int) else ExitCode.DONE
    except OperatorMistake as mistake:
        return _show(mistake, invocation)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        usage = io.StringIO()
        error.show(usage)
        for line in usage.getvalue().splitlines():
            write_line(line.expandtabs(2), err=True)
        show_beneath(error, invocation)
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # nobody reads, so there is nothing to flush
        return BROKEN_PIPE
    except OSError as error:
        refused = system_mistake(error)
        if error.filename is None and _is_of_output(error):
            sys.stdout = None  # what is left in it would fail once more at the end
        if refused is None:
            return _report_bug(error, invocation)
        refused.__cause__ = error
        code = _show(refused, invocation)
        invocation.tell_end(refused)
        return code
    except Exception as error:
        return _report_bug(error, invocation)


def _show(mistake: OperatorMistake, invocation: Invocation) -> int:
    show_mistake(mistake, invocation.lang)
    show_beneath(mistake, invocation)
    if invocation.is_debug:
        show_traceback(invocation.hide)
    return int(mistake.exit_code)


def show_beneath(error: BaseException, invocation: Invocation) -> None:
    """With `-v`, write the causes of an error, innermost last, but for those that say nothing new,
    and which files the command used.
    """
    if not invocation.verbose:
        return
    told = str(error)
    for cause in islice(_causes(error), CAUSES_MAX):
        if (words := str(cause)) and words in told:
            continue
        told = f"{told}\n{words}"
        # Further lines of a library's message quote what it was given: a statement, a value.
        kind, colon, said = invocation.hide(words_of(cause)).partition("\n")[0].partition(": ")
        beneath = f"{kind}{colon}{masked_line(said)}" if said else kind
        write_line(messages.BENEATH.format(cause=beneath), err=True)
    for path, what in invocation.looked_in.items():
        write_line(messages.LOOKED_IN.format(what=what, path=path), err=True)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield what an error came from, as a traceback would show it."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield cause
        yield from _causes(cause)


def system_mistake(error: OSError) -> OperatorMistake | None:
    """Describe what the system refused, if an operator can correct that; None for our bugs."""
    if error.errno not in NOT_OURS:
        return None
    reason = (error.strerror or "").lower()
    if error.filename is None and _is_of_output(error):
        text = f"the output was cut off: {reason}. It goes to a device or file that takes no more"
        return OperatorMistake.of("E-SYS-001", text, ExitCode.DATABASE)
    text = f"{error.filename or 'a file'}: {reason}"
    return OperatorMistake.of("E-SYS-001", f"{text}. {messages.SYSTEM}", ExitCode.DATABASE)


def _is_of_output(error: OSError) -> bool:
    """Tell whether it was raised while something was printed."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename in {click.utils.__file__, __file__}


def _report_bug(error: Exception, invocation: Invocation) -> int:
    text = messages.BUG.format(error=invocation.hide(words_of(error)))
    write_line(text, err=True)
    show_beneath(error, invocation)
    path = None if invocation.is_debug else write_report(trace_of(error), invocation)
    if path is None:
        show_traceback(invocation.hide)
    else:
        write_line(messages.BUG_REPORT.format(path=path), err=True)
    invocation.tell_end(OperatorMistake.of("E-SYS-002", text, ExitCode.BUG))
    return ExitCode.BUG


def write_report(text: str, invocation: Invocation) -> Path | None:
    """Write a private report and return its path; None if it cannot be written.

    Argument values are left out: the command's words are enough to find the code.
    """
    from bot.runtime.supervisor import keep_report

    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    folder = (invocation.state_dir or Path(home) / "vnbot") / "bugs"
    try:
        return keep_report(folder, "bug", invocation.hide(text))
    except TimeoutError:
        return None


def walk() -> Iterator[tuple[str, click.Command]]:
    """Yield every command of the tree with the words that invoke it."""

    def below(words: str, found: click.Command | None) -> Iterator[tuple[str, click.Command]]:
        assert found is not None, f"{words} is listed"
        yield words, found
        if isinstance(found, click.Group):
            for name, each in sorted(found.commands.items()):
                yield from below(f"{words} {name}", each)

    for name in COMMANDS:
        yield from below(f"bot {name}", bot.get_command(click.Context(bot), name))
