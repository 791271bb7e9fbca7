"""strace strikes a running bot at the Nth I/O call of one of its threads: with SIGKILL or an error.

It is attached once the bot is at rest, so that what is counted begins with what is asked of it. A
signal arrives before the call is carried out: N = 1, 2, 3 … are all the places between two calls.
Calls that only read a file, look at the time or wait are left out: they change nothing that
outlives the process.
"""

import contextlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WRITES: Final = (
    *("write", "pwrite64", "writev", "pwritev", "fsync", "fdatasync", "ftruncate", "fallocate"),
    *("rename", "unlink", "unlinkat"),
)
CALLS: Final = (*WRITES, "openat", "connect", "sendto", "sendmsg", "recvfrom", "recvmsg")
ATTACH_S_MAX: Final = 60.0
LET_GO_S: Final = 10.0
NOT_HERE: Final = "strace is not installed here, or may not attach: try python -m tests.crash.kills"
_THREAD: Final = re.compile(r"^\d+ +")
_CALL: Final = re.compile(
    r"(\w+)\((?:AT_FDCWD[^,]*, )?(?:\d+<([^>]*)>|\"([^\"]*)\")?(?:, \"(\w* ?))?"
)


@dataclass(frozen=True, slots=True)
class Strike:
    """What strace does at which calls of a thread; `files`: only at calls that touch these."""

    calls: Sequence[str]
    what: str
    """signal=KILL, error=ENOSPC …"""
    when: str
    """N, or N+ for each call from the Nth on"""
    files: Sequence[Path] = ()
    threads: Sequence[str] = ()
    """("-f",): all of the process, also those that begin later, each with a count of its own"""


def may_strike() -> bool:
    """Return whether strace exists and may attach to a process that is not its child."""
    if shutil.which("strace") is None:
        return False
    with subprocess.Popen(["sleep", "10"]) as other:
        command = ["strace", "-o", "/dev/null", "-e", "trace=none", "-p", str(other.pid)]
        strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert strace.stderr is not None
        is_attached = "attached" in strace.stderr.readline()
        other.kill()
        strace.communicate(timeout=ATTACH_S_MAX)
    return is_attached


def threads_of(pid: int) -> Sequence[int]:
    """Return the threads of a process, main thread first, then those that have worked most: the
    second is the journal's.
    """
    worked = {}
    for each in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one that has ended since
            worked[int(each.name)] = int((each / "schedstat").read_text().split()[0])
    return sorted(worked, key=lambda thread: (thread != pid, -worked[thread]))


@contextlib.contextmanager
def struck(thread: int, strike: Strike, log: Path) -> Iterator[None]:
    """Attach to a thread within the context. Afterwards `log` has its calls."""
    command = ["strace", *strike.threads, "-y", "-s", "24", "-o", str(log), "-p", str(thread)]
    command += [word for file in strike.files for word in ("-P", str(file))]
    calls = ",".join(strike.calls)
    command += ["-e", f"trace={calls}", "-e", f"inject={calls}:{strike.what}:when={strike.when}"]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert strace.stderr is not None
        said, give_up = "", time.monotonic() + ATTACH_S_MAX
        while "attached" not in said:
            assert time.monotonic() < give_up, said
            line = strace.stderr.readline()
            assert line, said
            said += line
        yield
    finally:
        strace.send_signal(signal.SIGTERM)
        try:
            strace.communicate(timeout=LET_GO_S)
        except subprocess.TimeoutExpired:  # it may wait for a thread that died unseen
            strace.kill()
            strace.communicate()


def struck_at(log: Path) -> str:
    """The call at which a thread was killed: `pwrite64 journal.db-wal`, `sendto socket POST`."""
    lines = [_THREAD.sub("", line) for line in log.read_text().splitlines()]
    lines = [line for line in lines if not line.startswith(("+++", "<..."))]
    found = _CALL.match(lines[-1]) if lines else None
    if found is None:
        return "between calls"
    call, file, path, text = found.groups()
    where = Path(file or path or "").name.partition(":")[0]
    return " ".join(filter(None, [call, where, text]))
