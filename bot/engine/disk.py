"""The room on the journal's disk: told early, and the last of it kept for what must be written.

Answers, cancels and halts go on being written while orders already wait: an order that is placed on
a disk's last bytes is one whose end nobody can write down.
"""

from collections.abc import Iterable
from typing import Final

from bot.domain.machine import DiskSeen
from bot.engine import gate
from bot.engine.state import State

LOW_BYTES: Final = 512 * 1024 * 1024
"""Less is told: a trading day with thirty symbols writes some 100 MB."""
RESERVE_BYTES: Final = 64 * 1024 * 1024
"""With less no order leaves: it is the journal's, for what is open."""
DISK: Final = "disk"


def on_disk_seen(state: State, event: DiskSeen) -> None:
    """Tell of a disk that is filling up, and keep orders back on one that nearly is full."""
    before, now = state.machine.disk_free, event.free_bytes
    state.machine.disk_free = now if now < LOW_BYTES else None
    if now < LOW_BYTES and _level(before) != _level(now):
        facts = {"free_mb": now // 1024**2, "reserve_mb": RESERVE_BYTES // 1024**2}
        state.alert("DISK_LOW", _words(now), facts)
    elif before is not None and now >= LOW_BYTES:
        state.note("RESUME", f"the journal's disk has {now // 1024**2:,} MB again")
    text = f"the journal's disk has {now // 1024**2:,} MB left"
    gate.degrade(state, DISK, text, is_over=now >= RESERVE_BYTES)


def alerts(state: State) -> Iterable[str]:
    """Return how much room there is, while it is little."""
    free = state.machine.disk_free
    return () if free is None else (_words(free),)


def _level(free: int | None) -> int:
    return 0 if free is None else 1 if free >= RESERVE_BYTES else 2


def _words(free: int) -> str:
    reserve = f"{RESERVE_BYTES // 1024**2} MB"
    does = f"below {reserve} no order leaves" if free >= RESERVE_BYTES else "no order leaves"
    return (
        f"the disk of the journal has {free // 1024**2:,} MB left: {does}; the last {reserve} are "
        "for answers, cancels and halts. Make room on it: df, du"
    )
