"""Reading the rules from the package and from the operator."""

from datetime import UTC, date, datetime, time
from pathlib import Path

import pytest

from bot.clock import SystemClock
from bot.config.problems import OperatorMistake
from bot.config.rulebook import load_rulebook, load_symbols, on_later_rules, rulebook_of
from bot.config.settings.load import load_settings
from bot.config.shipped import shipped, shipped_dir
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.domain.local_time import local_date
from bot.domain.rulebook import Rulebook

SWAP = "  - {date: 2026-11-23, name: Swap}\n"
EARLY = '  - {date: 2026-12-31, at: "11:30", name: half a day}\n'
MONDAY_MORNING = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)


def ruled(folder: Path, text: str, settings: str = "market_rules: market.yaml\n") -> Rulebook:
    """The rulebook of a configuration whose operator has written `text`."""
    (folder / "market.yaml").write_text(text, "utf-8")
    (folder / "bot.yaml").write_text(settings, "utf-8")
    return rulebook_of(load_settings(folder / "bot.yaml", environment={"HOME": "/nowhere"}))


def test_the_shipped_rules_are_read_once():
    assert load_rulebook() is load_rulebook()


def test_a_file_of_the_operator_closes_a_day(tmp_path: Path) -> None:
    swap = "closed:\n  - {date: 2026-11-23, name: Swap, source: HOSE notice}\n"

    closed = ruled(tmp_path, swap)

    assert closed.phase_at(Exchange.HOSE, MONDAY_MORNING) is Phase.CLOSED
    assert load_rulebook().phase_at(Exchange.HOSE, MONDAY_MORNING) is Phase.PROGRESS


@pytest.mark.parametrize(
    ("settings", "fee"),
    [
        ("", 1_500),
        ("risk: {fee_ppm: 900}\n", 900),
        ("market_rules: market.yaml\n", 2_000),
        ("market_rules: market.yaml\nrisk: {fee_ppm: 900}\n", 900),
    ],
)
def test_a_fee_that_is_set_outranks_the_file_s(tmp_path: Path, settings: str, fee: int) -> None:
    found = ruled(tmp_path, "broker_fee_ppm: 2_000\n", settings or "mode: sandbox\n")

    assert found.fees.broker_ppm == fee


@pytest.mark.parametrize("source", ["file", "environment", "flag"])
def test_a_fee_above_the_legal_cap_is_refused_where_it_is_set(tmp_path: Path, source: str) -> None:
    cap, file = load_rulebook().fees.broker_cap_ppm, tmp_path / "bot.yaml"

    def set_to(ppm: int) -> Rulebook:
        file.write_text(f"risk: {{fee_ppm: {ppm if source == 'file' else 900}}}\n", "utf-8")
        variables = {"BOT_RISK__FEE_PPM": str(ppm)} if source == "environment" else {}
        flags = {"risk.fee_ppm": ppm} if source == "flag" else {}
        return rulebook_of(load_settings(file, environment=variables, overrides=flags))

    assert set_to(cap).fees.broker_ppm == cap
    with pytest.raises(OperatorMistake, match=r"'risk.fee_ppm': wanted .* from 0 to 4_500"):
        set_to(cap + 1)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("open:\n  - {date: 2026-11-28}\n", "market.yaml:2:5", "wanted a weekday"),
        ("opened: []\n", "market.yaml:1:9", "opened: wanted one of closed"),
        ("- 2026-11-23\n", "market.yaml:1:1", "something else"),
        ("", "market.yaml:1:1", "found nothing"),
        ("closed: [\n", "market.yaml:", "YAML"),
        ("closed: []\nclosed: []\n", "market.yaml:2:1", "duplicate key"),
        ("closed:\n- {date: 2026-13-01, name: x}\n", "market.yaml:2:10", "a date like"),
        (f"closed:\n{SWAP}{SWAP}", "market.yaml:3:12", "each day once"),
        (f"early_closes:\n{EARLY}{EARLY}", "market.yaml:3:12", "each day once"),
        (f"early_closes:\n{EARLY.replace('30', '30Z')}", "market.yaml:2:28", "like 09:15, of Asia"),
        (f"early_closes:\n{EARLY.replace('30', '30+07:00')}", "market.yaml:2:28", "like 09:15, of"),
        ("max_quantity: {HOSE: many}\n", "market.yaml:1:22", "a whole number"),
        ("max_quantity: {HNX: 0}\n", "market.yaml:1:21", "at least one lot of 100"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_place(
    tmp_path: Path, text: str, place: str, message: str
) -> None:
    with pytest.raises(OperatorMistake) as raised:
        ruled(tmp_path, text)

    assert place in raised.value.problems[0].place
    assert message in raised.value.problems[0].message


def test_a_missing_file_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(OperatorMistake, match="cannot read this file"):
        ruled(tmp_path, "", "market_rules: elsewhere.yaml\n")


def test_the_rules_of_a_day_may_be_asked_for():
    assert load_rulebook(on=date(2025, 6, 3)).venues[Exchange.HOSE].lots.max_quantity == 500_000


def test_without_a_day_the_rules_are_today_s_and_not_those_that_begin_later() -> None:
    today = local_date(SystemClock().now())

    assert load_rulebook() is load_rulebook(on=today)


def test_symbols_may_come_from_a_file(tmp_path):
    path = tmp_path / "symbols.csv"
    path.write_text("symbol,exchange,kind,from,to,source\nABC,HNX,STOCK,2026-01-01,,me\n", "utf-8")

    assert load_symbols(path).symbols(date(2026, 1, 1)) == ("ABC",)


def test_a_checkout_finds_its_own_files():
    assert shipped("config/symbols.csv") == shipped_dir() / "config" / "symbols.csv"


def test_a_file_that_did_not_come_along_is_named():
    with pytest.raises(FileNotFoundError, match=r"config/nothing.yaml did not come"):
        shipped("config/nothing.yaml")


@pytest.mark.parametrize(
    ("day", "words"),
    [
        (date(2024, 8, 5), "2024-08-05 is played by those in effect since 2025-05-05"),
        (date(2025, 5, 2), "2025-05-02 is played by those in effect since 2025-05-05"),
        (date(2025, 5, 5), ""),
        (date(2026, 11, 19), ""),
    ],
)
def test_a_day_before_the_known_rules_is_said_to_be_played_by_later_ones(
    day: date, words: str
) -> None:
    at = datetime.combine(day, time(9, 15), EXCHANGE_TZ)

    assert on_later_rules(load_rulebook(), at).partition(";")[0] == words
