"""`bot service`: a unit that systemd takes, that is safe, and that restarts what may recover."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.cli.commands.service import MARK, Unit, make_writable, quoted, unit_name
from bot.config.problems import ExitCode
from tests.cli.stage import CONFIG, Ran, call

EXPOSURE_MAX = 25
"""In tenths, as systemd-analyze counts."""
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here"
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "my bot" / "bot.yaml"
    path.parent.mkdir()
    path.write_text(CONFIG)
    return path


def service(config: Path, *arguments: str) -> Ran:
    home = config.parents[1]
    places = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    return call("service", *arguments, "-c", str(config), environment=places)


def settings_of(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            yield name, value


def test_root_installs_what_only_its_owner_can_run(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = config.parents[1] / "home" / "trader"
    owner = SimpleNamespace(pw_name="trader", pw_dir=str(home))
    monkeypatch.setattr("bot.cli.commands.service.os.geteuid", lambda: 0)
    monkeypatch.setattr("bot.cli.commands.service.pwd.getpwuid", lambda _: owner)
    text = CONFIG.replace("state_dir: state\n", "").replace("mode: sandbox", "mode: paper")
    assert "state_dir" not in text
    config.write_text(f"{text}broker: {{base_url: https://broker.example, device_id: my-server}}\n")
    (config.parent / "secrets.yaml").write_text("not: root's\n")  # and 0644: refused where read

    ran = service(config, "install", "--print")

    found = dict(settings_of(ran.out))
    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert found["User"] == "trader"
    assert f'"--state-dir" "{home}/.local/state/vnbot/my bot-' in found["ExecStart"]


def test_a_unit_starts_this_bot_and_tells_a_mistake_from_a_bad_day(config: Path) -> None:
    ran = service(config, "install", "--print")

    found = dict(settings_of(ran.out))
    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert found["ExecStart"].endswith(f'"run" "-c" "{config}" "--no-input"')
    assert found["ExecStart"].split('"')[1].endswith("/bin/bot")
    wanted = {
        "Type": "notify",
        "WatchdogSec": "30",
        "Restart": "on-failure",
        "RestartPreventExitStatus": "2 3 4",
        "StartLimitIntervalSec": "600",
        "StartLimitBurst": "3",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "PrivateTmp": "yes",
        "LimitCORE": "0",
        "MemoryMax": "1G",
        "ReadWritePaths": f'"{config.parent / "state"}" "{config.parent}"',
    }
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize("given", ["nowhere", "on the command line", "in the environment"])
def test_a_unit_names_the_state_folder_that_its_configuration_does_not(
    config: Path, given: str
) -> None:
    config.write_text(CONFIG.replace("state_dir: state\n", "") if given == "nowhere" else CONFIG)
    folder = config.parents[1] / "given"
    places = {"HOME": str(folder.parent), "XDG_STATE_HOME": str(folder)}
    if given == "in the environment":
        places["BOT_STATE_DIR"] = str(folder)
    flags = ("--state-dir", str(folder)) if given == "on the command line" else ()

    words = ("service", "install", "--user", "--print", *flags, "-c", str(config))
    ran = call(*words, environment=places)

    runs = dict(settings_of(ran.out))["ExecStart"]
    assert f'"--state-dir" "{folder}' in runs, "else a unit would have another than its installer"


@needs_systemd
@pytest.mark.process
def test_systemd_takes_the_unit_and_finds_little_exposed(config: Path, tmp_path: Path) -> None:
    unit = tmp_path / "vnbot-my-bot.service"
    unit.write_text(service(config, "install", "--print", "--credentials", "/etc/vnbot").out)

    verified = _analyze("verify", str(unit))
    exposed = _analyze(
        "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(unit)
    )

    assert (verified.returncode, verified.stderr) == (0, "")
    assert exposed.returncode == 0, exposed.stdout


def _analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, timeout=150, check=False
    )


def test_credentials_are_named_and_never_read(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "100% mine"

    ran = service(config, "install", "--print", "--credentials", str(folder))

    loaded = [value for name, value in settings_of(ran.out) if name == "LoadCredential"]
    at = str(folder).replace("%", "%%")
    names = ("broker__api_key", "broker__api_secret")
    assert loaded == [f"{name}:{at}/{name}" for name in names]


def test_a_users_unit_is_written_once_more_and_removed_again(config: Path) -> None:
    path = config.parents[1] / "config/systemd/user/vnbot-my-bot.service"

    first = service(config, "install", "--user")
    text = path.read_text()
    again = service(config, "install", "--user")
    gone = service(config, "uninstall", "--user")

    assert [first.code, again.code, gone.code] == [0, 0, 0]
    assert first.out == f"{path}\n"
    assert "systemctl --user enable --now vnbot-my-bot.service" in first.err
    assert text.startswith(MARK)
    assert "User=" not in text
    assert list(path.parent.iterdir()) == []
    assert (config.parent / "state").is_dir(), "a unit may write to what is there alone"


def test_every_folder_that_a_unit_may_write_to_is_there_before_its_first_start(
    config: Path,
) -> None:
    config.write_text(CONFIG.replace("sqlite:///journal.db", "sqlite:///data/new/journal.db"))
    path = config.parents[1] / "config/systemd/user/vnbot-my-bot.service"

    service(config, "install", "--user")

    writable = dict(settings_of(path.read_text()))["ReadWritePaths"].strip('"').split('" "')
    assert writable == [str(config.parent / "state"), str(config.parent / "data" / "new")]
    assert [Path(each).is_dir() for each in writable] == [True, True]


def test_no_folder_that_sudo_makes_for_a_bot_is_roots(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, given = config.parents[1] / "home", list[tuple[Path, int]]()
    monkeypatch.setattr("bot.cli.commands.service.os.geteuid", lambda: 0)
    monkeypatch.setattr(
        "bot.cli.commands.service.os.chown", lambda path, user, _: given.append((path, user))
    )
    state, data = home / ".local" / "state" / "vnbot" / "a", config.parent / "data"
    unit = Unit("a", ("bot",), config, state, writable=(state, data, config.parent), user="trader")

    make_writable(unit)

    made = [state, *state.parents[:4], data]
    assert given == [(each, config.stat().st_uid) for each in made]


def test_a_unit_of_somebody_else_is_left_alone(config: Path) -> None:
    path = config.parents[1] / "config/systemd/user/vnbot-my-bot.service"
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\n")

    refused = [service(config, do, "--user") for do in ("install", "uninstall")]

    assert [ran.code for ran in refused] == [ExitCode.USAGE, ExitCode.USAGE]
    assert all("was not written by bot service install" in ran.err for ran in refused)
    assert path.read_text() == "[Service]\n"


def test_the_unit_of_another_bot_in_a_folder_of_the_same_name_is_left_alone(config: Path) -> None:
    other = config.parents[1] / 'some $where "else"' / config.parent.name / "bot.yaml"
    other.parent.mkdir(parents=True)
    other.write_text(CONFIG)
    home = config.parents[1]
    places = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    path = home / "config/systemd/user/vnbot-my-bot.service"
    call("service", "install", "--user", "-c", str(other), environment=places)
    text = path.read_text()

    refused = [service(config, do, "--user") for do in ("install", "uninstall", "status")]

    assert [ran.code for ran in refused] == [ExitCode.USAGE] * 3
    assert all(f"E-SVC-005 {path} runs another bot of this name, {other}" in r.err for r in refused)
    assert path.read_text() == text
    other.unlink()
    assert service(config, "install", "--user").code == ExitCode.DONE, "that one has moved"


def test_what_is_not_installed_is_said_with_the_command_for_it(config: Path) -> None:
    status, gone = service(config, "status", "--user"), service(config, "uninstall", "--user")

    assert (status.code, gone.code) == (ExitCode.NOT_RUNNING, ExitCode.NOT_RUNNING)
    assert "not installed: bot service install" in status.out


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/a b/c", '"/a b/c"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ('say "no"', '"say \\"no\\""'),
        ("back\\slash", '"back\\\\slash"'),
    ],
)
def test_a_path_is_read_back_as_it_is(word: str, written: str) -> None:
    assert quoted(word) == written


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("mybot", "vnbot-mybot"),
        ("My Bot/paper", "vnbot-my-bot-paper"),
        ("../../etc", "vnbot-etc"),
        ("ổn định", "vnbot-n-nh"),
        ("…", "vnbot-bot"),
    ],
)
def test_a_units_name_is_safe_as_a_file(name: str, unit: str) -> None:
    assert unit_name(name) == unit


def test_the_home_is_closed_where_nothing_of_the_bot_lies_in_it() -> None:
    unit = Unit(
        name="a",
        program=("/opt/vnbot/bin/bot",),
        config=Path("/etc/vnbot/bot.yaml"),
        state_dir=Path("/var/lib/vnbot"),
        writable=(),
        user="vnbot",
    )

    assert dict(settings_of(unit.text()))["ProtectHome"] == "yes"
