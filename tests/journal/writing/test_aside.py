import _thread
import threading

import pytest

from bot.journal.writing.aside import begin


def test_what_is_over_is_told_also_when_it_fails() -> None:
    done: list[int] = []

    assert begin(lambda: done.append(threading.get_ident())).wait(20)
    assert done != [threading.get_ident()]


def test_without_a_thread_to_be_had_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", none)

    with pytest.raises(OSError, match="can't start new thread"):
        begin(lambda: None)
