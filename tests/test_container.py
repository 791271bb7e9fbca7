"""The container's files: they name what is there, hold no secret, and their bot needs no root.

No engine is needed: what the image promises is shown by a bot of another user, on a root that is
read-only, without a home and without capabilities.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from ruamel.yaml import YAML

from bot.config.settings.places import CONFIG_VARIABLE, STATE_VARIABLE

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "config" / "container"
USER: Final = "10001"
START_S: Final = 150
AS_IN_A_CONTAINER: Final = f"""\
mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /mnt && cd /mnt &&
mkdir state config python && mount --bind "$1" state && mount --bind "$2" config &&
mount --bind "{sys.base_prefix}" python &&
case {sys.base_prefix} in /root/*) mount -t tmpfs -o mode=755 tmpfs /root &&
    mkdir -p {sys.base_prefix} && mount --bind python {sys.base_prefix};; esac &&
mount -o remount,ro,bind /mnt/config && mount -o remount,ro,bind / && mount -o remount,ro /mnt &&
cd /mnt/config && exec setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs \
    --bounding-set -all sh -c "$3"
"""
A_LIFE: Final = """\
touch /mnt/config/x /tmp/vnbot-in-a-container 2>/dev/null && echo writable
bot run --no-input >/dev/null & id=$!
for each in $(seq 100); do ls /mnt/state/control/* >/dev/null 2>&1 && break; sleep 0.1; done
bot status --wait RUNNING --timeout 20s >/dev/null; echo "health $?"
kill -TERM $id; wait $id; echo "end $?"
"""


@cache
def instructions() -> tuple[tuple[str, str], ...]:
    joined = (FOLDER / "Containerfile").read_text().replace("\\\n", " ")
    lines = (line for line in joined.splitlines() if line and not line.startswith("#"))
    return tuple((name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines))


def all_of(name: str) -> Iterator[str]:
    return (rest for each, rest in instructions() if each == name)


def environment() -> dict[str, str]:
    pairs = (word.partition("=") for line in all_of("ENV") for word in line.split())
    return {name: value for name, _, value in pairs}


def test_what_is_copied_is_there_and_is_let_into_the_build() -> None:
    copied = [
        name
        for line in all_of("COPY")
        if not line.startswith("--from")
        for name in line.split()[:-1]
    ]
    let_in = (FOLDER / "Containerfile.dockerignore").read_text().splitlines()

    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert sorted(copied) == sorted(line[1:] for line in let_in if line.startswith("!"))
    assert let_in[1] == "*", "what is not named stays out"
    last = max(place for place, line in enumerate(let_in) if line.startswith("!"))
    assert {"**/secrets.yaml", "**/.env", "**/*.db*"} <= set(let_in[last:]), "the last line wins"


def test_libraries_come_from_the_lock_by_their_hashes() -> None:
    libraries, project = (json.loads(line) for line in all_of("RUN") if '"install", "--py' in line)

    assert libraries[libraries.index("--constraint") + 1] == "requirements.lock"
    assert libraries[libraries.index("--only-binary") + 1] == ":all:"
    assert project[project.index("--build-constraint") + 1] == "requirements.lock"
    assert "--no-deps" in project


def test_the_bot_in_it_is_nobody_and_its_health_is_an_answer_of_the_bot() -> None:
    names = [name for name, _ in instructions()]
    (health,) = all_of("HEALTHCHECK")
    (entry,), (words,) = all_of("ENTRYPOINT"), all_of("CMD")

    assert list(all_of("USER")) == [f"{USER}:{USER}"]
    assert names.index("USER") > max(i for i, name in enumerate(names) if name in {"RUN", "COPY"})
    assert health.endswith("CMD bot status >/dev/null")
    assert (json.loads(entry), json.loads(words)) == (["bot"], ["run", "--no-input"])
    places = {name: environment()[name] for name in (CONFIG_VARIABLE, STATE_VARIABLE)}
    assert places == {CONFIG_VARIABLE: "/config/bot.yaml", STATE_VARIABLE: "/state"}
    assert [json.loads(line) for line in all_of("VOLUME")] == [["/state"]]
    assert list(all_of("STOPSIGNAL")) == ["SIGTERM"]


def test_compose_takes_every_right_away() -> None:
    (bot,) = YAML(typ="safe").load(FOLDER / "compose.yaml")["services"].values()

    assert bot["user"] == f"{USER}:{USER}"
    assert (bot["read_only"], bot["cap_drop"], bot["init"]) == (True, ["ALL"], True)
    assert bot["security_opt"] == ["no-new-privileges:true"]
    assert [volume for volume in bot["volumes"] if not volume.endswith(":ro")] == ["state:/state"]
    assert {"ports", "privileged", "network_mode", "env_file"} & set(bot) == set()
    assert bot["command"] == json.loads(next(all_of("CMD")))


def as_in_a_container(tmp_path: Path, script: str) -> "subprocess.CompletedProcess[str]":
    state, config = tmp_path / "state", tmp_path / "config"
    state.mkdir(mode=0o700, exist_ok=True)
    os.chown(state, int(USER), int(USER))
    if not config.exists():
        shutil.copytree(ROOT / "config" / "strategies", config / "strategies")
    (config / "bot.yaml").write_text("mode: sandbox\nstrategies: strategies/*.yaml\n")
    told = {
        **environment(),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        CONFIG_VARIABLE: "/mnt/config/bot.yaml",
        STATE_VARIABLE: "/mnt/state",
    }
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", AS_IN_A_CONTAINER, "-", str(state), str(config), script],
        env=told,
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )


@pytest.mark.long
@pytest.mark.process
def test_it_runs_as_nobody_on_a_read_only_root_and_sigterm_ends_it_with_0(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("mounts of its own want root, unshare and setpriv")
    if (tried := as_in_a_container(tmp_path, "python -c 0")).returncode != 0:
        pytest.skip(f"no mounts here, or Python is out of others' reach: {tried.stderr.strip()}")

    ran = as_in_a_container(tmp_path, A_LIFE)

    assert ran.stdout.splitlines() == ["health 0", "end 0"], ran.stderr
    assert {path.stat().st_uid for path in (tmp_path / "state").rglob("*")} == {int(USER)}
