"""The journal at the edge of a run: made when it is new, and its errors in an operator's words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import DEFAULT
from bot.journal.engines import file_of, is_sqlite
from bot.journal.errors import (
    Corrupt,
    JournalError,
    LeaseHeld,
    LeaseLost,
    NeedsMigration,
    Unreachable,
    UnusableUrl,
    WrittenByAnother,
)
from bot.journal.reader import JournalReader
from bot.journal.schema import check, migrate

CHECK: Final = "Check: bot db check"
MIGRATE: Final = "Do: bot db migrate"
FOREIGN: Final = (
    "It is a later program's, or somebody else's: install that version, or set another journal.url"
)
TO_RUN: Final = f"No order is placed without a journal. {CHECK}"
TO_MAKE: Final = "The first run makes it (bot run), or: bot db migrate"
_PAPER: Final = "paper"


def prepare_journal(url: str) -> str:
    """Create the tables of a new journal; return `new` or `kept` for the screen.

    An older schema is never changed silently: it raises NeedsMigration when the journal is opened.
    """
    if not _has_tables(url):
        migrate(url)
        return "new"
    return "kept"


def _has_tables(url: str) -> bool:
    is_missing = is_sqlite(url) and not file_of(url).is_file()
    return not is_missing and check(url).found is not None


def holds_runs(url: str) -> bool:
    """Tell whether a bot has ever written this journal. Raises what the journal raises."""
    if not _has_tables(url):
        return False
    with JournalReader(url) as reader:
        return bool(reader.runs())


def require_unmixed(url: str, mode: str) -> None:
    """Raise OperatorMistake where a run in `mode` would mix paper results with others.

    What a strategy holds is counted from the fills in the journal, whatever broker they came from:
    in a journal for both, shares bought on paper would be sold for real. So a journal is of paper
    mode from its first run, or never.
    """
    with JournalReader(url) as reader:
        before = {run.mode for run in reader.runs()}
    others = before - {mode}
    if others and _PAPER in before | {mode}:
        text = (
            f"this journal is of mode {min(others)!r}: what was bought there would count as "
            f"held in mode {mode!r}. Give each a state_dir (or journal.url) of its own"
        )
        raise OperatorMistake.of("E-RUN-006", text, ExitCode.CONFIG)


@contextmanager
def journal_errors(origin: str, *, what_to_do: str = CHECK) -> Iterator[None]:
    """Turn what the journal raises into an operator's mistake that says what to do.

    `origin` names the setting; `what_to_do` is the advice for a database that is out of reach.
    """
    try:
        yield
    except LeaseHeld as error:
        text = f"{error}. One bot at a time: bot stop, or another journal.url"
        raise OperatorMistake.of("E-DB-004", text, ExitCode.NOT_RUNNING) from error
    except (LeaseLost, WrittenByAnother) as error:
        raise taken_over(error) from error
    except NeedsMigration as error:
        text = f"{error}. {MIGRATE if error.is_known else FOREIGN}"
        raise OperatorMistake.of("E-DB-002", text, ExitCode.DATABASE) from error
    except Unreachable as error:
        advice = TO_MAKE if error.is_absent and what_to_do is CHECK else what_to_do
        source = "the default journal.url" if origin == DEFAULT else f"journal.url in {origin}"
        text = f"{error}, from {source}. {advice}"
        raise OperatorMistake.of("E-DB-001", text, ExitCode.DATABASE) from error
    except (Corrupt, UnusableUrl) as error:
        raise OperatorMistake.of("E-DB-003", f"{error} ({origin})", ExitCode.DATABASE) from error
    except JournalError as error:
        raise OperatorMistake.of("E-DB-009", f"{error} ({origin})", ExitCode.DATABASE) from error


def taken_over(error: LeaseLost | WrittenByAnother) -> OperatorMistake:
    """Say that another writes our journal now, and who has the open orders."""
    what = str(error)
    if isinstance(error, LeaseLost):
        what = (
            f"another bot has taken this journal over (lease {error.stored}, ours was {error.ours})"
        )
    text = (
        f"{what}. This one has ended and sends nothing more; orders it left open are the other "
        "one's now. Let one bot write a journal: bot stop, or another journal.url"
    )
    return OperatorMistake.of("E-DB-004", text, ExitCode.NOT_RUNNING)
