"""`bot secret`: the key goes in by prompt or pipe, is kept for its owner alone, and never shown."""

import json
import os
import re
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from bot.config.settings.load import load_settings
from tests.cli.stage import Ran, call

KEY, SECRET = "ak_live_5b7e0c", "9f3a7c1d5e"
CONFIG = "mode: paper\nbroker: {base_url: 'https://broker.example'}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A bot that has no key yet."""
    (tmp_path / "bot.yaml").write_text(CONFIG, "utf-8")
    return tmp_path / "bot.yaml"


def secret(config: Path, *words: str, stdin: str = "", **environment: str) -> Ran:
    ran = call("secret", *words, "-c", str(config), stdin=stdin, environment=environment)
    assert KEY not in ran.out + ran.err
    assert SECRET not in ran.out + ran.err
    return ran


def put_both(config: Path) -> Path:
    for name, value in (("api-key", KEY), ("api-secret", SECRET)):
        assert secret(config, "set", name, "-", stdin=f"{value}\n").code == 0
    return config.with_name("secrets.yaml")


def test_what_is_piped_in_is_what_the_bot_signs_with(config: Path) -> None:
    file = put_both(config)

    broker = load_settings(config, environment={}).settings.broker
    assert broker.api_key is not None
    assert broker.api_secret is not None
    assert (broker.api_key.reveal(), broker.api_secret.reveal()) == (KEY, SECRET)
    assert file.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in config.parent.iterdir()} == {"bot.yaml", "secrets.yaml"}


def test_the_mark_with_which_an_editor_begins_a_file_is_no_part_of_what_is_piped_in(
    config: Path,
) -> None:
    secret(config, "set", "api-key", "-", stdin=f"\ufeff{KEY}\r\n")
    secret(config, "set", "api-secret", "-", stdin=f"\ufeff{SECRET}\r\n")

    broker = load_settings(config, environment={}).settings.broker
    assert broker.api_key is not None
    assert broker.api_secret is not None
    assert (broker.api_key.reveal(), broker.api_secret.reveal()) == (KEY, SECRET)


def test_it_says_which_bot_and_what_comes_next(config: Path) -> None:
    first = secret(config, "set", "api-key", stdin=f"{KEY}\n").out
    second = secret(config, "set", "api-secret", stdin=f"{SECRET}\n").out

    assert re.fullmatch(r"\S+ \(paper\): api-key is in \S+ \(mode 0600\), for .*\n", first)
    assert first.endswith("for broker.example alone. Next: bot secret set api-secret\n")
    assert second.endswith("Next: bot secret test\n")


def test_what_was_entered_for_another_host_is_not_given_to_the_new_one(config: Path) -> None:
    file = put_both(config)
    config.write_text(CONFIG.replace("broker.example", "elsewhere.example"), "utf-8")

    ran = secret(config, "set", "api-secret", stdin="a-new-one\n")

    assert "was entered for broker.example, and is removed" in ran.err
    assert ran.out.endswith("for elsewhere.example alone. Next: bot secret set api-key\n")
    assert KEY not in file.read_text("utf-8")


@pytest.mark.parametrize("words", [("api-key", KEY), ("api-secret", SECRET, "x")])
def test_a_secret_as_an_argument_is_refused_and_not_repeated(
    config: Path, words: tuple[str, ...]
) -> None:
    ran = secret(config, "set", *words)

    assert ran.code == ExitCode.USAGE
    assert not config.with_name("secrets.yaml").exists()


@pytest.mark.parametrize(
    "typed", ["", "\n", "abc\n", "two words\n", "tab\tin it\n", "khoá-bí-mật\n"]
)
def test_what_no_header_carries_is_not_written(config: Path, typed: str) -> None:
    ran = secret(config, "set", "api-key", "-", stdin=typed)

    assert ran.code == ExitCode.USAGE
    assert not config.with_name("secrets.yaml").exists()


def test_into_a_folder_that_others_look_into_nothing_is_written(config: Path) -> None:
    config.parent.chmod(0o755)

    ran = secret(config, "set", "api-key", stdin=f"{KEY}\n")

    assert ran.code == ExitCode.SECRET
    assert f"Do: chmod 700 {config.parent}" in ran.err
    assert [path.name for path in config.parent.iterdir()] == ["bot.yaml"]


def test_a_link_in_its_place_is_neither_followed_nor_replaced(config: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("x")
    config.with_name("secrets.yaml").symlink_to(tmp_path / "theirs")

    ran = secret(config, "set", "api-key", stdin=f"{KEY}\n")

    assert (ran.code, (tmp_path / "theirs").read_text()) == (ExitCode.SECRET, "x")


def test_without_room_what_was_there_stays(config: Path) -> None:
    file = put_both(config)
    before = file.read_bytes()
    if os.geteuid() == 0:
        file.with_name(f".secrets.yaml.{os.getpid()}.new").mkdir()
    else:
        config.parent.chmod(0o500)

    ran = secret(config, "set", "api-key", stdin="another-key\n")

    assert ran.code == ExitCode.SECRET
    assert file.read_bytes() == before


def test_a_list_names_places_and_no_value(config: Path) -> None:
    secret(config, "set", "api-key", stdin=f"{KEY}\n")

    ran = secret(config, "list", "--json", BOT_BROKER__API_SECRET=SECRET)

    rows = [(row["name"], row["state"], row["where"]) for row in json.loads(ran.out)["secrets"]]
    assert rows == [
        ("api-key", "set", str(config.with_name("secrets.yaml"))),
        ("api-secret", "set", "env BOT_BROKER__API_SECRET"),
    ]
    assert ran.code == ExitCode.DONE


def test_a_list_says_what_is_missing_or_refused(config: Path) -> None:
    missing = secret(config, "list")
    put_both(config).chmod(0o644)
    refused = secret(config, "list")

    assert (missing.code, refused.code) == (ExitCode.SECRET, ExitCode.SECRET)
    assert missing.out.count("missing") == 2
    assert refused.out.count("refused") == 2
    assert "chmod 600" in refused.err


def test_a_list_calls_what_is_blank_empty(config: Path) -> None:
    file = put_both(config)
    file.write_text(f"api_key: ''\napi_secret: {SECRET}\n")

    ran = secret(config, "list", "--json", BOT_BROKER__API_SECRET=" ")

    states = [row["state"] for row in json.loads(ran.out)["secrets"]]
    assert (states, ran.code) == (["empty", "empty"], ExitCode.SECRET)
    assert "E-SEC-007" in ran.err


def test_what_is_removed_is_gone_and_the_last_takes_the_file_along(config: Path) -> None:
    file = put_both(config)

    assert secret(config, "rm", "api-key").code == 0
    assert (KEY in file.read_text(), SECRET in file.read_text()) == (False, True)
    assert secret(config, "rm", "api-key").code == ExitCode.SECRET
    assert secret(config, "rm", "api-secret", "--yes").code == 0
    assert not file.exists()


def test_no_demo_is_given_a_key(tmp_path: Path) -> None:
    places = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "BOT_CONFIG": ""}
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        ran = call("secret", "set", "api-key", "-", stdin=f"{KEY}\n", environment=places)
    finally:
        os.chdir(here)

    assert (ran.code, KEY in ran.err) == (ExitCode.USAGE, False)
    assert "name one with -c FILE" in ran.err


def test_without_a_key_a_test_says_how_to_put_one_in(config: Path) -> None:
    ran = secret(config, "test")

    assert ran.code == ExitCode.SECRET
    assert "no api-key and no api-secret. Put it in with: bot secret set api-key" in ran.err
