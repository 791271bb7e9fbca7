"""The emergency journal of an earlier run, read at a start, and what only ours has at the end."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import REDUCED_SCOPE, RunState, StateChanged
from bot.domain.local_time import clock_of

if TYPE_CHECKING:
    from bot.domain.entry import Entry
    from bot.journal.journal import Journal
    from bot.journal.writing.emergency import EmergencyJournal, Kept

FILE_S: Final = 5.0
"""How long the disk of the emergency journal may take."""
_WHOLE: Final = frozenset({"all", "operator"})
"""The scopes of a state of the whole bot."""
_BY_HAND: Final = {RunState.HALTED: "halt", RunState.PAUSED: "pause"}
_OF_ENTRIES: Final = {RunState.HALTED: "pause of entries"}
_UNSEEN: Final = (
    " It does not know of the {what} of {clock}, which only the emergency journal here has: give "
    "it the same (bot halt --state-dir …)."
)


async def take_over(
    journal: "Journal",
    emergency: "EmergencyJournal",
    ask: Callable[[Awaitable[int]], Awaitable[int]],
    damage: Sequence[str] = (),
) -> str:
    """Write what an earlier run could only store in the emergency journal, and report it; reserve
    space for what this run may have to store there. With `damage` to the journal, found now or
    before and not accepted, what is there stays, for the one that a person may put back.

    Raises OperatorMistake if the file cannot be read, and what the journal raises.
    """
    # A run needs all of the writing journal; commands that only read one need just these functions.
    from bot.journal.writing.thread import in_time

    try:
        kept = await in_time(emergency.read, FILE_S)
    except OSError as error:
        why = error.strerror or str(error) or "its disk does not answer"
        text = (
            f"{emergency.path} can't be read ({why}). It holds halts, cancels and answers of an "
            "earlier run that the journal may lack. Make it readable; or move it away, and look at "
            "the broker's orders of that day yourself"
        )
        raise OperatorMistake.of("E-DB-011", text, ExitCode.DATABASE) from error
    count, refused = await _store(journal, kept, ask)
    emergency.is_anothers = bool(kept.entries) and bool(
        damage or await ask(journal.is_in_question())
    )
    if kept.entries and not emergency.is_anothers:
        journal.keep_heads()  # what they accept may have been in question until now
    if emergency.is_anothers:
        return (
            f"took over {count} of {len(kept.entries)} entries of an earlier run. They stay in "
            f"{emergency.path} too: this journal is damaged, or not theirs, and the right one is "
            f"to get them at its start{_left_words(kept, refused, emergency.path)}; until then no "
            "space is reserved there for what this run may have to keep: see that its disk has "
            "room (df)"
        )
    unread = emergency.path
    try:  # all that could be read is in the journal now, so reading it again is harmless
        if kept.unreadable or refused:
            await in_time(partial(emergency.set_aside, refused), FILE_S)
            unread = emergency.unread
        await in_time(emergency.reserve, FILE_S)
        no_room = ""
    except OSError as error:
        why = error.strerror or str(error) or "its disk does not answer"
        no_room = (
            f"no room for it in {emergency.path.parent} ({why}): what the broker answers is lost "
            "if the journal can't be written either. Make room on that disk: df"
        )
    if not kept.entries and not kept.unreadable:
        return no_room
    lost = _left_words(kept, refused, unread)
    words = f"took over {count} of {len(kept.entries)} entries of an earlier run"
    return f"{words}{lost}{'; ' if no_room else ''}{no_room}"


async def _store(
    journal: "Journal", kept: "Kept", ask: Callable[[Awaitable[int]], Awaitable[int]]
) -> tuple[int, list[Sequence["Entry"]]]:
    """Store entries; return how many were new, and the lines that the journal refuses: what ended
    the last run for that ends no start.
    """
    from bot.journal.errors import Contradicted

    if not kept.entries:
        return 0, []
    try:
        return await ask(journal.take_over(kept.entries)), []
    except Contradicted:
        count, refused = 0, list[Sequence["Entry"]]()
    for line in kept.lines:
        try:
            count += await ask(journal.take_over(line))
        except Contradicted:
            refused.append(line)
    return count, refused


def _left_words(kept: "Kept", refused: Sequence[Sequence["Entry"]], path: Path) -> str:
    """Say what of a file is not in the journal, and where it is."""
    look, texts = "look at the broker's orders of that day", list[str]()
    if count := kept.unreadable:
        texts.append(f"{count} could not be read and {'is' if count == 1 else 'are'} in {path}")
    if count := len(refused):
        ids = {getattr(each, "intent_id", None) for line in refused for each in line}
        orders = f" (orders {', '.join(sorted(filter(None, ids)))})" if any(ids) else ""
        does, it_is = ("contradicts", "is") if count == 1 else ("contradict", "are")
        texts.append(f"{count} {does} the journal and {it_is} in {path}{orders}")
    return f"; {', '.join(texts)}: {look}" if texts else ""


async def only_here(emergency: "EmergencyJournal") -> str:
    """Name the last halt or pause that is in the emergency journal alone; nothing if none is."""
    from bot.engine.control_state import BY_ENGINE  # loaded by then
    from bot.engine.gate import BY_LIMIT
    from bot.journal.writing.thread import in_time

    with suppress(OSError):
        kept = (await in_time(emergency.read, FILE_S)).entries
        changes = [one for one in kept if isinstance(one, StateChanged)]
        by_hand = [one for one in changes if one.by not in {BY_ENGINE, BY_LIMIT}]
        for scopes, words in ((_WHOLE, _BY_HAND), ({REDUCED_SCOPE}, _OF_ENTRIES)):
            known = {*words, RunState.RUNNING}
            given = [one for one in by_hand if one.scope in scopes and one.to_state in known]
            if given and (what := words.get(given[-1].to_state)):
                return _UNSEEN.format(what=what, clock=clock_of(given[-1].at))
    return ""
