"""No form of a password in an address is ever printed."""

import json
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest

from bot.cli.main import run
from bot.config.masking import masked_line, masked_url
from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings

CANARY = "Zq7"
SIGNS = "@:/?&#%=+;,!$*'\\ é~^[]{}|<>"
FORMS = (
    "postgresql://bot:{0}@db/bot",
    "postgresql+psycopg://bot:{0}@db:5432/bot?sslmode=require",
    "postgresql://bot:{0}@[::1]/bot",
    "postgresql://an@corp:{0}@db/bot",
    "postgresql://:{0}@db/bot",
    "postgresql://db/bot?password={0}",
    "postgresql://db/bot?sslmode=require&sslpassword={0}&host=h",
    "postgresql://db/bot?%70assword={0}",
    "postgresql://bot@db/bot?passwort={0}",
    "postgresql:///bot#{0}",
    "mysql://bot:{0}@db/bot",
    "tgram://{0}/1",
    "host=db user=bot password={0} dbname=bot",
    "host=db password = {0}",
    "postgresql:bot:{0}@db/bot",
    "bot:{0}@db/bot",
    "postgresql://db/bot&password={0}",
    "postgresql://db/bot?sslmode=require;password={0}",
    "postgresql://db/bot?options=-c password={0}",
    "sqlite:///bot.db?password={0}",
)


def passwords(seed: int) -> list[str]:
    """Letters that are looked for, with signs between them that people forget to encode."""
    random = Random(seed)
    plain = [
        CANARY + random.choice(SIGNS) + CANARY + random.choice(SIGNS) + CANARY for _ in range(12)
    ]
    return [CANARY, *plain, *(quote(each, safe="") for each in plain)]


def addresses(seed: int) -> list[str]:
    return [form.format(each) for form in FORMS for each in passwords(seed)]


@pytest.mark.parametrize("seed", range(20))
def test_an_address_is_shown_without_its_password(seed: int) -> None:
    for address in addresses(seed):
        assert CANARY not in masked_url(address), address


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////home/an/journal.db", "sqlite:////home/an/journal.db"),
        ("postgresql://bot:no-host-after-it", "postgresql://bot:***"),
        ("postgresql://bot:pw@db:5432/bot", "postgresql://bot:***@db:5432/bot"),
        ("postgresql://bot@db/bot", "postgresql://bot@db/bot"),
        ("postgresql://one:1,two:2/bot", "postgresql://one:1,two:2/bot"),
        ("postgresql://[::1]:5432/bot", "postgresql://[::1]:5432/bot"),
        (
            "postgresql://db/bot?sslmode=verify-full&passfile=/home/an/.pgpass",
            "postgresql://db/bot?sslmode=verify-full&passfile=/home/an/.pgpass",
        ),
        ("https://broker.example:8443/api", "https://broker.example:8443/api"),
        ("not an address", "not an address"),
    ],
)
def test_what_is_no_secret_stays_readable(url: str, shown: str) -> None:
    assert masked_url(url) == shown


@pytest.mark.parametrize("seed", range(3))
def test_no_message_about_a_configuration_holds_a_password(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "bot.yaml"
    random = Random(seed)
    for address in random.sample(addresses(seed), 15):
        text = json.dumps(address, ensure_ascii=False)
        for config in (
            f"journal: {{url: {text}, ulr: x}}\nmode: sandbox\n",
            f"journal:\n  url: {text}\nmodus: live\n",
            f"journal: {text}\n",
            f"broker: {{base_url: {text}}}\nmodus: 1\n",
            f"mode: {text}\n",
        ):
            file.write_text(config, "utf-8")
            with pytest.raises(OperatorMistake) as raised:
                load_settings(file, environment={"HOME": "/nowhere"})
            assert CANARY not in str(raised.value), config


@pytest.mark.parametrize("seed", range(2))
def test_no_message_about_the_environment_holds_a_password(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "bot.yaml"
    file.write_text("modus: sandbox\n")
    for address in Random(seed).sample(addresses(seed), 25):
        environment = {"HOME": "/nowhere", "BOT_JOURNAL__URL": address, "BOT_MODE": address}
        with pytest.raises(OperatorMistake) as raised:
            load_settings(file, environment=environment)
        assert CANARY not in str(raised.value), address


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://bot:{CANARY}@db/bot",
        f"postgresql://bot:{CANARY}%40{CANARY}@db/bot",
        f"postgresql://db/bot?password={CANARY}",
        f"postgresql://db/bot?sslmode=require&password={CANARY}&host=db",
        f"postgresql://bot:{CANARY}@{CANARY}@db/bot",
        f"postgresql://bot:{CANARY}/{CANARY}@db/bot",
    ],
)
def test_no_command_about_the_configuration_prints_a_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    (tmp_path / "bot.yaml").write_text(f"journal: {{url: '{url}'}}\nstate_dir: var\n")
    for command in ("show", "show --json", "path", "path journal", "path --json", "check --json"):
        run(["-c", str(tmp_path / "bot.yaml"), "config", *command.split()])

    out, err = capsys.readouterr()
    assert CANARY not in out + err


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://bot:a@b@db/bot", "%40"),
        ("postgresql://bot:a/b@db/bot", "%2F"),
        ("postgresql://bot:a?b@db/bot", "%3F"),
        ("postgresql://bot:a#b@db/bot", "%23"),
        ("postgresql://db:port/bot", "wanted sqlite"),
    ],
)
def test_a_sign_that_cuts_a_password_in_two_is_refused_and_how_to_write_it_is_said(
    tmp_path: Path, url: str, says: str
) -> None:
    file = tmp_path / "bot.yaml"
    file.write_text(f"journal: {{url: '{url}'}}\n")

    with pytest.raises(OperatorMistake, match="E-CFG-044") as raised:
        load_settings(file, environment={"HOME": "/nowhere"})

    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("  url: >-", f"    postgresql://bot:{CANARY}"),
        (f"    postgresql://bot:{CANARY}", f"    {CANARY}@db/bot"),
        ("    postgresql://db/bot", f"    ?password={CANARY}"),
        ("password:", f"  {CANARY}"),
        ("", f"api_secret: {CANARY}"),
        ("", f"notify: {{urls: [tgram://{CANARY}/1]}}"),
    ],
)
def test_a_quoted_line_holds_no_part_of_an_address_that_runs_over_several(
    before: str, line: str
) -> None:
    assert CANARY not in masked_line(line, before)


def test_a_line_of_a_strategy_is_quoted_as_it_is() -> None:
    for line in ("    @staticmethod", "    def on_bar(self, bar):", "  price: ask +1 tick"):
        assert masked_line(line, "") == line


@pytest.mark.parametrize("text", ["f" * 200_000, "key" * 60_000, "pass" * 50_000 + "="])
def test_a_line_that_nobody_reads_is_not_looked_through(text: str) -> None:
    assert masked_line(text, "") == masked_line("", text) == "***"  # else this takes minutes
