"""One request to the bot of a state directory, and what becomes of it where no answer comes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bot.cli import messages
from bot.cli.show import write_line
from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.control.socket import ASK_TIMEOUT_S, SAFER, NoBotRunning, ask, stuck_words

READING: Final = frozenset(
    {"status", "otp_state", "quote", "api", "phases", "reconcile", "balance", "jobs"}
)
"""Requests to a running bot that change nothing; all others are changes."""


def reply_of(
    state_dir: Path,
    request: Mapping[str, object],
    patience_s: float = ASK_TIMEOUT_S,
    accepted: str = "",
) -> dict[str, object] | None:
    """Ask the bot of a state directory; None if none runs. Raises OperatorMistake.

    If it is slow, the user is told what the command waits for, and what happens when it gives up.
    `accepted` is the change that the bot has accepted before, for the same command.
    """
    later = when_given_up(request, accepted)

    def tell(process: int) -> None:
        state = messages.PROCESS_STATES.get(_state_of(process), messages.SILENT)
        state = stuck_words(state_dir) or state.format(process=process)
        who = f"the bot on {state_dir} (process {process}) does not answer"
        waits = f"waiting up to {patience_s:g} s for '{request['do']}', Ctrl-C to give up"
        write_line(f"{who}: {state}; {waits}: {later}", err=True)

    try:
        return ask(state_dir, request, timeout_s=patience_s, on_silence=tell)
    except NoBotRunning:
        return None
    except TimeoutError as error:
        message = f"the bot on {state_dir} did not answer in time; {later}"
        raise OperatorMistake.of("E-CTL-003", message, ExitCode.TIMED_OUT) from error
    except KeyboardInterrupt:
        write_line(f"'{request['do']}' was given up; {later}", err=True)
        raise


def when_given_up(request: Mapping[str, object], accepted: str = "") -> str:
    """Say what happens to a request that nobody waits for any more."""
    do = str(request["do"])
    if do in READING and accepted:
        return f"'{accepted}' was accepted, but its result is not known: bot status"
    if do in READING:
        return "nothing was changed"
    if do not in SAFER:
        return f"'{do}' will not be done later either"
    sold = ", but sells nothing" if request.get("flatten") else ""
    return f"the bot will still do the '{do}' once it responds again{sold}"


def _state_of(process: int) -> str:
    """Return the letter of a process's state; empty if it cannot be seen."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
