"""The log of the process: whole lines, bounded files, no secret, and no forged line."""

import base64
import json
import logging
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from bot.config.settings.notify import ChannelPlan
from bot.domain.entry import Note, Numbers, RunState, StateChanged
from bot.domain.message import Event, Noted
from bot.protocol.secret import Secret
from bot.runtime.health.process_log import LogWatch, ProcessLog
from bot.runtime.hush import Hiding

NOW = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
REST = (
    "lines will be missing in it. Trading goes on, and the journal has what happens. "
    "Look at the disk"
)
KEY = "k/9+canary=value"
HOSTILE = 'bad\r\nforged {"level": "info"}\x1b[2J\u202e\u2028\x85\x00end'


def written(
    file: Path, *notes: Note | StateChanged, level: str = "info", bytes_max: int = 10_000
) -> list[dict[str, object]]:
    log = made(file, level=level, bytes_max=bytes_max)
    log.begin()
    for note in notes:
        log.entry(note)
    end(log)
    return lines_of(file)


def end(log: ProcessLog) -> None:
    """End it, and wait for longer than a run would: the thread may not have had its turn."""
    log.end()
    log._thread.join(60)


def made(file: Path, *, level: str = "info", bytes_max: int = 10_000) -> ProcessLog:
    hiding = Hiding(lambda: (Secret(KEY), None))
    return ProcessLog(
        file, level=level, bytes_max=bytes_max, keep=2, hiding=hiding, now=lambda: NOW
    )


def lines_of(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def note(text: str, kind: str = "ALERT") -> Note:
    return Note(NOW, kind, text, {"code": "DISK_LOW"})


def test_a_log_whose_disk_hangs_is_an_alert_and_holds_up_nobody(tmp_path: Path) -> None:
    file, told = tmp_path / "bot.log", list[str]()
    os.mkfifo(file)  # it opens for writing when somebody reads
    log = made(file)
    watch = LogWatch(log, silent_max_s=0)
    watch.follow(lambda event: told.append(text_of(event)), lambda: NOW)
    watch.look()
    log.begin()
    log.entry(note("the disk hangs"))
    looking(watch, until=lambda: bool(told))
    assert told == [f"the log {file} can't be written (no answer): {REST}"]
    assert [each.code for each in watch.alerts] == ["LOG_UNWRITTEN"]

    file.open().close()
    file.unlink()
    log.entry(note("it works again"))
    looking(watch, until=lambda: len(told) > 1)
    end(log)

    assert (told[1:], watch.alerts) == ([f"the log {file} is written again"], ())
    assert lines_of(file)[-1]["text"] == "it works again"


def test_a_log_that_is_refused_is_an_alert_too(tmp_path: Path) -> None:
    file, told = tmp_path / "none" / "bot.log", list[str]()
    log = made(file)
    watch = LogWatch(log, silent_max_s=0)
    watch.follow(lambda event: told.append(text_of(event)), lambda: NOW)
    log.begin()
    log.entry(note("nobody reads this"))
    looking(watch, until=lambda: bool(log.refused))
    looking(watch, until=lambda: bool(told))
    end(log)

    assert "can't be written" in told[0]


def looking(watch: LogWatch, *, until: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not until() and time.monotonic() < give_up:
        watch.look()
        time.sleep(0.001)


def text_of(event: Event) -> str:
    assert isinstance(event, Noted)
    return event.entry.text if isinstance(event.entry, Note) else ""


def test_a_line_has_a_name_a_level_and_the_facts(tmp_path: Path) -> None:
    [found] = written(tmp_path / "bot.log", note("the disk is full"))

    assert found == {
        "time": "2026-11-19T02:30:00.000+00:00",
        "level": "warning",
        "event": "alert",
        "at": "2026-11-19T02:30:00+00:00",
        "kind": "ALERT",
        "text": "the disk is full",
        "numbers": {"code": "DISK_LOW"},
        "symbol": None,
    }


@pytest.mark.parametrize(("facts", "level"), [({"alert": "TIMER_MISSED"}, "warning"), ({}, "info")])
def test_a_missed_timer_is_a_warning(tmp_path: Path, facts: Numbers, level: str) -> None:
    missed = Note(NOW, "MISSED", "14:20 was not run", facts)

    [found] = written(tmp_path / "bot.log", missed)

    assert found["level"] == level


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("="),
        KEY.encode().hex(),
        KEY.encode().hex().upper(),
        quote(KEY, safe=""),
    ],
)
def test_a_secret_is_hidden_by_its_value_in_any_form(tmp_path: Path, form: str) -> None:
    entry = Note(NOW, "ALERT", f"the broker says {form}!", {"said": form, form: 1})

    written(tmp_path / "bot.log", entry)

    text = (tmp_path / "bot.log").read_text("utf-8")
    assert form not in text
    assert "the broker says ***!" in text


def test_an_account_is_masked_also_in_a_text(tmp_path: Path) -> None:
    [found] = written(tmp_path / "bot.log", note("of 120C900001.1"))

    assert found["text"] == "of …01.1"


def test_a_text_from_outside_forges_no_line(tmp_path: Path) -> None:
    [found] = written(tmp_path / "bot.log", note(HOSTILE))

    raw = (tmp_path / "bot.log").read_text("utf-8")
    assert raw.count("\n") == 1
    assert raw[:-1].isprintable()
    assert found["level"] == "warning"


def test_less_than_the_level_is_not_written(tmp_path: Path) -> None:
    halted = StateChanged(NOW, RunState.RUNNING, RunState.HALTED, "prices", "operator")

    found = written(tmp_path / "bot.log", note("x", "PHASE"), halted, level="warning")

    assert [line["event"] for line in found] == ["state_changed"]


def test_files_are_bounded_in_size_and_number(tmp_path: Path) -> None:
    written(tmp_path / "bot.log", *(note(f"{n:0100}") for n in range(100)), bytes_max=1_000)

    sizes = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    assert {"bot.log.1", "bot.log.2"} <= set(sizes) <= {"bot.log", "bot.log.1", "bot.log.2"}
    assert max(sizes.values()) < 1_500


def test_a_file_that_is_removed_while_we_write_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "bot.log"
    log = made(file)
    log.begin()
    log.entry(note("before"))
    log._queue.join()
    file.unlink()
    log.entry(note("after"))
    end(log)

    assert [line["text"] for line in lines_of(file)] == ["after"]


def test_what_could_not_be_written_is_counted_and_said(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    log = made(folder / "bot.log")
    log.begin()
    log.entry(note("lost"))
    log.entry(note("lost too"))
    log._queue.join()
    folder.mkdir()
    log.entry(note("found"))
    end(log)

    gap, found = lines_of(folder / "bot.log")
    assert (gap["event"], gap["count"], found["text"]) == ("lines_lost", 2, "found")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_holds_up_nobody(tmp_path: Path) -> None:
    (tmp_path / "bot.log").symlink_to("/dev/full")
    log = made(tmp_path / "bot.log")
    log.begin()
    log.entry(note("a"))
    end(log)

    assert log.lost == 1
    assert not log._thread.is_alive()


def test_a_link_that_somebody_laid_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("as it was")
    (tmp_path / "bot.log").symlink_to(target)
    log = made(tmp_path / "bot.log")
    log.begin()
    log.entry(note("a"))
    end(log)

    assert target.read_text() == "as it was"


def test_a_full_queue_loses_lines_and_never_waits(tmp_path: Path) -> None:
    log = made(tmp_path / "bot.log")
    for _ in range(10_005):
        log.entry(note("nobody writes yet"))

    assert log.lost == 5


def test_what_a_library_logs_is_there_too(tmp_path: Path) -> None:
    log = made(tmp_path / "bot.log")
    log.begin()
    logging.getLogger("asyncio").warning("task %s was never awaited", KEY)
    end(log)

    [found] = lines_of(tmp_path / "bot.log")
    assert (found["logger"], found["text"]) == ("asyncio", "task *** was never awaited")
    assert (tmp_path / "bot.log").stat().st_mode & 0o777 == 0o600


def test_half_a_line_of_a_full_disk_takes_no_other_with_it(tmp_path: Path) -> None:
    file = tmp_path / "bot.log"
    file.write_text('{"time": "2026-11-19T02:2', "utf-8")

    log = made(file)
    log.begin()
    log.entry(note("room again"))
    end(log)

    torn, whole = file.read_text("utf-8").splitlines()
    assert torn == '{"time": "2026-11-19T02:2'
    assert json.loads(whole)["text"] == "room again"


def test_a_fact_that_cannot_be_told_is_counted_and_the_next_is_written(tmp_path: Path) -> None:
    file, endless = tmp_path / "bot.log", dict[str, object]()
    endless["again"] = endless
    log = made(file)
    log.begin()

    log.say("info", "endless", endless)
    log.entry(note("still here"))
    end(log)

    assert [line.get("count", line.get("text")) for line in lines_of(file)] == [1, "still here"]


def test_the_scope_of_an_account_is_masked(tmp_path: Path) -> None:
    numbers_count = StateChanged(
        NOW, RunState.RUNNING, RunState.RUNNING, "count", "engine", scope="base:120C900001.1"
    )

    [found] = written(tmp_path / "bot.log", numbers_count)

    assert found["scope"] == "base:…001.1"


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("tgram://123456789:AAFabcd-EFG/4711471", "api.telegram.org/bot123456789:AAFabcd-EFG"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlaz/#general", "no such hook: TIiajkdnlaz, general"),
        ("mailto://me:hunter%402@mail.example.org", "535 hunter@2 is not it, mail.example.org"),
        ("ntfys://my-secret-topic", "403 https://ntfy.sh/my-secret-topic"),
        ("json://127.0.0.1:8080/hook?token=abcdef99", "127.0.0.1:8080/hook?abcdef99 is refused"),
    ],
)
def test_no_part_of_a_notice_s_address_is_in_a_line(
    address: str, told: str, tmp_path: Path
) -> None:
    channel = ChannelPlan("phone", Secret(address), "notify.yaml")
    log = ProcessLog(
        tmp_path / "bot.log", level="info", bytes_max=10_000, keep=1,
        hiding=Hiding(lambda: channel.secrets), now=lambda: NOW,
    )  # fmt: skip
    log.begin()
    log.say("warning", "library", {"logger": "apprise", "text": f"{address}: {told}"})
    end(log)

    [found] = lines_of(tmp_path / "bot.log")

    text = str(found["text"])
    tokens = ("AAFabcd", "123456789", "TIiajk", "A1BRTD", "hunter", "my-secret", "abcdef99")
    assert not [token for token in tokens if token in text], text
    assert "***" in text
    words = ("general", "mail.example.org", "ntfy.sh", "127.0.0.1:8080/hook", "api.telegram.org")
    assert [word for word in words if word in told] == [word for word in words if word in text]
