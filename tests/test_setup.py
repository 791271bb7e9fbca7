"""What `make setup` installs: only wheels, each of them one whose hash the lock file knows."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_nothing_is_built_and_nothing_comes_without_its_hash() -> None:
    script = (ROOT / "scripts" / "setup.sh").read_text("utf-8").replace("\\\n", " ")

    synced = [line for line in script.splitlines() if "pip sync" in line]

    assert len(synced) == 1
    assert re.search(r"--require-hashes\s.*--only-binary :all:\s.*requirements\.lock", synced[0])
