"""An attempt begins only when nothing stored speaks against it; refused, it leaves no trace."""

import itertools
from dataclasses import replace
from functools import partial
from random import Random

import pytest
import sqlalchemy as sa

from bot.clock import SystemClock
from bot.domain.entry import Entry, RunState, StateChanged
from bot.domain.order import OrderState, SendState
from bot.journal.database import tables
from bot.journal.database.engines import reading_engine
from bot.journal.errors import Holder, LeaseLost
from bot.journal.journal import Journal
from bot.journal.writing.batch import Batch
from bot.journal.writing.lease import acquire
from bot.journal.writing.sends import Against, Send
from tests.journal.facts import EPOCH, Story, after, but

_SEND = SendState


@pytest.fixture(autouse=True)
def epoch(db_url: str) -> None:
    acquire(db_url, Holder(1, "here", SystemClock().now())).release()


def attempts(url: str) -> int:
    with reading_engine(url).connect() as connection:
        return connection.execute(
            sa.select(sa.func.count()).select_from(tables.attempts)
        ).scalar_one()


def send_of(story: Story, entries: list[Entry] | None = None) -> Send:
    return Send(tuple(entries or story.sending), EPOCH, story.intent.fingerprint)


async def begin(journal: Journal, story: Story, entries: list[Entry] | None = None) -> str | None:
    [reason] = await journal.write((), [send_of(story, entries)])
    return reason


def halted(scope: str = "all") -> StateChanged:
    return StateChanged(
        after(1), RunState.RUNNING, RunState.HALTED, "drift of 100 HPG", "broker", scope
    )


async def test_a_first_send_begins(journal: Journal, db_url: str) -> None:
    await journal.write([Story().recorded])

    assert await begin(journal, Story()) is None

    assert attempts(db_url) == 1


async def test_an_intent_is_posted_once_ever(journal: Journal, db_url: str) -> None:
    story = Story()
    await journal.write([story.recorded])
    assert await begin(journal, story) is None

    again = but(story.started, attempt_id="again", nonce="again")
    assert "one POST per intent, ever" in str(await begin(journal, story, [again]))

    assert attempts(db_url) == 1


async def test_a_lost_lease_forbids_sending(journal: Journal, db_url: str) -> None:
    await journal.write([Story().recorded])
    acquire(db_url, Holder(2, "there", SystemClock().now())).release()

    assert "epoch 2, ours is 1" in str(await begin(journal, Story()))

    assert attempts(db_url) == 0


async def test_a_journal_of_a_lost_lease_writes_nothing(db_url: str) -> None:
    fenced = Journal.open(db_url, epoch=EPOCH)
    await fenced.write([Story(1).decision])
    acquire(db_url, Holder(2, "there", SystemClock().now())).release()

    with pytest.raises(LeaseLost, match="another bot has taken the lease"):
        await fenced.write([Story(2).decision])
    await fenced.close()


async def test_a_halt_of_any_scope_forbids_sending(journal: Journal, db_url: str) -> None:
    await journal.write([Story().recorded])
    for scope in ("strategy:depth-hpg", "symbol:HPG", "account:120C900001.1", "HPG", "all"):
        await journal.write([halted(scope)])
        assert "drift of 100 HPG" in str(await begin(journal, Story()))
        await journal.write([but(halted(scope), to_state=RunState.RUNNING)])

    assert attempts(db_url) == 0


async def test_a_sale_that_was_asked_for_with_the_halt_passes_it_and_no_other_halt(
    journal: Journal,
) -> None:
    sale = replace(send_of(Story()), passes_halt=True)
    await journal.write([Story().recorded, halted(), halted("symbol:HPG")])
    [against] = await journal.write([], [sale])
    await journal.write([but(halted("symbol:HPG"), to_state=RunState.RUNNING)])

    [passed] = await journal.write([], [sale])

    assert "halted (symbol:HPG)" in str(against)
    assert passed is None


async def test_a_halt_outlasts_passing_states(journal: Journal) -> None:
    await journal.write([Story().recorded, halted()])
    for passing in (RunState.STOPPING, RunState.STOPPED, RunState.STARTING):
        await journal.write([but(halted(), from_state=RunState.HALTED, to_state=passing)])
        assert "halted (all)" in str(await begin(journal, Story()))


async def test_sending_goes_on_after_a_halt_is_lifted(journal: Journal) -> None:
    lifted = StateChanged(after(2), RunState.HALTED, RunState.RUNNING, "checked", "operator")
    await journal.write([Story().recorded, halted(), lifted, halted("symbol:FPT")])

    assert await begin(journal, Story()) is None


async def test_a_twin_waits_while_the_first_is_unresolved(journal: Journal) -> None:
    first, twin = Story(1), Story(2)
    await journal.write([first.recorded, twin.recorded])
    assert await begin(journal, first) is None
    path = [_SEND.SENDING, _SEND.UNKNOWN, _SEND.FRESH, _SEND.REACHED, _SEND.AMBIGUOUS]

    for before, then in itertools.pairwise([*path, _SEND.MATCHED]):
        assert "the same order is unresolved: L-0001" in str(await begin(journal, twin))
        await journal.write([first.moved(before, then)])

    assert await begin(journal, twin) is None


async def test_a_twin_waits_while_the_first_works(journal: Journal) -> None:
    first, twin = Story(1), Story(2)
    for entries in first.placed():
        await journal.write(entries)
    await journal.write([twin.recorded])

    assert "the same order is working: ORD10000001" in str(await begin(journal, twin))

    await journal.write([but(first.accepted, state=OrderState.CANCELLED)])
    assert await begin(journal, twin) is None


async def test_of_several_twins_the_first_by_its_id_is_named(journal: Journal) -> None:
    for number in (40, 9, 17, 25):
        for entries in Story(number).placed():
            await journal.write(entries)
    twin = Story(2)
    await journal.write([twin.recorded])

    assert "the same order is working: ORD10000009" in str(await begin(journal, twin))


async def test_an_order_that_differs_does_not_wait(journal: Journal) -> None:
    first, other = Story(1), Story(2, price=27_100)
    await journal.write([first.recorded, other.recorded])
    assert await begin(journal, first) is None

    assert await begin(journal, other) is None


async def test_a_cancel_is_never_forbidden_but_by_the_lease(journal: Journal, db_url: str) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    await journal.write([halted()])

    cancel = but(story.started, attempt_id="c", nonce="c", verb="DELETE", order_id=story.order_id)
    assert await begin(journal, story, [cancel]) is None

    assert attempts(db_url) == 2


async def test_an_amendment_is_forbidden_by_a_halt_but_not_by_the_order_itself(
    journal: Journal, db_url: str
) -> None:
    story = Story()
    for entries in story.placed():
        await journal.write(entries)
    amend = but(story.started, attempt_id="p", nonce="p", verb="PUT", order_id=story.order_id)
    assert await begin(journal, story, [amend]) is None
    for scope in ("strategy:depth-hpg", "symbol:HPG", "all"):
        await journal.write([halted(scope)])
        again = but(amend, attempt_id=f"p {scope}", nonce=f"p {scope}")
        assert "drift of 100 HPG" in str(await begin(journal, story, [again]))
        await journal.write([but(halted(scope), to_state=RunState.RUNNING)])

    assert attempts(db_url) == 2


async def test_an_unwritten_intent_is_not_sent(journal: Journal) -> None:
    assert "L-0003 is not in the journal" in str(await begin(journal, Story()))


async def test_what_is_written_with_a_send_comes_before_it(journal: Journal, db_url: str) -> None:
    story = Story()

    assert await journal.write([story.decision, story.recorded], [send_of(story)]) == (None,)

    assert attempts(db_url) == 1


async def test_a_halt_written_with_a_send_stops_it_and_is_stored(
    journal: Journal, db_url: str
) -> None:
    story = Story()

    [reason] = await journal.write([story.recorded, halted()], [send_of(story)])

    assert reason == "halted (all): drift of 100 HPG"
    assert attempts(db_url) == 0
    assert "halted (all)" in str(await begin(journal, story))


async def test_an_order_with_a_number_that_no_database_holds_is_not_sent(
    journal: Journal, db_url: str
) -> None:
    story = Story(quantity=10**30)

    [reason] = await journal.write([story.recorded], [send_of(story)])

    assert reason == "intent L-0003 has a number that no database holds"
    assert attempts(db_url) == 0


async def test_of_two_twins_sent_together_the_first_leaves(journal: Journal, db_url: str) -> None:
    first, twin, other = Story(1), Story(2), Story(4, price=27_100)
    recorded = [first.recorded, twin.recorded, other.recorded]

    verdicts = await journal.write(recorded, [send_of(each) for each in (first, twin, other)])

    assert verdicts == (None, "the same order is unresolved: L-0001", None)
    assert attempts(db_url) == 2


async def test_what_was_sent_is_asked_of_the_connection_that_there_is(
    journal: Journal, db_url: str
) -> None:
    first, other = Story(1), Story(4, price=27_100)
    await journal.write([first.recorded, other.recorded], [send_of(first)])
    await journal.probe()  # lets go of the writer's connection

    assert await begin(journal, other) is None

    assert attempts(db_url) == 2


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_known_against_sends_is_what_a_new_look_finds(
    journal: Journal, seed: int
) -> None:
    draw = Random(seed)
    scopes = ["all", "operator", "HPG", "symbol:HPG", "strategy:depth-hpg", "account:120C900001.1"]
    states = [RunState.HALTED, RunState.RUNNING, RunState.PAUSED, RunState.DEGRADED]
    stories = [Story(number, price=27_000 + 50 * (number % 3)) for number in range(1, 25)]
    await journal.write([story.recorded for story in stories[:12]])
    await begin(journal, stories[0])  # from here on it is remembered
    for story in stories[1:]:
        before, then = draw.sample(states, 2)
        halt = StateChanged(after(1), before, then, str(story.number), "x", draw.choice(scopes))
        order = but(story.accepted, state=draw.choice(list(OrderState)))
        later = but(order, state=draw.choice(list(OrderState)))
        new = [] if story in stories[:12] else [story.recorded]
        sending = [*new, *story.sending][: draw.choice([len(new), 9])]
        await journal.write([*sending, halt, order][: draw.randrange(len(new), 9)])
        await journal.write([later] if draw.random() < 0.5 else [halt])

    def both(batch: Batch) -> list[dict[str, object]]:
        kept = batch._memory.against
        assert kept is not None
        return [vars(each) for each in (kept, Against(batch.connection.rows))]

    kept, found = await journal._thread.do(partial(journal._store.change, both))

    for name in ("_states", "_twins", "_working"):
        assert kept[name] == found[name]
        assert kept[name], "it is compared with something"
