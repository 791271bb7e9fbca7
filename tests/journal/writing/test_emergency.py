"""What is kept while the database does not answer is read again, and written once."""

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest

from bot.domain.account import Break
from bot.domain.entry import (
    EXPLAINED,
    FAULT_NOTE,
    FLATTEN_NOTE,
    RECONCILE_NOTE,
    Entry,
    Note,
    Numbers,
    RunState,
    StateChanged,
    StrategySwitched,
    Verdict,
)
from bot.domain.order import OrderState, SendState, Side
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import verify
from bot.journal.writing import emergency, emergency_lines, rows
from bot.journal.writing.emergency import EmergencyJournal
from bot.protocol.secret import KEPT_BYTES_MAX
from tests.journal.facts import DAY, Story, after, but

OFF = StrategySwitched(after(1), "test", "disabled", "by hand", "operator")
HALT = StateChanged(after(1), RunState.RUNNING, RunState.HALTED, "by hand", "operator")
RESUME = StateChanged(after(50), RunState.HALTED, RunState.RUNNING, "it is well", "operator")


def flatten(seconds: float, left_out: str = "", *, is_over: bool = False) -> Note:
    facts: Numbers = {"by": "operator", "reason": "r", "since": after(1).isoformat()}
    facts = {**facts, "is_over": is_over, "left_out": left_out}
    return Note(after(seconds), FLATTEN_NOTE, "sells what is held", facts)


async def taken_over(journal: Journal, folder: Path, *entries: Entry) -> list[int]:
    """Keep entries as a run without its journal does; take them over, and once more."""
    EmergencyJournal(folder).keep(entries)
    kept = EmergencyJournal(folder).read().entries
    return [await journal.take_over(kept) for _ in range(2)]


def filled(story: Story, fill_id: str, before: int, executed: int) -> list[Entry]:
    """What is written once an order of which `before` had traded has traded `executed`."""
    *moved, fill = story.filled(executed, position=executed)
    new = executed - before
    parts = {"quantity": new, "amount": new * story.price, "fee": 0, "order_executed": executed}
    return [*moved, but(fill, fill_id=fill_id, **parts)]


def file_in(folder: Path) -> Path:
    return folder / emergency.FILE


def test_what_is_kept_is_read_again_in_its_order(tmp_path: Path) -> None:
    kept = EmergencyJournal(tmp_path)

    kept.keep([HALT, Story().started])
    kept.keep([Story().finished])

    assert kept.read() == emergency.Kept((HALT, Story().started, Story().finished), 0)


def test_what_an_order_needs_the_journal_for_and_what_can_be_read_again_is_not_kept(
    tmp_path: Path,
) -> None:
    kept = EmergencyJournal(tmp_path)

    counts = but(HALT, to_state=RunState.RUNNING, scope="base:120C900001.1")
    kept.keep([Story().decision, Story().recorded, Story().result(1, "{}", "book"), counts, HALT])

    assert kept.read().entries == (HALT,)


def test_a_line_that_was_cut_off_costs_itself_alone(tmp_path: Path) -> None:
    kept = EmergencyJournal(tmp_path)
    kept.keep([HALT])
    kept.keep([Story().started])
    whole = file_in(tmp_path).read_bytes()
    file_in(tmp_path).write_bytes(whole[:-20])

    kept.keep([Story().finished])

    assert kept.read() == emergency.Kept((HALT, Story().finished), 1)


def test_no_cut_tears_what_was_kept_together(tmp_path: Path) -> None:
    EmergencyJournal(tmp_path).keep([HALT, Story().started, Story().finished])
    whole = file_in(tmp_path).read_bytes()
    folders = [tmp_path / str(length) for length in range(2, len(whole) - 1, 7)]

    for folder, length in zip(folders, range(2, len(whole) - 1, 7), strict=True):
        folder.mkdir()
        file_in(folder).write_bytes(whole[:length])

    assert {EmergencyJournal(each).read() for each in folders} == {emergency.Kept((), 1)}


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    text = json.dumps(["StateChanged", rows.row_of(HALT)], ensure_ascii=False)
    file_in(tmp_path).write_text(f"\n{crc32(text.encode()):08x} {text}\n")

    assert EmergencyJournal(tmp_path).read() == emergency.Kept((HALT,), 0)


def test_words_with_ends_of_lines_in_them_are_kept_whole(tmp_path: Path) -> None:
    halt = but(HALT, reason="pasted\u2028from\x85a\x0bpage\u2029\r\n")

    EmergencyJournal(tmp_path).keep([halt])

    assert EmergencyJournal(tmp_path).read() == emergency.Kept((halt,), 0)


def test_a_changed_line_is_not_believed(tmp_path: Path) -> None:
    kept = EmergencyJournal(tmp_path)
    kept.keep([HALT])
    file_in(tmp_path).write_bytes(file_in(tmp_path).read_bytes().replace(b"HALTED", b"PAUSED"))

    assert kept.read() == emergency.Kept((), 1)


def put(folder: Path, *stored: object) -> None:
    """Append a line whose checksum is right."""
    text = json.dumps(stored, ensure_ascii=False)
    with file_in(folder).open("a") as file:
        file.write(f"\n{crc32(text.encode()):08x} {text}\n")


def without(entry: Entry, *names: str) -> dict[str, object]:
    return {name: value for name, value in rows.row_of(entry).items() if name not in names}


def test_a_line_of_another_version_takes_what_it_lacks_and_has_too_much(tmp_path: Path) -> None:
    note = Note(after(2), FLATTEN_NOTE, "sells what is held", {})
    put(tmp_path, ["StateChanged", {**without(HALT, "scope"), "of_later": [1]}])
    put(tmp_path, ["Note", without(note, "numbers", "symbol")])

    assert EmergencyJournal(tmp_path).read() == emergency.Kept((HALT, note), 0)


def test_of_faults_a_broken_invariant_is_kept(tmp_path: Path) -> None:
    fault = Note(after(2), FAULT_NOTE, "KeyError", {"invariant": "", "trace": "a\nb"})
    broken = Note(after(3), FAULT_NOTE, "I17", {"invariant": "I17", "trace": "a\nb"})

    EmergencyJournal(tmp_path).keep([fault, broken])

    assert EmergencyJournal(tmp_path).read() == emergency.Kept((broken,), 0)


FINISHED, STARTED = rows.row_of(Story().finished), rows.row_of(Story().started)
FILL = rows.row_of(Story().filled(200, position=200)[0])


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(["AttemptFinished", without(Story().finished, "outcome")], id="lacking"),
        pytest.param(["Bargain", FINISHED], id="unknown kind"),
        pytest.param([["AttemptFinished"], FINISHED], id="kind that is none"),
        pytest.param(["AttemptFinished"], id="no row"),
        pytest.param(["AttemptFinished", [FINISHED]], id="row that is none"),
        pytest.param(["AttemptFinished", {**FINISHED, "at": "yesterday"}], id="no instant"),
        pytest.param(["AttemptFinished", {**FINISHED, "at": "2026-11-19"}], id="no zone"),
        pytest.param(["AttemptFinished", {**FINISHED, "at": None}], id="nothing"),
        pytest.param(["AttemptFinished", {**FINISHED, "outcome": "MAYBE"}], id="no outcome"),
        pytest.param(["AttemptFinished", {**FINISHED, "latency_ms": "12"}], id="no number"),
        pytest.param(["AttemptFinished", {**FINISHED, "latency_ms": True}], id="a claim"),
        pytest.param(["AttemptFinished", {**FINISHED, "latency_ms": 2**63}], id="too large"),
        pytest.param(["AttemptStarted", {**STARTED, "verb": "GET"}], id="verb"),
        pytest.param(["AttemptStarted", {**STARTED, "known_ids": "[1]"}], id="ids"),
        pytest.param(["Fill", {**FILL, "side": "HOLD"}], id="no side"),
        pytest.param(["Fill", {**FILL, "quantity": 0}], id="no shares"),
        pytest.param(["StrategySwitched", {**rows.row_of(OFF), "state": "off"}], id="no state"),
        pytest.param(["Note", {**rows.row_of(flatten(1)), "numbers": "[]"}], id="no figures"),
        pytest.param(7, id="no entry"),
    ],
)
async def test_a_line_that_is_no_entry_costs_itself_alone_and_is_kept(
    journal: Journal, tmp_path: Path, stored: object
) -> None:
    EmergencyJournal(tmp_path).keep([HALT])
    put(tmp_path, stored, ["StateChanged", rows.row_of(RESUME)])
    line = file_in(tmp_path).read_text().splitlines()[-1]
    kept = EmergencyJournal(tmp_path)
    kept.keep([OFF])

    found = kept.read()

    assert found == emergency.Kept((HALT, OFF), 1)
    assert await journal.take_over(found.entries) == 2
    kept.set_aside()
    kept.reserve()
    assert kept.read() == emergency.Kept((), 0)
    assert (tmp_path / emergency.UNREAD).read_text().splitlines() == ["", line]


def test_what_was_set_aside_before_stays_as_long_as_there_is_room(tmp_path: Path) -> None:
    kept, aside = EmergencyJournal(tmp_path), tmp_path / emergency.UNREAD
    for line in ("cut o", "cut of"):
        file_in(tmp_path).write_text(f"\n{line}\n")
        kept.set_aside()
        kept.forget()
    assert aside.read_text() == "\ncut o\n\ncut of\n"
    assert aside.stat().st_mode & 0o777 == 0o600

    aside.write_bytes(b"x" * emergency.BYTES_MAX)
    file_in(tmp_path).write_text("cut\n")
    kept.set_aside()

    assert aside.read_text() == "\ncut\n"


def test_every_word_that_the_journal_asks_for_is_asked_for_here() -> None:
    asked = {(kind.__name__, name) for kind, name in emergency_lines.WORDS}

    assert asked == {
        ("AttemptStarted", "verb"),
        ("AttemptFinished", "outcome"),
        ("OrderResultSeen", "source"),
        ("StrategySwitched", "state"),
    }


@pytest.mark.parametrize("entry", [Story().finished, Story().result(1, "{}", "place")])
def test_of_a_long_answer_the_beginning_is_kept_so_that_a_thousand_cancels_have_room(
    tmp_path: Path, entry: Entry
) -> None:
    whole, longer = "x" * emergency_lines.RAW_MAX, "y" * KEPT_BYTES_MAX
    kept = EmergencyJournal(tmp_path)

    kept.keep([but(entry, raw=whole)])
    kept.keep([but(entry, raw=longer)])

    cut = f"{longer[: len(whole)]}… ({len(longer) - len(whole):,} characters more)"
    assert kept.read().entries == (but(entry, raw=whole), but(entry, raw=cut))
    line = emergency_lines.line_of([Story().started, *[but(entry, raw=longer)] * 3])
    assert 1_000 * len(line) < emergency.BYTES_MAX


def test_a_full_file_takes_no_more(tmp_path: Path) -> None:
    kept = EmergencyJournal(tmp_path)
    file_in(tmp_path).write_bytes(b"\n" * emergency.BYTES_MAX)

    with pytest.raises(OSError, match="takes no more"):
        kept.keep([HALT])


def test_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    EmergencyJournal(tmp_path).keep([HALT])

    assert file_in(tmp_path).stat().st_mode & 0o777 == 0o600


def test_forgotten_there_is_no_file_and_nothing_in_it(tmp_path: Path) -> None:
    kept = EmergencyJournal(tmp_path)
    kept.keep([HALT])

    kept.forget()
    kept.forget()

    assert kept.read() == emergency.Kept((), 0)
    assert not file_in(tmp_path).exists()


def test_a_full_disk_does_not_stop_what_has_its_room(tmp_path: Path) -> None:
    kept = EmergencyJournal(tmp_path)
    kept.reserve()
    before = (tmp_path / emergency.SPARE).stat()

    kept.keep([HALT])
    kept.keep([OFF])
    after_it = file_in(tmp_path).stat()

    assert before.st_blocks * 512 >= emergency.SPARE_BYTES
    assert (after_it.st_ino, after_it.st_size, after_it.st_blocks) == (
        before.st_ino,
        before.st_size,
        before.st_blocks,
    )
    assert kept.read() == emergency.Kept((HALT, OFF), 0)


def test_what_is_kept_has_its_name_for_good_also_after_a_line_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, named = EmergencyJournal(tmp_path), list[Path]()
    kept.reserve()
    monkeypatch.setattr(emergency, "_sync_folder", named.append)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", lambda _: _fail())
        with pytest.raises(OSError, match="no such luck"):
            kept.keep([HALT])

    kept.keep([HALT])

    assert named == [tmp_path]


def _fail() -> None:
    raise OSError("no such luck")


def test_the_room_is_there_again_when_the_file_is_forgotten(tmp_path: Path) -> None:
    kept = EmergencyJournal(tmp_path)
    kept.reserve()

    kept.keep([HALT, OFF])
    kept.forget()
    kept.keep([OFF])

    assert kept.read() == emergency.Kept((OFF,), 0)
    assert not (tmp_path / emergency.SPARE).exists()


def test_another_process_goes_on_behind_what_the_file_holds(tmp_path: Path) -> None:
    EmergencyJournal(tmp_path).reserve()
    EmergencyJournal(tmp_path).keep([HALT])

    EmergencyJournal(tmp_path).keep([OFF])

    assert EmergencyJournal(tmp_path).read() == emergency.Kept((HALT, OFF), 0)


def test_a_disk_that_holds_up_the_forgetting_lets_nothing_be_kept_that_would_go_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = EmergencyJournal(tmp_path)
    kept.reserve()
    kept.keep([OFF])
    write, answers = emergency._write, threading.Event()
    is_reached = threading.Event()

    def hang(descriptor: int, data: bytes, start: int) -> None:
        if len(data) == emergency.SPARE_BYTES:
            is_reached.set()
            answers.wait(60)
        write(descriptor, data, start)

    monkeypatch.setattr(emergency, "_write", hang)
    monkeypatch.setattr(emergency, "TURN_S", 0.01)
    forgetting = threading.Thread(target=kept.forget)
    forgetting.start()
    assert is_reached.wait(60)

    with pytest.raises(OSError, match="has not finished an earlier change"):
        kept.keep([HALT])
    with pytest.raises(OSError, match="has not finished an earlier change"):
        kept.forget()
    answers.set()
    forgetting.join()
    kept.keep([HALT])

    assert kept.read() == emergency.Kept((HALT,), 0)


async def test_an_answer_and_all_that_follows_from_it_is_taken_over_each_once(
    journal: Journal,
) -> None:
    story = Story()
    said, sent, answered = story.placed()
    await journal.write([*said, *sent])
    answer: list[Entry] = [*answered, *story.filled(200, position=200)]

    counts = [await journal.take_over(answer[:cut]) for cut in range(len(answer) + 1)]
    again = await journal.take_over(answer)

    recovery = await journal.recover(story.trading_date)
    # an order's row comes with its fill, from the same line
    assert (counts, again) == ([0, *[1] * (len(answer) - 2), 0, 2], 0)
    assert [(one.state, one.order_id) for one in recovery.intents] == [
        (SendState.ACKED, story.order_id)
    ]
    assert [(row.state, row.executed_quantity) for row in recovery.orders] == [
        (OrderState.PARTIALLY_FILLED, 200)
    ]
    assert [fill.fill_id for _, fill in recovery.recent_fills] == ["F-0003"]


async def test_a_fill_comes_with_its_order_also_when_the_clock_ran_ahead_before(
    journal: Journal, db_url: str
) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    ahead = but(story.accepted, at=after(3_600))
    await journal.write([ahead])

    answer = list(story.filled(200, position=200))
    counts = [await journal.take_over(answer) for _ in range(2)]
    older = await journal.take_over([but(story.accepted, at=after(50))])

    recovery = await journal.recover(story.trading_date)
    assert (counts, older) == ([3, 0], 0)
    assert [row.executed_quantity for row in recovery.orders] == [200]
    assert verify(db_url).is_whole


async def test_shares_that_another_bot_has_counted_since_are_not_counted_again(
    journal: Journal, db_url: str
) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    first, second = filled(story, "F-0003", 0, 100), filled(story, "F-0004", 100, 200)
    await journal.write([but(each, at=after(120)) for each in filled(story, "F-0003", 0, 200)])

    counts = [await journal.take_over([*first, *second]) for _ in range(2)]

    recovery = await journal.recover(story.trading_date)
    assert [fill.quantity for _, fill in recovery.recent_fills] == [200]
    assert counts[1] == 0
    assert verify(db_url).is_whole


async def test_an_order_does_not_go_back_to_before_what_another_bot_has_seen_of_it(
    journal: Journal, db_url: str
) -> None:
    story = Story()
    for entries in (*story.placed(), filled(story, "F-0003", 0, 200)):
        await journal.write(entries)

    # read a moment later, or by a clock that is ahead, and of before
    await journal.take_over([but(each, at=after(95)) for each in filled(story, "F-0003", 0, 100)])

    recovery = await journal.recover(story.trading_date)
    assert [row.executed_quantity for row in recovery.orders] == [200]
    assert verify(db_url).is_whole


@pytest.mark.parametrize(
    ("stored", "kept"),
    [
        ([], [("F-0004", 100, 200)]),
        ([("F-0003", 0, 150)], [("F-0003", 0, 100), ("F-0004", 100, 200)]),
    ],
    ids=["the one before is not kept", "another bot has counted a part"],
)
async def test_a_row_whose_fills_do_not_reach_it_is_left_to_the_next_one(
    journal: Journal,
    db_url: str,
    stored: list[tuple[str, int, int]],
    kept: list[tuple[str, int, int]],
) -> None:
    story = Story()
    for entries in (*story.placed(), *(filled(story, *each) for each in stored)):
        await journal.write(entries)
    lines = [
        but(entry, at=after(200 + number))
        for number, each in enumerate(kept)
        for entry in filled(story, *each)
    ]

    await journal.take_over(lines)

    recovery = await journal.recover(story.trading_date)
    assert [row.executed_quantity for row in recovery.orders] == [sum(n for _, _, n in stored)]
    assert verify(db_url).is_whole


async def test_a_fill_whose_number_another_bot_has_given_to_another_order_is_counted(
    journal: Journal, db_url: str
) -> None:
    story, other = Story(), Story(9)
    for each in (story, other):
        for entries in each.placed():
            await journal.write(entries)
    await journal.write(filled(other, "F-0003", 0, 100))

    for _ in range(2):
        await journal.take_over(filled(story, "F-0003", 0, 200))

    recovery = await journal.recover(story.trading_date)
    assert [(fill.fill_id, fill.quantity) for _, fill in recovery.recent_fills] == [
        ("F-0003", 100),
        ("F-0004", 200),
    ]
    assert verify(db_url).is_whole


async def test_a_fill_that_goes_on_from_what_is_stored_is_counted(
    journal: Journal, db_url: str
) -> None:
    story = Story()
    for entries in (*story.placed(), filled(story, "F-0003", 0, 100)):
        await journal.write(entries)

    counts = [await journal.take_over(filled(story, "F-0004", 100, 200)) for _ in range(2)]

    recovery = await journal.recover(story.trading_date)
    assert [fill.quantity for _, fill in recovery.recent_fills] == [100, 100]
    assert counts[1] == 0
    assert verify(db_url).is_whole


async def test_what_follows_from_an_order_that_never_came_in_is_left_out(journal: Journal) -> None:
    story = Story()
    _, _, answered = story.placed()

    assert await journal.take_over([*story.sending, *answered]) == 0


async def test_an_order_that_is_to_be_cancelled_still_is_after_a_kill_without_the_journal(
    journal: Journal, tmp_path: Path
) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    wish = but(story.decision, code="CANCEL", why="by hand", checks=(), numbers={"open": 500})
    refused = but(wish, verdict=Verdict.BLOCKED)
    EmergencyJournal(tmp_path).keep([wish, refused])

    kept = EmergencyJournal(tmp_path).read().entries
    counts = [await journal.take_over(kept) for _ in range(2)]

    assert (kept, counts) == ((wish,), [1, 0])
    recovery = await journal.recover(story.trading_date)
    assert recovery.cancels == {story.local_id: "by hand"}


async def test_a_number_that_no_database_holds_is_taken_over_once(
    journal: Journal, tmp_path: Path
) -> None:
    story = Story()
    await journal.write([story.recorded])

    order = but(story.accepted, intent_id=None, strategy=None, executed_quantity=10**30)

    assert await taken_over(journal, tmp_path, order) == [1, 0]
    assert [await journal.take_over([order]) for _ in range(2)] == [0, 0]


async def test_an_intent_that_has_moved_on_is_not_moved_back(journal: Journal) -> None:
    story = Story()
    said, sent, answered = story.placed()
    await journal.write([*said, *sent, *answered])
    lost = story.moved(SendState.SENDING, SendState.UNKNOWN, 9.0)

    assert await journal.take_over([lost]) == 0


async def test_only_what_the_journal_lacks_is_taken_over(journal: Journal) -> None:
    story = Story()
    entries: list[Entry] = [HALT, OFF, story.started, story.finished]
    await journal.write([story.recorded, HALT, *story.sending])

    assert await journal.take_over(entries) == 2
    assert await journal.take_over(entries) == 0


async def test_a_flatten_that_was_asked_for_without_the_journal_is_gone_on_with(
    journal: Journal, tmp_path: Path
) -> None:
    other = Note(after(1), "PULSE", "alive")

    assert await taken_over(journal, tmp_path, HALT, flatten(1), other) == [2, 0]

    found = (await journal.recover(DAY)).flatten
    assert found is not None
    assert (found.reason, found.since, found.left_out) == ("r", after(1), frozenset())


async def test_a_sale_that_a_person_cancelled_without_the_journal_stays_left_out(
    journal: Journal, tmp_path: Path
) -> None:
    await journal.write([HALT, flatten(1)])

    assert await taken_over(journal, tmp_path, flatten(60, "HPG demo")) == [1, 0]

    found = (await journal.recover(DAY)).flatten
    assert found is not None
    assert found.left_out == {("demo", "HPG")}


async def test_a_flatten_that_another_bot_has_ended_since_does_not_begin_again(
    journal: Journal, tmp_path: Path
) -> None:
    await journal.write([flatten(100, is_over=True)])

    assert await taken_over(journal, tmp_path, flatten(1)) == [0, 0]
    assert (await journal.recover(DAY)).flatten is None


async def test_a_break_that_was_found_without_the_journal_keeps_its_figures(
    journal: Journal, tmp_path: Path
) -> None:
    begun = but(HALT, reason="400 fewer HPG", scope="break:B-0001")
    facts: Numbers = {
        "alert": "BREAK",
        "break": "B-0001",
        "ours": 500,
        "theirs": 100,
        "rests_on": "ORD1",
    }
    told = Note(after(1), "ALERT", "400 fewer HPG", facts, "HPG")
    explained = Note(after(2), RECONCILE_NOTE, "it is B-0001", {EXPLAINED: "B-0001"}, "HPG")
    found = Break("B-0001", "400 fewer HPG", after(1), "HPG", 500, 100, ("ORD1",))

    assert await taken_over(journal, tmp_path, begun, told) == [2, 0]
    assert (await journal.recover(DAY)).breaks == (found,)
    assert await taken_over(journal, tmp_path, explained) == [1, 0]
    assert (await journal.recover(DAY)).breaks == (replace(found, ours=None, theirs=None),)


@pytest.mark.parametrize("scope", ["all", "symbol:HPG"])
async def test_what_another_bot_has_halted_since_stays_halted(
    journal: Journal, tmp_path: Path, scope: str
) -> None:
    later = but(HALT, at=after(3_600), reason="by hand, at the other", scope=scope)
    await journal.write([but(HALT, scope=scope), but(RESUME, at=after(51), scope=scope), later])

    assert await taken_over(journal, tmp_path, but(RESUME, scope=scope)) == [0, 0]

    recovery = await journal.recover(DAY)
    is_all = scope == "all"
    assert recovery.run_state is (RunState.HALTED if is_all else RunState.RUNNING)
    assert recovery.halted_symbols == ({} if is_all else {"HPG": "by hand, at the other"})


async def test_a_strategy_that_another_bot_has_disabled_since_stays_disabled(
    journal: Journal, tmp_path: Path
) -> None:
    await journal.write([but(OFF, at=after(100))])

    assert await taken_over(journal, tmp_path, but(OFF, at=after(50), state="on")) == [0, 0]


async def test_a_pause_of_before_takes_the_place_of_no_later_stop(
    journal: Journal, tmp_path: Path
) -> None:
    pause = but(HALT, at=after(50), to_state=RunState.PAUSED, reason="lunch")
    limited = but(OFF, at=after(50), state="paused", by="limit", reason="lost too much")
    by_hand = but(OFF, at=after(100), state="paused", reason="until I know more")
    await journal.write([but(HALT, at=after(100)), by_hand])

    await taken_over(journal, tmp_path, pause, limited)

    recovery = await journal.recover(DAY)
    assert (recovery.run_state, recovery.run_state_reason) == (RunState.HALTED, "by hand")
    strategy = recovery.strategies["test"]
    assert (strategy.state, strategy.state_by) == ("paused", "operator")
    await journal.write([but(RESUME, at=after(110))])
    assert await taken_over(journal, tmp_path, pause) == [1, 0]
    assert (await journal.recover(DAY)).run_state is RunState.PAUSED


async def test_a_halt_is_taken_over_whatever_the_journal_says_of_later(
    journal: Journal, tmp_path: Path
) -> None:
    """A clock that ran ahead has dated it later; and a halt too many is ended by one word."""
    await journal.write([but(RESUME, at=after(100))])

    assert await taken_over(journal, tmp_path, HALT) == [1, 0]
    assert (await journal.recover(DAY)).run_state is RunState.HALTED


async def test_a_resume_of_before_a_later_one_is_taken_over_with_its_halt(
    journal: Journal, tmp_path: Path
) -> None:
    halted = but(HALT, at=after(60), scope="operator")
    await journal.write([halted, but(RESUME, at=after(70), scope="operator")])

    assert await taken_over(journal, tmp_path, HALT, RESUME) == [2, 0]
    assert (await journal.recover(DAY)).run_state is RunState.RUNNING


async def test_an_attempt_and_its_answer_are_taken_over_together(journal: Journal) -> None:
    story = Story()
    await journal.write([story.recorded])

    assert await journal.take_over([story.started, story.finished]) == 2


async def test_an_answer_without_its_attempt_is_left_out(journal: Journal) -> None:
    """Of an order that never left: the file was written beside a transaction that was lost."""
    assert await journal.take_over([Story().finished]) == 0


def given_again(story: Story, **other: object) -> list[list[Entry]]:
    """Another order under the number of one that only a lost journal had, and not answered yet."""
    new = replace(story, **other)  # type: ignore[arg-type]
    started = but(new.started, attempt_id="attempt-new", nonce="5f0c9999")
    return [[new.recorded], [started, new.moved(SendState.READY, SendState.SENDING)]]


@pytest.mark.parametrize(
    "other",
    [{"start": 300.0}, {"symbol": "FPT"}, {"side": Side.SELL}],
    ids=lambda each: next(iter(each)),
)
async def test_what_was_kept_of_a_lost_order_is_not_told_of_one_under_its_number(
    journal: Journal, db_url: str, other: dict[str, object]
) -> None:
    """By its time; or by its shares, where a clock was set back."""
    lost = Story()
    kept = [*lost.placed()[2], *lost.filled(200, position=200)]
    wish = but(lost.decision, code="CANCEL", why="by hand", checks=(), numbers={"open": 500})
    for entries in given_again(lost, **other):
        await journal.write(entries)

    assert await journal.take_over([*kept, *([wish] if "start" in other else [])]) == 0

    recovery = await journal.recover(lost.trading_date)
    assert [(one.state, one.order_id) for one in recovery.intents] == [(SendState.SENDING, None)]
    assert (recovery.orders, recovery.recent_fills, recovery.cancels) == ((), (), {})
    assert verify(db_url).is_whole


async def test_what_was_kept_of_two_orders_under_one_number_is_told_of_the_one_that_is_there(
    journal: Journal, db_url: str
) -> None:
    lost, new = Story(symbol="FPT"), Story(start=300.0)
    for entries in new.placed()[:2]:
        await journal.write(entries)
    answer = [*new.placed()[2], *new.filled(200, position=200)]

    count = await journal.take_over([*lost.placed()[2], *lost.filled(200, position=200), *answer])

    recovery = await journal.recover(new.trading_date)
    assert count == len(answer)
    assert [(row.symbol, row.executed_quantity) for row in recovery.orders] == [("HPG", 200)]
    assert verify(db_url).is_whole


async def test_an_answer_that_a_slow_clock_has_dated_before_its_order_is_taken_over(
    journal: Journal,
) -> None:
    """Another bot's, which has taken the order over."""
    story = Story()
    said, sent, answered = story.placed()
    await journal.write([*said, *sent])
    slow = [but(entry, at=after(-19)) for entry in answered]

    assert await journal.take_over(slow) == len(slow)
