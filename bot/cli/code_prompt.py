"""Asks for a 2FA code or token at the terminal of a run, without echo and without stopping the run.

Enter alone leaves the question; `bot otp` in another terminal works all the while.
"""

import asyncio
import os
import termios
from collections.abc import Callable
from typing import Final

QUESTION: Final = "2FA code or token (hidden, Enter alone leaves it for: bot otp):"
LEFT: Final = "left it; go on with: bot otp"
STDIN: Final = 0
_LINE_MAX: Final = 8_192
_LOCAL_MODES: Final = 3
"""Where `termios` keeps the local modes, ECHO among them."""

Submit = Callable[[str], None]


class CodePrompt:
    """The question, open from `start` until `stop`.

    `talk` writes a line to the person; `terminal` is the descriptor that is read; `hint` is said
    with the question.
    """

    def __init__(
        self, talk: Callable[[str], None], terminal: int = STDIN, *, hint: str = ""
    ) -> None:
        self._talk = talk
        self._question = [hint, QUESTION] if hint else [QUESTION]
        self._terminal = terminal
        self._submit: Submit | None = None
        self._saved: list[int | list[bytes | int]] | None = None

    def start(self, submit: Submit) -> None:
        """Ask. What is typed goes to `submit`; the question stays open until `stop`."""
        if self._submit is not None:
            return
        self._submit = submit
        self._hide()
        asyncio.get_running_loop().add_reader(self._terminal, self._read)
        for line in self._question:
            self._talk(line)

    def ask_again(self) -> None:
        """Say the question once more, where it is still open: what was typed did not do."""
        if self._submit is not None:
            self._talk(QUESTION)

    def stop(self) -> None:
        """Ask no more; the terminal echoes again."""
        if self._submit is None:
            return
        self._submit = None
        asyncio.get_running_loop().remove_reader(self._terminal)
        self.restore()

    def restore(self) -> None:
        """Have the terminal echo again."""
        if self._saved is not None:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._saved)
            self._saved = None

    def _hide(self) -> None:
        self._saved = termios.tcgetattr(self._terminal)
        hidden = termios.tcgetattr(self._terminal)
        hidden[_LOCAL_MODES] &= ~termios.ECHO
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, hidden)

    def _read(self) -> None:
        """A line is there: the terminal gives whole lines."""
        typed = os.read(self._terminal, _LINE_MAX).decode("utf-8", "replace").strip()
        submit = self._submit
        if submit is None:
            return
        if typed:
            submit(typed)
        else:
            self.stop()
            self._talk(LEFT)
