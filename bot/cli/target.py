"""Determines which bot a command is about: its settings, its journal, and its answers while it
runs.

Without `-c` and `--state-dir` the configuration is searched for (`settings.find_config`). A command
that only reads may use the demo, and says so. A command that changes something uses the demo only
if no other configuration exists and the demo is running: else it might act on another bot than its
operator means.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bot.cli import messages
from bot.cli.asking import READING, reply_of
from bot.cli.command import CONFIGURATION, STATE_FOLDER, Invocation
from bot.cli.show import write_line
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.places import (
    STATE_VARIABLE,
    demo_at_sight,
    find_config,
    last_bot,
    last_run,
    real_path,
    state_dir_at_sight,
)
from bot.config.shipped import DEMO, shipped, shipped_dir
from bot.domain.entry import RunState
from bot.runtime.control.socket import announced, is_there

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.journal.reading.reader import JournalReader


class Fields(dict[str, object]):
    """A running bot's answer: JSON of a known shape. Missing fields are empty."""

    def inner(self, name: str) -> "Fields":
        found = self.get(name)
        return Fields(found) if isinstance(found, Mapping) else Fields()

    def each(self, name: str) -> list["Fields"]:
        found = self.get(name)
        rows = found if isinstance(found, list) else []
        return [Fields(row) for row in rows if isinstance(row, Mapping)]

    def words(self, name: str) -> list[str]:
        found = self.get(name)
        return [str(word) for word in found] if isinstance(found, list) else []

    def text(self, name: str) -> str:
        found = self.get(name)
        return "" if found is None else str(found)

    def maybe_whole(self, name: str) -> int | None:
        found = self.get(name)
        return found if isinstance(found, int) else None

    def whole(self, name: str) -> int:
        return self.maybe_whole(name) or 0

    def number(self, name: str) -> float:
        found = self.get(name)
        return found if isinstance(found, int | float) else 0.0

    def instant(self, name: str) -> datetime | None:
        found = self.get(name)
        return datetime.fromisoformat(found) if isinstance(found, str) else None


STOPPED: Final = Fields(state=RunState.STOPPED)
SQLITE: Final = "sqlite:///"
_TEMPLATE: Final = "config/bot.yaml"
"""The configuration in every checkout: until somebody has run it, assume that `bot
demo` was run.
"""
_EXIT_CODES: Final = {
    "E-2FA": ExitCode.NEEDS_2FA,
    "E-NET": ExitCode.UNREACHABLE,
    "E-SYM": ExitCode.USAGE,
}


def load(invocation: Invocation, **flags: object) -> "Loaded":
    """Load the settings; `flags` are dotted keys with `__` for the dot. Raises OperatorMistake."""
    loaded = _load(invocation, invocation.config, flags)
    invocation.bot = loaded.bot
    return loaded


def load_without_secrets(invocation: Invocation) -> "Loaded":
    """Load the settings for a command that changes secrets, which may be wrong or missing.

    It does not use the demo: a key belongs to one's own configuration. Raises OperatorMistake.
    """
    from bot.config.settings.load import load_without_secrets as load_settings

    if invocation.config is None and find_config(os.environ) == shipped(DEMO):
        text = "which bot's secrets? There is no bot.yaml here: name one with -c FILE"
        raise OperatorMistake.of("E-RUN-007", text, ExitCode.USAGE)
    config = invocation.config or find_config(os.environ)
    invocation.looked_in[config.absolute()] = CONFIGURATION
    loaded = load_settings(config)
    invocation.looked_in[loaded.state_dir] = STATE_FOLDER
    invocation.bot = loaded.bot
    return loaded


def load_demo(invocation: Invocation, **flags: object) -> "Loaded":
    """Load the shipped demo's settings, whatever other configuration there is."""
    return _load(invocation, invocation.config or shipped(DEMO), flags)


def _load(invocation: Invocation, path: Path | None, flags: Mapping[str, object]) -> "Loaded":
    # Slow to import, and not needed to talk to a running bot or for help pages.
    from bot.config.settings.load import load_settings
    from bot.config.settings.sources import COMMAND_LINE

    path = path or find_config(os.environ)
    invocation.looked_in[path.absolute()] = CONFIGURATION
    overrides = {name.replace("__", "."): value for name, value in flags.items()}
    if invocation.state_dir is not None:
        overrides["state_dir"] = str(invocation.state_dir.absolute())
    if invocation.lang:
        overrides["language"] = invocation.lang
    try:
        loaded = load_settings(path, overrides=overrides)
    except OperatorMistake as mistake:
        if all(problem.message.startswith(COMMAND_LINE) for problem in mistake.problems):
            raise OperatorMistake(mistake.problems, ExitCode.USAGE) from mistake
        raise
    invocation.looked_in[loaded.state_dir] = STATE_FOLDER
    invocation.lang = invocation.lang or loaded.settings.language
    return loaded


def which_bot(invocation: Invocation) -> str:
    """Name the bot that has answered: `mybot (live, account …001.1)`."""
    assert invocation.bot is not None, "a bot was asked"
    account = f", account {invocation.account}" if invocation.account else ""
    return f"{invocation.bot['name']} ({invocation.bot['mode']}{account})"


def _is_demo(config: Path) -> bool:
    return config == shipped(DEMO)


def _may_be_demo(config: Path) -> bool:
    """Return whether the demo may be meant if no bot was named: nobody wrote this configuration."""
    template = shipped_dir() / _TEMPLATE
    return _is_demo(config) or config.resolve() == template.resolve()


def name_demo(invocation: Invocation, loaded: "Loaded", text: str) -> None:
    """Say once that this is the demo, if it is and nobody has named it."""
    if _is_demo(loaded.path):
        _name_demo(invocation, text)


def _name_demo(invocation: Invocation, text: str) -> None:
    """Say once that this is the demo, if nobody has named it.

    Even with `-q`, as the output may not be about the intended bot. A command that changes
    something says it with its result.
    """
    if invocation.config is None and not (invocation.does_change or invocation.has_named_demo):
        invocation.has_named_demo = True
        write_line(text, err=True)


def readable(invocation: Invocation, *, is_source: bool = False) -> "Loaded":
    """Load the settings whose journal is to be read: the configured ones, or the demo's.

    All readers use this rule, even if they change something elsewhere (`is_source`).

    The demo's are used if nothing is configured, or only a checkout's own that was never run. With
    `--state-dir` the demo's come first: the configured journal need not be there. Where it is, the
    demo's need to have run there.
    """

    def has_journal(loaded: "Loaded") -> bool:
        url = loaded.journal_url
        return not url.startswith(SQLITE) or Path(url.removeprefix(SQLITE)).is_file()

    loaded = load(invocation)
    if invocation.config is None and not _is_demo(loaded.path):
        demo = load_demo(invocation)
        if invocation.state_dir is not None:
            both = (demo, loaded)
            is_one = demo.journal_url == loaded.journal_url
            if is_one and last_run(demo.state_dir, demo.path, os.environ) is None:
                both = (loaded, demo)
            loaded = next(filter(has_journal, both), loaded)
        elif _may_be_demo(loaded.path) and (is_source or not invocation.does_change):
            loaded = next(filter(has_journal, (loaded, demo)), loaded)
    invocation.bot = loaded.bot
    journal = loaded.journal_url.removeprefix(SQLITE)
    name_demo(invocation, loaded, messages.DEMO_JOURNAL.format(journal=journal))
    return loaded


@contextmanager
def readable_journal(invocation: Invocation) -> "Iterator[Loaded]":
    """Yield `readable` settings. Raises OperatorMistake for their journal's errors."""
    from bot.runtime.journal_file import journal_errors, to_make_or_restore

    loaded = readable(invocation)
    to_make = partial(to_make_or_restore, loaded)
    with journal_errors(loaded.origin_of("journal.url"), to_make=to_make):
        yield loaded


@contextmanager
def open_journal(invocation: Invocation) -> "Iterator[JournalReader]":
    """Open the journal for reading. Raises OperatorMistake for its errors."""
    from bot.journal.reading.reader import JournalReader

    with readable_journal(invocation) as loaded, JournalReader(loaded.journal_url) as reader:
        yield reader


def ask_bot(invocation: Invocation, do: str, **request: object) -> Fields:
    """Ask the running bot. Raises OperatorMistake if none runs, or if it refuses."""
    reply = find_bot(invocation, do, **request)
    if reply is None:
        raise no_bot(invocation)
    if not reply.get("ok"):
        raise refusal(invocation, reply)
    return reply


def find_bot(invocation: Invocation, do: str, **request: object) -> Fields | None:
    """Ask the running bot and return its reply, even a refusal; None if no bot runs."""
    assert do in READING or invocation.does_change, f"only a command that changes sends {do}"
    for state_dir in _state_dirs(invocation):
        said = {"do": do, **request}
        found = reply_of(state_dir, said, invocation.patience_s, invocation.accepted)
        if found is None:
            continue
        reply = Fields(found)
        if do not in READING and reply.get("ok"):
            invocation.accepted = do
        if named := reply.inner("bot"):  # as the bot itself reports, not as a configuration says
            invocation.bot = {name: str(value) for name, value in named.items()}
            invocation.account = reply.text("account")
        elif invocation.bot is None:
            load(invocation)
        if (invocation.bot or {}).get("config") == str(shipped(DEMO).absolute()):
            _name_demo(invocation, messages.DEMO_BOT)
        return reply
    if invocation.bot is None:  # nobody is there to tell; the configuration may be broken
        _name_stopped(invocation)
    return None


def _name_stopped(invocation: Invocation) -> None:
    """Find out which bot is not running: as of its last run, if nothing has changed since."""
    config = invocation.config or find_config(os.environ)
    known = last_run(_state_dirs(invocation)[0], config, os.environ)
    if found := known or demo_at_sight(config, os.environ):
        invocation.bot, language = found
        invocation.lang = invocation.lang or language
    else:
        load(invocation)


def find_status(invocation: Invocation) -> Fields:
    reply = find_bot(invocation, "status")
    return Fields(STOPPED) if reply is None else reply.inner("status")


def running_status(invocation: Invocation) -> Fields:
    """Return the status of the running bot. Raises OperatorMistake if none runs."""
    found = find_status(invocation)
    if found.text("state") == RunState.STOPPED:
        raise no_bot(invocation)
    return found


def own_state_dir(invocation: Invocation) -> Path:
    """Return the state directory of the bot that is meant, running or not."""
    return _state_dirs(invocation)[0]


def _state_dirs(invocation: Invocation) -> tuple[Path, ...]:
    """Return where to look; determined once per command."""
    if invocation.state_dirs is None:
        config = invocation.config or find_config(os.environ)
        found = [_state_dir(invocation, config)]
        if _is_searched(invocation):
            if invocation.does_change and _is_demo(config):
                if not is_there(found[0]):
                    command = click.get_current_context().command_path
                    message = messages.WHICH_BOT.format(command=command)
                    raise OperatorMistake.of("E-RUN-007", message, ExitCode.USAGE)
            elif not invocation.does_change and _may_be_demo(config):
                found.append(_state_dir(invocation, shipped(DEMO)))
        invocation.state_dirs = tuple(dict.fromkeys(found))
    return invocation.state_dirs


def _state_dir(invocation: Invocation, config: Path) -> Path:
    if invocation.state_dir is not None:
        found = invocation.state_dir.absolute().resolve()
    else:
        invocation.looked_in[config.absolute()] = CONFIGURATION
        found = state_dir_at_sight(config, os.environ) or _load(invocation, config, {}).state_dir
    invocation.looked_in[found] = STATE_FOLDER
    return found


def _is_searched(invocation: Invocation) -> bool:
    """Whether the configuration is searched for rather than named."""
    return invocation.config is None and invocation.state_dir is None


def runs(state_dir: Path) -> bool:
    """Return whether a bot answers there. Raises OperatorMistake if one runs and does
    not answer.
    """
    return reply_of(state_dir, {"do": "status"}) is not None


def require_none_running(state_dir: Path) -> None:
    """Raise OperatorMistake if a bot answers there: it owns the files of this directory.

    The journal's lease guarantees it; this check reports it before anything is touched.
    """
    if runs(state_dir):
        raise already_running(state_dir)


def already_running(state_dir: Path) -> OperatorMistake:
    message = (
        f"a bot is already running on {state_dir}. Its state: bot status. To stop it: bot stop"
    )
    return OperatorMistake.of("E-RUN-004", message, ExitCode.NOT_RUNNING)


def no_bot(invocation: Invocation) -> OperatorMistake:
    """Return the mistake that the configured bot is not running; it names the demo if that is.

    It names a bot of this configuration that runs on another folder, whose state_dir was changed
    since. It names a HALT file that waits for the next start: a bot that trades nothing all day is
    worse than a start that says so.
    """
    state_dir = _state_dirs(invocation)[0]
    for other in running_elsewhere(invocation.config or find_config(os.environ), state_dir):
        message = messages.NOT_HERE.format(state_dir=state_dir, other=other)
        return OperatorMistake.of("E-RUN-001", message, ExitCode.NOT_RUNNING)
    if _is_searched(invocation) and invocation.does_change:
        demo = load_demo(invocation)
        if demo.state_dir != state_dir and is_there(demo.state_dir):
            own = load(invocation).path
            message = messages.NOT_THE_DEMO.format(state_dir=state_dir, config=own, demo=demo.path)
            return OperatorMistake.of("E-RUN-007", message, ExitCode.USAGE)
    from bot.runtime.brake import is_raised  # slow to import, and only reported if nothing runs

    text = messages.NO_BOT_HALTED if is_raised(state_dir) else messages.NO_BOT
    message = text.format(state_dir=state_dir)
    return OperatorMistake.of("E-RUN-001", message, ExitCode.NOT_RUNNING)


def running_elsewhere(config: Path, state_dir: Path) -> Iterator[Path]:
    """Yield the other folders on which a bot of a configuration runs; none for the demo's, which
    anybody may run several times.
    """
    for other in () if _is_demo(config) else announced():
        theirs = last_bot(other).get("config")
        if other == state_dir or theirs is None or real_path(Path(theirs)) != real_path(config):
            continue
        with suppress(OperatorMistake):  # somebody else's
            if is_there(other):
                yield other


def own_elsewhere(invocation: Invocation) -> tuple[Path, ...]:
    """Return the other folders on which a bot of this configuration runs, unless a person has named
    the folder, perhaps in the environment.
    """
    if invocation.state_dir or any(name.upper() == STATE_VARIABLE for name in os.environ):
        return ()
    config = invocation.config or find_config(os.environ)
    return tuple(running_elsewhere(config, own_state_dir(invocation)))


def refusal(invocation: Invocation, reply: Fields) -> OperatorMistake:
    """The bot's own refusal; for a change it also names the bot that has not made it."""
    code, message = str(reply.get("code", "E-CTL-001")), str(reply.get("message", "refused"))
    which = f"{which_bot(invocation)}: " if invocation.does_change else ""
    exit_code = _EXIT_CODES.get(code[:5], ExitCode.REFUSED)
    return OperatorMistake.of(code, f"{which}{message}", exit_code)
