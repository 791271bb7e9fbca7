"""A search on a cluster: a real scheduler and two real workers, of which one is killed."""

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest

from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.history.optimise.result import Objective, Search
from bot.runtime.history.optimise.search import Question, search
from bot.runtime.history.optimise.space import Span
from bot.runtime.history.optimise.workers import cluster
from tests.optimise_trials import JOB, hill, noted

pytest.importorskip("distributed", reason="distributed is not installed")
pytest.importorskip("optuna", reason="optuna is not installed")
pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[4]
TRIALS = 40
PATIENCE_S = 120.0


@contextmanager
def dask(kind: str, folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a scheduler or a worker on loopback; killed at the end, if it still is there."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--host", "127.0.0.1"]
    command += ["--scheduler-file", str(folder / "scheduler.json"), "--no-dashboard", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    with (folder / f"{kind}.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log, stdout=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, list[int]]]:
    """The address of a scheduler that has its two workers, and the workers' process ids."""
    worker = ("--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path))
    with (
        dask("scheduler", tmp_path, "--port", "0"),
        dask("worker", tmp_path, *worker) as one,
        dask("worker", tmp_path, *worker) as two,
    ):
        file = tmp_path / "scheduler.json"
        while not file.exists() or not file.stat().st_size:
            sleep(0.01)  # the test's own time limit bounds this
        where = json.loads(file.read_text())["address"]
        with cluster(where, connect_s=PATIENCE_S) as (make, _):
            executor: Any = make()
            executor._client.wait_for_workers(2, timeout=PATIENCE_S)
        yield where, [one.pid, two.pid]


def asked(found: Search) -> list[object]:
    return [(trial.number, trial.values, trial.value) for trial in found.trials]


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_loses_no_trial_and_doubles_none(
    address: tuple[str, list[int]], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    question = Question(
        job=replace(JOB, strategy=str(calls)),
        run=noted,
        space=(Span("fast", 3, 20, 1, True), Span("slow", 20, 100, 1, True)),
        refuse=lambda _values: None,
        objective=Objective.SHARPE,
        trials=TRIALS,
        folds=3,
        seed=7,
    )
    where, pids = address

    def kill(done: int, _best: object) -> None:
        if done == TRIALS // 4:
            os.kill(pids[0], signal.SIGKILL)

    with cluster(where) as (make, count):
        found = search(question, tmp_path / "study", make, workers=count, told=kill)

    workers = {file.name.partition("-")[0] for file in calls.iterdir()}
    assert len(workers) == 2, "both have worked"
    plain = replace(question, run=hill)
    alone = search(plain, tmp_path / "alone", lambda: ThreadPoolExecutor(1))
    assert asked(found) == asked(alone)
    assert len({trial.number for trial in found.trials}) == TRIALS


@pytest.mark.filterwarnings("ignore")
def test_a_result_counts_though_its_worker_is_lost_just_then(
    address: tuple[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Future

    with cluster(address[0]) as (make, _):
        monkeypatch.setattr(Future, "status", "lost")
        with make() as executor:
            assert executor.submit(abs, -7).result(30) == 7


@pytest.mark.filterwarnings("ignore")
def test_a_trial_that_is_given_up_is_cancelled_on_the_cluster(
    address: tuple[str, list[int]],
) -> None:
    with cluster(address[0]) as (make, _):
        executor: Any = make()
        given_up = [executor.submit(sleep, 600) for _ in range(3)]
        kept = executor.submit(sleep, 600)

        assert [each.cancel() for each in given_up] == [True] * 3

        assert len(executor._client.futures) == 1
        kept.cancel()


@pytest.mark.filterwarnings("ignore")
def test_no_traceback_is_shown_for_a_trial_that_is_given_up(
    address: tuple[str, list[int]], caplog: pytest.LogCaptureFixture
) -> None:
    with cluster(address[0]) as (make, _):
        executor: Any = make()
        given_up = [executor.submit(sleep, 600) for _ in range(3)]
        client = executor._client

        assert [each.cancel() for each in given_up] == [True] * 3

        while client.futures:
            sleep(0.01)
        client.sync(asyncio.sleep, 0.1)
        gc.collect()

    assert [each for each in caplog.records if each.name == "asyncio"] == []


@pytest.mark.long  # a worker that is killed is in make test
@pytest.mark.filterwarnings("ignore")
def test_a_trial_that_ends_each_worker_is_a_breakdown_and_no_bug(
    address: tuple[str, list[int]],
) -> None:
    with cluster(address[0]) as (make, _), make() as executor:
        played = executor.submit(end_each_worker)

        assert isinstance(played.exception(30), BrokenExecutor)


def end_each_worker() -> None:
    """As Dask says it after some deaths."""
    from distributed import KilledWorker

    worker: Any = SimpleNamespace(address="tcp://127.0.0.1:1")
    raise KilledWorker("a trial", worker, 3)


@pytest.mark.parametrize("wrong", ["host", "tcp://host:port"])
def test_what_is_no_address_is_named_at_once(wrong: str) -> None:
    with pytest.raises(OperatorMistake, match="like tcp://host:8786") as caught, cluster(wrong):
        pass

    assert caught.value.exit_code == ExitCode.USAGE


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9], ids=["nothing", "HTTP"]
)
def test_a_server_that_is_no_scheduler_is_named_in_bounded_time(said: bytes) -> None:
    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                heard, _ = listening.accept()
                kept.append(heard)
                heard.sendall(said)

    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        Thread(target=serve, args=(listening,), daemon=True).start()
        address = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        with (
            pytest.raises(OperatorMistake, match="does not answer as one") as caught,
            cluster(address, connect_s=0.5),
        ):
            pass
        listening.shutdown(socket.SHUT_RDWR)
    for each in kept:
        each.close()

    assert caught.value.exit_code == ExitCode.UNREACHABLE


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_is_away_is_named_in_bounded_time() -> None:
    with (
        pytest.raises(OperatorMistake, match="does not answer") as caught,
        cluster("tcp://127.0.0.1:1", connect_s=0.5),
    ):
        pass

    assert caught.value.exit_code == ExitCode.UNREACHABLE
