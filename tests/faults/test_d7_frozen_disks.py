"""D7: the disk takes nothing any more, in the middle of a write or of a sync that never returns."""

import shutil
import subprocess
import sys

import pytest

from tests.processes import ROOT

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]


@pytest.mark.one_strike
@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: no disk is frozen here")
def test_a_stop_on_a_frozen_disk_ends_in_its_time_and_the_next_start_knows_all() -> None:
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.faults.frozen"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
    )

    assert told.returncode == 0, told.stdout + told.stderr
    assert "the start after it: both orders known, none placed twice" in told.stdout
