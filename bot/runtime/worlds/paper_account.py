"""The beginning of the paper account, stored beside the journal: time, terms and symbols.

What has happened since is in the ledger (`paper.jsonl`), which is replayed on top of this. So an
account's terms never change, and symbols are only ever added.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from bot.config.private_files import replace_private
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.rulebook import paper_fee_ppm
from bot.config.settings.model import Settings
from bot.domain.instrument import Exchange, InstrumentKind, SymbolTable
from bot.domain.quote import Quote
from bot.sandbox.markets.mirror.model import FillName
from bot.sandbox.scenario import AccountScript, Scenario, SymbolScript

BEGINNING: Final = "paper.json"
LEDGER: Final = "paper.jsonl"
_ID: Final = "0009000011"
_EXTENDED: Final = re.compile(r"([0-9]{3}C[0-9]{6})(\.[0-9])")


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms with which an account begins. `account` is `broker.account` of the
    configuration.
    """

    fill: FillName
    cash: int
    holdings: dict[str, int]
    fee_ppm: int
    account: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A symbol as the broker listed it when it came in; `kind` is that of `config/symbols.csv`."""

    exchange: Exchange
    reference: int
    kind: InstrumentKind = InstrumentKind.STOCK


@dataclass(frozen=True, slots=True)
class Beginning:
    """When, on which terms and with which symbols an account began."""

    began: datetime
    terms: Terms
    symbols: dict[str, Listed]

    def with_symbols(self, quotes: Iterable[Quote], known: SymbolTable, on: date) -> "Beginning":
        """Return it with the new symbols added, of the kind `known` for them on a day.

        A quote does not contain the kind, which decides the tick; for an unknown symbol it is
        STOCK.
        """
        found = {}
        for quote in quotes:
            instrument = known.instrument(quote.symbol, on)
            kind = instrument.kind if instrument else InstrumentKind.STOCK
            if kind is InstrumentKind.CW:
                # Treated as a share: same tick below 10,000 VND, and its band is the quote's.
                kind = InstrumentKind.STOCK
            found[quote.symbol] = Listed(quote.exchange, quote.reference or quote.last, kind)
        return replace(self, symbols=found | self.symbols)

    def scenario(self) -> Scenario:
        """Return it as the scenario of a sandbox with a mirrored market."""
        terms = self.terms
        account = _account(terms.account).model_copy(
            update={"cash": terms.cash, "holdings": terms.holdings}
        )
        scripts = (
            SymbolScript(symbol=symbol, **asdict(listed))
            for symbol, listed in sorted(self.symbols.items())
        )
        made = Scenario(
            name="paper",
            fill=terms.fill,
            fee_ppm=terms.fee_ppm,
            quota="ENTERPRISE",
            accounts=(account,),
            symbols=tuple(scripts),
        )
        return made.on(self.began)


_Beginning: Final = TypeAdapter(Beginning)


def terms_of(settings: Settings) -> Terms:
    """Return the terms that a configuration states."""
    paper, fee_ppm = settings.paper, paper_fee_ppm(settings)
    return Terms(paper.fill, paper.cash, dict(paper.holdings), fee_ppm, settings.broker.account)


def read_beginning(state_dir: Path, wanted: Terms) -> Beginning | None:
    """Return how the account began, None before its first run.

    Raises OperatorMistake for a damaged file, or one with other terms.
    """
    path = state_dir / BEGINNING
    if not path.exists():
        return None
    try:
        found: Beginning = _Beginning.validate_json(path.read_bytes())
    except ValidationError as error:
        text = f"{path} is damaged: move it, {LEDGER} and the journal away to start a new account"
        raise OperatorMistake.of("E-SBX-001", text, ExitCode.DATABASE) from error
    if found.terms != wanted:
        before, now = asdict(found.terms), asdict(wanted)
        changed = ", ".join(
            f"{_KEYS.get(name, f'paper.{name}')} was {_shown(before[name])}, is {_shown(now[name])}"
            for name in before
            if before[name] != now[name]
        )
        text = (
            f"the paper account began on {found.began:%Y-%m-%d} on other terms: {changed}. Set them"
            f" back, or start a new account: move {path.name} and {LEDGER} and the journal out of "
            f"{path.parent}"
        )
        raise OperatorMistake.of("E-CFG-048", text)
    return found


def keep_beginning(state_dir: Path, beginning: Beginning) -> None:
    """Write it atomically."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_private(state_dir / BEGINNING, _Beginning.dump_json(beginning, indent=1))


_KEYS: Final[Mapping[str, str]] = {"account": "broker.account"}


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _account(named: str) -> AccountScript:
    """Return the one sub-account, such that `broker.account` selects it as it would
    the real one.
    """
    if (extended := _EXTENDED.fullmatch(named)) is not None:
        return AccountScript(id=_ID, depository_number=extended[1], suffix=extended[2])
    if re.fullmatch(r"\.[0-9]", named):
        return AccountScript(id=_ID, suffix=named)
    if named.lower() == "margin":
        return AccountScript(id=_ID, suffix=".6", type="Margin")
    return AccountScript(id=_ID if named.lower() == "normal" else named)
