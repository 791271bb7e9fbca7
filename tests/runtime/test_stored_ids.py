"""What an attempt stores of the known ids, and what a start reads: all that was known before it."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
import sqlalchemy as sa

from bot.domain.entry import AttemptStarted, Entry, RunState, StateChanged
from bot.domain.message import AmendOrder, CancelOrder, PlaceAnswered
from bot.domain.outcome import Unknown
from bot.engine.index import KnownIds, SeenIds
from bot.journal.database import tables
from bot.journal.journal import Journal
from bot.journal.reading.recovering_writes import attempts_of
from bot.journal.writing.sends import Send
from bot.runtime.commits import Committed
from bot.runtime.stored_ids import StoredIds
from tests.journal.facts import Story
from tests.staging import START, Stage, intent, scenario, set_stage

STREAMS = 30
STEPS = 60
IDS = 30


def _stored(url: str) -> list[AttemptStarted]:
    """All attempts of places and amendments, as a start reads them."""
    wanted = sa.select(tables.attempts).where(tables.attempts.c.verb != "DELETE")
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(wanted.order_by(tables.attempts.c.seq)).mappings().all()
        found = [*attempts_of(connection, rows).values()]
    engine.dispose()
    return found


# --------------------------------------------------------------- against whole lists, kept plainly


@dataclass
class Run:
    """One run on one account. `plain` is all that it knows; a former version stored just that."""

    epoch: int
    is_former: bool
    ids: SeenIds = field(default_factory=SeenIds)
    plain: set[str] = field(default_factory=set)
    stored: StoredIds = field(default_factory=StoredIds)
    signed: list[tuple[AttemptStarted, KnownIds, set[str]]] = field(default_factory=list)

    def learn(self, order_id: str) -> None:
        self.ids.add(order_id)
        self.plain.add(order_id)

    def sign(self, attempt: AttemptStarted) -> None:
        known = self.ids.until_now()
        new = self.stored.missing(known, attempt.at) if attempt.verb != "DELETE" else ()
        new = tuple(sorted(self.plain)) if self.is_former else new
        attempt = replace(attempt, epoch=self.epoch, known_ids=new)
        self.signed.append((attempt, known, set(self.plain)))

    def commit(self) -> tuple[AttemptStarted, set[str]]:
        attempt, known, plain = self.signed.pop(0)
        if attempt.verb != "DELETE":
            self.stored.add(known, attempt.at)
        return attempt, plain


def stream(number: int) -> tuple[list[Entry], dict[str, set[str]]]:
    """Days of attempts under way side by side, with failed commits and restarts: what was stored,
    and what was known before each attempt.
    """
    random, at, runs = Random(number), timedelta(), 0
    entries: list[Entry] = []
    known: dict[str, set[str]] = {}
    steps = ["learn", "sign", "commit", "fail", "restart", "midnight"]
    run = Run(100 * number, is_former=number % 3 == 0)
    for step in range(STEPS):
        at += timedelta(milliseconds=1)
        match random.choices(steps, (8, 8, 7, 1, 1, 1)):
            case ["learn"]:
                run.learn(f"ORD{random.randrange(IDS)}")
            case ["sign"]:
                story, verb = Story(STEPS * number + step), random.choice(["POST", "PUT", "DELETE"])
                entries.append(story.recorded)
                begun = replace(story.started, at=story.started.at + at, verb=verb)
                run.sign(begun)
            case ["commit"] if run.signed:
                attempt, plain = run.commit()
                entries.append(attempt)
                if attempt.verb != "DELETE":
                    known[attempt.attempt_id] = plain
            case ["fail"] if run.signed:
                run.signed.pop(0)
            case ["restart"]:  # or a standby, or another account: its lease is a new one
                runs += 1
                run = Run(100 * number + runs, is_former=False)
                for _ in range(random.randrange(IDS)):
                    run.learn(f"ORD{random.randrange(IDS)}")
            case ["midnight"]:
                at += timedelta(days=1)
                run.ids, run.plain, run.signed = SeenIds(), set(), []
    return entries, known


async def test_what_is_read_of_each_attempt_is_all_that_was_known_before_it(db_url: str) -> None:
    journal = Journal.open(db_url)
    known: dict[str, set[str]] = {}
    for number in range(1, STREAMS + 1):
        entries, its = stream(number)
        await journal.write(entries)
        known |= its
    await journal.close()

    read = {attempt.attempt_id: set(attempt.known_ids) for attempt in _stored(db_url)}

    assert len(read) > 5 * STREAMS
    assert read == known


def test_another_day_and_another_list_are_stored_whole() -> None:
    ids, another, stored = SeenIds(["ORD1", "ORD2"]), SeenIds(["ORD1"]), StoredIds()
    stored.add(ids.until_now(), START)
    ids.add("ORD3")

    assert stored.missing(ids.until_now(), START) == ("ORD3",)
    assert stored.missing(ids.until_now(), START + timedelta(days=1)) == ("ORD1", "ORD2", "ORD3")
    assert stored.missing(another.until_now(), START) == ("ORD1",)


def test_what_was_signed_earlier_and_committed_later_takes_nothing_back() -> None:
    ids, stored = SeenIds(["ORD1"]), StoredIds()
    earlier = ids.until_now()
    ids.add("ORD2")
    stored.add(ids.until_now(), START)
    stored.add(earlier, START)

    assert stored.missing(ids.until_now(), START) == ()


def test_ids_seen_after_the_signature_are_not_among_those_known() -> None:
    ids = SeenIds(["ORD1", "ORD2"])
    known = ids.until_now(also={"ORD9"})
    ids.add("ORD3")

    assert (known.after(0), known.after(1), known.after(3)) == (("ORD1", "ORD2"), ("ORD2",), ())
    assert [each in known for each in ("ORD2", "ORD3", "ORD9")] == [True, False, True]


# ------------------------------------------------------------------------------ the order manager


@pytest.fixture
async def stage(tmp_path: Path, sqlite_url: str) -> AsyncIterator[Stage]:
    made = await set_stage(tmp_path, sqlite_url, scenario())
    yield made
    await made.strike()


def _columns(url: str) -> Sequence[str]:
    engine = sa.create_engine(url)
    ids = sa.select(tables.attempts.c.known_ids).order_by(tables.attempts.c.seq)
    with engine.connect() as connection:
        found = connection.execute(ids).scalars().all()
    engine.dispose()
    return found


async def test_an_attempt_stores_what_no_stored_one_has(stage: Stage, sqlite_url: str) -> None:
    await stage.day_order_book.read()
    for number in (1, 2, 3):
        stage.day_order_book.ids.add(f"OTHER{number}")
        await stage.orders.place(
            await stage.ready(intent(number, limit_price=25_900 + number * 50))
        )

    first, second, third = stage.placed()
    assert _columns(sqlite_url) == [
        '["OTHER1"]',
        f'["{first}", "OTHER2"]',
        f'["{second}", "OTHER3"]',
    ]
    assert [attempt.known_ids for attempt in _stored(sqlite_url)] == [
        ("OTHER1",),
        ("OTHER1", first, "OTHER2"),
        ("OTHER1", first, "OTHER2", second, "OTHER3"),
    ]
    assert third in stage.day_order_book.known()


async def test_what_a_failed_commit_should_have_stored_the_next_attempt_stores(
    stage: Stage, sqlite_url: str
) -> None:
    at, running, halted = START, RunState.RUNNING, RunState.HALTED
    await stage.day_order_book.read()
    stage.day_order_book.ids.add("OTHER1")
    await stage.journal.write([StateChanged(at, running, halted, "stop it", "operator")])
    early: list[Send] = []
    stage.orders.sign(await stage.ready(intent(1)), early)
    stage.orders.committed(early[0], Committed(is_stored=False, reason="halted"))
    await stage.orders.place(await stage.ready(intent(2, limit_price=26_050)))
    amend = AmendOrder("ORD1", "L-0001", stage.account.extended_id, 26_000, None, "test", START)
    await stage.orders.amend(amend)
    assert _columns(sqlite_url) == []

    await stage.journal.write([StateChanged(at, halted, running, "go on", "operator")])
    await stage.orders.place(await stage.ready(intent(3, limit_price=26_100)))

    assert _columns(sqlite_url) == ['["OTHER1"]']


async def test_an_order_signed_with_its_decision_and_an_amendment_count_as_stored(
    stage: Stage, sqlite_url: str
) -> None:
    await stage.day_order_book.read()
    stage.day_order_book.ids.add("OTHER1")
    wanted = await stage.ready(intent())
    early: list[Send] = []
    stage.orders.sign(wanted, early)
    await stage.journal.write([], early)
    stage.orders.committed(early[0], Committed(is_stored=True))
    await stage.orders.place(wanted)
    [order_id] = stage.placed()
    account = wanted.account
    await stage.orders.amend(
        AmendOrder(order_id, wanted.intent_id, account, 25_950, None, "test", START)
    )
    stage.day_order_book.ids.add("OTHER2")
    await stage.orders.place(await stage.ready(intent(2, limit_price=26_050)))

    assert _columns(sqlite_url) == ['["OTHER1"]', f'["{order_id}"]', '["OTHER2"]']


async def test_a_cancel_stores_no_ids_and_leaves_them_to_the_next_place(
    stage: Stage, sqlite_url: str
) -> None:
    wanted = await stage.ready(intent())
    await stage.orders.place(wanted)
    [order_id] = stage.placed()
    await stage.orders.cancel(CancelOrder(order_id, wanted.intent_id, wanted.account, "test"))
    await stage.orders.place(await stage.ready(intent(2, limit_price=26_050)))

    assert _columns(sqlite_url) == ["[]", "[]", f'["{order_id}"]']


async def test_an_answer_with_an_id_of_the_day_order_book_names_another_order(
    stage: Stage,
) -> None:
    await stage.day_order_book.read()
    for order_id in ("ORD10000001", "ORD10000002"):
        stage.day_order_book.ids.add(order_id)

    await stage.orders.place(await stage.ready(intent()))

    [answer] = [event for event in stage.events if isinstance(event, PlaceAnswered)]
    assert answer.outcome == Unknown("the answer names an order that was known before", 200)
