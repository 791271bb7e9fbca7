"""Alerts in the configured language, from their code and facts alone.

The journal stores the English text, the code and the facts. If a template or one of its facts is
missing, the English text is shown: an alert in the wrong language is better than none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from bot.domain.local_time import clock_of
from bot.domain.order import type_word

Facts = Mapping[str, object]


class Say(Protocol):
    """Translates an English phrase. Without facts its braces are plain text."""

    def __call__(self, english: str, /, **facts: object) -> str: ...


ENGLISH: Final = "en"
_NOTHING: Final = "-"
_DEPTH_MAX: Final = 3
"""Parts may be nested this deep."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The templates of one language. `parts` are shared by several templates, `words` translate
    values of facts, `times` are the facts that are instants.
    """

    alerts: Mapping[str, str]
    parts: Mapping[str, str]
    words: Mapping[str, Mapping[str, str]]
    times: tuple[str, ...]
    screen: Mapping[str, str]
    """Phrases of `bot status`, by their English text."""

    def told(self, code: str, facts: Facts) -> str | None:
        """Return an alert in whole sentences; None if its template or a fact is missing."""
        template = self.template(code)
        if template is None:
            return None
        shown = dict[str, str]()
        for name, value in facts.items():
            if name == "price" and value is None:
                shown[name] = type_word(str(facts.get("order_type") or _NOTHING))
            elif value is None or value == "":
                shown[name] = _NOTHING
            elif name in self.times:
                shown[name] = clock_of(datetime.fromisoformat(str(value)))
            else:
                shown[name] = f"{value:,}" if isinstance(value, int | float) else str(value)
        try:
            for name, value in facts.items():
                if (word := self.words.get(name, {}).get(str(value))) is not None:
                    shown[name] = word.format_map(shown)
            return template.format_map(shown)
        except KeyError:
            return None

    def template(self, code: str) -> str | None:
        """Return the template of a code with its parts inserted, None if there is none."""
        text = self.alerts.get(code)
        for _ in range(_DEPTH_MAX):
            for name, part in self.parts.items():
                text = text and text.replace("{" + name + "}", part)
        return text


@cache
def catalogue(language: str) -> Catalogue:
    """Read the templates of a language; English has none, as alerts already have English text."""
    from ruamel.yaml import YAML  # imported only for another language, as it slows a start

    data = YAML(typ="safe").load(Path(__file__).with_name(f"{language}.yaml").read_text("utf-8"))
    return Catalogue(
        data["alerts"], data["parts"], data["words"], tuple(data["times"]), data["screen"]
    )


def phrases(language: str) -> Say:
    """Return the translator of English phrases into a language; missing phrases stay English."""
    known = catalogue(language).screen if language not in {"", ENGLISH} else {}

    def say(english: str, /, **facts: object) -> str:
        text = known.get(english, english)
        return text.format_map(facts) if facts else text

    return say


def told(language: str, text: str, code: str, facts: Facts) -> str:
    """Return an alert in a language, or in English if it has no translation."""
    if language == ENGLISH or not code:
        return text
    return catalogue(language).told(code, facts) or text
