"""Who could read a secret where it lies, and that nothing we say repeats it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded, load_settings
from bot.config.settings.notify import CHANNELS_MAX

KEY, SECRET = "k-1f0c", "s-77aa"
SANDBOX = "broker: {base_url: 'http://127.0.0.1:8790'}\n"
LIVE = """\
mode: live
broker: {base_url: https://broker.example}
legal: {automation_allowed_by_broker: "2026-11-02, letter"}
"""
WITH_HOST = f"api_key: {KEY}\napi_secret: {SECRET}\nhost: broker.example\n"


def load(folder: Path, text: str = SANDBOX, **environment: str) -> Loaded:
    file = folder / "bot.yaml"
    file.write_text(text, "utf-8")
    return load_settings(file, environment=environment)


def secrets_file(folder: Path, text: str = f"api_key: {KEY}\napi_secret: {SECRET}\n") -> Path:
    file = folder / "secrets.yaml"
    file.write_text(text, "utf-8")
    file.chmod(0o600)
    return file


def found(loaded: Loaded) -> tuple[str | None, str | None]:
    broker = loaded.settings.broker
    pair = (broker.api_key, broker.api_secret)
    key, secret = (each.reveal() if each else None for each in pair)
    return key, secret


def test_a_private_file_beside_the_configuration_is_read(tmp_path: Path) -> None:
    secrets_file(tmp_path)

    loaded = load(tmp_path)

    assert found(loaded) == (KEY, SECRET)
    assert KEY not in repr(loaded)
    assert SECRET not in str(loaded.settings.model_dump())


def test_what_yaml_would_change_has_to_be_quoted(tmp_path: Path) -> None:
    secrets_file(tmp_path, "api_key: 1_000\napi_secret: x\n")

    refuse(tmp_path, "put it in quotes")


def test_numbers_and_leading_zeros_of_a_secret_are_kept(tmp_path: Path) -> None:
    secrets_file(tmp_path, "api_key: 00123\napi_secret: '456'\n")

    assert found(load(tmp_path)) == ("00123", "456")


@pytest.mark.parametrize("padding", [4_050, 60_000])
def test_a_long_file_is_read_to_its_end(tmp_path: Path, padding: int) -> None:
    secrets_file(tmp_path, f"# {'x' * padding}\napi_key: {KEY}\napi_secret: {SECRET * 50}\n")

    assert found(load(tmp_path)) == (KEY, SECRET * 50)


def test_all_notice_channels_are_read_at_their_longest(tmp_path: Path) -> None:
    urls = {f"c{number}": f"jsons://h/{number}{'ế' * 1_989}" for number in range(CHANNELS_MAX)}
    notify = tmp_path / "notify.yaml"
    notify.write_text("".join(f"{name}: '{url}'\n" for name, url in urls.items()), "utf-8")
    notify.chmod(0o600)

    channels = load(tmp_path, "mode: sandbox\n").channels({})

    assert {each.name: each.address.reveal() for each in channels} == urls


def test_a_file_that_is_too_long_is_refused_and_not_cut(tmp_path: Path) -> None:
    secrets_file(tmp_path, f"api_key: {KEY}\napi_secret: {SECRET}\n#{'x' * 65_536}\n")

    refuse(tmp_path, "is longer than 65,536 bytes")


def credential(folder: Path, text: str) -> Path:
    file = folder / "broker__api_secret"
    file.write_text(f"{text}\n", "utf-8")
    file.chmod(0o400)
    return file


def test_credentials_of_systemd_outrank_the_file(tmp_path: Path) -> None:
    secrets_file(tmp_path, WITH_HOST)
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    credential(credentials, "from-systemd")

    loaded = load(tmp_path, LIVE, CREDENTIALS_DIRECTORY=str(credentials))

    assert found(loaded) == (KEY, "from-systemd")


@pytest.mark.parametrize("mode", [0o444, 0o404, 0o460, 0o402, 0o401])
def test_a_credential_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    credential(credentials, SECRET).chmod(mode)

    refuse(tmp_path, f"{mode:04o}", CREDENTIALS_DIRECTORY=str(credentials))


def test_the_mask_of_an_access_list_shows_as_the_group_s_right_and_is_taken(tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir(0o750)
    credential(credentials, SECRET).chmod(0o440)

    assert found(load(tmp_path, CREDENTIALS_DIRECTORY=str(credentials))) == (None, SECRET)


def test_a_credential_that_is_a_link_is_refused(tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    real = credential(credentials, SECRET).rename(tmp_path / "real")
    (credentials / "broker__api_secret").symlink_to(real)

    refuse(tmp_path, "symbolic link", CREDENTIALS_DIRECTORY=str(credentials))


def test_blanks_and_lines_around_a_key_are_no_part_of_it(tmp_path: Path) -> None:
    secrets_file(tmp_path, f'api_key: " {KEY}"\napi_secret: "{SECRET}\\n"\n')

    assert found(load(tmp_path)) == (KEY, SECRET)
    assert found(load(tmp_path, BOT_BROKER__API_KEY="from-env\r\n")) == ("from-env", SECRET)


@pytest.mark.parametrize("text", ["two words", "a\nb", "khóa", "a\x00b"])
def test_what_no_header_can_carry_is_refused_by_its_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(OperatorMistake) as raised:
        load(tmp_path, BOT_BROKER__API_SECRET=text)

    assert raised.value.problems[0].code == "E-SEC-007"
    assert raised.value.exit_code == ExitCode.SECRET
    assert "the api_secret in BOT_BROKER__API_SECRET can't be right" in str(raised.value)
    assert text not in str(raised.value)


@pytest.mark.parametrize("text", ["", " ", "\\n"])
def test_a_secret_without_a_character_is_none(tmp_path: Path, text: str) -> None:
    secrets_file(tmp_path, f'api_key: "{text}"\napi_secret: {SECRET}\n')

    with pytest.raises(
        OperatorMistake, match=r"E-SEC-007 the api_key in .*; found nothing"
    ) as raised:
        load(tmp_path)

    assert raised.value.exit_code == ExitCode.SECRET


def test_a_blank_variable_does_not_replace_a_good_key_unseen(tmp_path: Path) -> None:
    secrets_file(tmp_path)

    with pytest.raises(OperatorMistake, match=r"in BOT_BROKER__API_KEY can't be .* found nothing"):
        load(tmp_path, BOT_BROKER__API_KEY=" ")

    assert found(load(tmp_path, BOT_BROKER__API_KEY="")) == (KEY, SECRET)


def test_the_environment_outranks_them_but_in_live_mode(tmp_path: Path) -> None:
    secrets_file(tmp_path)

    assert found(load(tmp_path, BOT_BROKER__API_KEY="from-env")) == ("from-env", SECRET)
    secrets_file(tmp_path, WITH_HOST)
    with pytest.raises(OperatorMistake) as raised:
        load(tmp_path, LIVE, BOT_BROKER__API_KEY="from-env")

    assert raised.value.problems[0].code == "E-SEC-003"
    assert raised.value.exit_code == ExitCode.SECRET
    assert "from-env" not in str(raised.value)


def test_the_embedded_broker_needs_no_secret_and_none_is_looked_at(tmp_path: Path) -> None:
    secrets_file(tmp_path).chmod(0o644)

    assert found(load(tmp_path, "mode: sandbox\n")) == (None, None)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o606, 0o610, 0o601, 0o644, 0o777])
def test_bits_for_others_on_the_file_are_refused(tmp_path: Path, mode: int) -> None:
    secrets_file(tmp_path).chmod(mode)

    refuse(tmp_path, f"{mode:04o}")


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o705, 0o711, 0o701])
def test_a_folder_that_others_may_look_into_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    secrets_file(folder)
    folder.chmod(mode)

    refuse(folder, f"can look into (mode {mode:04o}). Do: chmod 700 {folder}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(0o700)
    secrets_file(folder)
    os.chown(folder, 12_345, 12_345)

    refuse(folder, "which belongs to user 12345")


def test_where_a_link_above_leads_is_looked_at_too(tmp_path: Path) -> None:
    folder = tmp_path / "open" / "closed"
    folder.mkdir(parents=True, mode=0o700)
    secrets_file(folder)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(folder)

    refuse(tmp_path / "link", "others can write to")


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    secrets_file(folder)
    folder.chmod(mode)

    refuse(folder, "others can write to")


def test_a_folder_far_above_that_all_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open" / "closed"
    folder.mkdir(parents=True, mode=0o700)
    secrets_file(folder)
    (tmp_path / "open").chmod(0o777)

    refuse(folder, "others can write to")


def as_link(folder: Path) -> None:
    secrets_file(folder).rename(folder / "real.yaml")
    (folder / "secrets.yaml").symlink_to(folder / "real.yaml")


def as_dangling_link(folder: Path) -> None:
    (folder / "secrets.yaml").symlink_to(folder / "nowhere")


def as_folder(folder: Path) -> None:
    (folder / "secrets.yaml").mkdir(mode=0o700)


def as_pipe(folder: Path) -> None:
    os.mkfifo(folder / "secrets.yaml", 0o600)


@pytest.mark.parametrize("make", [as_link, as_dangling_link, as_folder, as_pipe])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)

    refuse(tmp_path, "regular file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(secrets_file(tmp_path), 12_345, 12_345)

    refuse(tmp_path, "belongs to user 12345")


@pytest.mark.parametrize(
    "text",
    [
        f"{KEY}\n",
        f"- {KEY}\n",
        f"api_key: {KEY}: x\n",
        f"api_key: {KEY}\napi_key: {KEY}\n",
        f"api_key: {KEY}\n{SECRET}: x\n",
        f"api_key: !!python/name:{SECRET} x\n",
    ],
)
def test_a_file_that_cannot_be_read_is_not_quoted(tmp_path: Path, text: str) -> None:
    secrets_file(tmp_path, text)

    refuse(tmp_path, "wanted")


def test_a_named_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    text = "broker: {base_url: 'http://127.0.0.1:1', secrets_file: other.yaml}\n"

    with pytest.raises(OperatorMistake) as raised:
        load(tmp_path, text)

    assert raised.value.problems[0].code == "E-SEC-001"


ELSEWHERE = "broker: {base_url: 'https://evil.example:8790'}\n"


def test_a_key_is_for_the_host_that_it_was_given_for(tmp_path: Path) -> None:
    secrets_file(tmp_path, f"api_key: {KEY}\napi_secret: {SECRET}\nhost: 127.0.0.1\n")

    assert found(load(tmp_path)) == (KEY, SECRET)
    with pytest.raises(OperatorMistake) as raised:
        load(tmp_path, ELSEWHERE)

    assert raised.value.problems[0].code == "E-SEC-005"
    assert "entered for 127.0.0.1, but broker.base_url names evil.example" in str(raised.value)
    assert KEY not in str(raised.value)


def test_a_host_that_the_environment_names_gets_no_key_of_another(tmp_path: Path) -> None:
    secrets_file(tmp_path, f"api_key: {KEY}\napi_secret: {SECRET}\nhost: broker.example\n")

    with pytest.raises(OperatorMistake, match="E-SEC-005"):
        load(tmp_path, LIVE, BOT_BROKER__BASE_URL="https://evil.example")


def test_with_real_money_a_key_without_a_host_is_refused(tmp_path: Path) -> None:
    secrets_file(tmp_path)

    with pytest.raises(OperatorMistake) as raised:
        load(tmp_path, LIVE)

    [problem] = raised.value.problems
    assert (problem.code, raised.value.exit_code) == ("E-SEC-005", ExitCode.SECRET)
    assert problem.message.endswith("add the line: host: broker.example")
    assert KEY not in str(raised.value)
    secrets_file(tmp_path, WITH_HOST)
    assert found(load(tmp_path, LIVE)) == (KEY, SECRET)


def test_a_file_that_a_credential_stands_in_for_needs_no_host(tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    folder.mkdir(mode=0o700)
    for name in ("api_key", "api_secret"):
        (folder / f"broker__{name}").touch(0o600)
        (folder / f"broker__{name}").write_text(f"{name}-handed-over")
    secrets_file(tmp_path)

    handed = found(load(tmp_path, LIVE, CREDENTIALS_DIRECTORY=str(folder)))

    assert handed == ("api_key-handed-over", "api_secret-handed-over")


def refuse(folder: Path, says: str, **environment: str) -> None:
    with pytest.raises(OperatorMistake) as raised:
        load(folder, **environment)

    assert raised.value.problems[0].code == "E-SEC-002"
    assert raised.value.exit_code == ExitCode.SECRET
    assert says in str(raised.value)
    assert KEY not in str(raised.value)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None or KEY not in str(raised.value.__cause__)
