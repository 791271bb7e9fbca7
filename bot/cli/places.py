"""Where a command looks: the settings in effect, the journal to read, the bot to ask.

A command without `-c` and `--state-dir` may mean the demo: where the configured journal is not
there but the demo's is, the demo's is used and that is said.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.cli import messages
from bot.cli.invocation import Invocation
from bot.cli.show import say
from bot.runtime.control import NoBotRunning, ask
from bot.runtime.problems import ExitCode, OperatorMistake
from bot.runtime.settings import DEMO, Loaded, load_settings
from bot.runtime.shipped import shipped

if TYPE_CHECKING:
    from bot.journal.reader import JournalReader

_SQLITE: Final = "sqlite:///"
HERE: Final = Path("bot.yaml")

Reply = Mapping[str, object]


def load(invocation: Invocation, **flags: object) -> Loaded:
    """Load the settings; `flags` are dotted keys with `__` for the dot. Raises OperatorMistake."""
    overrides = {name.replace("__", "."): value for name, value in flags.items()}
    if invocation.state_dir is not None:
        overrides["state_dir"] = str(invocation.state_dir.absolute())
    loaded = load_settings(invocation.config, overrides=overrides)
    if invocation.config is None and loaded.path != HERE.absolute() and HERE.is_file():
        _hint_here(invocation, loaded)
    return loaded


def _hint_here(invocation: Invocation, loaded: Loaded) -> None:
    """Say once that the configuration in this folder is not the one in use."""
    if not invocation.is_hinted:
        invocation.is_hinted = True
        say(invocation, messages.NOT_HERE.format(path=loaded.path))


def load_demo(invocation: Invocation, **flags: object) -> Loaded:
    """Load the shipped demo's settings, whatever other configuration there is."""
    path = invocation.config or shipped(DEMO)
    at_demo = Invocation(config=path, state_dir=invocation.state_dir)
    return load(at_demo, **flags)


# ------------------------------------------------------------------------------------ the journal


def readable(invocation: Invocation) -> Loaded:
    """Load the settings whose journal is to be read: the configured, else the demo's.

    With `--state-dir` the demo's comes first: the configured journal need not lie there.
    """
    loaded = load(invocation)
    if invocation.config is not None or loaded.path == shipped(DEMO):
        return loaded
    demo = load_demo(invocation)
    both = [loaded, demo] if invocation.state_dir is None else [demo, loaded]
    found = next(filter(_has_journal, both), loaded)
    if found is demo:
        shown = demo.journal_url.removeprefix(_SQLITE)
        say(invocation, messages.DEMO_JOURNAL.format(journal=shown))
    return found


@contextmanager
def open_journal(invocation: Invocation) -> "Iterator[JournalReader]":
    """Open the journal for reading. Raises OperatorMistake for what the journal raises."""
    from bot.journal.reader import JournalReader
    from bot.runtime.journal_file import told

    loaded = readable(invocation)
    with told(loaded.origin_of("journal.url")), JournalReader(loaded.journal_url) as reader:
        yield reader


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
        raise refusal(reply)
    return reply


def find_bot(invocation: Invocation, do: str, **request: object) -> Reply | None:
    """Ask the running bot and return its reply, also when it is a no; None when no bot runs."""
    for state_dir in _state_dirs(invocation):
        try:
            return ask(state_dir, {"do": do, **request})
        except NoBotRunning:
            continue
        except TimeoutError as error:
            text = f"the bot on {state_dir} did not answer in time"
            raise OperatorMistake.of("E-CTL-003", text, ExitCode.TIMED_OUT) from error
    return None


def _state_dirs(invocation: Invocation) -> tuple[Path, ...]:
    """Where to look. The configuration is read once for a command, however often that looks."""
    if invocation.state_dirs is None:
        loaded = load(invocation)
        places = [loaded.state_dir]
        is_open = invocation.config is None and invocation.state_dir is None
        if is_open and loaded.path != shipped(DEMO):
            places.append(load_demo(invocation).state_dir)
        invocation.state_dirs = tuple(dict.fromkeys(places))
    return invocation.state_dirs


def require_none_running(state_dir: Path) -> None:
    """Raise OperatorMistake when a bot answers there: it owns the files of this directory.

    The journal's lease is what makes sure; this says it before anything is touched.
    """
    try:
        ask(state_dir, {"do": "status"})
    except NoBotRunning:
        return
    raise already_running(state_dir)


def already_running(state_dir: Path) -> OperatorMistake:
    """Say that a bot runs there."""
    text = f"a bot is already running on {state_dir}. Its state: bot status. End it: bot stop"
    return OperatorMistake.of("E-RUN-004", text, ExitCode.NOT_RUNNING)


def no_bot(invocation: Invocation) -> OperatorMistake:
    """Say that nothing runs where the configuration says."""
    text = messages.NO_BOT.format(state_dir=_state_dirs(invocation)[0])
    return OperatorMistake.of("E-RUN-001", text, ExitCode.NOT_RUNNING)


def refusal(reply: Reply) -> OperatorMistake:
    """Say what the bot answered."""
    code, text = str(reply.get("code", "E-CTL-001")), str(reply.get("message", "refused"))
    return OperatorMistake.of(code, text, _EXIT_CODES.get(code[:5], ExitCode.REFUSED))


_EXIT_CODES: Final = {
    "E-2FA": ExitCode.NEEDS_2FA,
    "E-NET": ExitCode.UNREACHABLE,
    "E-SYM": ExitCode.USAGE,
}
