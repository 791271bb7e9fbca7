"""Reads the worked numbers of vectors.yaml."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bot.domain.instrument import Exchange, Instrument, InstrumentKind

VECTORS: dict[str, list[list[Any]]] = YAML(typ="safe").load(
    Path(__file__).with_suffix(".yaml").read_text("utf-8")
)


def instrument(exchange: str, kind: str = "STOCK") -> Instrument:
    return Instrument("AAA", Exchange[exchange], InstrumentKind[kind])
