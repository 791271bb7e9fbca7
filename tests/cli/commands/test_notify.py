"""`bot notify`: what goes where, a test message, a mute; and no command shows an address."""

import json
from collections.abc import Mapping
from datetime import timedelta
from errno import ENOSPC
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import MUTE_NOTE, Note
from tests.by_hand import Ask, tell_by_hand
from tests.cli.stage import Ran, call
from tests.notice_server import NoticeServer, notice_server
from tests.staging import QUIET
from tests.story import Story, once, write_project

pytest.importorskip("apprise")
CANARY = "c4n4ryT0ken"
CONFIG = "mode: sandbox\nstate_dir: state\n"


def written(folder: Path, notify: str = "", channels: str = "") -> Path:
    """Write a bot with channels of notices."""
    folder.chmod(0o700)
    (folder / "bot.yaml").write_text(CONFIG + notify, "utf-8")
    (folder / "notify.yaml").touch(0o600)
    (folder / "notify.yaml").write_text(channels, "utf-8")
    return folder / "bot.yaml"


def notify(config: Path, *words: str, command: str = "notify") -> Ran:
    ran = call(command, *words, "-c", str(config))
    assert CANARY not in ran.out + ran.err
    return ran


def test_the_list_says_what_goes_where_and_never_an_address(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        "notify: {channels: {mail: {fill: off}}, quiet_hours: {info: '22:00-07:00'}}\n",
        f"phone: 'tgram://123456789:{CANARY}_abcdefgh/1/'\nmail: 'mailtos://me:{CANARY}@gmail.com'\n",
    )

    shown = notify(config, "list")
    fields = json.loads(notify(config, "list", "--json").out)

    assert shown.code == 0
    assert "phone" in shown.out
    assert [each["channel"] for each in fields["channels"]] == ["phone", "mail"]
    assert [each["off"] for each in fields["channels"]] == [[], ["fill"]]
    assert fields["quiet_hours"] == {"info": "22:00-07:00"}
    assert fields["channels"][0]["last"] is None


def test_without_a_channel_the_list_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text(CONFIG, "utf-8")

    ran = notify(tmp_path / "bot.yaml", "list")

    assert ran.code == 0
    assert "notify.yaml" in ran.out


@pytest.mark.wire
def test_a_test_message_goes_to_each_and_what_came_back_is_said(tmp_path: Path) -> None:
    with notice_server() as good, notice_server() as bad:
        bad.status = 500
        config = written(
            tmp_path, channels=f"one: '{good.url}{CANARY}'\ntwo: '{bad.url}{CANARY}'\n"
        )

        ran = notify(config, "test")
        one = notify(config, "test", "one", "--text", "the service has failed\x1b[2J")
        none = notify(config, "test", "three")

    assert (ran.code, one.code, none.code) == (ExitCode.UNREACHABLE, 0, ExitCode.USAGE)
    assert "one          taken" in ran.out
    assert "two          it answered HTTP 500" in ran.out
    assert good.messages[1]["message"] == "the service has failed\\x1b[2J"


@pytest.mark.parametrize(
    ("channels", "says"),
    [
        (f"phone: 'json://me:{CANARY}@example.com/'\n", "use jsons://"),
        (f"phone: {CANARY}\n", "not one that Apprise knows"),
        (f"- {CANARY}\n", "found something else"),
        (f"phone: [{CANARY}]\n", "wanted an Apprise address for phone"),
        (f"{CANARY}: 'tgram://x/y'\n", "found another name"),
    ],
)
def test_a_bad_address_is_named_by_config_check_and_not_shown(
    tmp_path: Path, channels: str, says: str
) -> None:
    config = written(tmp_path, channels=channels)
    (tmp_path / "strategies").mkdir()

    ran = notify(config, "check", command="config")
    listed = notify(config, "list")

    assert listed.code == ran.code
    assert says in listed.err
    assert ran.code in {ExitCode.CONFIG, ExitCode.SECRET}
    assert says in ran.err + ran.out


def test_others_may_not_read_the_addresses(tmp_path: Path) -> None:
    config = written(tmp_path, channels=f"phone: 'ntfys://{CANARY}'\n")
    (tmp_path / "notify.yaml").chmod(0o644)
    in_file = notify(config, "list")
    (tmp_path / "notify.yaml").unlink()
    config.write_text(f"{CONFIG}notify: {{urls: ['ntfys://{CANARY}']}}\n")
    config.chmod(0o644)
    in_config = notify(config, "list")
    config.chmod(0o600)
    private = notify(config, "list")

    assert (in_file.code, in_config.code, private.code) == (ExitCode.SECRET, ExitCode.SECRET, 0)
    assert "chmod 600" in in_config.err


def test_a_critical_kind_cant_be_off_everywhere(tmp_path: Path) -> None:
    channels = f"phone: 'ntfys://{CANARY}'\nmail: 'ntfys://{CANARY}2'\n"
    off = written(tmp_path, "notify: {kinds: {halted: off}}\n", channels)
    refused = notify(off, "list")
    one = written(tmp_path, "notify: {channels: {mail: {halted: off}}}\n", channels)
    taken = notify(one, "list")

    assert (refused.code, taken.code) == (ExitCode.CONFIG, 0)
    assert "halted is critical" in refused.err


@pytest.mark.wire
async def test_a_mute_holds_fills_and_not_a_halt_and_the_list_says_what_arrived(
    tmp_path: Path,
) -> None:
    with notice_server() as service:
        config = write_project(
            tmp_path, scenario=QUIET, strategies=[once()], notify={"urls": [service.url]}
        )
        told = await tell_by_hand(
            config,
            Ask(timedelta(seconds=1), {"do": "notify_mute", "seconds": 3600}),
            Ask(timedelta(seconds=2), {"do": "notify_mute", "seconds": 90_000}),
            Ask(timedelta(minutes=1), {"do": "halt", "reason": "a test"}),
            minutes=2,
        )
        titles = service.titles

    assert [each["ok"] for each in told.replies] == [True, False, True]
    halted = next(at for at, title in enumerate(titles) if "HALTED" in title)
    filled = next(at for at, title in enumerate(titles) if "filled" in title)
    assert halted < filled, "what was held is told at the end"
    listed = json.loads(call("notify", "list", "--json", "-c", str(config)).out)
    assert listed["channels"][0]["last"]["taken"] is True


@pytest.mark.wire
async def test_a_mute_goes_on_after_a_restart_until_a_person_ends_it(tmp_path: Path) -> None:
    halt = Ask(timedelta(seconds=30), {"do": "halt", "reason": "a test"})
    with notice_server() as service:
        config = write_project(
            tmp_path, scenario=QUIET, strategies=[once()], notify={"urls": [service.url]}
        )
        mute = Ask(timedelta(seconds=1), {"do": "notify_mute", "seconds": 3600})
        await tell_by_hand(config, mute, minutes=1)
        before = len(service.messages)
        unmute = Ask(timedelta(seconds=40), {"do": "notify_mute", "seconds": 0})
        muted = await tell_by_hand(config, halt, unmute, minutes=2)
        titles = service.titles[before:]
        free = await tell_by_hand(config, minutes=3)

    assert ["HALTED" in title for title in titles[:2]] == [True, False], "its fill is told later"
    assert notes_of(muted.story) == [
        "still muted until 10:20. To end it: bot notify mute 0s",
        "no longer muted, by operator",
    ]
    assert notes_of(free.story) == []


def notes_of(story: Story) -> list[str]:
    return [each.text for each in story.shown.all(Note) if each.kind == MUTE_NOTE]


def test_a_mute_is_bounded(tmp_path: Path) -> None:
    config = written(tmp_path)

    assert notify(config, "mute", "25h").code == ExitCode.USAGE
    assert notify(config, "mute", "1h").code == ExitCode.NOT_RUNNING


@pytest.mark.wire
@pytest.mark.parametrize(("socket", "told"), [("/nowhere", 1), (None, 0)])
def test_a_service_that_does_not_start_tells_why(
    tmp_path: Path, socket: str | None, told: int
) -> None:
    with notice_server() as service:
        config = write_project(
            tmp_path,
            scenario=QUIET,
            strategies=[once(use="nobody")],
            notify={"urls": [service.url]},
        )
        ran = call("run", "-c", str(config), environment={"NOTIFY_SOCKET": socket})

    assert ran.code == ExitCode.CONFIG
    assert len(service.messages) == told
    for message in service.messages:
        assert message["title"] == f"SANDBOX {tmp_path.name}: NOT RUNNING"
        assert "E-CFG-031 'use': no strategy is called 'nobody'" in message["message"]


SERVICE = {"NOTIFY_SOCKET": "/nowhere"}
LIVE: Mapping[str, Any] = {
    "mode": "live",
    "broker": {"base_url": "https://127.0.0.1:9", "account": ".1"},
    "legal": {"automation_allowed_by_broker": "2026-11-02, letter of the broker, N. V. An"},
}


def of_a_service(folder: Path, url: str, **settings: Any) -> Path:
    """A configuration with a channel in notify.yaml."""
    config = write_project(folder, scenario=QUIET, strategies=[once()], **settings)
    folder.chmod(0o700)
    (folder / "notify.yaml").touch(0o600)
    (folder / "notify.yaml").write_text(f"desk: '{url}'\n")
    return config


def told_by(config: Path, service: NoticeServer) -> tuple[int, str, str]:
    """The exit code of a service that is refused, and the title and text of its one notice."""
    ran = call("run", "-c", str(config), environment=SERVICE)
    [message] = service.messages
    return ran.code, message["title"], message["message"]


@pytest.mark.wire
def test_a_service_without_a_usable_configuration_tells_the_file_beside_it(tmp_path: Path) -> None:
    with notice_server() as service:
        config = of_a_service(tmp_path, service.url)
        config.write_text("mode: live\nriks: {}\n")
        code, title, text = told_by(config, service)

    assert (code, title) == (ExitCode.CONFIG, f"{tmp_path.name}: NOT RUNNING")
    assert "bot.yaml:2:1: E-CFG-012 unknown key 'riks'" in text


@pytest.mark.wire
def test_a_service_whose_configuration_is_gone_tells_the_file_beside_it(tmp_path: Path) -> None:
    with notice_server() as service:
        config = of_a_service(tmp_path, service.url)
        config.unlink()
        _, title, text = told_by(config, service)

    assert title == f"{tmp_path.name}: NOT RUNNING"
    assert "E-CFG-001" in text


@pytest.mark.wire
def test_a_service_that_may_not_read_its_key_tells_it_in_the_language_of_its_notices(
    tmp_path: Path,
) -> None:
    with notice_server() as service:
        config = of_a_service(tmp_path, service.url, notify={"language": "vi"}, **LIVE)
        (tmp_path / "secrets.yaml").write_text("api_key: k\napi_secret: s\n")
        (tmp_path / "secrets.yaml").chmod(0o644)
        code, title, text = told_by(config, service)

    assert (code, title) == (ExitCode.SECRET, f"LIVE {tmp_path.name}: KHÔNG CHẠY")
    assert "E-SEC-002" in text


@pytest.mark.wire
def test_a_service_that_finds_a_planted_file_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> None:
        raise OperatorMistake.of("E-SEC-006", "evil.pth would run", ExitCode.SECRET)

    monkeypatch.setattr("bot.runtime.start.planted.require_nothing_planted", found)
    with notice_server() as service:
        config = of_a_service(tmp_path, service.url, **LIVE)
        (tmp_path / "secrets.yaml").touch(0o600)
        (tmp_path / "secrets.yaml").write_text("api_key: k\napi_secret: s\nhost: 127.0.0.1\n")
        code, _, text = told_by(config, service)

    assert code == ExitCode.SECRET
    assert "E-SEC-006 evil.pth would run" in text


@pytest.mark.wire
def test_who_watches_a_refused_start_is_not_told_by_a_notice(tmp_path: Path) -> None:
    with notice_server() as service:
        config = of_a_service(tmp_path, service.url)
        config.write_text("riks: {}\n")
        call("run", "-c", str(config))

    assert service.messages == []


def test_where_no_thread_is_left_to_tell_a_service_s_channels_its_own_error_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Thread.start

    def start(thread: Thread) -> None:
        if thread.name.startswith("notices"):
            raise RuntimeError("can't start new thread")
        begin(thread)

    async def fail(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device", "/var/x")

    monkeypatch.setattr(Thread, "start", start)
    monkeypatch.setattr("bot.runtime.run.run_bot", fail)
    config = of_a_service(tmp_path, "json://127.0.0.1:9/")

    ran = call("run", "-c", str(config), environment=SERVICE)

    assert ran.code == ExitCode.DATABASE
    assert "E-SYS-001 /var/x: no space left on device" in ran.err


@pytest.mark.wire
@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (RuntimeError("no way"), ExitCode.BUG, "E-SYS-002 this is a bug in vnbot"),
        (OSError(ENOSPC, "No space left on device", "/var/x"), ExitCode.DATABASE, "E-SYS-001 /var"),
    ],
)
def test_a_service_whose_start_ends_by_an_error_that_nobody_expected_tells_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: ExitCode,
    told: str,
) -> None:
    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("bot.runtime.run.run_bot", fail)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    with notice_server() as service:
        ended, title, text = told_by(of_a_service(tmp_path, service.url), service)

    assert (ended, title) == (code, f"SANDBOX {tmp_path.name}: NOT RUNNING")
    assert told in text
