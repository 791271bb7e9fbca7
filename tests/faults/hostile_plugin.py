"""A plug-in that does harm in one of many ways, in one of its hooks, once there is a file `go`.

It leaves a file `acts` when it begins. Nothing of the project imports it: a test copies it into a
bot's folder of strategies.
"""

import asyncio
import itertools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from bot import Strategy

KEPT: list[object] = []
MEGABYTE = 1 << 20


class Own(BaseException):
    """An exception that no `except Exception` catches."""


def blocks(_: Strategy) -> None:
    time.sleep(30)


def spins(_: Strategy) -> NoReturn:
    while True:
        pass


def blocks_and_catches(_: Strategy) -> None:
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        try:
            time.sleep(30)
        except BaseException:  # noqa: BLE001, S112  the harm that is meant
            continue


def holds_the_interpreter(_: Strategy) -> None:
    sum(itertools.repeat(1, 1_500_000_000))


def raising(error: type[BaseException]) -> Callable[[Strategy], NoReturn]:
    def act(_: Strategy) -> NoReturn:
        raise error("harm")

    return act


def exits(_: Strategy) -> NoReturn:
    os._exit(3)


def forks(_: Strategy) -> None:
    os.fork()


def forks_and_stays(_: Strategy) -> None:
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)


def leaks_memory(_: Strategy) -> None:
    while True:
        KEPT.append(bytearray(8 * MEGABYTE))


def leaks_descriptors(_: Strategy) -> None:
    while True:
        KEPT.append(socket.socket())


def starts_threads(_: Strategy) -> None:
    def spin() -> NoReturn:
        while True:
            pass

    for _number in range(4):
        threading.Thread(target=spin, daemon=True).start()


def ignores_signals(_: Strategy) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGVTALRM):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)


def closes_streams(_: Strategy) -> None:
    for number in range(3):
        os.close(number)


def changes_folder(_: Strategy) -> None:
    folder = Path("/tmp") / f"gone{os.getpid()}"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()


def patches_time(_: Strategy) -> None:
    for name in ("time", "monotonic", "perf_counter"):
        setattr(time, name, lambda: 0.0)
    setattr(time, "clock_gettime", lambda _: 0.0)  # noqa: B010


def patches_sockets(_: Strategy) -> None:
    setattr(socket, "socket", None)  # noqa: B010


def recurses(strategy: Strategy) -> None:
    recurses(strategy)


def generates(_: Strategy) -> None:
    def endless() -> Iterator[int]:
        while True:
            yield 1

    sum(endless())


def writes(_: Strategy) -> None:
    for _number in range(16):
        sys.stdout.write("x" * MEGABYTE)
        sys.stdout.flush()


def catches_cancellation(_: Strategy) -> None:
    async def lasts() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    KEPT.append(asyncio.get_running_loop().create_task(lasts()))


ACTS: Mapping[str, Callable[[Any], None]] = {
    "blocks": blocks,
    "spins": spins,
    "blocks and catches": blocks_and_catches,
    "holds the interpreter": holds_the_interpreter,
    "raises": raising(ValueError),
    "raises its own": raising(Own),
    "raises KeyboardInterrupt": raising(KeyboardInterrupt),
    "raises SystemExit": raising(SystemExit),
    "raises CancelledError": raising(asyncio.CancelledError),
    "exits": exits,
    "forks": forks,
    "forks and stays": forks_and_stays,
    "leaks memory": leaks_memory,
    "leaks descriptors": leaks_descriptors,
    "starts threads": starts_threads,
    "ignores signals": ignores_signals,
    "closes streams": closes_streams,
    "changes folder": changes_folder,
    "patches time": patches_time,
    "patches sockets": patches_sockets,
    "recurses": recurses,
    "generates": generates,
    "writes": writes,
    "catches cancellation": catches_cancellation,
}


class Hostile(Strategy):
    """Does it each time that its hook is called."""

    kind: str
    folder: str
    hook: str = "on_quote"

    def _called(self, hook: str) -> None:
        folder = Path(self.folder)
        if hook == self.hook and (folder / "go").exists():
            (folder / "acts").touch()
            ACTS[self.kind](self)

    def on_start(self) -> None:
        self._called("on_start")

    def on_bar(self, _bar: object) -> None:
        self._called("on_bar")

    def on_quote(self, quote: Any) -> None:
        if self.hook in {"on_fill", "on_reject"} and not self.position:
            self.buy(100, limit=quote.ceiling, why="to be told of it")
        self._called("on_quote")

    def on_depth(self, _book: object) -> None:
        self._called("on_depth")

    def on_timer(self, _timer: object) -> None:
        self._called("on_timer")

    def on_session(self, _phase: object) -> None:
        self._called("on_session")

    def on_fill(self, _fill: object) -> None:
        self._called("on_fill")

    def on_reject(self, _rejection: object) -> None:
        self._called("on_reject")

    def on_stop(self) -> None:
        self._called("on_stop")
