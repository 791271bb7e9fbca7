"""The words of a notice: mode, what happened, what it means for the money, what to type.

No account number and no secret is in them: every text passes the redaction of the wire, and what
came from outside is made visible.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.notice import SEVERITIES, Notice, NoticeKind, Volume
from bot.domain.visible import visible
from bot.protocol.secret import redact
from bot.runtime.notices.channels import Message
from bot.runtime.notices.policy import Ready

TEXT_MAX: Final = 900


@cache
def texts(language: str) -> Mapping[str, Mapping[str, str]]:
    """Read the texts of a language."""
    from ruamel.yaml import YAML  # read only by who sends notices: it slows a start

    found = YAML(typ="safe").load(Path(__file__).with_name("texts.yaml").read_text("utf-8"))
    return found[language]  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Wording:
    """Puts notices into messages. `bot` is the name of the bot and `mode` the one it runs in."""

    language: str
    bot: str
    mode: str

    def said(self, name: str, **facts: object) -> str:
        """Return one of the sentences with its facts."""
        return texts(self.language)["said"][name].format_map(facts)

    def notice(
        self, at: datetime, kind: NoticeKind, text: str, *, group: str = "", has_do: bool = True
    ) -> Notice:
        """Make a notice of what happened. `has_do` False: the text says what to do."""
        found = texts(self.language)
        return Notice(
            at=at,
            kind=kind,
            group=group or kind,
            text=text,
            money=found["money"].get(kind, ""),
            do=found["do"].get(kind, "") if has_do else "",
        )

    def title(self, words: str) -> str:
        """Say first in which mode the bot is, and which bot it is."""
        return f"{self.mode.upper()} {self.bot}: {visible(words)}"

    def message(self, ready: Ready, volume: Volume) -> Message:
        """Return what a channel is sent for it."""
        last = ready.notices[-1]
        title = self.title(texts(self.language)["titles"][ready.kind].format(state=last.group))
        lines = [line_of(each) for each in ready.notices]
        if ready.is_late:
            lines.insert(0, self.said("late", count=ready.count))
        elif ready.count > 1:
            since = clock_of(ready.notices[0].at)
            lines.insert(0, self.said("group", count=ready.count, since=since))
        if (others := ready.count - len(ready.notices)) > 0:
            lines.append(self.said("more", count=others))
        lines += [text for text in (last.money, f"→ {last.do}" if last.do else "") if text]
        return Message(
            severity=SEVERITIES[ready.kind],
            volume=volume,
            title=title,
            body="\n".join(lines),
        )


def line_of(notice: Notice) -> str:
    return f"{clock_of(notice.at)} {safe(notice.text)}"


def safe(text: str) -> str:
    """Return a text without account numbers and secrets, and with nothing in it that acts."""
    return visible(redact(text), TEXT_MAX)


def clock_of(at: datetime) -> str:
    """`09:16`, local to the exchange."""
    return f"{at.astimezone(EXCHANGE_TZ):%H:%M}"
