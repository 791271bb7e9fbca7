"""Where trials run: processes of this machine, or the workers of a Dask cluster."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
)
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context, parent_process
from socket import create_connection
from threading import Thread
from typing import Any, Final

from bot.config.problems import ExitCode, OperatorMistake

CONNECT_S: Final = 10.0
"""How long a cluster may take to answer, and again to show its first worker."""
MISSING: Final = (
    "a cluster needs Dask, which is not installed: pip install 'vnbot[cluster]' here and on every "
    "worker, then again"
)

MakeExecutor = Callable[[], Executor]


class _Processes(ProcessPoolExecutor):
    """Ends its workers on exit without waiting for them: a trial may take long, and a process does
    not exit before its workers.
    """

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        # Of trials that are still pending when their workers end, the pool's thread would complain.
        super().shutdown(wait, cancel_futures=cancel_futures or not wait)
        for worker in () if wait else active_children():
            worker.terminate()


def processes(count: int) -> MakeExecutor:
    """Return a factory of processes on this machine. They are spawned: a fork would
    copy threads.
    """
    context = get_context("spawn")
    return lambda: _Processes(count, mp_context=context, initializer=_follow_the_search)


def _follow_the_search() -> None:
    """Leave Ctrl-C to the search, which ends its workers, and exit if the search was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    search = parent_process()
    assert search is not None, "a worker has a parent"

    def end_after() -> None:
        search.join()
        os._exit(1)

    Thread(target=end_after, daemon=True).start()


class _Cluster(Executor):
    """Plays on a cluster's workers.

    Dask has an executor too, but it looks at a task again once it has the result: if the worker
    ended just then, it takes that result for an exception and raises a TypeError.
    """

    def __init__(self, client: Any) -> None:
        from distributed import KilledWorker

        self._client = client
        self._killed: type[Exception] = KilledWorker
        """Raised for a task whose workers have died, one after another."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        client, future = self._client, Future[Any]()
        task = client.submit(fn, *args, pure=False, **kwargs)

        async def hand_over() -> None:
            """A result that went with its worker is made again, and waited for."""
            gathered = asyncio.ensure_future(client.gather(task, asynchronous=True))
            await asyncio.wait([gathered])
            # Looked at even if nobody wants it any more: else asyncio shows its traceback.
            error = CancelledError() if gathered.cancelled() else gathered.exception()
            if not future.set_running_or_notify_cancel():
                return
            if isinstance(error, self._killed):
                future.set_exception(BrokenExecutor(f"it has ended each worker: {error}"))
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(gathered.result())

        future.add_done_callback(lambda _: task.cancel() if future.cancelled() else None)
        client.loop.add_callback(hand_over)
        return future


async def _greet(address: str, connect_s: float) -> None:
    """Shake hands with a scheduler. Raises OSError; ValueError or MemoryError if it is another
    server: what that says is taken for lengths.
    """
    from distributed.comm.core import connect

    reach: Any = connect  # not annotated
    async with asyncio.timeout(connect_s + 1):
        greeted = await reach(address, timeout=connect_s)
    greeted.abort()


@contextmanager
def cluster(address: str, connect_s: float = CONNECT_S) -> Iterator[tuple[MakeExecutor, int]]:
    """Yield an executor on a cluster's workers, and how many there are now; disconnect at the end.

    Raises OperatorMistake if it does not answer in time, or has no worker.
    """
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        raise OperatorMistake.of("E-OPT-002", MISSING) from None
    reach: Any = Client  # its methods are not annotated
    clients: list[Any] = []
    try:
        place: tuple[str, int] = get_address_host_port(address)
    except ValueError as error:
        text = f"--cluster {address}: wanted the address of a scheduler, like tcp://host:8786"
        raise OperatorMistake.of("E-OPT-004", text, ExitCode.USAGE) from error

    def connect() -> Any:
        try:
            # A client that never connected hangs when closed, and shows a traceback.
            create_connection(place, timeout=connect_s).close()
            asyncio.run(_greet(address, connect_s))
            client = reach(address, timeout=connect_s, set_as_default=False)
        except (OSError, ValueError, MemoryError) as error:
            text = f"the cluster {address} does not answer as one: does its scheduler run there "
            text += "(dask scheduler; its port is 8786, the dashboard's 8787), and may this "
            text += "machine reach it?"
            raise OperatorMistake.of("E-OPT-004", text, ExitCode.UNREACHABLE) from error
        clients.append(client)
        try:
            client.wait_for_workers(1, timeout=connect_s)
        except (OSError, TimeoutError) as error:
            text = f"the cluster {address} has no worker: start some with dask worker {address}"
            raise OperatorMistake.of("E-OPT-004", text, ExitCode.UNREACHABLE) from error
        return client

    def make() -> Executor:
        if clients[-1].status != "running":
            connect()
        return _Cluster(clients[-1])

    try:
        count = len(connect().scheduler_info(n_workers=-1)["workers"])
        yield make, count
    finally:
        for client in clients:
            with suppress(OSError, TimeoutError):
                client.close(timeout=connect_s)
