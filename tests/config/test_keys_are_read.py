"""Every key that a configuration or strategy file may hold is read by something that acts on it.

A key that is accepted and ignored is a promise that nobody keeps. Settings are followed from
attribute to attribute through the source: `settings.broker.device_id`, `risk = settings.risk` and
then `risk.max_unknown`, `broker: BrokerSettings` and then `broker.account`. A strategy file's keys
are followed through the plan that is made of them.
"""

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

import bot
from bot.config.settings.model import Settings
from bot.config.strategies.load import check_file
from bot.config.strategies.model import StrategyFile
from bot.domain.plan import AccountLimits, Limits, OrderPlan, StrategyPlan, Wake, When
from tests.config.test_strategy_file import BASE, MARKET

SOURCE = Path(bot.__file__).parent
ONLY_HOLD_OR_SHOW = frozenset(
    {
        "cli/commands/config.py",
        "cli/checks.py",
        "config/limits.py",
        "config/settings/model.py",
        "config/strategies/load.py",
        "config/strategies/model.py",
        "domain/plan.py",
    }
)
"""Where keys are declared, copied from one record into another, or printed."""

PLAN_PARTS = {
    "plan": StrategyPlan,
    "wake": Wake,
    "when": When,
    "order": OrderPlan,
    "limits": Limits,
}
COPIED = {
    "risk.limits": "risk.all_strategies",
    "risk.account": "risk.whole_account",
    "notify.quiet_hours": "notify.quiet_hours.of",
}
"""Sections that are read through a property: the keys are the plan's `limits`, or those of
`AccountLimits`.
"""

CHANGED: Mapping[str, str] = {
    "name": "name: other",
    "use": "use: own",
    "symbols": "symbols: [HPG]",
    "mode": "mode: watch",
    "params": "params: {fast: 6}",
    "wake.bar": "wake: {bar: 5m}",
    "wake.quote": "wake: {bar: 1m, quote: 5s}",
    "wake.depth": "wake: {bar: 1m, depth: 5s}",
    "wake.timer": "wake: {bar: 1m, timer: 09:20}",
    "wake.session": "wake: {bar: 1m, session: true}",
    "when.sessions": "when: {sessions: [continuous]}",
    "when.between": "when: {between: 09:20 - 14:20}",
    "order.size.shares": "order: {size: {shares: 200}, price: ask}",
    "order.size.cash": "order: {size: {cash: 20_000_000}, price: ask}",
    "order.size.percent": "order: {size: {percent: 10}, price: ask}",
    "order.type": "order: {size: {shares: 100}, type: MARKET, price: MTL}",
    "order.price": "order: {size: {shares: 100}, price: bid}",
    "order.expire": "order: {size: {shares: 100}, price: ask, expire: 60s}",
    "limits.max_position": "limits: {max_position: 1_000}",
    "limits.max_order_value": "limits: {max_order_value: 50_000_000}",
    "limits.max_orders_per_day": "limits: {max_orders_per_day: 3}",
    "limits.max_loss_per_day": "limits: {max_loss_per_day: 500_000}",
    "limits.max_price_gap": "limits: {max_price_gap: 3%}",
    "limits.max_repeats": "limits: {max_repeats: 5}",
    "limits.max_times_median": "limits: {max_times_median: 3}",
    "limits.capital": "limits: {capital: 20_000_000}",
    "on_2fa": "on_2fa: drop",
}
"""Each key of a strategy file with a value that `BASE` does not have."""


def keys_of(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        sections = [
            kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)
        ]
        if sections:
            yield from keys_of(sections[0], f"{above}{name}.")
        else:
            yield f"{above}{name}"


def sections_of(model: type[BaseModel], above: str) -> dict[str, str]:
    """The name of each section's class, to where it stands."""
    found = {model.__name__: above}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= sections_of(field.annotation, f"{above}.{name}")
    return found


class Chains(ast.NodeVisitor):
    """Collects `a.b.c` of one function or module, with names followed to what they were set to."""

    def __init__(self, named: Mapping[str, str]) -> None:
        self.named = dict(named)
        self.found: set[str] = set()

    def visit(self, node: ast.AST) -> None:
        outside = dict(self.named)
        super().visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.named = outside

    def visit_arg(self, node: ast.arg) -> None:
        if isinstance(node.annotation, ast.Name) and node.annotation.id in SECTIONS:
            self.named[node.arg] = SECTIONS[node.annotation.id]

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name) and (chain := self.chain(value)):
                    self.named[name.id] = chain

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if chain := self.chain(node):
            self.found.add(chain)
        self.generic_visit(node)

    def chain(self, node: ast.AST) -> str:
        if isinstance(node, ast.IfExp):
            return self.chain(node.body)
        if isinstance(node, ast.Name):
            return self.named.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return f"{self.chain(node.value)}.{node.attr}"
        return ""


SECTIONS = sections_of(Settings, "settings") | {k.__name__: part for part, k in PLAN_PARTS.items()}


@cache
def chains() -> frozenset[str]:
    """Every chain of attributes in the program that does more than hold or show settings."""
    found: set[str] = set()
    assert all((SOURCE / name).is_file() for name in ONLY_HOLD_OR_SHOW)
    for file in SOURCE.rglob("*.py"):
        if file.relative_to(SOURCE).as_posix() in ONLY_HOLD_OR_SHOW:
            continue
        visitor = Chains({})
        visitor.visit(ast.parse(file.read_text("utf-8")))
        found |= visitor.found
    return frozenset(found)


def is_read(key: str) -> bool:
    return any(f".{chain}".endswith(f".{key}") for chain in chains())


@pytest.mark.parametrize("key", list(keys_of(Settings)))
def test_a_setting_that_is_accepted_is_read(key: str) -> None:
    for section, as_read in COPIED.items():
        if key.startswith(f"{section}."):
            key = as_read

    assert is_read(f"settings.{key}"), f"nothing reads {key}: refuse it (Settings.not_yet)"


def test_a_setting_that_nothing_reads_is_found() -> None:
    assert not is_read("settings.web.enabled")
    assert not is_read("plan.notify")


def test_a_key_of_a_strategy_file_changes_its_plan(tmp_path: Path) -> None:
    assert set(CHANGED) == set(keys_of(StrategyFile))
    assert set(keys_of(StrategyFile)) >= {f"limits.{key}" for key in limit_keys()}
    plain = plan_of(tmp_path, BASE)
    own = "from bot import Strategy\n\nclass Own(Strategy):\n    fast: int = 1\n"
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "own.py").write_text(own)

    for key, line in CHANGED.items():
        top = line.partition(":")[0]
        lines = [each for each in BASE.splitlines() if not each.startswith(f"{top}:")]
        assert plan_of(tmp_path, "\n".join([*lines, line])) != plain, key


def limit_keys() -> list[str]:
    return [key.removeprefix("risk.limits.") for key in keys_of(Settings) if "risk.limits." in key]


def plan_of(folder: Path, text: str) -> StrategyPlan:
    file = folder / "mine.yaml"
    file.write_text(text + "\n", "utf-8")
    return dataclasses.replace(check_file(file, market=MARKET).plan, source="", source_sha256="")


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (part, field.name)
        for part, kind in (*PLAN_PARTS.items(), ("limits", AccountLimits))
        for field in dataclasses.fields(kind)
    ],
)
def test_what_a_plan_holds_is_read(part: str, name: str) -> None:
    is_of_account = part == "limits" and is_read(f"account_limits.{name}")
    assert is_of_account or is_read(f"{part}.{name}"), f"nothing reads {name} of {part}"
