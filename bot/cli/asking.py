"""One request to the bot of a state directory, and what becomes of it where no answer comes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bot.cli import messages
from bot.cli.show import write_line
from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.control.socket import (
    ASK_TIMEOUT_S,
    AT_THE_BROKER,
    SAFER,
    SILENT_S,
    NoBotRunning,
    ask,
    stuck_words,
)

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
        is_asking = request["do"] in AT_THE_BROKER and _answers(state_dir)
        does = "waits for the broker" if is_asking else f"does not answer: {state}"
        who = f"the bot on {state_dir} (process {process})"
        waits = f"waiting up to {patience_s:g} s for '{request['do']}', Ctrl-C to give up"
        write_line(f"{who} {does}; {waits}: {later}", err=True)

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
    if do in AT_THE_BROKER:
        return f"'{do}' may be done all the same; see what came of it: bot otp"
    if do not in SAFER:
        return f"'{do}' will not be done later either"
    sold = ", but sells nothing" if request.get("flatten") else ""
    return f"the bot will still do the '{do}' once it responds again{sold}"


def _answers(state_dir: Path) -> bool:
    """Return whether the bot answers another request meanwhile."""
    try:
        ask(state_dir, {"do": "status"}, timeout_s=SILENT_S)
    except (NoBotRunning, OSError, OperatorMistake):
        return False
    return True


def _state_of(process: int) -> str:
    """Return the letter of a process's state; empty if it cannot be seen."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
