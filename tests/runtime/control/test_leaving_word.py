"""What a bot that can't answer leaves for whoever asks it."""

from pathlib import Path

import pytest

from bot.cli.asking import reply_of
from bot.config.problems import OperatorMistake
from bot.runtime.control.server import ControlServer, leave_word
from bot.runtime.control.socket import FOLDER, SILENT_S, STUCK, stuck_words
from tests.runtime.control.test_server import wedged

WORDS = "on_quote of Mine (mine.py) has not returned for 4 s"


def test_who_asks_a_silent_bot_reads_what_it_has_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with wedged(tmp_path) as listening:
        listening.listen(5)
        leave_word(tmp_path, WORDS)
        with pytest.raises(OperatorMistake, match="did not answer in time"):
            reply_of(tmp_path, {"do": "status"}, SILENT_S + 0.01)

    assert f"does not answer: {WORDS}; waiting up to" in capsys.readouterr().err
    assert (tmp_path / FOLDER / STUCK).stat().st_mode & 0o777 == 0o600


def test_word_is_taken_back_and_what_it_says_can_do_a_terminal_no_harm(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    leave_word(tmp_path, "\x1b[2J")
    shown = stuck_words(tmp_path)
    leave_word(tmp_path, "")

    assert shown == r"\x1b[2J"
    assert stuck_words(tmp_path) == ""


def test_without_a_folder_no_word_is_left_and_nothing_breaks(tmp_path: Path) -> None:
    leave_word(tmp_path / "gone", WORDS)

    assert stuck_words(tmp_path / "gone") == ""


async def test_what_a_killed_bot_has_left_says_nothing_about_the_next(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o700)
    leave_word(tmp_path, WORDS)

    server = ControlServer(tmp_path, {}, {})
    await server.start()
    await server.stop()

    assert stuck_words(tmp_path) == ""
