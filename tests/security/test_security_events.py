"""What matters to whoever asks later who did what is in the journal, with who and when."""

import asyncio
import json
import os
import pwd
import sqlite3
from contextlib import closing
from pathlib import Path

from bot.cli.command import Invocation
from bot.config.settings.load import load_settings
from bot.domain.entry import CODE_NOTE, Entry, Note, RunState, StateChanged
from bot.journal.upkeep.verify import last_note
from bot.runtime.control.socket import ask
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from tests.canaries import CANARIES
from tests.cli.test_foreground import screen
from tests.staging import QUIET
from tests.story import ONCE, Shown, Story, in_process, once, tell, write_project

ME = f"{pwd.getpwuid(os.geteuid()).pw_name} ({os.geteuid()})"
WRONG = "135790"
EVENTS = {
    "auth_events": {"CODE_REQUESTED", "CODE_REFUSED", "ready", "needed"},
    "state_changes": {"PAUSED", "HALTED", "RUNNING"},
}


class Waiting(Shown):
    """A screen that says when the bot runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = asyncio.Event()

    def entry(self, entry: Entry) -> None:
        super().entry(entry)
        if isinstance(entry, StateChanged) and entry.to_state is RunState.RUNNING:
            self.runs.set()


def code_notes(story: Story) -> list[Note]:
    return [each for each in story.shown.all(Note) if each.kind == CODE_NOTE]


def lines_of(story: Story) -> str:
    with screen(Invocation()) as (shows, shown):
        for note in code_notes(story):
            shows.entry(note)
    return shown.out


async def test_a_start_records_who_and_which_code(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])

    story = await tell(config, minutes=0.2)

    [note] = code_notes(story)
    held = note.numbers
    assert (held["by"], held["mode"]) == (ME, "sandbox")
    hashes = {name: text for name, text in held.items() if name.startswith("once ")}
    assert [name.rpartition("/")[2] for name in hashes] == ["once.yaml", "once.py"]
    assert all(len(str(digest)) == 64 for digest in hashes.values())
    assert last_note(story.loaded.journal_url, CODE_NOTE) == held
    assert lines_of(story) == ""


async def test_a_plug_in_that_changed_since_the_last_start_is_told(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    await tell(config, minutes=0.2)
    (tmp_path / "strategies" / "once.py").write_text(ONCE + "# another\n")

    changed = await tell(config, minutes=0.2)
    same = await tell(config, minutes=0.2)

    said = " ".join(lines_of(changed).split())
    assert said.endswith("is another than at the last start: strategies/once.py")
    assert lines_of(same) == ""


async def test_every_event_of_security_is_journalled_with_who_and_when(tmp_path: Path) -> None:
    shown = Waiting()
    config = write_project(
        tmp_path,
        scenario=QUIET,
        strategies=[once()],
        sandbox={"scenario": "story.yaml", "speed": 60},
    )
    loaded = load_settings(config)
    running = asyncio.create_task(run_bot(loaded, RunOptions(), shown, make=in_process))

    async def do(word: str, **facts: object) -> None:
        await asyncio.to_thread(ask, loaded.state_dir, {"do": word, **facts})

    try:
        async with asyncio.timeout(60):
            await shown.runs.wait()
        await do("otp_forget")
        await do("otp_request")
        await do("otp_submit", code=WRONG)
        await do("otp_submit", code=CANARIES["one-time code"])
        await do("pause", reason="lunch")
        await do("resume", reason="back")
        await do("halt", reason="prices look wrong")
        await do("resume", reason="looked at them")
        await do("stop")
        await running
    finally:
        running.cancel()

    with closing(sqlite3.connect(loaded.state_dir / "journal.db")) as journal:
        auth = {kind for (kind,) in journal.execute("select kind from auth_events")}
        who = journal.execute(
            "select to_state, by_whom, reason, at from halts where scope in ('all', 'operator')"
        ).fetchall()
        kept = json.dumps(
            [journal.execute(f"select * from {t}").fetchall() for t in ("auth_events", "notes")]
        )
    assert auth >= EVENTS["auth_events"]
    assert {state for state, *_ in who} >= EVENTS["state_changes"]
    assert {reason for _, by, reason, _ in who if by == "operator"} >= {
        "lunch",
        "prices look wrong",
    }
    assert all(by and at for _, by, _, at in who)
    assert WRONG not in kept
