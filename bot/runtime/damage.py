"""Says what is wrong with the journal from which a start is to continue, by itself and by the heads
that earlier runs stored beside it: its orders are held until a person has accepted that.
"""

from functools import partial
from pathlib import Path
from typing import Final

from bot.domain.recovery import UNCHECKED
from bot.journal.database.engines import file_of, is_sqlite
from bot.journal.database.schema import reading_current
from bot.journal.reading.recovering_state import is_in_question
from bot.journal.upkeep.verify import ANY_EPOCH, damage_of
from bot.journal.writing.heads import HeadsFile, label_of, read_heads_file
from bot.journal.writing.thread import in_time

_APART: Final = "a bot of another mode or purpose needs a state_dir of its own"
CHECK_S: Final = 30.0
"""How long a start checks its journal, apart from reading a large file: 100,000 rows take less than
1 s.
"""
LARGE_BYTES: Final = 1_000_000_000
READ_BYTES_S: Final = 20_000_000
"""How much of a large file a start reads in a second: a disk that does not manage that is slow, or
busy.
"""


def forgotten(url: str, state_dir: Path) -> tuple[str, ...]:
    """Say that a new journal takes the place of one that was here and is gone, or is elsewhere."""
    found = read_heads_file(state_dir, url)
    if found.trouble:
        unread = _unread(state_dir, found)
        return (f"it is new, and whether one that was here is gone is not known {unread}",)
    if found.newest is None:
        return ()
    what, do = f"the one of {found.newest} is gone", "put it back"
    if not found.kept:
        what = f"the one of {found.newest} is another, {found.newest.journal}"
        do = f"set journal.url back to it ({_APART})"
    text = (
        f"it is new, and {what}: which orders are the bot's and what its strategies hold is not "
        f"known any more. If you have it, stop the bot and {do}"
    )
    return (text,)


async def damage_at_start(url: str, state_dir: Path, epoch: int) -> tuple[str, ...]:
    """Return the damage to a journal from which a run is to continue; empty if it is intact. It has
    to contain the newest heads, also those of a journal by another name: after a run that was not
    killed it may be moved or copied, but not left behind.

    If the check takes longer than `check_time_s`, it is reported that the journal is not known to
    be intact.
    """
    checking, timeout_s = partial(_damage, url, state_dir, epoch), check_time_s(url)
    try:
        return await in_time(checking, timeout_s)
    except TimeoutError:
        return (f"{UNCHECKED} within {timeout_s:,.0f} s",)


def check_time_s(url: str) -> float:
    """Return how long a start checks a journal, whose file it reads as a whole."""
    return CHECK_S + _file_bytes(url) // READ_BYTES_S


def check_words(url: str) -> str:
    """Say what a start waits for before it checks a large journal; empty for others."""
    if (size := _file_bytes(url)) < LARGE_BYTES:
        return ""
    return f"all {size / 1e9:.1f} GB of it are checked, for {check_time_s(url):,.0f} s at most"


def _file_bytes(url: str) -> int:
    is_file = is_sqlite(url) and file_of(url).is_file()
    return file_of(url).stat().st_size if is_file else 0


def doubts_about(url: str, state_dir: Path) -> tuple[str, ...]:
    """Return why the next start would hold a journal that no run is writing: what it would find,
    or what an earlier one found and nobody has accepted.
    """
    if found := _damage(url, state_dir, ANY_EPOCH):
        return found
    with reading_current(url) as connection:
        is_held = is_in_question(connection)
    return ("an earlier start found it damaged, or older, and nobody has accepted it",) * is_held


def _damage(url: str, state_dir: Path, epoch: int) -> tuple[str, ...]:
    heads = read_heads_file(state_dir, url)
    newest = heads.newest
    found = damage_of(url, newest, epoch)
    if heads.trouble:
        unread = _unread(state_dir, heads)
        return (f"whether it is an older copy is not known {unread}", *found)
    if newest is None or newest.journal == label_of(url):
        return found
    last = f"the last run wrote another journal, {newest.journal}"
    if found or not newest.is_last:  # a run that was killed has written more than its last heads
        back = f"if you have not moved it, set journal.url back to it ({_APART})"
        return (f"{last}: {back}", *found)
    return ()


def _unread(state_dir: Path, heads: HeadsFile) -> str:
    return f"(the heads in {state_dir} can't be read: {heads.trouble})"
