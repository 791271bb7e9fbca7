"""The journal at the edge of a run: made when it is new, and its errors in an operator's words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake
from bot.journal.engines import file_of, is_sqlite
from bot.journal.errors import (
    Corrupt,
    JournalError,
    LeaseHeld,
    LeaseLost,
    NeedsMigration,
    Unreachable,
    UnusableUrl,
)
from bot.journal.schema import check, migrate


def prepare_journal(url: str) -> str:
    """Create the tables where there are none yet; return `new` or `kept` for the screen.

    An older schema is never changed silently: it raises NeedsMigration when the journal is opened.
    """
    is_file = is_sqlite(url)
    if (is_file and not file_of(url).is_file()) or check(url).found is None:
        migrate(url)
        return "new"
    return "kept"


def holds_runs(url: str) -> bool:
    """Tell whether a bot has ever written this journal. Raises what the journal raises."""
    from bot.journal.reader import JournalReader

    if is_sqlite(url) and not file_of(url).is_file():
        return False
    if check(url).found is None:
        return False
    with JournalReader(url) as reader:
        return bool(reader.runs())


CHECK: Final = "Check: bot db check"
MIGRATE: Final = "Do: bot db migrate"
FOREIGN: Final = (
    "It is a later program's, or somebody else's: install that version, or take another journal.url"
)
TO_RUN: Final = f"No order is placed without a journal. {CHECK}"
TO_MAKE: Final = "The first run makes it (bot run), or: bot db migrate"


@contextmanager
def journal_errors(origin: str, *, what_to_do: str = CHECK) -> Iterator[None]:
    """Turn what the journal raises into an operator's mistake that says what to do.

    `origin` names the setting; `what_to_do` is said of a database that is out of reach.
    """
    try:
        yield
    except LeaseHeld as error:
        text = f"{error}. One bot at a time: bot stop, or another journal.url"
        raise OperatorMistake.of("E-DB-004", text, ExitCode.NOT_RUNNING) from error
    except LeaseLost as error:
        raise taken_over(error) from error
    except NeedsMigration as error:
        text = f"{error}. {MIGRATE if error.is_known else FOREIGN}"
        raise OperatorMistake.of("E-DB-002", text, ExitCode.DATABASE) from error
    except Unreachable as error:
        advice = TO_MAKE if error.is_absent and what_to_do is CHECK else what_to_do
        text = f"{error}, from journal.url in {origin}. {advice}"
        raise OperatorMistake.of("E-DB-001", text, ExitCode.DATABASE) from error
    except (Corrupt, UnusableUrl) as error:
        raise OperatorMistake.of("E-DB-003", f"{error} ({origin})", ExitCode.DATABASE) from error
    except JournalError as error:
        raise OperatorMistake.of("E-DB-009", f"{error} ({origin})", ExitCode.DATABASE) from error


def taken_over(error: LeaseLost) -> OperatorMistake:
    """Say that another bot writes our journal now, and whose the open orders are."""
    text = (
        f"another bot has taken this journal over (lease {error.stored}, ours was {error.ours}). "
        "This one has ended and sends nothing more; orders it left open are the other one's now. "
        "Let one bot write a journal: bot stop, or another journal.url"
    )
    return OperatorMistake.of("E-DB-004", text, ExitCode.NOT_RUNNING)
