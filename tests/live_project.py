"""A project that trades real money, as far as it knows, with every limit set; and its starts."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from bot.config.limits import AccountSection, EveryStrategySection
from bot.config.settings.load import load_settings
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.worlds.environment import Environment, EnvironmentSpec
from tests.story import Shown, in_process, once, write_project

ACCOUNT: Final = {
    **AccountSection().model_dump(),
    "max_price_gap": "1%",
    "max_reference_gap": "1%",
    "max_position_of_nav": "1%",
    "max_gross_of_nav": "1%",
    "max_loss_of_nav": "1%",
    "max_auction_share": "1%",
    "max_account_age_s": 30,
    "symbols": ["HPG", "FPT"],
}
EVERY: Final = {
    **{name: most for name, most in EveryStrategySection().model_dump().items() if most},
    "max_orders_per_day": 20,
}
OWN: Final = {"max_order_value": 10_000_000, "max_position": 900, "max_price_gap": "1%"}


def project(
    folder: Path,
    account: Mapping[str, object] = ACCOUNT,
    every: Mapping[str, object] = EVERY,
    own: Mapping[str, object] = OWN,
    names: Sequence[str] = ("once",),
    risk: Mapping[str, object] | None = None,
    **more: Any,
) -> Path:
    """Write the project; the limits `own` are of each of its strategies."""
    limits = {name: most for name, most in own.items() if most}
    config = write_project(
        folder,
        scenario="quiet",
        strategies=[once(name, limits=limits) for name in names],
        risk={"account": account, "limits": every, **(risk or {})},
        **{
            "mode": "live",
            "broker": {"base_url": "https://127.0.0.1:9", "account": ".1"},
            "legal": {"automation_allowed_by_broker": "2026-11-02, letter of the broker, N. V. An"},
            **more,
        },
    )
    secrets = folder / "secrets.yaml"
    secrets.touch(0o600)
    secrets.write_text("api_key: k\napi_secret: s\nhost: 127.0.0.1\n")
    return config


class Contacted(Exception):
    """The start has got as far as its broker."""


def _no_broker(_: EnvironmentSpec) -> Environment:
    raise Contacted


async def contacts(config: Path, **options: Any) -> bool:
    """Whether a start passes, and contacts its broker. Raises OperatorMistake if it does not."""
    try:
        await run_bot(load_settings(config), RunOptions(**options), Shown(), make=_no_broker)
    except Contacted:
        return True
    raise AssertionError("without a broker nothing runs")


async def run(config: Path, **options: Any) -> Shown:
    """One run, which leaves its limits in the journal."""
    shown = Shown()
    given = RunOptions(run_for=timedelta(seconds=1), **options)
    await run_bot(load_settings(config), given, shown, make=in_process)
    return shown
