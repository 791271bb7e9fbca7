"""O3: typos. A thousandfold quantity or price is refused, and no limit grows unless it is typed."""

import os
import pty
import select
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Final

import click
import pytest

from bot.cli.options import whole_from
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.engine_terms import engine_settings_of
from bot.config.settings.load import load_settings
from bot.config.settings.model import Settings
from bot.domain.message import AmendOrder, PlaceOrder, ReadOrder
from bot.domain.operations import AmendAsked
from bot.domain.plan import OrderPlan, SizeUnit
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.journal.reading.reader import JournalReader
from tests.cli.stage import call
from tests.engine.stage import DAY, PLAN, Stage, report_of
from tests.faults.strikes import STRIKES, is_in_full, times
from tests.live_project import ACCOUNT, EVERY, OWN, contacts, project, run
from tests.rows import every_row

SHIPPED: Final = Settings.model_validate({"risk": {"allow_amend": True}})
RICH: Final = 10**13
HELD: Final = 1_000_000
"""VND and shares enough that no lack of them refuses anything."""
THOUSAND: Final = 1_000

# ------------------------------------------------------------------------------- quantity and price


@dataclass(frozen=True)
class Asked:
    """An order as a strategy asks for it; `habit` is what its last five buys were worth."""

    side: str
    quantity: int
    price: int | None
    habit: int = 0

    def on_a_stage(self) -> bool:
        """Whether the real engine, under the limits of a fresh project, sends it."""
        held = HELD if self.side == "sell" else 0
        buys = (self.habit,) * 5 if self.habit else ()
        known = RecoveredStrategy({"HPG": (held, 0)}, 0, 0, 0, "on", recent_buys=buys)
        stage = _stage(sellable=held, recovery=Recovery(DAY, strategies={PLAN.name: known}))
        kind = {"limit": self.price} if self.price else {"market": "MTL"}
        stage.request(lambda s: getattr(s, self.side)(self.quantity, **kind, why="typed"))
        return bool(stage.all(PlaceOrder))


def _stage(plan: Any = PLAN, **more: Any) -> Stage:
    stage = Stage(plan, settings=engine_settings_of(SHIPPED), cash=RICH, is_open=False, **more)
    stage.open()
    stage.depth()
    return stage


def _sane(dice: Random) -> Asked:
    """An order that a fresh project lets out: small, near the last price of 27,000."""
    side, price = dice.choice(["buy", "sell"]), dice.randrange(26_500, 27_501, 50)
    if side == "buy" and dice.random() < 0.3:
        quantity = dice.randrange(1, 100)
        return Asked(side, quantity, price, habit=quantity * 27_000)
    return Asked(side, dice.randrange(100, 701, 100), price)


def test_a_thousandfold_quantity_or_price_never_leaves(record_property: Any) -> None:
    dice, count = Random(3), -(-times("O3", 420) // 7)
    passed = []

    for _ in range(count):
        sane = _sane(dice)
        assert sane.price is not None
        assert sane.on_a_stage(), f"this one is no typo: {sane}"
        typed = [replace(sane, quantity=sane.quantity * THOUSAND)]
        for power in (10, 100, THOUSAND):
            typed += [replace(sane, price=sane.price * power)]
            typed += [replace(sane, price=sane.price // power)]
        passed += [each for each in typed if each.on_a_stage()]

    assert passed == []
    record_property(STRIKES, count * 7)


@every_row("quantity", [100, 300, 600])
@every_row("side", ["buy", "sell"])
def test_a_thousandfold_market_order_never_leaves(side: str, quantity: int) -> None:
    assert Asked(side, quantity, None).on_a_stage()
    assert not Asked(side, quantity * THOUSAND, None).on_a_stage()


@every_row(
    ("unit", "size"), [(SizeUnit.SHARES, 100), (SizeUnit.SHARES, 700), (SizeUnit.CASH, 10_000_000)]
)
def test_a_thousandfold_size_in_a_strategy_file_never_leaves(unit: SizeUnit, size: int) -> None:
    def places(size: int) -> bool:
        stage = _stage(replace(PLAN, order=OrderPlan(size_unit=unit, size=size)))
        stage.request(lambda s: s.buy(limit=27_000, why="by the file"))
        return bool(stage.all(PlaceOrder))

    assert (places(size), places(size * THOUSAND)) == (True, False)


# -------------------------------------------------------------------- what a person types of orders


@every_row("power", [10, 100, THOUSAND])
@every_row("quantity", [100, 500, 700])
def test_a_thousandfold_change_by_hand_never_leaves(quantity: int, power: int) -> None:
    def sends(price: int | None, total: int | None) -> bool:
        stage = _stage()
        intent = stage.working(quantity, 27_000)
        row = report_of(intent)
        stage.after(61).quote()
        stage.account()
        stage.book(row)
        asked = AmendAsked(stage.now, "ORD1", price, total, "operator", "by hand")
        stage.handle(asked)
        if stage.new(ReadOrder):
            stage.row(replace(row, may_amend=True))
        return bool(stage.all(AmendOrder))

    assert sends(27_100, None), "this one is no typo"
    assert not sends(27_000 * power, None)
    assert not sends(27_000 // power, None)
    assert not sends(None, quantity * THOUSAND)


def test_a_number_on_the_command_line_is_the_one_that_is_read_or_none(record_property: Any) -> None:
    dice, count, read = Random(5), times("O3", 3_000), whole_from("a number")

    for _ in range(count):
        typed = "".join(dice.choices("0123456789,._ -+e%k۳", k=dice.randrange(1, 9)))
        try:
            number = read(typed)
        except click.BadParameter:
            continue
        assert typed.replace(",", "_").lstrip("0_") in {str(number), f"{number:_}"}
    record_property(STRIKES, count)


# --------------------------------------------------------------------------------------- limits

MINIMA: Final = {"min_cash": 5_000, "last_entry_s": 1}
"""Of these a hundredth allows more; and the hundredth."""


def _hundredfold(key: str, value: object) -> object:
    if key in MINIMA:
        return MINIMA[key]
    if key == "symbols":
        return ["HPG", "FPT", "VNM"]
    return f"{value[:-1]}00%" if isinstance(value, str) else int(str(value)) * 100


RAISES: Final = [
    (name, key, new)
    for name, section in (("risk.account", ACCOUNT), ("risk.limits", EVERY), ("once", OWN))
    for key, value in section.items()
    for new in (_hundredfold(key, value), None)
]
"""Each limit a hundredfold and taken away."""


async def _refused(config: Path, **options: Any) -> str:
    with pytest.raises(OperatorMistake) as mistake:
        await contacts(config, **options)
    assert mistake.value.exit_code == ExitCode.CONFIG
    return str(mistake.value)


@pytest.mark.long  # make test has the answers at a terminal
async def test_no_hundredfold_limit_starts_unless_it_is_typed(
    tmp_path: Path, record_property: Any
) -> None:
    await run(project(tmp_path))

    for number, (section, key, new) in enumerate(RAISES):
        of = {"risk.account": "account", "risk.limits": "every", "once": "own"}[section]
        base = {"account": ACCOUNT, "every": EVERY, "own": OWN}[of]
        changed: dict[str, Any] = {of: {**base, key: new}}
        config = project(tmp_path, **changed)
        name, old = f"{section}.{key}", base[key]
        said = await _refused(config)
        assert "E-CFG-056" in said or "E-CFG-015" in said or "E-CFG-018" in said, (name, new)
        if "E-CFG-056" in said:
            assert f"{name} is " in said
            assert f"--raised {name}=VALUE" in said
        if "E-CFG-056" in said and (is_in_full() or number % 5 == 0):
            for wrong in {str(old), "none" if new else "0"}:
                assert f"typed was {wrong}" in await _refused(config, typed={name: wrong}), name
            right = " ".join(sorted(new)) if isinstance(new, list) else str(new or "null")
            assert await contacts(config, typed={name: right}), name
    with JournalReader(load_settings(project(tmp_path)).journal_url) as reader:
        assert len(reader.runs()) == 1
    record_property(STRIKES, len(RAISES))


def _typed(config: Path, *answers: str) -> tuple[int, str]:
    """Start the bot on a terminal, and answer what it asks; return its exit code and its screen."""
    terminal, window = pty.openpty()
    words = [sys.executable, "-m", "bot", "run", "-c", str(config)]
    bot = subprocess.Popen(words, stdin=window, stdout=window, stderr=window, close_fds=True)
    os.close(window)
    left, shown, until = list(answers), "", monotonic() + 60
    while monotonic() < until and select.select([terminal], [], [], 60)[0]:
        try:
            shown += os.read(terminal, 4_096).decode()
        except OSError:  # so Linux says that the other end is closed
            break
        if left and shown.count(QUESTION) > len(answers) - len(left):
            os.write(terminal, f"{left.pop(0)}\n".encode())
    os.close(terminal)
    return bot.wait(60), shown


QUESTION: Final = "start nothing: "
NEW: Final = 2_000_000_000
UNMEANT: Final = ("20000000", "200000000", "20000000000")
"""What may be meant where the file says two billions."""


@pytest.mark.process
@pytest.mark.parametrize(
    ("answers", "code"),
    [
        (UNMEANT, ExitCode.CONFIG),
        ((*UNMEANT[:2], f"{NEW:_}"), ExitCode.UNREACHABLE),
        ((f"{NEW:,}",), ExitCode.UNREACHABLE),
    ],
)
async def test_a_terminal_asks_for_the_value_and_takes_no_other(
    answers: tuple[str, ...], code: ExitCode, tmp_path: Path
) -> None:
    await run(project(tmp_path))
    config = project(tmp_path, account={**ACCOUNT, "max_order_value": NEW})

    ended, shown = _typed(config, *answers)

    assert ended == code, shown
    assert "risk.account.max_order_value: 20,000,000 -> 2,000,000,000" in shown
    assert shown.count("not the same") == len([one for one in answers if one in UNMEANT])


def test_raised_without_name_or_value_is_a_wrong_command_line(tmp_path: Path) -> None:
    config = str(project(tmp_path))

    codes = [call("run", "-c", config, "--raised", each).code for each in ("", "x", "x=", "=1")]

    assert codes == [ExitCode.USAGE] * 4
