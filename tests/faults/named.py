"""How soon each fault that stays is on the screen and in `bot status`; 10 s are wanted.

    python -m tests.faults.named [TEXT]      only the faults whose name has this in it

A bot trades in two symbols until something breaks for the rest of the day; its status is read every
second. The clock runs from the moment at which the bot could know: from the first answer that is
wrong, or from the deadline of the first that does not come; where one bad answer to an order is no
illness yet, but told of that order, from the third. Where a route is dead that nothing
needs just then, the bot does without it, and says so only once something does. A fault that never
struck was not measured, which fails as well.

A quote or a depth that freezes during the day has no row: only its age shows that, so it is named
later by design, when the limit of its own time is over (60 s for a depth, 900 s for a quote).

What breaks on this machine breaks under a bot in a process of its own, whose output is read as it
comes; there the clock runs from the moment at which it breaks.
"""

import asyncio
import re
import resource
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bot.clock import performance_s
from bot.config.settings.model import JournalSettings
from bot.domain.entry import AttemptFinished, Note, StateChanged
from tests.by_hand import Ask, HandStory, tell_by_hand
from tests.faults.hanging import Hanging, locked, trading
from tests.proofs import undone
from tests.simulation.simulate import MEMORY
from tests.simulation.traders import write_plugins
from tests.staging import QUIET
from tests.story import write_project

WITHIN_S: Final = 10.0
READ_DEADLINE_S, BURN_DEADLINE_S = 8.0, 4.0
BREAKS_S: Final = 60
HALTED_AFTER: Final = timedelta(seconds=BREAKS_S // 2)
LOOKS_S: Final = 40
"""For how long the status is read after something broke."""
MINUTES: Final = 2
_BOOK: Final = "/trading/*/order-book"
_QUOTE: Final = "/market/quotes/stocks/HPG"
_WAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "500": {"do": "status", "status": 500},
    "404": {"do": "status", "status": 404, "code": "NOT_FOUND"},
    "hangs": {"do": "hang", "seconds": 9},
}


@dataclass(frozen=True)
class Stays:
    """A fault that stays. `words`: what the bot has to name, nothing where it does without what is
    broken; `also`: what else is broken, as the bot would never meet the fault without it;
    `deadline_s`: how long it waits for an answer that does not come. `orders`: how many have to be
    answered badly before it shows (S13: three); `asks`: what a person has asked for before.
    """

    match: Mapping[str, Any]
    words: str
    ways: Mapping[str, Mapping[str, Any]]
    also: Sequence[Mapping[str, Any]] = ()
    deadline_s: float = READ_DEADLINE_S
    orders: int = 0
    asks: Sequence[Ask] = ()


def _route(path: str, words: str) -> Stays:
    return Stays({"verb": "GET", "path": path}, words, _WAYS)


def _one(words: str, verb: str, path: str, **action: Any) -> Stays:
    return Stays({"verb": verb, "path": path}, words, {"": action})


_PLACES: Final = {"verb": "POST", "path": "*/orders"}
_LOST: Final = {
    "match": _PLACES,
    "point": "accept",
    "action": {"do": "rst"},
}
"""An order that is in no book: only its nonce, tried at users/me, shows that it never arrived."""
STAYING: Final[Mapping[str, Stays]] = {
    "list of the day's orders": _route(_BOOK, "day order book"),
    "detail of an order": _route(f"{_BOOK}/*", "the detail of an order"),
    "portfolio": _route("*/portfolio", "the account"),
    "summary": _route("*/summary", "the account"),
    "quote": _route(_QUOTE, "the quote"),
    "depth": _route(f"{_QUOTE}/order-book", "the depth"),
    "users/me": Stays(
        {"verb": "GET", "path": "/users/v1/users/me"},
        "its nonce is being tried",
        {way: {**action, "point": "accept"} for way, action in _WAYS.items()},
        [_LOST],
        BURN_DEADLINE_S,
    ),
    "a quote that stands still": _one(
        "not believed",
        "GET",
        _QUOTE,
        do="set_fields",
        fields={"updated_at": "2026-11-18T09:00:00+07:00"},
    ),
    "a quote ten times too high": _one(
        "not believed", "GET", _QUOTE, do="set_fields", fields={"price": 270_000}
    ),
    "answers lost of all orders": Stays(_PLACES, "no answer", {"": {"do": "rst"}}, orders=3),
    "orders refused with 400": Stays(
        _PLACES,
        "API changed|refused",
        {"": {"do": "status", "status": 400, "code": "NEEDS_HEADER"}},
        orders=3,
    ),
    "the 2FA token is gone": _one(
        "needs 2FA", "POST", "*/orders", do="drop_2fa", code="OTP_SESSION_EXPIRED"
    ),
    "cancels answer 500": _one("still open", "DELETE", "*/orders/*", do="status", status=500),
    "rows of other orders": _one(
        "may be another order's|can't be true", "GET", _BOOK, do="set_fields", fields={"qtty": 900}
    ),
    "an unknown status": _one(
        "PONDERING", "GET", f"{_BOOK}*", do="status_override", status="PONDERING"
    ),
    "the API key is refused": _one("refuses our key", None, "*", do="status", status=401),  # type: ignore[arg-type]
    "429 to everything": _one("429|quota", None, "*", do="too_many", reset_s=120),  # type: ignore[arg-type]
    "our clock 12 s off": _one("our clock", None, "*", do="date_header", offset=12.0),  # type: ignore[arg-type]
    "our clock 25 s off": _one("our clock", None, "*", do="date_header", offset=25.0),  # type: ignore[arg-type]
    "nothing gets through": Stays(
        {"path": "*"},
        "nothing can be read|cut this",
        {"": {"do": "rst", "point": "accept"}},
    ),
    "nothing gets through under a halt": Stays(
        {"path": "*"},
        "nothing can be read",
        {"": {"do": "rst", "point": "accept"}},
        asks=[
            Ask(timedelta(seconds=BREAKS_S // 2), {"do": "halt", "reason": "", "by": "operator"})
        ],
    ),
}


@dataclass(frozen=True)
class Named:
    """When a fault first struck, and how many seconds after the bot could know it was named."""

    struck_s: float | None
    screen_s: float | None
    status_s: float | None
    words: str

    def judge(self, stays: Stays) -> str:
        """Return what is wrong; empty if nothing is, or if nothing has to be named."""
        if self.struck_s is None:
            return "NEVER STRUCK"
        if not stays.words:
            return ""
        seconds = (self.screen_s, self.status_s)
        return "LATE" if any(each is None or each > WITHIN_S for each in seconds) else ""


@contextmanager
def _hung(hanging: Hanging) -> Iterator[None]:
    with locked(hanging.state_dir / "journal.db"):
        yield


@contextmanager
def _full(hanging: Hanging) -> Iterator[None]:
    # No file grows beyond this: the journal is larger, what the bot says on stderr is not.
    endless = resource.RLIM_INFINITY
    resource.prlimit(hanging.bot.pid, resource.RLIMIT_FSIZE, (16_384, endless))
    yield
    resource.prlimit(hanging.bot.pid, resource.RLIMIT_FSIZE, (endless, endless))


Breaks = Callable[[Hanging], AbstractContextManager[None]]
HERE: Final[Mapping[str, Breaks]] = {
    "a journal that hangs": _hung,
    "a disk that takes no more": _full,
}
JOURNAL: Final = Stays({}, "journal", {})
"""What has to be named of those."""


async def name_here(folder: Path, breaks: Breaks) -> Named:
    """Break something of this machine, and look for twice as long as is allowed."""
    screen, status, words = None, None, ""
    write_timeout_s = JournalSettings().write_timeout_s
    async with trading(folder, write_timeout_s=write_timeout_s) as hanging:
        hanging.bot.said()
        with breaks(hanging):
            begun = performance_s()
            while None in (screen, status) and (at_s := performance_s() - begun) < 2 * WITHIN_S:
                said = [each for each in hanging.bot.said().splitlines() if JOURNAL.words in each]
                if said and screen is None:
                    screen, words = at_s, said[0].strip()
                shown = words_of({"status": await hanging.status()})
                if status is None and any(JOURNAL.words in each for each in shown):
                    status = at_s
                await asyncio.sleep(0.1)
    return Named(0.0, screen, status, words)


async def name(folder: Path, stays: Stays, action: Mapping[str, Any]) -> Named:
    """Break it, and look."""
    config = _project(folder, stays, action)
    looks = [Ask(timedelta(seconds=BREAKS_S + n), {"do": "status"}) for n in range(LOOKS_S)]
    told = await tell_by_hand(config, *stays.asks, *looks, minutes=MINUTES)
    [*struck] = (line for line in told.story.ledger() if line["kind"] == "fault")
    firsts = [str(line["first"]) for line in struck if line["rule"] == 0 and line["struck"]]
    if not firsts:
        return Named(None, None, None, "")
    start = _at(told)
    first = datetime.fromisoformat(firsts[0])
    known = first + timedelta(seconds=stays.deadline_s if action["do"] == "hang" else 0)
    if stays.orders:
        known = sorted(
            each.at
            for each in told.story.shown.all(AttemptFinished)
            if each.at >= first and each.outcome in {"UNKNOWN", "REFUSED"}
        )[stays.orders - 1]
    pattern = re.compile(stays.words or ".", re.IGNORECASE)
    shown = [(note.at, note.text) for note in told.story.shown.all(Note) if note.kind == "ALERT"]
    shown += [(change.at, change.reason) for change in told.story.shown.all(StateChanged)]
    screen = [(at, text) for at, text in shown if at >= first and pattern.search(text)]
    status = [
        (start + look.after, text)
        for look, reply in zip(looks, told.replies[len(stays.asks) :], strict=False)
        for text in words_of(reply)
        if start + look.after >= first and pattern.search(text)
    ]
    return Named(
        (first - start).total_seconds(),
        _after(known, screen),
        _after(known, status),
        min([*screen, *status], default=(first, ""))[1],
    )


def _at(told: HandStory) -> datetime:
    head = next(line for line in told.story.ledger() if line["kind"] == "head")
    return datetime.fromisoformat(str(head["at"]))


def _after(known: datetime, found: Sequence[tuple[datetime, str]]) -> float | None:
    return max((min(found)[0] - known).total_seconds(), 0.0) if found else None


def words_of(reply: Mapping[str, Any]) -> Sequence[str]:
    """What a person reads of what is wrong."""
    status = reply.get("status", {})
    halted = [f"{symbol}: {why}" for symbol, why in status.get("halted_symbols", {}).items()]
    trouble = [status["trouble"]["text"]] if status.get("trouble") else []
    rows = [f"{row['order_id']} {row['broker_status']}" for row in status.get("open_orders", ())]
    return [*status.get("alerts", ()), *halted, *trouble, *rows, str(status.get("reason", ""))]


def _project(folder: Path, stays: Stays, action: Mapping[str, Any]) -> Path:
    at = {"at": f"09:2{BREAKS_S // 60}:{BREAKS_S % 60:02d}", "times": 0}
    point = {"point": action["point"]} if "point" in action else {}
    does = {key: value for key, value in action.items() if key != "point"}
    faults = [{"match": {**stays.match, **at}, **point, "action": does}]
    faults += [{**each, "match": {**each["match"], **at}} for each in stays.also]
    strategy = {
        "name": "busy",
        "use": "busy",
        "symbols": ["HPG", "SHS"],
        "params": {"seed": 1, "until": 2_000_000_000},
        "wake": {"quote": "5s", "depth": "5s"},
        "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "30s"},
    }
    config = write_project(
        folder, scenario={**QUIET, "seed": 1, "faults": faults}, strategies=[strategy]
    )
    write_plugins(folder)
    return config


def main(
    text: str = "",
    staying: Mapping[str, Stays] = STAYING,
    here: Mapping[str, Breaks] = HERE,
) -> int:
    """Print a row a fault; fail where one is named later than it should, or not at all."""
    begun, wrong, shelf = performance_s(), 0, MEMORY if Path(MEMORY).is_dir() else None
    sys.stdout.write(f"{'':34}{'struck':>7}{'screen':>8}{'status':>8}  seconds\n")
    every: list[tuple[str, Stays, Callable[[Path], Coroutine[None, None, Named]]]] = [
        (f"{what} {way}", stays, partial(name, stays=stays, action=action))
        for what, stays in staying.items()
        for way, action in stays.ways.items()
    ]
    every += [(what, JOURNAL, partial(name_here, breaks=breaks)) for what, breaks in here.items()]
    rows = [row for row in every if text in row[0]]
    for what, stays, measure in rows:
        with TemporaryDirectory(dir=shelf) as folder:
            found = asyncio.run(measure(Path(folder)))
        verdict = found.judge(stays)
        wrong += bool(verdict)
        cells = "".join(
            f"{'-' if each is None else f'{each:.1f}':>8}"
            for each in (found.struck_s, found.screen_s, found.status_s)
        )
        sys.stdout.write(f"{what:33}{cells} {verdict:4}  {found.words[:90]}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{wrong} late, not named or not struck, {performance_s() - begun:.0f} s\n")
    sys.stdout.write("".join(f"{each}\n" for each in undone(faults=len(rows))))
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main("".join(sys.argv[1:2])))
