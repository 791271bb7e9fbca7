"""D5: the power is cut under load; what was not synced is gone, and no order with it."""

import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.crash.power import NOT_HERE
from tests.faults.strikes import STRIKES
from tests.processes import ROOT

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]


@pytest.mark.long  # more of them by tests.crash.power
@pytest.mark.skipif(shutil.which("cc") is None, reason=NOT_HERE)
def test_a_cut_of_the_power_loses_and_doubles_nothing(
    record_property: Callable[[str, object], None],
) -> None:
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.crash.power", "4", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
    )

    rows = dict(line.rsplit(maxsplit=1) for line in told.stdout.splitlines() if " " in line)
    assert told.returncode == 0, told.stdout + told.stderr
    assert int(rows["kills"]) >= 4
    assert rows["other problems"] == rows["lost"] == rows["doubled"] == "0"
    assert int(rows["orders at the broker"]) > 0
    record_property(STRIKES, int(rows["kills"]))
