"""A standby that can't see its database tells the channels so, once, and once when it is over."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from bot.config.settings.load import load_settings
from bot.journal.errors import Holder, Unreachable
from bot.journal.writing.lease import LEASE_LIFE_S, Seen
from bot.runtime.notices.standby import BlindNotices
from bot.runtime.notices.wording import Wording
from bot.runtime.start import standby as waiting
from bot.runtime.start.standby import Standby
from tests.engine.stage import START
from tests.notice_server import notice_server
from tests.story import write_project

URL: Final = "postgresql://bot@127.0.0.1/journal"
HOLDER: Final = Holder(1, "here", START)


class Blind(Standby):
    """Is answered or not, look by look, and is stopped after the last one."""

    def __init__(self, answered: Sequence[bool]) -> None:
        self.told = list[str]()
        quiet = lambda _: None  # noqa: E731
        super().__init__(URL, HOLDER, quiet, quiet, people=self.told.append)
        self._answers = iter(answered)

    def _look(self) -> Seen:
        answer = next(self._answers, None)
        if answer is None:
            self.stop("SIGTERM", "signal")
        elif not answer:
            raise Unreachable("it is off", database="journal")
        return Seen(3, 20_000, 1_000, HOLDER, is_free=False)


@pytest.mark.parametrize("life_s", [LEASE_LIFE_S, LEASE_LIFE_S - 0.1])
async def test_a_standby_that_sees_nothing_for_as_long_as_a_lease_tells_it_once(
    monkeypatch: pytest.MonkeyPatch, life_s: float
) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 0.001)
    clock = iter((0.0, 100.0, 100.0 + life_s, 140.0, 150.0, 160.0, 170.0))
    monkeypatch.setattr(waiting, "boottime_s", lambda: next(clock))
    is_long = life_s >= LEASE_LIFE_S
    standby = Blind([True, False, False, *([False] if is_long else []), True, True])

    await standby.lease()

    reason = "can't reach journal (it is off)"
    assert standby.told == ([reason, ""] if is_long else [])


@pytest.mark.wire
@pytest.mark.parametrize(
    ("who", "language", "titles"),
    [
        (
            "standby",
            "en",
            ["no bot can be known to trade", "the database answers the standby again"],
        ),
        (
            "standby",
            "vi",
            ["không biết có bot nào giao dịch không", "cơ sở dữ liệu đã trả lời bot dự phòng"],
        ),
        (
            "start",
            "en",
            ["the start waits for its database", "the database answers, and the start goes on"],
        ),
        (
            "start",
            "vi",
            ["đang chờ cơ sở dữ liệu để bắt đầu", "cơ sở dữ liệu đã trả lời, bot bắt đầu tiếp"],
        ),
    ],
)
async def test_the_channels_get_both_in_their_language(
    tmp_path: Path, who: str, language: str, titles: list[str]
) -> None:
    pytest.importorskip("apprise")
    with notice_server() as service:
        notify = {"urls": [service.url], "language": language}
        config = write_project(tmp_path, scenario="quiet", strategies=[], notify=notify)
        loaded = load_settings(config, environment={"HOME": str(tmp_path)})
        notices = BlindNotices(loaded, Wording(language, loaded.name, "sandbox"))
        notices.tell(who, "it is off")
        notices.tell(who, "")
        async with asyncio.timeout(60):  # the first one of a process imports Apprise
            while len(service.messages) < 2:  # noqa: ASYNC110 (a thread sends it)
                await asyncio.sleep(0.01)

    assert [each["title"].partition(": ")[2] for each in service.messages] == titles
    assert "(it is off)" in service.messages[0]["message"]
