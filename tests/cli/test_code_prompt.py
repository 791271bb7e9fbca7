"""The question for a code at the terminal of a run: hidden, open until it is answered or left."""

import asyncio
import os
import select
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from bot.cli.code_prompt import ELSEWHERE, CodePrompt

CODE = "424242"
NOTHING_OUT = {"has_ticket": False, "codes_used": 1, "codes_per_day": 5}
CODE_OUT = {"has_ticket": True, "codes_used": 2, "codes_per_day": 5}
MAILED = "2FA code or token (hidden; 3 of the day's 5 codes left):"
ENTER_MAILS_ONE = (
    "2FA: press Enter to have a code mailed (4 of the day's 5 left), or paste a token (hidden):"
)
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
    person.prompt.start(person.submitted.append, CODE_OUT)
    assert not person.echoes()
    await person.type(CODE)

    assert person.submitted == [CODE]
    assert person.heard == [MAILED]
    person.prompt.stop()
    assert person.echoes()


async def test_before_a_code_is_mailed_none_is_asked_for_and_enter_alone_is_an_answer(
    person: Person,
) -> None:
    person.prompt.start(person.submitted.append, NOTHING_OUT)
    await person.type("")

    assert (person.submitted, person.heard) == ([""], [ENTER_MAILS_ONE])
    person.prompt.stop()


async def test_with_all_codes_of_the_day_used_only_a_token_is_asked_for(person: Person) -> None:
    person.prompt.start(person.submitted.append, {**NOTHING_OUT, "codes_used": 5})
    person.prompt.stop()

    assert person.heard == ["2FA: all 5 of the day's codes are used; paste a token (hidden):"]


async def test_what_was_typed_before_the_question_is_no_answer_to_it(person: Person) -> None:
    os.write(person.keyboard, b"135790\n1357")
    person.prompt.start(person.submitted.append, CODE_OUT)
    await person.type(CODE)
    os.write(person.keyboard, b"246802\n")
    person.prompt.ask("wrong code", CODE_OUT)
    await person.type("424243")
    person.prompt.stop()

    assert person.submitted == [CODE, "424243"]


async def test_what_is_typed_while_an_answer_is_looked_at_is_lost(person: Person) -> None:
    person.prompt.start(person.submitted.append, CODE_OUT)
    await person.type("135790")
    os.write(person.keyboard, b"135790\n")
    for _ in range(PATIENCE):
        if not select.select([person.terminal], [], [], 0)[0]:
            break
        await asyncio.sleep(0.001)
    person.prompt.ask("wrong code", CODE_OUT)
    person.prompt.stop()

    assert person.submitted == ["135790"]


async def test_what_came_of_an_answer_is_said_before_the_next_question(person: Person) -> None:
    person.prompt.start(person.submitted.append, NOTHING_OUT)
    person.prompt.ask("a code was mailed", CODE_OUT)
    person.prompt.stop()
    person.prompt.ask("too late", CODE_OUT)

    assert person.heard == [ENTER_MAILS_ONE, "a code was mailed", MAILED]


async def test_after_bad_answers_the_next_question_waits(person: Person) -> None:
    person.prompt.start(person.submitted.append, CODE_OUT)
    person.prompt.ask("wrong code", {**CODE_OUT, "wait_s": 0.01})
    assert person.heard == [MAILED, "wrong code", "2FA: asking again in 0.01 s"]

    await asyncio.sleep(0.05)
    person.prompt.ask("wrong code", {**CODE_OUT, "wait_s": 60})
    person.prompt.stop()

    assert person.heard[3:5] == [MAILED, "wrong code"]


async def test_a_question_that_is_open_is_not_asked_again(person: Person) -> None:
    person.prompt.start(person.submitted.append, NOTHING_OUT)
    person.prompt.start(person.submitted.append, NOTHING_OUT)
    person.prompt.stop()
    person.prompt.stop()

    assert person.heard == [ENTER_MAILS_ONE]


async def test_the_terminal_echoes_again_whatever_ended_the_run(person: Person) -> None:
    person.prompt.start(person.submitted.append, NOTHING_OUT)
    person.prompt.restore()

    assert person.echoes()
    person.prompt.stop()


async def test_the_end_of_the_input_has_no_code_mailed(person: Person) -> None:
    person.prompt.start(person.submitted.append, NOTHING_OUT)
    os.write(person.keyboard, b"\x04")
    await person.type("")

    assert (person.submitted, person.heard) == ([], [ENTER_MAILS_ONE, ELSEWHERE])
    assert person.echoes()


async def test_a_terminal_that_was_closed_has_no_code_mailed_and_is_no_bug() -> None:
    keyboard, terminal = os.openpty()
    heard: list[str] = []
    submitted: list[str] = []
    prompt = CodePrompt(heard.append, terminal)
    prompt.start(submitted.append, NOTHING_OUT)
    os.close(keyboard)
    for _ in range(PATIENCE):
        if len(heard) > 1:
            break
        await asyncio.sleep(0.001)
    prompt.restore()
    os.close(terminal)

    assert (submitted, heard) == ([], [ENTER_MAILS_ONE, ELSEWHERE])


IN_THE_BACKGROUND = f"""
import asyncio, fcntl, functools, os, termios
from bot.cli.code_prompt import CodePrompt

async def ask():
    prompt = CodePrompt(functools.partial(print, flush=True))
    prompt.start(print, {NOTHING_OUT})
    prompt.ask("", {NOTHING_OUT})
    prompt.restore()

fcntl.ioctl(0, termios.TIOCSCTTY)
child = os.fork()
if not child:
    os.setpgid(0, 0)
    asyncio.run(ask())
    os._exit(0)
_, status = os.waitpid(child, os.WUNTRACED)
assert status == 0, status
"""


@pytest.mark.process
def test_a_run_in_the_background_is_not_stopped_by_the_question(person: Person) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", IN_THE_BACKGROUND],
        stdin=person.terminal,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
        check=True,
    )

    assert ran.stdout == f"{ELSEWHERE}\n"
