"""The errors of the journal.

    JournalError
    ├── UnusableUrl          the URL names no database usable for a journal
    ├── Unreachable          no database there, or it went away; nothing of the write is stored
    │   ├── OutcomeUnknown   lost during the commit; the next write finds out
    │   └── Torn             a bot began to write the file while it was read; the next read is whole
    ├── NeedsMigration       the schema is older (or newer) than this program
    ├── LeaseLost            another daemon writes this journal now: nothing may be written any more
    ├── WrittenByAnother     it was changed although the lease is ours; nothing is stored
    │   └── OlderCopy        it lacks what this writer had stored, as after a failover
    ├── LeaseHeld            another daemon writes this journal; carries its holder
    ├── Contradicted         an entry contradicts what is stored (our bug); nothing is stored
    ├── NotOwner             only the owner of the tables may do that (PostgreSQL)
    ├── Corrupt              the database file is damaged
    ├── UnknownOrder         no order has that id
    └── AmbiguousOrder       several orders match a part of an id; carries the candidates

No message carries a password.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

REFUSAL: Final = "FATAL:"
"""How PostgreSQL begins its own words about a connection that it does not take."""
STARTING: Final = "the database system is "
"""What follows is that it starts up, shuts down, or does not accept connections yet."""
WANTING: Final = ("no password supplied", "SSL was required")
"""What the driver says of a server that has answered and wants more than our settings have, or has
less than they want.
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a journal's lease. `since` is wire time, UTC."""

    pid: int
    host: str
    since: datetime

    def __str__(self) -> str:
        """Describe the process as an operator would look for it."""
        return f"pid {self.pid} on {self.host}, since {self.since:%Y-%m-%d %H:%M:%S} UTC"


class JournalError(Exception):
    """Anything that kept the journal from doing what was requested."""


class UnusableUrl(JournalError):
    """The journal's URL cannot be used as written."""


class Unreachable(JournalError):
    """The database cannot be reached. For a SQLite file, `host` is None and `database` its path.

    `is_absent`: the file does not exist. `is_full`: its disk has no room.
    """

    def __init__(
        self,
        reason: str,
        *,
        database: str,
        host: str | None = None,
        port: int | str | None = None,
        user: str | None = None,
        is_absent: bool = False,
        is_full: bool = False,
    ) -> None:
        who = f"user '{user}'" if user else "this system's user"
        server = f"postgres at {host}:{port} as {who}, database '{database}'"
        super().__init__(f"can't reach {server if host else database} ({reason})")
        self.reason, self.database = reason, database
        self.host, self.port, self.user = host, port, user
        self.is_absent, self.is_full = is_absent, is_full

    @property
    def may_pass(self) -> bool:
        """Whether a server did not answer, or is still starting: it has refused nothing of ours."""
        is_refusal = self.reason.startswith(REFUSAL) and STARTING not in self.reason
        is_refusal = is_refusal or any(words in self.reason for words in WANTING)
        return self.host is not None and not is_refusal


class OutcomeUnknown(Unreachable):
    """The connection was lost during the commit, and could not be restored to check."""


class Torn(Unreachable):
    """A bot began to write the file while it was read: what was read is of two moments."""


class NeedsMigration(JournalError):
    """The schema `found` (None: no schema) is not the one this program writes.

    `is_known`: this program can migrate it.
    """

    def __init__(self, *, found: str | None, wanted: str, is_known: bool = True) -> None:
        super().__init__(f"the journal has schema {found or 'none'}, this program needs {wanted}")
        self.found, self.wanted, self.is_known = found, wanted, is_known


class LeaseLost(JournalError):
    """Another bot has taken the lease since, `holder` if known; nothing is stored."""

    def __init__(self, *, stored: int, ours: int, holder: Holder | None = None) -> None:
        super().__init__(f"another bot has taken the lease: epoch {stored}, ours is {ours}")
        self.stored, self.ours, self.holder = stored, ours, holder


class WrittenByAnother(JournalError):
    """The journal is not as its one writer left it; nothing is stored over what was found."""


class OlderCopy(WrittenByAnother):
    """The journal ends with entry `last`, and its writer has stored `reached`."""

    def __init__(self, *, last: int, reached: int) -> None:
        super().__init__(
            f"the journal has become an older copy: entry {last} is the last, and {reached} was "
            "stored"
        )


class LeaseHeld(JournalError):
    """Another process writes this journal. `holder` is None until it has left its name; `silent_s`
    is how long ago it last renewed a lease that is over, None if it is not.
    """

    def __init__(self, holder: Holder | None, *, silent_s: int | None = None) -> None:
        who = holder or "still starting"
        text = f"another bot writes this journal: {who}"
        if silent_s is not None:
            text = (
                f"another bot holds this journal: {who}; its last heartbeat was {silent_s:,} s ago"
            )
        super().__init__(text)
        self.holder, self.silent_s = holder, silent_s


class Contradicted(JournalError):
    """An entry does not fit what is stored; its whole transaction was rolled back."""


class NotOwner(JournalError):
    """Only the owner of their table may delete rows; the bot's own role need not be it."""

    def __init__(self, role: str, table: str) -> None:
        super().__init__(f"the database's role {role!r} does not own the table {table}")


class Corrupt(JournalError):
    """The database file is damaged and cannot be trusted."""


class UnknownOrder(JournalError):
    """No order, intent or blocked request has the id `reference`."""

    def __init__(self, reference: str) -> None:
        is_first = reference == "last"
        super().__init__(
            "no order was made yet" if is_first else f"no order has the id '{reference}'"
        )
        self.reference = reference


class AmbiguousOrder(JournalError):
    """Several orders match `reference`; `candidates` are their ids, newest first."""

    def __init__(self, reference: str, candidates: tuple[str, ...]) -> None:
        super().__init__(f"'{reference}' could be {', '.join(candidates)}")
        self.reference, self.candidates = reference, candidates
