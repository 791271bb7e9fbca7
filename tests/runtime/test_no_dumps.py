"""The memory of the bot's process goes into no core file and to no other process."""

import subprocess
import sys

import pytest

TOLD = """
import ctypes, resource
from bot.cli.main import main
try:
    main(["version"])
except SystemExit:
    print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has PR_SET_DUMPABLE")
def test_a_command_s_memory_is_neither_dumped_nor_read() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOLD], capture_output=True, text=True, check=True, timeout=150
    )

    assert done.stdout.splitlines()[-1] == "(0, 0) 0"
