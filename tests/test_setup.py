"""What `make setup` installs: only wheels of known hashes; what `make lock` takes into the lock;
with which Python, from where, and when again. A stand-in for uv writes down what it is asked."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.sbom import pinned

ROOT = Path(__file__).resolve().parents[1]
PYTHON = getattr(sys, "_base_executable", sys.executable)  # the one with pip
OUTSIDE = ("PIP_", "UV_", "SSL_", "HTTPS_", "https_")
HERE = sys.version_info.minor

PACKAGES_OF_UV = 1

UV = f"""#!/bin/sh
printf '%s\\n' "$1 ${{2:-}}" >>uv.calls
env >uv.environment
case "$1 ${{2:-}}" in
venv*) mkdir -p .venv/bin && ln -sf '{PYTHON}' .venv/bin/python ;;
'pip sync') [ ! -e uv.error ] || {{ cat uv.error >&2; mv uv.error was; exit 1; }} ;;
esac
"""


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


@dataclass(frozen=True, slots=True)
class Checkout:
    folder: Path

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        told = {name: value for name, value in os.environ.items() if not name.startswith(OUTSIDE)}
        return subprocess.run(
            ["sh", "scripts/setup.sh"],
            cwd=self.folder,
            env=told | {"PYTHON": PYTHON} | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def rerun(self) -> list[str]:
        """Runs it without PYTHON and gives what uv was asked for meanwhile."""
        (self.folder / "uv.calls").unlink(missing_ok=True)
        assert self.run(PYTHON="").returncode == 0
        calls = self.folder / "uv.calls"
        return calls.read_text("utf-8").splitlines() if calls.exists() else []

    def environment(self) -> dict[str, str]:
        lines = (self.folder / "uv.environment").read_text("utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    folder = tmp_path / "Bùi An" / "vnbot"
    for name in ("scripts", ".tools/bin"):
        (folder / name).mkdir(parents=True)
    for name in ("scripts/setup.sh", "scripts/uv.txt", "requirements.lock", "pyproject.toml"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    uv = folder / ".tools" / "bin" / "uv"
    uv.write_text(UV, "utf-8")
    uv.chmod(0o755)
    return Checkout(folder)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_script_and_project_name_the_same_pythons() -> None:
    script = (ROOT / "scripts" / "setup.sh").read_text("utf-8")
    [(lowest, highest)] = re.findall(r"^PYTHON_MIN=(\d+) PYTHON_MAX=(\d+)$", script, re.MULTILINE)
    named = f"CPython 3.{lowest} to 3.{highest}"

    assert f"# Needs {named} with pip" in script
    assert f"{named} with pip" in (ROOT / "README.md").read_text("utf-8")
    assert f'requires-python = ">=3.{lowest},<3.{int(highest) + 1}"' in (
        ROOT / "pyproject.toml"
    ).read_text("utf-8")
    chosen = f"(3, {lowest}) <= sys.version_info[:2] <= (3, {highest})"
    assert chosen in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.process
@pytest.mark.parametrize(
    ("bound", "pythons"),
    [
        (f"PYTHON_MIN=11 PYTHON_MAX={HERE - 1}", f"3.11 to 3.{HERE - 1}"),
        (f"PYTHON_MIN={HERE + 1} PYTHON_MAX=99", f"3.{HERE + 1} to 3.99"),
    ],
)
def test_a_python_that_the_lock_has_no_wheels_for_is_refused_at_once(
    checkout: Checkout, bound: str, pythons: str
) -> None:
    change(checkout.folder / "scripts" / "setup.sh", "PYTHON_MIN=11 PYTHON_MAX=14", bound)

    done = checkout.run()

    version = ".".join(map(str, sys.version_info[:3]))
    assert done.stderr == (
        f"setup: error: CPython {pythons} is needed, {PYTHON} is Python {version}; "
        "install one of these and set PYTHON=/path/to/it\n"
    )
    assert done.returncode == 1
    assert not (checkout.folder / "uv.calls").exists()


@pytest.mark.process
def test_uv_is_told_what_any_of_pips_files_says(checkout: Checkout) -> None:
    settings = checkout.folder / "pip.conf"
    settings.write_text(
        "[global]\nindex-url = https://index.example/simple\ncert = /etc/company.pem\n"
        "[install]\ntrusted-host =\n    one.example\n    two.example\n",
        "utf-8",
    )

    done = checkout.run(PIP_CONFIG_FILE=str(settings), PIP_PROXY="http://proxy.example:3128")

    assert done.returncode == 0, done.stderr
    told = checkout.environment()
    assert told["UV_DEFAULT_INDEX"] == "https://index.example/simple"
    assert told["SSL_CERT_FILE"] == "/etc/company.pem"
    assert told["UV_INSECURE_HOST"] == "one.example two.example"
    assert told["HTTPS_PROXY"] == "http://proxy.example:3128"


@pytest.mark.process
def test_a_certificate_that_only_this_machine_knows_is_trusted_in_a_second_try(
    checkout: Checkout,
) -> None:
    (checkout.folder / "uv.error").write_text("invalid peer certificate: UnknownIssuer\n", "utf-8")

    done = checkout.run(PIP_CONFIG_FILE="/dev/null")

    assert done.returncode == 0, done.stderr
    assert checkout.environment()["UV_SYSTEM_CERTS"] == "1"


@pytest.mark.process
def test_a_failure_that_no_other_source_can_mend_is_told_once(checkout: Checkout) -> None:
    (checkout.folder / "uv.error").write_text("error: no wheels for this machine\n", "utf-8")

    done = checkout.run(PIP_CONFIG_FILE="/dev/null")

    assert done.returncode == 1
    assert done.stderr.count("error: no wheels for this machine\n") == 1
    assert (checkout.folder / "uv.calls").read_text("utf-8").count("pip sync") == 1


@pytest.mark.process
def test_it_is_done_once_and_again_where_the_folder_or_the_python_is_another(
    checkout: Checkout,
) -> None:
    assert checkout.run().returncode == 0
    python = checkout.folder / ".venv" / "bin" / "python"

    assert checkout.rerun() == []

    moved = Checkout(checkout.folder.rename(checkout.folder.with_name("elsewhere")))
    assert "pip sync" in moved.rerun()
    assert moved.rerun() == []

    python = moved.folder / ".venv" / "bin" / "python"
    python.unlink()
    python.write_text("#!/bin/sh\necho Python 3.99 in\n", "utf-8")
    python.chmod(0o755)
    assert "pip sync" in moved.rerun()
    assert moved.rerun() == []
