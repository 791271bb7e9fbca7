"""What counts as getting on: something finished, or nothing to do and a journal that answers."""

import asyncio

from bot.journal.errors import Unreachable
from bot.runtime.health import progress
from bot.runtime.health.progress import Progress, Work


class Bot:
    """A bot whose work is what a test says."""

    def __init__(self) -> None:
        self.finished = 0
        self.waiting = 0
        self.asked = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.refusal: Exception | None = None

    def progress(self) -> Progress:
        return Progress(Work(lambda: self.finished, lambda: self.waiting, self._probe))

    async def _probe(self) -> None:
        self.asked += 1
        await self.answers.wait()
        if self.refusal is not None:
            raise self.refusal


async def test_a_loop_that_spins_with_work_before_it_does_not_get_on() -> None:
    bot = Bot()
    looks = bot.progress()
    await looks.look()
    bot.waiting = 1_200

    assert not await looks.look()

    assert looks.objection == "1,200 events wait and nothing is finished"
    assert bot.asked == 0


async def test_an_event_finished_is_progress_whatever_waits() -> None:
    bot = Bot()
    looks = bot.progress()
    bot.waiting = 5
    seen = []
    for finished in (1, 2, 2, 3):
        bot.finished = finished
        seen.append(await looks.look())

    assert seen == [True, True, False, True]
    assert looks.objection == ""


async def test_a_bot_without_work_gets_on_while_its_journal_answers() -> None:
    bot = Bot()
    looks = bot.progress()

    assert [await looks.look() for _ in range(3)] == [True, True, True]
    assert bot.asked == 2, "the first look needs no answer"


async def test_a_journal_that_refuses_answers() -> None:
    bot = Bot()
    bot.refusal = Unreachable("refused", database="vnbot", host="db", port=5432)
    looks = bot.progress()

    assert [await looks.look() for _ in range(2)] == [True, True]


async def test_a_journal_that_hangs_is_asked_once_until_it_answers() -> None:
    bot = Bot()
    looks = bot.progress()
    await looks.look()
    bot.answers.clear()
    looks.probe_s = 0.001

    seen = [await looks.look() for _ in range(3)]
    asked, objection = bot.asked, looks.objection
    bot.answers.set()
    seen.append(await looks.look())

    assert seen == [False, False, False, True]
    assert (asked, objection) == (1, "the journal does not answer")


def test_a_probe_is_over_long_before_a_watchdog_bites() -> None:
    assert progress.PROBE_S < 30 / 4
