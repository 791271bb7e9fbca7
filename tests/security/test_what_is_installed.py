"""What is installed: few packages, each by its hash, and nothing that slipped in beside them."""

import tomllib
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bot.config.problems import OperatorMistake
from bot.runtime.start.planted import planted, require_nothing_planted
from scripts.sbom import LOCK, US, bill, needed_by, pinned
from tests.rows import every_row

ROOT = Path(__file__).resolve().parents[2]
DIRECT_MAX, TOTAL_MAX = 22, 45


def package_with(folder: Path, name: str, text: str) -> Path:
    """A package that brings one file along, as an installer records it."""
    file = folder / name
    file.write_text(text)
    info = folder / "good-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: good\nVersion: 1.0\n")
    digest = urlsafe_b64encode(sha256(text.encode()).digest()).decode().rstrip("=")
    (info / "RECORD").write_text(
        f"{name},sha256={digest},{len(text)}\ngood-1.0.dist-info/RECORD,,\n"
    )
    return file


def test_what_a_package_brought_along_is_known(tmp_path: Path) -> None:
    package_with(tmp_path, "good.pth", "import good")

    assert list(planted([tmp_path], [])) == []


def test_what_no_package_brought_along_is_named(tmp_path: Path) -> None:
    package_with(tmp_path, "good.pth", "import good")
    (tmp_path / "evil.pth").write_text("import os; os.system('id')")
    (tmp_path / "sitecustomize.py").write_text("import os")

    found = list(planted([tmp_path], [tmp_path / "sitecustomize.py"]))

    assert [file.name for file in found] == ["evil.pth", "sitecustomize.py"]


def test_what_was_changed_after_it_was_installed_is_named(tmp_path: Path) -> None:
    file = package_with(tmp_path, "good.pth", "import good")
    file.write_text("import good, evil")

    assert list(planted([tmp_path], [])) == [file]


@pytest.mark.parametrize("name", ["_virtualenv.pth", "other.pth"])
def test_what_cannot_be_read_is_named_and_ends_no_start_as_a_bug(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "gone.pth").symlink_to(tmp_path / "nowhere")

    found = list(planted([tmp_path], [tmp_path / "sitecustomize.py"]))

    assert {file.name for file in found} == {name, "gone.pth", "sitecustomize.py"}


@pytest.mark.parametrize(("text", "count"), [("import _virtualenv", 0), ("import os", 1)])
def test_what_tools_write_is_known_by_its_text(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "_virtualenv.pth").write_text(text)

    assert len(list(planted([tmp_path], []))) == count


def test_nothing_is_planted_here() -> None:
    try:
        require_nothing_planted()
    except OperatorMistake as mistake:
        pytest.fail(str(mistake))


def test_every_package_of_the_lock_has_its_version_and_hashes_and_nothing_else() -> None:
    assert len([*pinned(LOCK.read_text("utf-8"))]) > TOTAL_MAX


GOOD = "good==1.0 ; python_version < '3.12' --hash=sha256:" + "0" * 64


@every_row(
    "line",
    [
        "good==1.0",
        "good>=1.0 --hash=sha256:" + "0" * 64,
        "good @ https://example.test/good.whl --hash=sha256:" + "0" * 64,
        "--index-url https://example.test/simple",
        "-e .",
        GOOD.replace("sha256", "md5"),
        GOOD[:-1],
        f"{GOOD} https://example.test",
        "",
    ],
)
def test_a_line_of_a_lock_that_pins_nothing_is_refused(line: str) -> None:
    assert len([*pinned(GOOD)]) == 1
    with pytest.raises(ValueError, match="no package with version and hashes"):
        list(pinned(f"{GOOD}\n{line}\n"))


def test_the_core_is_of_few_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    total = needed_by(US)

    assert len(project["dependencies"]) <= DIRECT_MAX
    assert len(project["dependencies"]) < len(total) <= TOTAL_MAX, sorted(total)


def test_the_list_of_what_is_inside_names_each_package_once_and_knows_who_needs_it() -> None:
    listed: Any = bill(LOCK.read_text("utf-8"))

    refs = [each["bom-ref"] for each in listed["components"]]
    needed = {one for each in listed["dependencies"] for one in each["dependsOn"]}
    scopes = {each["name"]: each["scope"] for each in listed["components"]}
    assert len(refs) == len(set(refs)) == len([*pinned(LOCK.read_text("utf-8"))])
    assert needed <= set(refs)
    assert {name for name, scope in scopes.items() if scope == "required"} == needed_by(US)
    assert (scopes["httpx"], scopes["psycopg-binary"], scopes["pytest"]) == (
        "required",
        "optional",
        "excluded",
    )
    assert all(each["hashes"] for each in listed["components"])
    assert listed == bill(LOCK.read_text("utf-8"))
