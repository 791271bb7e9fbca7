"""A user's bot against a simulated broker: settings and strategies are theirs, the rest is ours.

The settings are the user's file with variables of ours over it, as the environment outranks a file.
So it is the user's own configuration, yet neither its broker nor its journal nor its key is used,
and nobody is notified of what breaks in a drill, nor is it in the log of the bot.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from math import ceil
from pathlib import Path
from typing import Any, Final

from bot.config.problems import OperatorMistake
from bot.config.rulebook import load_symbols, rulebook_of
from bot.config.scenario_file import load_scenario
from bot.config.settings.load import Loaded, load_settings
from bot.config.settings.sources import process_environment
from bot.config.strategies.load import load_plans
from bot.domain.instrument import Exchange
from bot.domain.plan import StrategyPlan
from bot.runtime.health.process_log import LOG_FILE
from bot.runtime.timetable.feeds import POLLS_SHARE_PERCENT, polls_of
from bot.sandbox.scenario import Scenario, SymbolScript

DAY: Final = date(2026, 11, 19)
START: Final = "09:30:00"
TRADER: Final = "drill-trader"
KNOWN_PRICES: Final = "market"
"""The shipped scenario used for a symbol's price if the user's own has none."""
PRICE: Final = 25_000
"""Price of a symbol that neither has."""
CASH: Final = 100_000_000_000
SHARES: Final = 10_000
NOWHERE: Final = "http://127.0.0.1:1"
WAKE: Final = {"quote": 5, "depth": 10}
"""How often the drill's own strategy looks, in seconds."""
REQUESTS_MAX: Final = 6_000
"""The largest quota that settings take."""
SLOWER_MAX: Final = 2.0
"""A quota that has polls come less often than asked by a larger factor lets out too few orders to
judge anything by.
"""
_ROOM: Final = {
    "account": {
        "1_000_000_000_000": ("max_order_value", "max_position_value", "max_loss_per_day"),
        "10_000": (
            "max_open_orders",
            "max_open_orders_per_symbol",
            "max_orders_per_second",
            "max_orders_per_minute",
            "max_orders_per_day",
            "max_flips_per_symbol",
        ),
        "100%": (
            "max_price_gap",
            "max_reference_gap",
            "max_position_of_nav",
            "max_gross_of_nav",
            "max_loss_of_nav",
            "max_auction_share",
        ),
        "10_000_000": ("max_order_quantity",),
        "1": ("min_cash",),
    },
    "limits": {
        "1_000_000_000_000": ("max_order_value", "max_loss_per_day", "capital"),
        "10_000": ("max_orders_per_day", "max_repeats"),
        "10_000_000": ("max_position",),
        "1_000": ("max_times_median",),
        "100%": ("max_price_gap",),
    },
}
"""Generous `risk` limits for a drill: limits for a small account would refuse the orders that the
drill needs. A variable cannot remove a limit, so each is at its maximum.
"""
_NOT_READ: Final = frozenset(
    {"CREDENTIALS_DIRECTORY", "BOT_BROKER__API_KEY", "BOT_BROKER__API_SECRET"}
)


@dataclass(frozen=True)
class Project:
    """The user's bot. `names`: its strategies; `symbols`: what they trade, as simulated; `quota`:
    the requests a minute with which it is played.
    """

    config: Path
    folder: Path
    seed: int
    loaded: Loaded
    quota: int
    names: tuple[str, ...]
    symbols: tuple[SymbolScript, ...]

    @property
    def traded(self) -> SymbolScript:
        """The symbol that the drill's own strategy trades."""
        return self.symbols[0]

    def scenario(self, faults: Sequence[object] = (), *, speed: float = 1.0) -> Scenario:
        """Return the broker's day with these faults."""
        return Scenario.model_validate(
            {
                "name": "drill",
                "day": DAY,
                "start": START,
                "seed": self.seed,
                "speed": speed,
                "quota": "ENTERPRISE",
                "fee_ppm": rulebook_of(self.loaded, DAY).fee_ppm,
                "accounts": [_account(self.loaded.settings.broker.account, self.symbols)],
                "symbols": [each.model_dump() for each in self.symbols],
                "faults": list(faults),
            }
        )

    def lay(
        self, story: Path, script: Scenario, base_url: str = NOWHERE, *, beat_s: int, **also: str
    ) -> Mapping[str, str]:
        """Write what a story needs into a folder; return the environment of its bot."""
        story.mkdir(mode=0o700, parents=True, exist_ok=True)
        secrets = _keep_key(story, script.key_text, script.secret_text)
        trader = {
            "name": TRADER,
            "use": "drill_trader",
            "symbols": [self.traded.symbol],
            "params": {"beat_s": beat_s},
            "wake": {kind: f"{seconds}s" for kind, seconds in WAKE.items()},
            "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask"},
            "limits": {"max_order_value": 500_000_000, "max_orders_per_day": 10_000},
            "on_2fa": "hold 60s",
        }
        file = story / "trader.yaml"
        file.write_text(json.dumps(trader))
        strategies = ",".join([*map(str, self.loaded.strategy_patterns), str(file)])
        return {
            **_environment(story, base_url, secrets),
            "BOT_STRATEGIES": strategies,
            "BOT_BROKER__REQUESTS_PER_MINUTE": str(self.quota),
            "BOT_SANDBOX__SEED": str(self.seed),
            **also,
        }

    def load(self, environment: Mapping[str, str]) -> Loaded:
        """Return the settings of a story."""
        return load_settings(self.config, environment=environment)


def project_of(config: Path, folder: Path, seed: int) -> Project:
    """Read the user's configuration and strategies. Raises OperatorMistake."""
    secrets = _keep_key(folder, "none", "none")
    loaded = load_settings(config, environment=_environment(folder, NOWHERE, secrets))
    plans = [each.plan for each in load_plans(loaded)]
    symbols = dict.fromkeys(symbol for plan in plans for symbol in plan.symbols)
    scripts, quota = _scripts(tuple(symbols), loaded), _quota_for(plans, loaded)
    return Project(config, folder, seed, loaded, quota, tuple(plan.name for plan in plans), scripts)


def _quota_for(plans: Sequence[StrategyPlan], loaded: Loaded) -> int:
    """Return the user's quota, or the smallest one by which a fault can be judged."""
    wanted = sum(poll.per_minute for poll in polls_of(plans))
    wanted += sum(60 / seconds for seconds in WAKE.values())
    needed = ceil(wanted / SLOWER_MAX * 100 / POLLS_SHARE_PERCENT)
    return max(loaded.settings.broker.requests_per_minute, min(needed, REQUESTS_MAX))


def _keep_key(folder: Path, key: str, secret: str) -> Path:
    """Write the simulated broker's key where the bot looks for one, in place of the user's."""
    return _keep(folder / "secrets.yaml", {"api_key": key, "api_secret": secret})


def _keep(file: Path, content: Mapping[str, str]) -> Path:
    """Write a file that only its owner may read."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        json.dump(content, opened)
    return file


def _environment(story: Path, base_url: str, secrets: Path) -> dict[str, str]:
    ours = {
        "BOT_MODE": "sandbox",
        "BOT_STATE_DIR": str(story / "state"),
        "BOT_JOURNAL__URL": f"sqlite:///{story / 'state' / 'journal.db'}",
        "BOT_BROKER__BASE_URL": base_url,
        "BOT_BROKER__SECRETS_FILE": str(secrets),
        "BOT_SANDBOX__SPEED": "max",
        "BOT_NOTIFY__FILE": str(_keep(story / "notify.yaml", {})),
        "BOT_NOTIFY__URLS": "",
        "BOT_NOTIFY__CHANNELS": "",
        "BOT_HEALTH__PORT": "",
        "BOT_LOG__FILE": str(story / "state" / LOG_FILE),
    }
    ours |= {
        f"BOT_RISK__{section}__{key}".upper(): most
        for section, keys in _ROOM.items()
        for most, names in keys.items()
        for key in names
    }
    left_out = _NOT_READ | ours.keys()
    given = process_environment().items()
    return {**{name: text for name, text in given if name.upper() not in left_out}, **ours}


def _scripts(symbols: Sequence[str], loaded: Loaded) -> tuple[SymbolScript, ...]:
    """Return how each symbol is simulated: the price of a scenario that has it, and a
    calm market.
    """
    known: dict[str, SymbolScript] = {}
    for name in (KNOWN_PRICES, loaded.settings.sandbox.scenario):
        with suppress(OperatorMistake):
            known |= {each.symbol: each for each in load_scenario(name, loaded.base_dir).symbols}
    table = load_symbols()
    found = []
    for symbol in symbols:
        script, listed = known.get(symbol), table.instrument(symbol, DAY)
        exchange = listed.exchange if listed else Exchange.HOSE
        found.append(
            SymbolScript(
                symbol=symbol,
                exchange=script.exchange if script else exchange,
                reference=script.reference if script else PRICE,
                swing_ticks=2,
                level_volume=100_000,
            )
        )
    return tuple(found)


def _account(wanted: str, symbols: Sequence[SymbolScript]) -> dict[str, Any]:
    """Return the account that the configuration selects, in whatever form it does."""
    found: dict[str, Any] = {
        "id": "0009000011",
        "cash": CASH,
        "holdings": {each.symbol: SHARES for each in symbols},
    }
    depository, _, suffix = wanted.rpartition(".")
    if suffix.isdigit() and "." in wanted:
        found["suffix"] = f".{suffix[-1]}"
        if len(depository) == len("120C900001"):
            found["depository_number"] = depository
    elif wanted.lower() == "margin":
        found |= {"suffix": ".6", "type": "Margin"}
    elif wanted.lower() != "normal":
        found["id"] = wanted
    return found
