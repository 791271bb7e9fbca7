"""What `make setup` installs: only wheels of known hashes; what `make lock` takes into the lock."""

import re
from pathlib import Path

from scripts.sbom import pinned

ROOT = Path(__file__).resolve().parents[1]


PACKAGES_OF_UV = 1


def steps() -> list[str]:
    """The script, each command on one line."""
    text = (ROOT / "scripts" / "setup.sh").read_text("utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


def test_nothing_is_built_and_nothing_comes_without_its_hash() -> None:
    synced = [line for line in steps() if "pip sync" in line]
    fetched = [line for line in steps() if "-m pip install" in line]

    assert len(synced) == len(fetched) == 1
    for line, lock in ((synced[0], r"requirements\.lock"), (fetched[0], r'-r "\$UV_LOCK"')):
        assert re.search(rf"--require-hashes\s.*--only-binary :all:\s.*{lock}", line)


def test_what_fetches_the_rest_is_pinned_by_hashes_too() -> None:
    assert len([*pinned((ROOT / "scripts" / "uv.txt").read_text("utf-8"))]) == PACKAGES_OF_UV


def test_a_lock_takes_nothing_that_is_younger_than_a_week() -> None:
    resolved = [line for line in steps() if "pip compile" in line]
    [days] = re.findall(r"^COOLDOWN='(\d+) days'$", "\n".join(steps()), re.MULTILINE)

    assert len(resolved) == 1
    assert '--exclude-newer "$COOLDOWN"' in resolved[0]
    assert int(days) >= 7
