"""Asks for a 2FA code or token at the terminal of a run, without echo and without stopping the run.

The broker mails a code only on request. Input typed before the question is not an answer to it, nor
is the end of input (Ctrl-D, a closed window). A run in the background does not touch the terminal,
or the kernel would stop it. `bot otp` in another terminal always works.
"""

import asyncio
import errno
import os
import termios
from collections.abc import Callable, Mapping
from typing import Final

TO_BE_MAILED: Final = (
    "2FA: press Enter to have a code mailed ({left} of the day's {limit} left), or paste a token "
    "(hidden):"
)
NO_MORE: Final = "2FA: all {limit} of the day's codes are used; paste a token (hidden):"
MAILED: Final = "2FA code or token (hidden; {left} of the day's {limit} codes left):"
WAITING: Final = "2FA: asking again in {seconds} s"
ELSEWHERE: Final = "2FA: not asked for here. In another terminal: bot otp"
STDIN: Final = 0
_LINE_MAX: Final = 8_192
_LOCAL_MODES: Final = 3
"""Index of the local modes, including ECHO, in the result of `termios`."""

Modes = list[int | list[bytes | int]]
Submit = Callable[[str], None]
State = Mapping[str, object]
"""The state of 2FA, as the running bot reports it."""


class CodePrompt:
    """The prompt, open from `start` until `stop`.

    `talk` writes a line to the user; `terminal` is the descriptor that is read.
    """

    def __init__(self, talk: Callable[[str], None], terminal: int = STDIN) -> None:
        self._talk = talk
        self._terminal = terminal
        self._submit: Submit | None = None
        self._is_asking = False
        self._saved: Modes | None = None
        self._waiting: asyncio.TimerHandle | None = None

    def start(self, submit: Submit, state: State) -> None:
        """Ask. What is typed goes to `submit`; `ask` then asks again, until `stop`."""
        if self._submit is not None:
            return
        if not _is_ours(self._terminal):
            self._talk(ELSEWHERE)
            return
        self._submit = submit
        self._saved = hide_echo(self._terminal)
        asyncio.get_running_loop().add_reader(self._terminal, self._read)
        self.ask("", state)

    def ask(self, result: str, state: State) -> None:
        """Show the result of the last answer and ask again while the prompt is open; after two bad
        answers in a row only after the wait given in `state`.
        """
        if self._submit is None:
            return
        if result:
            self._talk(result)
        wait_s = state.get("wait_s")
        if isinstance(wait_s, int | float) and wait_s > 0:
            self._talk(WAITING.format(seconds=wait_s))
            again = {**state, "wait_s": 0}
            self._waiting = asyncio.get_running_loop().call_later(wait_s, self.ask, "", again)
            return
        if not _is_ours(self._terminal):
            self._leave()
            return
        termios.tcflush(self._terminal, termios.TCIFLUSH)
        self._is_asking = True
        limit = int(str(state["codes_per_day"]))
        left = max(0, limit - int(str(state["codes_used"])))
        question = MAILED if state["has_ticket"] else TO_BE_MAILED if left else NO_MORE
        self._talk(question.format(left=left, limit=limit))

    def stop(self) -> None:
        """Stop asking, and restore the terminal's echo."""
        if self._submit is None:
            return
        self._submit = None
        if self._waiting is not None:
            self._waiting.cancel()
        asyncio.get_running_loop().remove_reader(self._terminal)
        self.restore()

    def restore(self) -> None:
        if self._saved is not None and _is_ours(self._terminal):
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._saved)
        self._saved = None

    def _leave(self) -> None:
        """Stop asking here, although a token is still needed."""
        self.stop()
        self._talk(ELSEWHERE)

    def _read(self) -> None:
        """Read a line: the terminal delivers whole ones. Without an open prompt it is dropped."""
        given = os.read(self._terminal, _LINE_MAX) if _is_ours(self._terminal) else b""
        if not given:
            self._leave()
        elif self._submit is not None and self._is_asking:
            self._is_asking = False
            self._submit(given.decode("utf-8", "replace").strip())


def hide_echo(terminal: int) -> Modes:
    """Stop the terminal from echoing; return its previous modes, for `termios.tcsetattr`."""
    before, hidden = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
    hidden[_LOCAL_MODES] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSADRAIN, hidden)
    return before


def _is_ours(terminal: int) -> bool:
    """Return whether there is a terminal, and no other program is in its foreground."""
    try:
        termios.tcgetattr(terminal)
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except termios.error:
        return False
    except OSError as error:
        return error.errno == errno.ENOTTY  # not our controlling terminal, so it cannot stop us
