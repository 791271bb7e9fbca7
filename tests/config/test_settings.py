"""Where settings come from, which source wins, and what must hold between them."""

import contextlib
import math
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.config.masking import masked_url
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded, load_settings
from bot.config.settings.places import find_config
from bot.config.shipped import DEMO, shipped
from bot.domain.plan import AccountLimits, Limits

LIVE = """\
mode: live
broker: {base_url: https://broker.example}
legal: {automation_allowed_by_broker: "2026-11-02, letter of the broker"}
"""

BY_DEFAULT = Limits(
    max_orders_per_day=30,
    max_loss_per_day=1_000_000,
    max_repeats=10,
    max_times_median=5,
    capital=50_000_000,
)
"""What each strategy may where nothing is said."""


def write(folder: Path, text: str) -> Path:
    file = folder / "bot.yaml"
    file.write_text(text, "utf-8")
    return file


def load(folder: Path, text: str, **environment: str) -> Loaded:
    return load_settings(write(folder, text), environment={"HOME": "/nowhere", **environment})


def codes(raised: pytest.ExceptionInfo[OperatorMistake]) -> list[str]:
    return [problem.code for problem in raised.value.problems]


def test_a_flag_outranks_the_environment_which_outranks_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "sandbox: {seed: 1, speed: 2, port: 3}\n")
    environment = {"BOT_SANDBOX__SEED": "10", "BOT_SANDBOX__SPEED": "20"}

    loaded = load_settings(
        file, environment=environment, overrides={"sandbox.seed": 100, "sandbox.speed": None}
    )

    sandbox = loaded.settings.sandbox
    assert (sandbox.seed, sandbox.speed, sandbox.port) == (100, 20.0, 3)
    assert sandbox.scenario == "market"
    assert loaded.origin_of("sandbox.seed") == "flag"
    assert loaded.origin_of("sandbox.speed") == "env BOT_SANDBOX__SPEED"
    assert loaded.origin_of("sandbox.port") == f"{file}:1"
    assert loaded.origin_of("sandbox.scenario") == "default"


def test_a_file_of_comments_alone_is_all_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, "# later\n\n").settings

    assert settings.mode == "sandbox"
    assert settings.is_embedded
    assert settings.risk.fee_ppm == 1_500
    assert settings.risk.all_strategies == BY_DEFAULT


def test_limits_of_all_strategies_reach_the_engine_in_its_units(tmp_path: Path) -> None:
    risk = "risk: {limits: {max_order_value: 20_000_000, max_price_gap: 2.5%}}\n"

    limits = load(tmp_path, risk).settings.risk.all_strategies

    assert limits == replace(BY_DEFAULT, max_order_value=20_000_000, max_price_gap_ppm=25_000)


def test_limits_that_nobody_has_set_are_known_by_their_keys(tmp_path: Path) -> None:
    risk = "risk: {max_quote_age_s: 10, account: {max_order_value: null}}\n"

    unset = load(tmp_path, risk, BOT_RISK__LIMITS__CAPITAL="1_000_000").settings.risk.at_default

    assert {"risk.signal_ttl_s", "risk.account.min_cash", "risk.limits.max_repeats"} <= unset
    assert unset.isdisjoint(
        {"risk.max_quote_age_s", "risk.account.max_order_value", "risk.limits.capital"}
    )


def test_an_account_is_limited_when_nothing_is_said(tmp_path: Path) -> None:
    assert load(tmp_path, "").settings.risk.whole_account == AccountLimits(
        max_order_value=20_000_000,
        max_order_quantity=5_000,
        max_price_gap_ppm=20_000,
        max_open_orders=10,
        max_open_orders_per_symbol=3,
        max_orders_per_second=1,
        max_orders_per_minute=6,
        max_orders_per_day=60,
        max_position_value=100_000_000,
        max_position_nav_ppm=200_000,
        max_gross_nav_ppm=800_000,
        max_loss_per_day=2_000_000,
        max_loss_nav_ppm=15_000,
        min_cash=5_000_000,
        max_flips_per_symbol=3,
        max_auction_share_ppm=50_000,
        max_account_age=timedelta(seconds=120),
        last_entry=timedelta(seconds=60),
    )


def test_a_limit_of_the_account_is_changed_or_taken_away_one_by_one(tmp_path: Path) -> None:
    risk = "risk: {account: {max_order_value: null, max_price_gap: 3%, symbols: [HPG, FPT]}}\n"

    settings = load(tmp_path, risk).settings

    limits = settings.risk.whole_account
    assert (limits.max_order_value, limits.max_price_gap_ppm) == (None, 30_000)
    assert (limits.max_order_quantity, limits.symbols) == (5_000, frozenset({"HPG", "FPT"}))
    assert settings.risk.account.words == (
        "6 orders a minute, 60 a day, 100,000,000 VND a symbol, day loss 2,000,000, "
        "no max_order_value"
    )


@pytest.mark.parametrize(
    ("environment", "code", "named"),
    [
        ({"BOT_SANDBOX__SEED": "many"}, "E-CFG-013", "BOT_SANDBOX__SEED"),
        ({"BOT_SANDBOX__SEDE": "1"}, "E-CFG-045", "BOT_SANDBOX__SEDE"),
        ({"BOT_SANBOX__SEED": "1"}, "E-CFG-045", "did you mean 'BOT_SANDBOX'"),
        ({"bot_sanbox__seed": "1"}, "E-CFG-045", "bot_sanbox__seed names no setting"),
        ({"BOT_RISK__ACOUNT__CAPITAL": "7"}, "E-CFG-045", "BOT_RISK__ACOUNT__CAPITAL names no"),
        ({"bot_risk__acount__capital": "7"}, "E-CFG-045", "did you mean 'account'"),
        ({"BOT_RISK__MAX_IN_FLIGHT__X": "7"}, "E-CFG-013", "BOT_RISK__MAX_IN_FLIGHT__X: 'risk"),
        ({"BOT_MODE__X": "7"}, "E-CFG-045", "BOT_MODE__X names no setting"),
        ({"BOT_WEB__ENABLED": "true"}, "E-CFG-028", "BOT_WEB__ENABLED"),
        ({"BOT_MODE": "real"}, "E-CFG-014", "BOT_MODE"),
        ({"BOT_MODE": "paper"}, "E-CFG-043", "BOT_MODE"),
        ({"BOT_JOURNAL__URL": "mysql://h/y"}, "E-CFG-044", "BOT_JOURNAL__URL"),
    ],
)
def test_a_wrong_variable_is_named(
    tmp_path: Path, environment: dict[str, str], code: str, named: str
) -> None:
    with pytest.raises(OperatorMistake) as raised:
        load(tmp_path, "mode: sandbox\n", **environment)

    assert codes(raised) == [code]
    assert named in str(raised.value)


@pytest.mark.parametrize("written", ["", "risk: {}\n", "risk: {acount: {max_open_orders: 3}}\n"])
def test_a_mistyped_section_is_blamed_on_each_source_of_it(tmp_path: Path, written: str) -> None:
    with pytest.raises(OperatorMistake) as raised:
        load(tmp_path, f"mode: sandbox\n{written}", BOT_RISK__ACOUNT__MAX_ORDER_VALUE="7")

    blamed = ["E-CFG-045", "E-CFG-012"] if "acount" in written else ["E-CFG-045"]
    assert codes(raised) == blamed
    assert "BOT_RISK__ACOUNT__MAX_ORDER_VALUE names no setting" in str(raised.value)


def test_variables_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    loaded = load(tmp_path, "mode: sandbox\n", BOT_TEST_POSTGRES="x", ROBOT_SANDBOX__SEED="y")

    assert loaded.settings.sandbox.seed == 7


def test_mistakes_of_all_sources_are_told_at_once(tmp_path: Path) -> None:
    file = write(tmp_path, "paper: {cash: eighty}\nbroker: {api_key: k}\n")

    with pytest.raises(OperatorMistake) as raised:
        load_settings(
            file, environment={"BOT_SANDBOX__SEED": "x"}, overrides={"sandbox.port": 99_999}
        )

    assert sorted(codes(raised)) == ["E-CFG-013", "E-CFG-013", "E-CFG-015", "E-CFG-041"]


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    text = 'journal: {url: "sqlite:///../var/journal.db"}\nstate_dir: ../var\n'

    loaded = load(tmp_path / "config", text)

    assert loaded.journal_url == f"sqlite:///{tmp_path}/var/journal.db"
    assert loaded.state_dir == tmp_path / "var"
    assert loaded.strategy_patterns == (tmp_path / "config" / "strategies/*.yaml",)


def test_without_a_place_the_journal_lies_in_the_state_folder(tmp_path: Path) -> None:
    one = load(tmp_path, "mode: sandbox\n", XDG_STATE_HOME="/state")
    (tmp_path / "other").mkdir()
    other = load(tmp_path / "other", "mode: sandbox\n", XDG_STATE_HOME="/state")

    assert one.journal_url == f"sqlite:///{one.state_dir}/journal.db"
    assert str(one.state_dir).startswith("/state/vnbot/")
    assert one.state_dir != other.state_dir


def test_the_demo_keeps_its_state_below_the_home() -> None:
    loaded = load_settings(shipped(DEMO), environment={"HOME": "/home/an"})

    assert loaded.state_dir == Path("/home/an/.local/state/vnbot/demo")


def test_a_relative_xdg_path_does_not_count() -> None:
    environment = {"HOME": "/home/an", "XDG_STATE_HOME": "state"}

    loaded = load_settings(shipped(DEMO), environment=environment)

    assert loaded.state_dir == Path("/home/an/.local/state/vnbot/demo")


def test_postgres_is_reached_through_psycopg_3_and_its_password_is_never_shown(
    tmp_path: Path,
) -> None:
    loaded = load(tmp_path, "journal: {url: 'postgresql://bot:hunter2@db/bot'}\n")

    assert loaded.journal_url == "postgresql+psycopg://bot:hunter2@db/bot"
    assert masked_url(loaded.journal_url) == "postgresql+psycopg://bot:***@db/bot"
    assert "hunter2" not in repr(loaded)


def test_the_configuration_is_looked_for_here_then_at_home_then_in_the_demo(
    tmp_path: Path,
) -> None:
    environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": ""}
    own = tmp_path / ".config/vnbot/bot.yaml"
    here = tmp_path / "project/config/bot.yaml"
    here.parent.mkdir(parents=True)
    own.parent.mkdir(parents=True)

    assert find_config(environment, here.parents[1]) == shipped(DEMO)
    own.touch()
    assert find_config(environment, here.parents[1]) == own
    here.touch()
    assert find_config(environment, here.parents[1]) == here
    nearest = here.parents[1] / "bot.yaml"
    nearest.touch()
    assert find_config(environment, here.parents[1]) == nearest
    named = {**environment, "BOT_CONFIG": "/elsewhere/live.yaml"}
    assert find_config(named, here.parents[1]) == Path("/elsewhere/live.yaml")


def test_a_configuration_whose_disk_is_away_is_the_one_that_is_meant_not_the_demo(
    tmp_path: Path,
) -> None:
    link = tmp_path / "bot.yaml"
    link.symlink_to("/not/mounted/bot.yaml")
    environment = {"HOME": str(tmp_path)}

    found = find_config(environment, tmp_path)

    assert found == link
    with pytest.raises(OperatorMistake, match="cannot read this file: no such file"):
        load_settings(found, environment=environment)


def test_a_configuration_behind_a_name_that_cannot_be_looked_up_is_not_passed_over(
    tmp_path: Path,
) -> None:
    loop = tmp_path / "config"
    loop.symlink_to(loop)

    assert find_config({"HOME": str(tmp_path)}, tmp_path) == loop / "bot.yaml"


def test_a_named_configuration_that_is_missing_is_a_mistake_and_no_other_is_taken(
    tmp_path: Path,
) -> None:
    with pytest.raises(OperatorMistake, match="E-CFG-001"):
        load_settings(environment={"BOT_CONFIG": str(tmp_path / "bot.yaml")})


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("mybot/bot.yaml", "mybot"),
        ("mybot/config/bot.yaml", "mybot"),
        ("mybot/paper.yaml", "mybot/paper"),
        (shipped(DEMO), "demo"),
    ],
)
def test_a_bot_is_called_by_its_folder(file: str | Path, name: str, tmp_path: Path) -> None:
    path = tmp_path / file
    if not path.exists():
        path.parent.mkdir(parents=True)
        path.write_text("mode: sandbox\n")

    assert load_settings(path, environment={}).name == name


def test_the_hash_is_of_what_is_in_effect_and_of_no_secret(tmp_path: Path) -> None:
    text = "broker: {base_url: 'http://127.0.0.1:8790'}\n"

    plain = load(tmp_path, text)
    with_key = load(tmp_path, f"# a comment\n{text}", BOT_BROKER__API_KEY="k-1")
    other = load(tmp_path, text, BOT_SANDBOX__SEED="8")

    assert plain.sha256 == with_key.sha256
    assert plain.sha256 != other.sha256


def test_live_wants_a_dated_statement_and_tls(tmp_path: Path) -> None:
    assert load(tmp_path, LIVE).settings.mode == "live"

    with pytest.raises(OperatorMistake) as raised:
        load(tmp_path, LIVE.replace("2026-11-02", "2026-13-02").replace("https", "http"))

    assert codes(raised) == ["E-CFG-043", "E-CFG-042"]


def test_an_override_to_live_is_checked_like_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "sandbox: {seed: 1}\n")

    with pytest.raises(OperatorMistake) as raised:
        load_settings(file, environment={}, overrides={"mode": "live"})

    assert codes(raised) == ["E-CFG-043", "E-CFG-042"]
    assert all("command line" in each.message for each in raised.value.problems)
    assert raised.value.exit_code == ExitCode.CONFIG


def test_a_configuration_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperatorMistake) as raised:
        load_settings(tmp_path / "bot.yaml", environment={})

    assert codes(raised) == ["E-CFG-001"]
    assert "no such file" in str(raised.value)


@pytest.mark.parametrize("name", ["config/bot.yaml", DEMO])
def test_the_shipped_configurations_are_good_from_any_folder(name: str, tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        loaded = load_settings(shipped(name), environment={"HOME": str(tmp_path)})

    assert loaded.settings.is_embedded
    assert loaded.settings.mode == "sandbox"


def test_a_sandbox_may_have_no_pace_and_no_port(tmp_path: Path) -> None:
    sandbox = load_settings(write(tmp_path, "sandbox: {speed: max, port: null}\n")).settings.sandbox

    assert (sandbox.speed, sandbox.port) == (math.inf, None)


@pytest.mark.parametrize("address", ["https://host:abc", "https://[::1", "https://:8443"])
def test_an_address_that_is_none_is_a_mistake_at_its_line(tmp_path: Path, address: str) -> None:
    with pytest.raises(OperatorMistake) as raised:
        load(tmp_path, f"mode: paper\nbroker: {{base_url: '{address}'}}\n")

    [problem] = raised.value.problems
    assert (problem.code, problem.line) == ("E-CFG-043", 2)
    assert "wanted https://HOST or https://HOST:PORT" in problem.message
