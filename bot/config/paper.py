"""`paper:` of bot.yaml: how paper orders are filled, and what the paper account begins with."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import JsonSchemaValue

from bot.config.field_types import Reader, Whole, wrong
from bot.sandbox.markets.mirror.model import FillName

_SYMBOL: Final = re.compile(r"[A-Z0-9]{1,12}")
_SHARES: Final = Whole(1, 1_000_000_000, "settled shares")
_WANTED: Final = "symbols with their settled shares, like {HPG: 1_000}"


@dataclass(frozen=True, slots=True)
class HoldingsReader(Reader):
    """`{HPG: 1_000}`: settled shares by symbol."""

    def read(self, value: object) -> Mapping[str, int]:
        """Return shares by symbol."""
        if not isinstance(value, Mapping):
            raise wrong("E-CFG-013", _WANTED, value)
        for symbol in value:
            if not isinstance(symbol, str) or not _SYMBOL.fullmatch(symbol):
                raise wrong("E-CFG-024", _WANTED, symbol)
        return {symbol: _SHARES.read(shares) for symbol, shares in value.items()}

    def schema(self) -> JsonSchemaValue:
        """A mapping of whole numbers."""
        return {"type": "object", "additionalProperties": _SHARES.schema()}


class PaperSettings(BaseModel):
    """The paper account. What it began with stays, until it is begun anew."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fill: FillName = "queue"
    """How orders are filled: touch, depth or queue, from the kindest to the most careful."""
    cash: Annotated[int, Whole(0, 1_000_000_000_000, "whole VND")] = 100_000_000
    """VND that the account begins with."""
    holdings: Annotated[Mapping[str, int], HoldingsReader()] = {}
    """Settled shares that it begins with, at the price of that day: {HPG: 1_000}."""
    fee_ppm: Annotated[int, Whole(0, 10_000)] | None = None
    """Its fee in parts per million of the amount; left out: risk.fee_ppm."""
