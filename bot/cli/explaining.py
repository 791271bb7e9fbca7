"""The meaning of every code and what to do about it, in English and Vietnamese, as data."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_KINDS: Final = {
    "checks": "a check of an order",
    "decisions": "why nothing was ordered",
    "http": "HTTP status of the broker",
    "broker": "code of the broker",
    "statuses": "status of an order at the broker",
}
ALERT: Final = "an alert"
OURS: Final = "a mistake that the bot names"


@dataclass(frozen=True, slots=True)
class Explained:
    """One code; `also` are other codes of the same meaning, `risk` the number of its control.

    `do_en` and `do_vi` say what to do if the meaning itself does not.
    """

    code: str
    kind: str
    en: str
    vi: str
    also: tuple[str, ...] = ()
    risk: str = ""
    do_en: str = ""
    do_vi: str = ""

    def answers_to(self, asked: str) -> bool:
        """Return whether typed text means this code."""
        wanted = asked.upper()
        return bool(wanted) and wanted in {self.code, self.risk, *self.also}

    def sentences(self, language: str) -> tuple[str, ...]:
        """Return what it means and, where that alone does not say it, what to do: a line each."""
        meaning, step = (self.vi, self.do_vi) if language == "vi" else (self.en, self.do_en)
        return (f"{meaning}.", step) if step else (meaning,)

    @property
    def fields(self) -> Mapping[str, object]:
        """Its parts by name."""
        return {
            "code": self.code,
            "kind": self.kind,
            "also": list(self.also),
            "risk": self.risk,
            "en": f"{self.en}. {self.do_en}" if self.do_en else self.en,
            "vi": f"{self.vi}. {self.do_vi}" if self.do_vi else self.vi,
        }


@cache
def entries() -> tuple[Explained, ...]:
    """Return all explained codes, ours first."""
    from ruamel.yaml import YAML  # slow to import, and only needed here

    def read(path: Path) -> Mapping[str, Mapping[str, object]]:
        rows: Mapping[str, Mapping[str, object]] = YAML(typ="safe").load(path.read_text("utf-8"))
        return rows

    here, found = Path(__file__), list[Explained]()
    data = read(here.with_name("explained.yaml"))
    vietnamese = data["mistakes"]
    listed = read(here.with_name("next_steps.yaml"))
    steps = {code: row for codes, row in listed.items() for code in codes.split()}
    for code, meaning in read(here.parents[1] / "config" / "error_codes.yaml").items():
        told = str(meaning), str(vietnamese.get(code) or meaning)
        todo = str(steps[code]["en"]), str(steps[code]["vi"])
        found.append(Explained(code, OURS, *told, (), "", *todo))
    alerts = read(here.with_name("explained_alerts.yaml"))
    sections = [(data[section], kind) for section, kind in _KINDS.items()] + [(alerts, ALERT)]
    for section, kind in sections:
        for code, row in section.items():
            assert isinstance(row, Mapping), f"{code} has an explanation"
            also = tuple(str(each) for each in row.get("also", ()))
            risk = str(row.get("risk", ""))
            told = str(row["en"]), str(row["vi"])
            found.append(Explained(str(code), kind, *told, also, risk))
    return tuple(found)


def meanings(language: str) -> Mapping[str, str]:
    """Return what each code means in a language."""
    return {each.code: each.vi if language == "vi" else each.en for each in entries()}


def nearest(asked: str) -> str:
    """Return a known code that is similar, empty if none is."""
    codes = [name for each in entries() for name in (each.code, *each.also)]
    close = difflib.get_close_matches(asked.upper(), codes, n=1, cutoff=0.6)
    return close[0] if close else ""
