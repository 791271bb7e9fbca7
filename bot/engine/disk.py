"""The room on the journal's disk: told early, and the last of it kept for what must be written.

Answers, cancels and halts go on being written while orders already wait: an order that is placed on
a disk's last bytes is one whose end nobody can write down.
"""

from collections.abc import Iterable
from typing import Final

from bot.domain.machine import DiskSeen
from bot.engine import gate
from bot.engine.state import State
from bot.engine.watched import Standing

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
        told = _low(now)
        state.alert(told.code, told.text, told.facts)
    elif before is not None and now >= LOW_BYTES:
        state.note("RESUME", f"the journal's disk has {now // 1024**2:,} MB again")
    text = f"the journal's disk has {now // 1024**2:,} MB left"
    gate.degrade(state, DISK, text, is_over=now >= RESERVE_BYTES)


def alerts(state: State) -> Iterable[Standing]:
    """Return how much room there is, while it is little."""
    free = state.machine.disk_free
    return () if free is None else (_low(free),)


def _level(free: int | None) -> int:
    return 0 if free is None else 1 if free >= RESERVE_BYTES else 2


def _low(free: int) -> Standing:
    reserve, is_full = f"{RESERVE_BYTES // 1024**2} MB", free < RESERVE_BYTES
    does = "no order leaves" if is_full else f"below {reserve} no order leaves"
    text = (
        f"the disk of the journal has {free // 1024**2:,} MB left: {does}; the last {reserve} are "
        "for answers, cancels and halts. Make room on it: df, du"
    )
    facts = {"free_mb": free // 1024**2, "reserve_mb": RESERVE_BYTES // 1024**2}
    return Standing("DISK_LOW", text, {**facts, "are_orders_held": is_full})
