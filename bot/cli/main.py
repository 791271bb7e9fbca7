"""`bot`: the root of the command tree, and the one place where a bug is caught and reported.

Commands are imported when they are called, so that `bot --help` stays quick and a broken library
breaks only the commands that need it.
"""

import gc
import io
import logging
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from errno import (
    EACCES,
    EDQUOT,
    EIO,
    EMFILE,
    ENFILE,
    ENOSPC,
    ENOTDIR,
    EPERM,
    EROFS,
    ETXTBSY,
)
from importlib import import_module
from itertools import groupby
from typing import Final, NoReturn

import click

from bot import __version__
from bot.cli import messages
from bot.cli.command import WIDTH_MAX
from bot.cli.invocation import Invocation, share_options, shared_options
from bot.cli.show import LogLines, show_mistake, show_traceback, write_line
from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.no_dumps import forbid_dumps

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""What a shell reports of a process that SIGINT or SIGPIPE ended."""
COLLECT_AFTER: Final = (50_000, 20, 20)
"""Objects, and rounds, before the garbage collector looks: nearly all that a start makes stays."""
NOT_OURS: Final = frozenset(
    {EACCES, EDQUOT, EIO, EMFILE, ENFILE, ENOSPC, ENOTDIR, EPERM, EROFS, ETXTBSY}
)
"""Refusals of the system that no program can help: no right, no room, read-only, no directory."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command as the help lists it; `target` is `module:object`, imported when it is called."""

    section: str
    target: str
    summary: str


def _entry(section: str, module: str, name: str, summary: str) -> Entry:
    return Entry(section, f"bot.cli.commands.{module}:{name}", summary)


COMMANDS: Final[Mapping[str, Entry]] = {
    "demo": _entry("begin", "demo", "demo", "An hour of trading in a minute, visible."),
    "init": _entry("begin", "init", "init", "Write a configuration of your own."),
    "run": _entry("run", "run", "run", "Run the bot in the foreground."),
    "status": _entry("run", "status", "status", "How the running bot is."),
    "pause": _entry("run", "operate", "pause", "No new orders; open ones stay."),
    "resume": _entry("run", "operate", "resume", "Take new orders again."),
    "halt": _entry("run", "halt", "halt", "Kill switch: cancel open, no new orders."),
    "stop": _entry("run", "operate", "stop", "Stop the running bot cleanly."),
    "modify": _entry("by hand", "by_hand", "modify", "Change price or size of an order."),
    "cancel": _entry("by hand", "by_hand", "cancel", "Cancel orders, or all of them."),
    "otp": _entry("2FA", "otp", "otp", "The second factor: state, code, token."),
    "strategy": _entry("strategies", "strategy", "strategy", "List, make and check."),
    "orders": _entry("look", "orders", "orders", "Orders, and why they were made."),
    "order": _entry("look", "order", "order", "One order and its whole story."),
    "fills": _entry("look", "look", "fills", "What was bought and sold."),
    "positions": _entry("look", "look", "positions", "What each strategy holds."),
    "decisions": _entry("look", "decisions", "decisions", "Why, and why not."),
    "quote": _entry("look", "market", "quote", "The market of a symbol now."),
    "session": _entry("look", "market", "phases", "The phase of each exchange."),
    "api": _entry("look", "api", "api_call", "Any read of the broker's API, by name."),
    "journal": _entry("journal", "journal", "journal", "Verify and export."),
    "db": _entry("journal", "db", "db", "The journal's database."),
    "config": _entry("set up", "config", "config", "Check and show the configuration."),
    "paper": _entry("set up", "paper", "paper", "The sandbox broker as a server."),
    "conformance": _entry(
        "set up", "conformance", "conformance", "Check a server against the document."
    ),
    "docs": _entry("set up", "docs", "docs", "The pages of the documentation."),
    "version": _entry("set up", "version", "version", "The version."),
}


class Root(click.Group):
    """The root. Its commands are those of `COMMANDS`."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Name the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Import a command; None when there is no such."""
        entry = COMMANDS.get(name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        loaded = getattr(import_module(module), attribute)
        assert isinstance(loaded, click.Command), f"{entry.target} is no command"
        return share_options(loaded)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; of an unknown one, say which may have been meant."""
        try:
            return super().resolve_command(context, args)
        except click.NoSuchCommand as unknown:
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=context) from unknown

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        for section, listed in groupby(COMMANDS.items(), key=lambda item: item[1].section):
            with formatter.section(section):
                formatter.write_dl([(name.ljust(10), entry.summary) for name, entry in listed])

    def format_usage(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write an example above the usage."""
        formatter.write("Example: bot demo\n\n")
        super().format_usage(context, formatter)

    def format_epilog(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes, which are stable."""
        with formatter.section("Exit codes"):
            for line in messages.EXIT_CODES.splitlines():
                formatter.write(f"  {line}\n")


@click.group(
    cls=Root,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH_MAX},
)
@click.version_option(__version__, prog_name="vnbot", message="%(prog)s %(version)s")
@click.pass_context
def bot(context: click.Context) -> None:
    """Trade on Vietnam's exchanges, and explain every order.

    Alone: the state of the running bot, or what to begin with. The options below may also stand
    after a command.
    """
    if context.invoked_subcommand is None:
        from bot.cli.commands.status import show_status_or_examples

        show_status_or_examples(context.ensure_object(Invocation))


bot.params.extend(shared_options(hidden=False))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    forbid_dumps()
    gc.set_threshold(*COLLECT_AFTER)
    logging.getLogger().addHandler(LogLines(logging.WARNING))
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code. Nothing is raised but by `sys.exit`."""
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
            write_line(line, err=True)
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # nobody reads: nothing is left to flush
        return BROKEN_PIPE
    except OSError as error:
        told = told_by_system(error)
        return _show(told, invocation) if told else _report_bug(error, invocation)
    except Exception as error:
        return _report_bug(error, invocation)


def _show(mistake: OperatorMistake, invocation: Invocation) -> int:
    show_mistake(mistake)
    if invocation.is_debug:
        show_traceback()
    return int(mistake.exit_code)


def told_by_system(error: OSError) -> OperatorMistake | None:
    """What the system refused, where that is for an operator to put right; None for our bugs."""
    if error.errno not in NOT_OURS:
        return None
    text = f"{error.filename or 'a file'}: {(error.strerror or '').lower()}"
    return OperatorMistake.of("E-SYS-001", f"{text}. {messages.SYSTEM}", ExitCode.DATABASE)


def _report_bug(error: Exception, invocation: Invocation) -> int:
    """Say that it is our fault, and where the report is."""
    from bot.cli.bug_report import write_report

    write_line(messages.BUG.format(error=f"{type(error).__name__}: {error}"), err=True)
    path = None if invocation.is_debug else write_report(traceback.format_exc(), invocation)
    if path is None:
        show_traceback()
    else:
        write_line(messages.BUG_REPORT.format(path=path), err=True)
    return ExitCode.BUG


def walk(context: click.Context | None = None) -> Iterator[tuple[str, click.Command]]:
    """Yield every command of the tree with the words that call it."""
    for name in COMMANDS:
        yield from _walk_from(f"bot {name}", bot.get_command(context or click.Context(bot), name))


def _walk_from(words: str, found: click.Command | None) -> Iterator[tuple[str, click.Command]]:
    assert found is not None, f"{words} is listed"
    yield words, found
    if isinstance(found, click.Group):
        for name, each in sorted(found.commands.items()):
            yield from _walk_from(f"{words} {name}", each)
