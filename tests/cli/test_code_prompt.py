"""The question for a code at the terminal of a run: hidden, open until it is answered or left."""

import asyncio
import os
import termios
from collections.abc import Iterator

import pytest

from bot.cli.code_prompt import LEFT, QUESTION, CodePrompt

CODE = "424242"
PATIENCE = 5_000
"""Looks until the kernel has handed the line over."""


class Person:
    """Somebody at a terminal of their own, and what they and the bot said."""

    def __init__(self) -> None:
        self.keyboard, self.terminal = os.openpty()
        self.heard: list[str] = []
        self.submitted: list[str] = []
        self.prompt = CodePrompt(self.heard.append, self.terminal)

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.terminal)[3] & termios.ECHO)

    async def type(self, text: str) -> None:
        before = self._said()
        os.write(self.keyboard, text.encode() + b"\n")
        for _ in range(PATIENCE):
            if self._said() != before:
                return
            await asyncio.sleep(0.001)

    def _said(self) -> int:
        return len(self.submitted) + len(self.heard)


@pytest.fixture
def person() -> Iterator[Person]:
    somebody = Person()
    yield somebody
    os.close(somebody.keyboard)
    os.close(somebody.terminal)


async def test_what_is_typed_is_hidden_and_submitted(person: Person) -> None:
    person.prompt.start(person.submitted.append)
    assert not person.echoes()
    await person.type(CODE)

    assert person.submitted == [CODE]
    assert person.heard == [QUESTION]
    person.prompt.stop()
    assert person.echoes()


async def test_after_a_wrong_code_another_can_be_typed(person: Person) -> None:
    person.prompt.start(person.submitted.append)
    await person.type("135790")
    await person.type(CODE)
    person.prompt.stop()

    assert person.submitted == ["135790", CODE]


async def test_a_refused_code_brings_the_question_again_while_it_is_open(person: Person) -> None:
    person.prompt.start(person.submitted.append)
    await person.type("135790")
    person.prompt.ask_again()
    person.prompt.stop()
    person.prompt.ask_again()

    assert person.heard == [QUESTION, QUESTION]


async def test_enter_alone_leaves_the_question(person: Person) -> None:
    person.prompt.start(person.submitted.append)
    await person.type("")

    assert (person.submitted, person.heard) == ([], [QUESTION, LEFT])
    assert person.echoes()


async def test_a_question_that_is_open_is_not_asked_again(person: Person) -> None:
    person.prompt.start(person.submitted.append)
    person.prompt.start(person.submitted.append)
    person.prompt.stop()
    person.prompt.stop()

    assert person.heard == [QUESTION]


async def test_the_terminal_echoes_again_whatever_ended_the_run(person: Person) -> None:
    person.prompt.start(person.submitted.append)
    person.prompt.restore()

    assert person.echoes()
    person.prompt.stop()
