"""The screen of a run: session lines on stdout, talk on stderr, no animation where nobody looks."""

import asyncio
import json
import os
import pty
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from click.exceptions import Exit
from click.testing import CliRunner

from bot.cli.command import Invocation
from bot.cli.foreground import TerminalScreen, ending_while_it_starts, otp_command, run_to_its_end
from bot.cli.show import UNCUT, cut, leave_a_closed_window, width
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import load_settings
from bot.config.shipped import DEMO, shipped
from bot.domain.entry import RunState, StateChanged
from bot.runtime.brake import reason_of_flag
from tests.cli.stage import PARTLY, call, no
from tests.journal.facts import EVERY_KIND, after
from tests.processes import BotProcess
from tests.rows import every_row
from tests.staging import QUIET
from tests.story import once, write_project

pytestmark = pytest.mark.usefixtures("hangup_is_heard")


class Shown:
    """What a screen wrote to both streams."""

    out = ""
    err = ""


@contextmanager
def screen(invocation: Invocation) -> Iterator[tuple[TerminalScreen, Shown]]:
    shown = Shown()
    with CliRunner().isolation() as streams:
        yield TerminalScreen(invocation, "sandbox"), shown
        shown.out, shown.err = streams[0].getvalue().decode(), streams[1].getvalue().decode()


def test_lines_go_to_stdout_and_talk_goes_to_stderr() -> None:
    with screen(Invocation()) as (shows, shown):
        shows.row("config", "bot.yaml, 2 strategies")
        shows.entry(no(1, 0.4))
        shows.trouble("the journal can't be written")
        shows.talk("type the code")
        shows.close()

    assert shown.out == "09:22:00 SKIP    sma-fpt    FPT  no cross (gap 0.40%)\n"
    assert shown.err == (
        " ok config    bot.yaml, 2 strategies\n !! the journal can't be written\ntype the code\n"
    )


def test_a_screen_that_a_plug_in_has_closed_ends_nothing() -> None:
    closed = StringIO()
    shows = TerminalScreen(Invocation(), "sandbox")
    closed.close()

    with redirect_stdout(closed):
        shows.entry(no(1, 0.4))


def test_a_trouble_that_lasts_is_shown_once_until_something_else_happens() -> None:
    with screen(Invocation()) as (shows, shown):
        for _ in range(3):
            shows.trouble("the disk is full")
        shows.entry(no(1, 0.4))
        shows.trouble("the disk is full")

    assert shown.err == 2 * " !! the disk is full\n"


def test_quiet_leaves_the_lines_and_the_trouble() -> None:
    with screen(Invocation(quiet=True)) as (shows, shown):
        shows.row("config", "bot.yaml, 2 strategies")
        shows.entry(no(1, 0.4))
        shows.trouble("the journal can't be written")

    assert shown.out.count("\n") == 1
    assert shown.err == " !! the journal can't be written\n"


def test_json_is_one_value_for_each_entry() -> None:
    with screen(Invocation(json=True)) as (shows, shown):
        for entry in EVERY_KIND:
            shows.entry(entry)

    values = [json.loads(line) for line in shown.out.splitlines()]
    assert [value["entry"] for value in values] == [type(entry).__name__ for entry in EVERY_KIND]
    assert values[0]["side"] == PARTLY.side


def test_json_shows_no_account_number() -> None:
    running, scope = RunState.RUNNING, "base:120C900001.1"
    with screen(Invocation(json=True)) as (shows, shown):
        for entry in EVERY_KIND:
            shows.entry(entry)
        shows.entry(StateChanged(after(0), running, running, "count", "engine", scope=scope))

    assert "120C900001" not in shown.out
    assert json.loads(shown.out.splitlines()[-1])["scope"] == "base:…001.1"


def test_the_kind_is_coloured_where_that_is_wanted() -> None:
    with screen(Invocation(color="always")) as (shows, shown):
        shows.entry(PARTLY.filled(200, position=200)[-1])

    assert "\x1b[32mPARTIAL\x1b[0m L-0003" in shown.out


def test_the_command_for_a_code_names_a_bot_that_it_would_not_find(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, demo = load_settings(config), load_settings(shipped(DEMO))
    monkeypatch.chdir(config.parent)
    elsewhere = Invocation(state_dir=tmp_path)

    assert otp_command(Invocation(), mine) == "bot otp"
    assert otp_command(Invocation(), demo) == f"bot otp -c {shipped(DEMO)}"
    assert otp_command(elsewhere, mine) == f"bot otp --state-dir {tmp_path}"
    spaced = replace(mine, path=tmp_path / "my bot" / "bot.yaml")
    of_it = f"bot otp -c '{spaced.path}' --state-dir '{tmp_path / 'a b'}'"
    assert otp_command(Invocation(state_dir=tmp_path / "a b"), spaced) == of_it
    ours = {"BOT_STATE_DIR": str(tmp_path / "second")}  # another terminal does not have it
    second = load_settings(config, environment=ours)
    assert otp_command(Invocation(), second) == f"bot otp --state-dir {tmp_path / 'second'}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOT_CONFIG", str(config))
    assert otp_command(Invocation(), mine) == f"bot otp -c {config}"


def test_no_escape_is_written_without_a_terminal() -> None:
    with screen(Invocation()) as (shows, shown):
        for entry in EVERY_KIND:
            shows.entry(entry)
        shows.close()

    assert "\x1b" not in shown.out + shown.err


def width_of(**environment: str | None) -> int:
    """The width that a command finds when its output is not a terminal."""
    with CliRunner().isolation(env={"COLUMNS": None, **environment}):
        return width()


def test_into_a_pipe_nothing_is_cut_unless_columns_are_asked_for() -> None:
    assert width_of() == UNCUT
    assert width_of(COLUMNS="80") == 80


def test_a_cut_falls_between_words() -> None:
    assert cut("expire 3m: 200 filled, 300 cancelled", 20) == "expire 3m: 200 …"
    assert cut("short enough", 12) == "short enough"
    assert cut("x" * 30, 10) == "x" * 9 + "…"


def test_a_full_disk_behind_the_log_does_not_end_the_run() -> None:
    is_at_the_end = False
    with (
        suppress(OSError),
        Path("/dev/full").open("w") as full,
    ):  # what closes it can't write either
        with redirect_stdout(full), redirect_stderr(full):
            shows = TerminalScreen(Invocation(), "sandbox")
            shows.row("config", "bot.yaml, 2 strategies")
            shows.entry(no(1, 0.4))
            shows.trouble("the journal can't be written")
            shows.talk("type the code")
            shows.close()
        is_at_the_end = True

    assert is_at_the_end


def test_a_window_that_is_closed_during_a_start_ends_it_cleanly() -> None:
    codes = list[int]()
    with suppress(OSError), Path("/dev/full").open("w") as full, redirect_stderr(full):
        try:
            with ending_while_it_starts(Invocation()):
                signal.raise_signal(signal.SIGHUP)
        except Exit as ended:
            codes.append(ended.exit_code)

    assert codes == [ExitCode.DONE]


@pytest.mark.parametrize("is_known", [False, True])
def test_a_halt_during_a_start_outlives_one_that_ends(tmp_path: Path, is_known: bool) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with ending_while_it_starts(Invocation()) as keep_halts_in:
        if is_known:
            keep_halts_in(tmp_path)
        signal.raise_signal(signal.SIGUSR1)
        keep_halts_in(tmp_path)

    assert reason_of_flag(tmp_path) == "SIGUSR1"
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_halt_during_a_start_that_can_not_be_kept_is_told(tmp_path: Path) -> None:
    with redirect_stderr(StringIO()) as shown, ending_while_it_starts(Invocation()) as keep_in:
        signal.raise_signal(signal.SIGUSR1)
        keep_in(tmp_path / "missing")

    assert shown.getvalue().replace("\n", " ").startswith("SIGUSR1 came, but the start ended")


def test_what_is_left_to_say_to_a_closed_window_fails_nothing() -> None:
    terminal, window = pty.openpty()
    os.close(terminal)
    with os.fdopen(window, "w") as closed:
        closed.write("held back")
        with pytest.raises(OSError, match="Input/output error"):
            closed.flush()

        leave_a_closed_window([window])

        closed.write("stopped by SIGHUP")
        closed.flush()


def test_who_hangs_up_a_pipe_ends_a_start() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with suppress(OSError), os.fdopen(writing, "w") as pipe, redirect_stdout(pipe):
        shows = TerminalScreen(Invocation(), "sandbox")
        with pytest.raises(BrokenPipeError):
            shows.entry(no(1, 0.4))


@every_row("is_of_demo", [False, True])
def test_who_hangs_up_a_pipe_stops_a_run_whose_last_lines_go_to_stderr(is_of_demo: bool) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stops, rest = list[str](), StringIO()
    with os.fdopen(writing, "w") as pipe, redirect_stdout(pipe), redirect_stderr(rest):
        shows = TerminalScreen(Invocation(), "sandbox")
        shows.is_of_demo = is_of_demo
        shows.stop_by(lambda: stops.append("asked"))
        shows.entry(no(1, 0.4))
        shows.entry(PARTLY.filled(200, position=200)[-1])

    assert stops == ["asked"]
    kinds = [line.split()[1] for line in rest.getvalue().splitlines()]
    assert kinds == ([] if is_of_demo else ["SKIP", "PARTIAL"])


def test_who_hangs_up_both_streams_is_told_nothing_more() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stops = list[str]()
    with os.fdopen(writing, "w") as pipe, redirect_stdout(pipe), redirect_stderr(pipe):
        shows = TerminalScreen(Invocation(), "sandbox")
        shows.stop_by(lambda: stops.append("asked"))
        shows.trouble("the journal can't be written")
        shows.entry(no(1, 0.4))
        shows.close()

    assert stops == ["asked"]


def test_a_reader_that_is_gone_once_the_run_has_ended_is_no_bug() -> None:
    reading, writing = os.pipe()

    async def run(screen: TerminalScreen) -> None:
        loop = asyncio.get_running_loop()
        screen.stop_by(lambda: loop.call_soon_threadsafe(str))

    with os.fdopen(writing, "w", buffering=1) as stderr, redirect_stderr(stderr):
        shows = TerminalScreen(Invocation(), "sandbox")
        asyncio.run(run(shows))
        shows._unread.count = 3  # to be said when there is room again
        os.close(reading)

        shows.close()

    assert not shows._has_reader


@pytest.mark.process
@pytest.mark.parametrize("is_by_ctrl_c", [False, True])
def test_a_run_whose_reader_is_gone_ends_by_a_stop_that_names_what_is_open(
    tmp_path: Path, is_by_ctrl_c: bool
) -> None:
    sandbox = {"scenario": "story.yaml", "speed": 20, "port": 0}
    rests = once(params={"price": 25_300})
    config = write_project(tmp_path, scenario=QUIET, strategies=[rests], sandbox=sandbox)
    bot = BotProcess("run", "-c", str(config))
    is_placed = any(" ORDER " in line for line in iter(bot.stdout.readline, ""))

    bot.stdout.close()
    if is_by_ctrl_c:
        bot.send_signal(signal.SIGINT)
    _, err = bot.communicate()

    why = "Ctrl-C" if is_by_ctrl_c else "a closed pipe (nobody reads its output any more)"
    assert (bot.returncode, is_placed) == (ExitCode.DONE, True), err
    assert "still working at the broker: " in err
    assert f"stopped by {why} after" in err
    status = json.loads(call("status", "--json", "-c", str(config)).out)
    assert status["last_run"]["reason"] == why


def test_a_run_that_ends_where_no_thread_can_begin_ends_as_it_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """asyncio begins a thread to wait for those that a look-up of an address has left."""

    def none_left(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def looks_up() -> ExitCode:
        await asyncio.get_running_loop().run_in_executor(None, int)
        monkeypatch.setattr(threading.Thread, "start", none_left)
        return ExitCode.DONE

    async def fails() -> ExitCode:
        await looks_up()
        raise OperatorMistake.of("E-NET-001", "the broker refused", ExitCode.UNREACHABLE)

    assert run_to_its_end(looks_up()) == ExitCode.DONE
    monkeypatch.undo()
    with pytest.raises(OperatorMistake, match="the broker refused"):
        run_to_its_end(fails())
