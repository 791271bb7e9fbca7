"""A strategy file becomes a plan: every way of writing, and what the exchanges say to it."""

from datetime import date, time, timedelta
from pathlib import Path

import pytest

from bot.cli.checks import span_words
from bot.config.field_types import interval
from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.config.shipped import DEMO, shipped
from bot.config.strategies.load import (
    check_file,
    load_plans,
    load_sound,
    load_strategies,
    market_of,
)
from bot.domain.instrument import Exchange, Instrument, Phase
from bot.domain.order import OrderType
from bot.domain.plan import (
    Limits,
    OrderPlan,
    PriceBasis,
    SizeUnit,
    StrategyMode,
    StrategyPlan,
    Wake,
    When,
)
from bot.domain.quote import DAY, width_name

MARKET = market_of(date(2026, 11, 19))
BASE = """\
name: mine
use: sma_cross
symbols: [FPT]
wake: {bar: 1m}
order: {size: {shares: 100}, price: ask}
"""


def plan_of(folder: Path, text: str) -> StrategyPlan:
    file = folder / "mine.yaml"
    file.write_text(text, "utf-8")
    return check_file(file, market=MARKET).plan


def codes_of(folder: Path, text: str) -> list[str]:
    try:
        plan_of(folder, text)
    except OperatorMistake as mistake:
        return [problem.code for problem in mistake.problems]
    return []


def test_the_file_of_the_documentation_means_what_it_says() -> None:
    plan = check_file(shipped("config/strategies/sma-fpt.yaml"), market=MARKET).plan

    assert plan == StrategyPlan(
        name="sma-fpt",
        use="sma_cross",
        symbols=("FPT", "HPG"),
        account="",
        mode=StrategyMode.TRADE,
        parameters={"fast": 5, "slow": 20},
        wake=Wake(bar=timedelta(minutes=1)),
        when=When(frozenset({Phase.PROGRESS}), time(9, 20), time(14, 20)),
        order=OrderPlan(
            size_unit=SizeUnit.CASH,
            size=20_000_000,
            order_type=OrderType.LO,
            basis=PriceBasis.ASK,
            expire_after=timedelta(seconds=60),
        ),
        limits=Limits(1_000, 50_000_000, 20, 500_000, 30_000),
        hold_2fa=timedelta(seconds=120),
        source=plan.source,
        source_sha256=plan.source_sha256,
    )
    assert plan.source.endswith("config/strategies/sma-fpt.yaml")
    assert len(plan.source_sha256) == 64


def test_what_may_be_left_out_has_a_cautious_meaning(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, BASE)

    assert plan.when == When()
    assert plan.limits == Limits()
    assert plan.hold_2fa == timedelta(seconds=120)
    assert plan.order == OrderPlan(size=100, basis=PriceBasis.ASK)


@pytest.mark.parametrize(
    ("wake", "means"),
    [
        ("{bar: 15m}", Wake(bar=timedelta(minutes=15))),
        ("{bar: 1h, quote: 90s}", Wake(timedelta(hours=1), quote=timedelta(seconds=90))),
        ("{bar: 1m, timer: 09:20}", Wake(timedelta(minutes=1), timers=(time(9, 20),))),
        (
            "{bar: 1m, timer: [14:20, 9:05:30, 14:20]}",
            Wake(timedelta(minutes=1), timers=(time(9, 5, 30), time(14, 20))),
        ),
        ("{bar: 1m, session}", Wake(timedelta(minutes=1), on_phase=True)),
        ("{bar: 1m, session: true}", Wake(timedelta(minutes=1), on_phase=True)),
        ("{bar: 1m, session: false}", Wake(timedelta(minutes=1))),
    ],
)
def test_what_wakes_it(tmp_path: Path, wake: str, means: Wake) -> None:
    assert plan_of(tmp_path, BASE.replace("{bar: 1m}", wake)).wake == means


@pytest.mark.parametrize(
    ("order", "means"),
    [
        ("{size: {shares: 7}}", OrderPlan(size=7)),
        ("{size: {percent: 10}}", OrderPlan(SizeUnit.PERCENT, 10)),
        ("{size: {shares: 100}, price: bid -2 ticks}", OrderPlan(basis=PriceBasis.BID, ticks=-2)),
        ("{size: {shares: 100}, price: mid +1 tick}", OrderPlan(basis=PriceBasis.MID, ticks=1)),
        ("{size: {shares: 100}, type: MARKET, price: MTL}", OrderPlan(order_type=OrderType.MTL)),
        ("{size: {shares: 100}, type: MARKET, price: MP}", OrderPlan(order_type=OrderType.MP)),
        ("{size: {shares: 100}, expire: 2h}", OrderPlan(expire_after=timedelta(hours=2))),
    ],
)  # fmt: skip
def test_how_orders_are_made(tmp_path: Path, order: str, means: OrderPlan) -> None:
    text = BASE.replace("{size: {shares: 100}, price: ask}", order)

    assert plan_of(tmp_path, text).order == means


@pytest.mark.parametrize(
    ("hold", "means"),
    [("drop", None), ("hold 15m", timedelta(minutes=15)), ("hold 1h", timedelta(hours=1))],
)
def test_what_happens_to_an_order_that_2fa_blocked(
    tmp_path: Path, hold: str, means: timedelta | None
) -> None:
    assert plan_of(tmp_path, f"{BASE}on_2fa: {hold}\n").hold_2fa == means


@pytest.mark.parametrize(
    ("symbol", "price", "sessions", "codes"),
    [
        ("FPT", "ATO", "[ato]", []),
        ("FPT", "ATC", "[continuous, atc]", []),
        ("FPT", "MP", "[continuous]", []),
        ("FPT", "PLO", "[post]", ["E-CFG-022"]),
        ("SHS", "PLO", "[post]", []),
        ("SHS", "FAK", "[continuous]", []),
        ("SHS", "MOK", "[atc]", ["E-CFG-022"]),
        ("SHS", "ATO", "[ato]", ["E-CFG-022"]),
        ("FOX", "ATC", "[atc]", ["E-CFG-022"]),
    ],
)
def test_an_order_type_is_held_against_exchange_and_hours(
    tmp_path: Path, symbol: str, price: str, sessions: str, codes: list[str]
) -> None:
    text = BASE.replace("FPT", symbol).replace("price: ask", f"type: MARKET, price: {price}")

    assert codes_of(tmp_path, f"{text}when: {{sessions: {sessions}}}\n") == codes


def test_the_exchange_of_a_symbol_has_dates(tmp_path: Path) -> None:
    text = BASE.replace("FPT", "BSR").replace("price: ask", "type: MARKET, price: ATO")
    file = tmp_path / "mine.yaml"
    file.write_text(text, "utf-8")

    assert codes_of(tmp_path, text) == []
    with pytest.raises(OperatorMistake):
        check_file(file, market=market_of(date(2024, 11, 19)))


def test_a_class_without_a_hook_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("from bot import Strategy\nclass Idle(Strategy): pass\n")
    file = tmp_path / "mine.yaml"
    file.write_text(BASE.replace("sma_cross", "idle.py:Idle"), "utf-8")

    [warning] = check_file(file, market=MARKET).warnings

    assert warning.head.endswith(
        "mine.yaml:2:6: E-CFG-035 idle.py:Idle never decides: its class has none of on_bar, "
        "on_quote, on_depth, on_timer, on_session"
    )


@pytest.mark.parametrize(("cash", "told"), [("5_000", ["E-CFG-055"]), ("500_000", [])])
def test_cash_for_less_than_a_lot_of_a_cheap_share_is_a_warning(
    tmp_path: Path, cash: str, told: list[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(BASE.replace("shares: 100", f"cash: {cash}"), "utf-8")

    warnings = check_file(file, market=MARKET).warnings

    assert [each.code for each in warnings] == told
    assert all(
        "5_000 VND: it buys a lot of 100 shares only up to 50 VND a share" in each.message
        and each.place.endswith("mine.yaml:5:22")
        for each in warnings
    )


@pytest.mark.parametrize(
    ("wake", "told"),
    [
        ("bar: 1d", ["E-CFG-057"]),
        ("bar: 24h", ["E-CFG-057"]),
        ("bar: 1d, timer: 09:20", []),
        ("bar: 12h", []),
    ],
)
def test_a_daily_bar_is_taken_and_alone_it_is_a_warning(
    tmp_path: Path, wake: str, told: list[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(BASE.replace("bar: 1m", wake), "utf-8")

    checked = check_file(file, market=MARKET)

    assert checked.plan.wake.bar == (DAY / 2 if "12h" in wake else DAY)
    assert [each.code for each in checked.warnings] == told
    assert all(each.place.endswith("mine.yaml:4:13") for each in checked.warnings)
    assert all("closes at 15:00, when no exchange" in each.message for each in checked.warnings)


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("between: 16:00 - 18:00", "HOSE (FPT) accepts orders: every buy"),
        ("between: 11:30 - 13:00", "HOSE (FPT) accepts orders: every buy"),
        ("between: 14:45 - 15:00", "HOSE (FPT) accepts orders: every buy"),
        ("sessions: [ato], between: 10:00 - 11:00", "orders in its sessions [ato]: every buy"),
        ("sessions: [ato, atc], between: 09:15 - 14:30", "in its sessions [ato, atc]: every buy"),
        ("sessions: [ato], between: 09:14 - 11:00", ""),
        ("between: 11:29 - 13:00", ""),
        ("sessions: [continuous]", ""),
    ],
)
def test_hours_in_which_no_buy_ever_passes_are_a_warning(
    tmp_path: Path, when: str, told: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"{BASE}when: {{{when}}}\n", "utf-8")

    warnings = check_file(file, market=MARKET).warnings

    assert [each.code for each in warnings] == (["E-CFG-065"] if told else [])
    assert all(told in each.message for each in warnings)


def test_a_width_as_the_bot_names_it_is_one_that_a_file_takes() -> None:
    for seconds in (10, 60, 900, 3_600, 43_200, 86_400):
        width = timedelta(seconds=seconds)
        assert interval().read(width_name(width)) == width
        assert span_words(width) == width_name(width)


def test_an_unknown_symbol_is_a_warning_until_the_broker_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(BASE.replace("[FPT]", "[FPT, NO, FTP]"), "utf-8")

    checked = check_file(file, market=MARKET)

    assert checked.plan.symbols == ("FPT", "NO", "FTP")
    assert [warning.code for warning in checked.warnings] == ["E-CFG-025", "E-CFG-025"]
    assert checked.warnings[0].place.endswith("mine.yaml:3:16")
    assert checked.warnings[1].snippet.endswith("did you mean 'FPT'?")


def test_a_file_needs_no_other_configuration(tmp_path: Path) -> None:
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "own.py").write_text(
        "from bot import Strategy\n\n\nclass Own(Strategy):\n    def on_bar(self, bar): ...\n",
        "utf-8",
    )
    text = BASE.replace("sma_cross", "own")

    assert plan_of(tmp_path / "strategies", text).use == "own"


def test_a_broken_class_is_told_at_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "own.py").write_text("x = (\n", "utf-8")
    file = tmp_path / "mine.yaml"
    file.write_text(BASE.replace("sma_cross", "own"), "utf-8")

    with pytest.raises(OperatorMistake) as raised:
        check_file(file, market=MARKET)

    assert raised.value.problems[0].place.endswith("strategies/own.py:1:5")


def test_all_files_are_checked_before_anything_is_said(tmp_path: Path) -> None:
    (tmp_path / "strategies").mkdir()
    for name, text in {
        "a": BASE,
        "b": BASE,
        "c": BASE.replace("100", "150").replace("mine", "c"),
        "d": "name: d\n",
    }.items():
        (tmp_path / "strategies" / f"{name}.yaml").write_text(text, "utf-8")
    (tmp_path / "bot.yaml").write_text("mode: sandbox\n", "utf-8")

    with pytest.raises(OperatorMistake) as raised:
        load_plans(load_settings(tmp_path / "bot.yaml", environment={}), market=MARKET)

    codes = [problem.code for problem in raised.value.problems]
    assert codes == ["E-CFG-021", *["E-CFG-011"] * 4, "E-CFG-036", "E-CFG-036"]


def test_no_strategy_file_at_all_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text("strategies: [mine/*.yaml, more/*.yaml]\n", "utf-8")

    with pytest.raises(OperatorMistake) as raised:
        load_plans(load_settings(tmp_path / "bot.yaml", environment={}), market=MARKET)

    assert [problem.code for problem in raised.value.problems] == ["E-CFG-037"]


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("strategies/*.yaml", ["strategies/a.yaml"]),
        ("'**/*.yaml'", ["bot.yaml", "strategies/a.yaml", "x[2].yaml"]),
        ("[strategies/.4711.a.yaml, .old/*.yaml]", [".old/a.yaml", "strategies/.4711.a.yaml"]),
        ("FOLDER/strategies/*.yaml", ["strategies/a.yaml"]),
        ("'FOLDER/x[2].yaml'", ["x[2].yaml"]),
        ("'../d[1]/strategies/*.yaml'", []),
        ("'../d[[]1]/strategies/*.yaml'", ["strategies/a.yaml"]),
        (".", []),
        ("/", []),
    ],
)
def test_a_pattern_matches_below_any_folder_and_nothing_hidden(
    tmp_path: Path, written: str, names: list[str]
) -> None:
    folder = tmp_path / "d[1]"
    for name in ("strategies/a", "strategies/.4711.a", "strategies/._a", ".old/a", "x[2]"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yaml").write_text(BASE, "utf-8")
    text = f"strategies: {written}\n".replace("FOLDER", str(folder))
    (folder / "bot.yaml").write_text(text, "utf-8")

    found = load_settings(folder / "bot.yaml", environment={}).strategy_files

    shown = [str(file.resolve().relative_to(folder)) for file in found]
    assert shown == names


def test_a_folder_named_as_strategies_is_told_how_to_name_its_files(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.yaml").write_text(BASE, "utf-8")
    (tmp_path / "bot.yaml").write_text("strategies: mine\n", "utf-8")

    with pytest.raises(OperatorMistake) as raised:
        load_plans(load_settings(tmp_path / "bot.yaml", environment={}), market=MARKET)

    [problem] = raised.value.problems
    assert problem.message.endswith("mine/*.yaml")
    assert "bot strategy new" not in problem.message


def test_the_demo_is_two_strategies_ready_for_the_engine() -> None:
    loaded = load_settings(shipped(DEMO), environment={"HOME": "/nowhere"})

    strategies = load_strategies(loaded, market=MARKET)

    names = [(each.plan.name, each.factory.__name__) for each in strategies]
    assert names == [("depth-hpg", "DepthImbalance"), ("sma-fpt", "SmaCross")]
    assert strategies[0].instruments == (Instrument("HPG", Exchange.HOSE),)


def test_only_keeps_the_named_and_refuses_a_name_that_is_none() -> None:
    loaded = load_settings(shipped(DEMO), environment={"HOME": "/nowhere"})

    kept = load_sound(loaded, only=("sma-fpt",), market=MARKET).strategies

    assert [each.plan.name for each in kept] == ["sma-fpt"]
    with pytest.raises(OperatorMistake) as raised:
        load_sound(loaded, only=("sma-vnm",), market=MARKET)
    assert "available: depth-hpg, sma-fpt" in str(raised.value)
