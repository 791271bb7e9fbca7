"""Alerts in the configured language, from their code and facts alone; other sentences of the bot's
own, such as why it is DEGRADED, by their English text.

The journal stores the English text, the code and the facts. If a template or one of its facts is
missing, the English text is shown: an alert in the wrong language is better than none.
"""

import re
from collections.abc import Mapping, Sequence
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
"""Parts, and sentences within sentences, may be nested this deep."""
_SENTENCE_MAX: Final = 2_000
"""A longer text is none of the bot's own sentences."""
_PLACE: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the bot's own, recognised by its English text; `template` is the other one."""

    pattern: re.Pattern[str]
    template: str


def sentences_of(table: Mapping[str, str]) -> tuple[Sentence, ...]:
    """Make sentences from templates by English templates; the one that leaves the least open comes
    first.
    """
    made = list[tuple[int, Sentence]]()
    for english, template in table.items():
        pieces = _PLACE.split(english)
        pattern = "".join(
            f"(?P<{piece}>.+?)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces)
        )
        sentence = Sentence(re.compile(pattern, re.DOTALL), template)
        made.append((sum(map(len, pieces[::2])), sentence))
    return tuple(each for _, each in sorted(made, key=lambda one: one[0], reverse=True))


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
    sentences: Sequence[Sentence]

    def sentence(self, english: str, depth: int = _DEPTH_MAX) -> str:
        """Return a sentence of the bot's own in this language; any other text as it is."""
        if not depth or len(english) > _SENTENCE_MAX:
            return english
        for each in self.sentences:
            if found := each.pattern.fullmatch(english):
                inner = {
                    name: self.sentence(value, depth - 1)
                    for name, value in found.groupdict().items()
                }
                return each.template.format_map(inner)
        return english

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
            elif isinstance(value, int | float):
                shown[name] = f"{value:,}"
            else:
                shown[name] = self.sentence(str(value))
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
        data["alerts"],
        data["parts"],
        data["words"],
        tuple(data["times"]),
        data["screen"],
        sentences_of(data["sentences"]),
    )


def phrases(language: str) -> Say:
    """Return the translator of English phrases, and of the bot's own sentences, into a language;
    what is missing stays English.
    """
    known = catalogue(language) if language not in {"", ENGLISH} else None

    def say(english: str, /, **facts: object) -> str:
        if known is None:
            text = english
        elif facts:
            text = known.screen.get(english, english)
        else:
            text = known.screen.get(english) or known.sentence(english)
        return text.format_map(facts) if facts else text

    return say


def told(language: str, text: str, code: str, facts: Facts) -> str:
    """Return an alert, or with no code a sentence, in a language; in English if it has no
    translation.
    """
    if language == ENGLISH:
        return text
    known = catalogue(language)
    return (known.told(code, facts) if code else None) or known.sentence(text)
