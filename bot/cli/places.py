"""Where a command looks: the settings in effect, the journal to read, the bot to ask.

Without `-c` and `--state-dir` the configuration is looked for (`settings.find_config`). A command
that only reads may end at the demo, and says so. A command that changes something takes the demo
only where there is no other configuration and the demo runs: else it would act on one bot while
its operator means another.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bot.cli import messages
from bot.cli.fields import inner, text
from bot.cli.invocation import Invocation
from bot.cli.show import write_line
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import DEMO, Loaded, load_settings
from bot.config.settings.sources import COMMAND_LINE
from bot.config.shipped import shipped, shipped_dir
from bot.runtime.control.socket import NoBotRunning, ask

if TYPE_CHECKING:
    from bot.journal.reader import JournalReader

_SQLITE: Final = "sqlite:///"
_TEMPLATE: Final = "config/bot.yaml"
"""What a checkout holds for everybody: until somebody has run it, `bot demo` is what was run."""
READING: Final = frozenset({"status", "otp_state", "quote", "api", "phases"})
"""Requests to a running bot that change nothing; every other one is a change."""

Reply = Mapping[str, object]


def load(invocation: Invocation, **flags: object) -> Loaded:
    """Load the settings; `flags` are dotted keys with `__` for the dot. Raises OperatorMistake."""
    loaded = _load(invocation, invocation.config, flags)
    invocation.bot = loaded.bot
    return loaded


def load_demo(invocation: Invocation, **flags: object) -> Loaded:
    """Load the shipped demo's settings, whatever other configuration there is."""
    return _load(invocation, invocation.config or shipped(DEMO), flags)


def _load(invocation: Invocation, path: Path | None, flags: Mapping[str, object]) -> Loaded:
    overrides = {name.replace("__", "."): value for name, value in flags.items()}
    if invocation.state_dir is not None:
        overrides["state_dir"] = str(invocation.state_dir.absolute())
    try:
        return load_settings(path, overrides=overrides)
    except OperatorMistake as mistake:
        if all(problem.message.startswith(COMMAND_LINE) for problem in mistake.problems):
            raise OperatorMistake(mistake.problems, ExitCode.USAGE) from mistake
        raise


def which_bot(invocation: Invocation) -> str:
    """Name the bot that has answered: `mybot (live, account …001.1)`."""
    assert invocation.bot is not None, "a bot was asked"
    account = f", account {invocation.account}" if invocation.account else ""
    return f"{invocation.bot['name']} ({invocation.bot['mode']}{account})"


# ------------------------------------------------------------------------------------ the journal


def readable(invocation: Invocation) -> Loaded:
    """Load the settings whose journal is to be read: the configured one, or the demo's.

    The demo's where there is no configuration, or only a checkout's own that was never run. With
    `--state-dir` the demo's comes first: the configured journal need not lie there.
    """
    loaded = load(invocation)
    if invocation.config is None and not _is_demo(loaded):
        demo = load_demo(invocation)
        if invocation.state_dir is not None:
            loaded = next(filter(_has_journal, (demo, loaded)), loaded)
        elif _may_be_demo(loaded) and not invocation.does_change:
            loaded = next(filter(_has_journal, (loaded, demo)), loaded)
    invocation.bot = loaded.bot
    if _is_demo(loaded):
        journal = loaded.journal_url.removeprefix(_SQLITE)
        _say_demo(invocation, messages.DEMO_JOURNAL.format(journal=journal))
    return loaded


@contextmanager
def open_journal(invocation: Invocation) -> "Iterator[JournalReader]":
    """Open the journal for reading. Raises OperatorMistake for what the journal raises."""
    from bot.journal.reader import JournalReader
    from bot.runtime.journal_file import journal_errors

    loaded = readable(invocation)
    with (
        journal_errors(loaded.origin_of("journal.url")),
        JournalReader(loaded.journal_url) as reader,
    ):
        yield reader


def _is_demo(loaded: Loaded) -> bool:
    return loaded.path == shipped(DEMO)


def _may_be_demo(loaded: Loaded) -> bool:
    """Whether a person who names no bot may mean the demo: nobody wrote this configuration."""
    template = shipped_dir() / _TEMPLATE
    return _is_demo(loaded) or loaded.path.resolve() == template.resolve()


def _say_demo(invocation: Invocation, text: str) -> None:
    """Say once that this is the demo, where nobody has named it.

    Also to who wants no talk: what is shown may not be of the bot that was meant. A command that
    changes something says it with its result.
    """
    if invocation.config is None and not (invocation.does_change or invocation.is_demo_told):
        invocation.is_demo_told = True
        write_line(text, err=True)


def _has_journal(loaded: Loaded) -> bool:
    url = loaded.journal_url
    return not url.startswith(_SQLITE) or Path(url.removeprefix(_SQLITE)).is_file()


# -------------------------------------------------------------------------------- the running bot


def ask_bot(invocation: Invocation, do: str, **request: object) -> Reply:
    """Ask the running bot. Raises OperatorMistake when none runs, or when it answers no."""
    reply = find_bot(invocation, do, **request)
    if reply is None:
        raise no_bot(invocation)
    if not reply.get("ok"):
        raise refusal(invocation, reply)
    return reply


def find_bot(invocation: Invocation, do: str, **request: object) -> Reply | None:
    """Ask the running bot and return its reply, also when it is a no; None when no bot runs."""
    assert do in READING or invocation.does_change, f"who sends {do} is a command that changes"
    for state_dir in _state_dirs(invocation):
        reply = _reply_of(state_dir, {"do": do, **request})
        if reply is None:
            continue
        _know(invocation, reply)
        if invocation.bot == load_demo(invocation).bot:
            _say_demo(invocation, messages.DEMO_BOT)
        return reply
    return None


def _reply_of(state_dir: Path, request: Reply) -> Reply | None:
    """Ask the bot of a state directory; None where none runs. Raises OperatorMistake."""
    try:
        return ask(state_dir, request)
    except NoBotRunning:
        return None
    except TimeoutError as error:
        text = f"the bot on {state_dir} did not answer in time"
        raise OperatorMistake.of("E-CTL-003", text, ExitCode.TIMED_OUT) from error


def _know(invocation: Invocation, reply: Reply) -> None:
    """Believe the bot that has answered about itself, rather than a configuration about it."""
    told = inner(reply, "bot")
    if told:
        invocation.bot = {name: str(value) for name, value in told.items()}
        invocation.account = text(reply, "account")


def _state_dirs(invocation: Invocation) -> tuple[Path, ...]:
    """Where to look. The configuration is read once for a command, however often that looks."""
    if invocation.state_dirs is None:
        loaded = load(invocation)
        places = [loaded.state_dir]
        if _is_found(invocation):
            if invocation.does_change and _is_demo(loaded):
                _require_demo(loaded)
            elif not invocation.does_change and _may_be_demo(loaded):
                places.append(load_demo(invocation).state_dir)
        invocation.state_dirs = tuple(dict.fromkeys(places))
    return invocation.state_dirs


def _is_found(invocation: Invocation) -> bool:
    """Whether the configuration was looked for, and not named."""
    return invocation.config is None and invocation.state_dir is None


def _require_demo(demo: Loaded) -> None:
    """Raise OperatorMistake unless the demo runs: without a configuration no other is meant."""
    if not runs(demo.state_dir):
        text = messages.WHICH_BOT.format(command=_command())
        raise OperatorMistake.of("E-RUN-007", text, ExitCode.USAGE)


def runs(state_dir: Path) -> bool:
    """Whether a bot answers there. Raises OperatorMistake where one is there and does not."""
    return _reply_of(state_dir, {"do": "status"}) is not None


def _command() -> str:
    """The words of the command, for an operator to type again."""
    return click.get_current_context().command_path


def require_none_running(state_dir: Path) -> None:
    """Raise OperatorMistake when a bot answers there: it owns the files of this directory.

    The journal's lease is what makes sure; this says it before anything is touched.
    """
    if runs(state_dir):
        raise already_running(state_dir)


def already_running(state_dir: Path) -> OperatorMistake:
    """Say that a bot runs there."""
    text = f"a bot is already running on {state_dir}. Its state: bot status. End it: bot stop"
    return OperatorMistake.of("E-RUN-004", text, ExitCode.NOT_RUNNING)


def no_bot(invocation: Invocation) -> OperatorMistake:
    """Say that nothing runs where the configuration says; that the demo does, if it does."""
    state_dir = _state_dirs(invocation)[0]
    if _is_found(invocation) and invocation.does_change:
        demo = load_demo(invocation)
        if demo.state_dir != state_dir and runs(demo.state_dir):
            own = load(invocation).path
            text = messages.NOT_THE_DEMO.format(state_dir=state_dir, config=own, demo=demo.path)
            return OperatorMistake.of("E-RUN-007", text, ExitCode.USAGE)
    return OperatorMistake.of(
        "E-RUN-001", messages.NO_BOT.format(state_dir=state_dir), ExitCode.NOT_RUNNING
    )


def refusal(invocation: Invocation, reply: Reply) -> OperatorMistake:
    """Say what the bot answered; of a change also which bot it is that has not made it."""
    code, message = str(reply.get("code", "E-CTL-001")), str(reply.get("message", "refused"))
    which = f"{which_bot(invocation)}: " if invocation.does_change else ""
    exit_code = _EXIT_CODES.get(code[:5], ExitCode.REFUSED)
    return OperatorMistake.of(code, f"{which}{message}", exit_code)


_EXIT_CODES: Final = {
    "E-2FA": ExitCode.NEEDS_2FA,
    "E-NET": ExitCode.UNREACHABLE,
    "E-SYM": ExitCode.USAGE,
}
