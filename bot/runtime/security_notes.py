"""What every start puts on record for whoever asks later: who started it, and with which code.

One note in the journal's chain: the user of the process, and each strategy's files with their
hashes. Files that differ from the start before are in its words, and those are shown; a start like
the one before is for the journal alone. Limits have a note of their own, from the engine.
"""

import os
import pwd
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from bot.config.settings.load import Loaded
from bot.config.strategies.plugins import project_of
from bot.config.strategies.source_files import Hashes
from bot.domain.entry import CODE_NOTE, Note, Number, Numbers
from bot.domain.message import Noted
from bot.engine.control_state import Standing
from bot.journal.events import last_moment
from bot.journal.verify import last_note
from bot.runtime.parts import Parts

_WHO: Final = "by"
_CHANGED: Final = "changed"


def note_start(
    parts: Parts,
    loaded: Loaded,
    files: Mapping[str, Hashes],
    before: Numbers,
    alerts: Iterable[Standing] = (),
) -> None:
    """Post the note of this start, and what it begins with that is wrong; `before` holds what the
    last one said.
    """
    now = dict(_facts(loaded, files))
    other = [
        name.partition(" ")[2]
        for name in dict.fromkeys((*before, *now))
        if " " in name and before.get(name) != now.get(name)
    ]
    is_changed = bool(before and other)
    text = "the code of the strategies"
    if is_changed:
        text += f" is another than at the last start: {', '.join(dict.fromkeys(other))}"
    at = parts.environment.market.now()
    parts.inbox.post(Noted(at, Note(at, CODE_NOTE, text, {**now, _CHANGED: is_changed})))
    for each in alerts:
        note = Note(at, "ALERT", each.text, {"alert": each.code, **each.facts})
        parts.inbox.post(Noted(at, note))


def last_start(journal_url: str) -> Numbers:
    """Return what the newest note of a start holds; nothing before the first."""
    return last_note(journal_url, CODE_NOTE)


def _facts(loaded: Loaded, files: Mapping[str, Hashes]) -> Iterator[tuple[str, Number]]:
    user = os.geteuid()
    try:
        yield _WHO, f"{pwd.getpwuid(user).pw_name} ({user})"
    except KeyError:
        yield _WHO, str(user)
    yield "mode", loaded.settings.mode
    project = project_of(loaded.base_dir)
    for strategy, hashes in files.items():
        for file, digest in hashes.items():
            path = Path(file)
            is_ours = path.is_relative_to(project)  # then its name is the same wherever that lies
            yield f"{strategy} {path.relative_to(project) if is_ours else path}", digest


def before_this(url: str) -> tuple[Numbers, datetime | None]:
    """Return what the journal knows of the start before, and when it was written last."""
    return last_start(url), last_moment(url)
