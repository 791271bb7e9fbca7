"""The status of a symbol: what the exchange publishes about it besides its price.

The codes are those of the market feed since May 2025. What they mean for trading is data
(`status_codes` and `restricted_trading` in the rules); this module only looks it up.
"""

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Final

from bot.domain.errors import RuleDataError
from bot.domain.rule_data import RuleData


class Administration(StrEnum):
    """Normal; warned (financial report, disclosure, other); controlled, restricted, or both."""

    NRM = "NRM"
    WFR = "WFR"
    WID = "WID"
    WOV = "WOV"
    CTR = "CTR"
    RES = "RES"
    CR = "CR"


class TradingMethod(StrEnum):
    """Normal; new, with the special or the normal band; back after suspension or a long pause."""

    NRM = "NRM"
    NWE = "NWE"
    NWN = "NWN"
    SLS = "SLS"
    SNE = "SNE"


class Sanction(StrEnum):
    """Normal; suspended; leaving the board; halted because it is restricted."""

    NRM = "NRM"
    SUS = "SUS"
    DTL = "DTL"
    TFR = "TFR"


@dataclass(frozen=True, slots=True)
class SymbolStatus:
    """Everything that the feed says about a symbol; `is_halted` is a short halt (HALT)."""

    administration: Administration = Administration.NRM
    method: TradingMethod = TradingMethod.NRM
    sanction: Sanction = Sanction.NRM
    is_halted: bool = False
    is_known: bool = field(default=True, compare=False)
    """False if no source gives the status and normal is only assumed."""

    @classmethod
    def from_data(cls, data: RuleData) -> "SymbolStatus":
        """Parse codes like `RES` or `CTR/SUS/HALT`; an empty text is normal. Raises RuleDataError.

        No code but NRM occurs in two fields, so each code identifies its field.
        """
        codes = [code for code in data.text().split("/") if code not in ("", "NRM", "NO_HALT")]
        fields: dict[str, str] = {}
        for code in codes:
            field = _FIELD_OF.get(code)
            if field is None or field in fields:
                wanted = f"codes of different fields among {', '.join(_FIELD_OF)}"
                raise RuleDataError(data.place, wanted, data.text())
            fields[field] = code
        return cls(
            Administration(fields.get("administration", "NRM")),
            TradingMethod(fields.get("method", "NRM")),
            Sanction(fields.get("sanction", "NRM")),
            is_halted="halt" in fields,
        )

    def __str__(self) -> str:
        codes = [self.administration, self.method, self.sanction, "HALT" if self.is_halted else ""]
        return "/".join(code for code in codes if code not in ("", "NRM")) or "NRM"


NORMAL: Final = SymbolStatus()

_FIELDS: Final = (
    ("administration", Administration),
    ("method", TradingMethod),
    ("sanction", Sanction),
)
_FIELD_OF: Final = {
    **{code: field for field, codes in _FIELDS for code in codes.__members__ if code != "NRM"},
    "HALT": "halt",
}


@dataclass(frozen=True, slots=True)
class StatusRules:
    """What the codes mean for trading. A short halt stops trading whatever the codes are."""

    restricted: frozenset[Administration]
    special_band: frozenset[TradingMethod]
    first_day: frozenset[TradingMethod]
    not_tradable: frozenset[Sanction]

    @classmethod
    def from_data(cls, data: RuleData, on: date | None) -> "StatusRules":
        version = data.version(on)
        return cls(
            restricted=frozenset(version["restricted"].members(Administration)),
            special_band=frozenset(version["special_band_methods"].members(TradingMethod)),
            first_day=frozenset(version["first_day_methods"].members(TradingMethod)),
            not_tradable=frozenset(version["not_tradable_sanctions"].members(Sanction)),
        )

    def is_restricted(self, status: SymbolStatus) -> bool:
        return status.administration in self.restricted

    def is_tradable(self, status: SymbolStatus) -> bool:
        """Return whether the exchange takes orders in the symbol at all."""
        return status.sanction not in self.not_tradable and not status.is_halted

    def has_special_band(self, status: SymbolStatus) -> bool:
        return status.method in self.special_band

    def is_first_day(self, status: SymbolStatus) -> bool:
        """Return whether it is the first trading day, or the day on which trading resumes."""
        return status.method in self.first_day
