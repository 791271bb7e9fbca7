import json
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from bot.cli.main import run
from bot.config.problems import ExitCode
from bot.config.shipped import DEMO, shipped

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """A working directory of the test's own."""
    with chdir(tmp_path):
        yield tmp_path


def called(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = run(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_the_shipped_demo_passes_and_its_cost_is_told(capsys: Capture) -> None:
    code, out, err = called(capsys, "config", "check", "-c", str(shipped(DEMO)))

    assert (code, err) == (0, "")
    assert out.splitlines()[0].endswith("mode sandbox, 2 strategies, 3 symbols")
    assert "polls may use 300 of 600 requests" in out.splitlines()[-2]


def test_limits_that_a_null_takes_away_are_listed(capsys: Capture, folder: Path) -> None:
    risk = (
        "risk: {limits: {capital: null}, account: {max_loss_per_day: ~, max_reference_gap: null}}\n"
    )
    (folder / "bot.yaml").write_text(risk, "utf-8")
    (folder / "strategies").mkdir()
    (folder / "strategies" / "mine.yaml").write_text(STRATEGY, "utf-8")

    code, out, _ = called(capsys, "config", "check")

    assert code == 0
    assert out.splitlines()[1:3] == [
        "  no limit (risk.limits): capital",
        "  no limit (risk.account): max_loss_per_day",
    ]


def test_the_configuration_in_this_folder_is_the_one_in_use(capsys: Capture, folder: Path) -> None:
    (folder / "bot.yaml").write_text("mode: sandbox\n", "utf-8")

    code, out, err = called(capsys, "config", "path", "config")

    assert (code, out, err) == (ExitCode.DONE, f"{folder}/bot.yaml\n", "")


def test_a_check_writes_nothing(capsys: Capture, folder: Path) -> None:
    called(capsys, "config", "check")
    called(capsys, "config", "show")
    called(capsys, "config", "path")

    assert list(folder.iterdir()) == []


def test_a_wrong_configuration_ends_with_3(capsys: Capture, folder: Path) -> None:
    (folder / "bot.yaml").write_text("mode: sandbx\n", "utf-8")

    code, out, err = called(capsys, "config", "check", "-c", "bot.yaml")

    assert (code, out) == (3, "")
    assert err.startswith("bot.yaml:1:7: E-CFG-014 'mode': wanted one of sandbox, paper, live")
    assert "did you mean 'sandbox'?" in err


def test_a_scenario_that_is_not_there_is_found_by_the_check(capsys: Capture, folder: Path) -> None:
    called(capsys, "init", "mine")
    config = folder / "mine" / "bot.yaml"
    config.write_text(config.read_text("utf-8").replace("scenario: market", "scenario: markte"))

    code, out, err = called(capsys, "config", "check", "-c", "mine/bot.yaml")

    assert (code, out) == (3, "")
    assert "no scenario 'markte'" in err


def test_each_value_shows_its_origin(capsys: Capture, folder: Path) -> None:
    (folder / "bot.yaml").write_text("mode: sandbox\nsandbox: {seed: 8}\n", "utf-8")

    code, out, _ = called(capsys, "config", "show", "--origin", "-c", "bot.yaml")

    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert code == 0
    assert rows["sandbox.seed"] == ["8", "bot.yaml:2"]
    assert rows["sandbox.port"] == ["8790", "default"]


def test_secrets_and_passwords_are_masked(capsys: Capture, folder: Path) -> None:
    (folder / "secrets.yaml").write_text("api_key: k-77\napi_secret: s-99\n", "utf-8")
    (folder / "secrets.yaml").chmod(0o600)
    text = "broker: {base_url: 'http://127.0.0.1:1'}\n"
    text += "journal: {url: 'postgresql://bot:hunter2@db/bot'}\n"
    (folder / "bot.yaml").write_text(text, "utf-8")

    shown = [
        called(capsys, "config", *words, "-c", "bot.yaml")
        for words in (("show",), ("show", "--json"), ("path",), ("path", "journal"))
    ]

    assert {code for code, _, _ in shown} == {0}
    everything = "".join(out + err for _, out, err in shown)
    for secret in ("k-77", "s-99", "hunter2"):
        assert secret not in everything
    assert json.loads(shown[1][1])["broker.api_key"]["value"] == "***"
    assert shown[3][1] == "postgresql+psycopg://bot:***@db/bot\n"


def test_a_place_alone_is_a_bare_path(capsys: Capture, folder: Path) -> None:
    (folder / "bot.yaml").write_text("state_dir: here\n", "utf-8")

    _, out, _ = called(capsys, "config", "path", "journal", "-c", "bot.yaml")
    _, table, _ = called(capsys, "config", "path", "-c", "bot.yaml", "--json")

    assert out == f"{folder}/here/journal.db\n"
    assert json.loads(table) == {
        "bot": {"name": folder.name, "mode": "sandbox", "config": f"{folder}/bot.yaml"},
        "config": f"{folder}/bot.yaml",
        "journal": f"{folder}/here/journal.db",
        "state": f"{folder}/here",
        "secrets": f"{folder}/secrets.yaml",
    }


STRATEGY = """\
name: mine
use: sma_cross
symbols: [HPG]
wake: {bar: 1m}
order: {size: {cash: 40_000_000}}
"""


def test_a_check_tells_how_often_polls_are_made_that_the_quota_slows_down(
    capsys: Capture, folder: Path
) -> None:
    (folder / "bot.yaml").write_text("broker: {requests_per_minute: 60}\n", "utf-8")
    (folder / "strategies").mkdir()
    text = STRATEGY.replace("wake: {bar: 1m}", "wake: {bar: 1m, depth: 1s}")
    (folder / "strategies" / "mine.yaml").write_text(text, "utf-8")

    code, out, err = called(capsys, "config", "check")
    _, fields, _ = called(capsys, "config", "check", "--json")

    assert code == ExitCode.DONE, err
    slowed = "each comes 2.2 times less often, 22.7 a minute"
    assert out.splitlines()[-4:-1] == [
        "  depth HPG      every 1s asked, 3s made   20.0 a minute",
        "  quote HPG      every 10s asked, 22s made    2.7 a minute",
        f"  together 66.0 a minute asked, the quota of 60 leaves 30: {slowed}",
    ]
    cost = json.loads(fields)["cost"]
    assert (cost["slower"], cost["per_minute"], cost["made_per_minute"]) == (2.2, 66, 22.727)


UNLISTED = "which is not in the shipped table; did you mean"
PLACE = "risk.account.symbols (bot.yaml:3)"
OUTSIDE = [
    f"{PLACE} has hpg, {UNLISTED} 'HPG'?",
    f"{PLACE} has FTP, {UNLISTED} 'FPT'?",
    f"mine trades HPG, not in {PLACE}: every buy is refused (UNIVERSE)",
]
TOO_LARGE = (
    "mine orders for 40_000_000 VND, risk.account.max_order_value is 20_000_000 (default): its "
    "buys are refused (MAX_ORDER_VALUE)"
)


@pytest.mark.parametrize(
    ("account", "told"),
    [
        ("{symbols: [HPG], max_order_value: 40_000_000}", []),
        ("{symbols: [hpg, FTP]}", [*OUTSIDE, TOO_LARGE]),
    ],
)
def test_limits_that_refuse_every_buy_of_a_strategy_are_warned_of(
    capsys: Capture, folder: Path, account: str, told: list[str]
) -> None:
    (folder / "strategies").mkdir()
    (folder / "strategies" / "mine.yaml").write_text(STRATEGY, "utf-8")
    (folder / "bot.yaml").write_text(f"mode: sandbox\nrisk:\n  account: {account}\n", "utf-8")

    code, _, err = called(capsys, "config", "check", "-c", "bot.yaml")

    assert code == 0
    lines = [line for line in err.splitlines() if " E-CFG-058 " in line]
    assert lines == [f"warning E-CFG-058 {each}" for each in told]


def test_a_percentage_is_shown_as_it_is_written(capsys: Capture, folder: Path) -> None:
    (folder / "bot.yaml").write_text("mode: sandbox\nrisk: {limits: {max_price_gap: 0.5%}}\n")

    code, out, _ = called(capsys, "config", "show", "-c", "bot.yaml")

    shown = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert code == 0
    assert shown["risk.account.max_price_gap"] == "2%"
    assert shown["risk.account.max_position_of_nav"] == "20%"
    assert shown["risk.limits.max_price_gap"] == "0.5%"
