"""Judges a finished story: the bot's journal against the broker's ledger, which the bot never
reads.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.domain.order import TERMINAL_STATES, UNRESOLVED_SENDS, SendState
from bot.journal.database.engines import reading
from bot.journal.errors import Unreachable
from bot.journal.upkeep.verify import verify
from bot.sandbox.house.ledger import read_ledger

HAS_ORDER = frozenset({SendState.ACKED, SendState.MATCHED})
FOR_A_PERSON = frozenset({SendState.REACHED, SendState.AMBIGUOUS})
"""Open until the day's end or a person's verdict: only the broker knows more."""
UNSEEN_MAX = timedelta(seconds=90)
"""From a change of somebody else's order to the answer that shows it, allowing for
one failed read.
"""
UNSETTLED = (UNRESOLVED_SENDS | {SendState.READY, SendState.HELD}) - FOR_A_PERSON


@dataclass(frozen=True)
class StoryResult:
    """The results of a story in a state directory."""

    journal: str
    """the URL of its database"""
    orders: Mapping[str, Mapping[str, Any]]
    """order id -> its last line in the broker's ledger"""
    by_hand: frozenset[str] = frozenset()
    """The orders that somebody placed elsewhere."""
    ended_at: datetime | None = None
    """The last time in the ledger."""

    def is_last_minutes(self, order_id: str) -> bool:
        """Return whether the ledger's last line on an order came so late that a bot that does not
        own it, and reads the day order book once a minute, need not have seen it.
        """
        at = datetime.fromisoformat(self.orders[order_id]["at"])
        return self.ended_at is not None and self.ended_at - at < UNSEEN_MAX

    def doubtful(self) -> frozenset[str]:
        """Return the orders that the bot has reported as of unknown owner: those that look like one
        in doubt, also one given up as such with its day, one found by its looks, or one that the
        broker had refused.

        A proxy's duplicate may be accepted while the original is refused. Its row looks like one
        placed by a person who saw the refusal: the bot names it, halts its symbol and does not
        touch it.
        """
        query = """
            select order_id from orders natural join (
                select symbol, side, quantity from intents where state = 'AMBIGUOUS'
            ) where intent_id is null
            union
            select asked.order_id from orders asked join intents given_up
                on substr(asked.note || ' ', 1, length(given_up.intent_id) + 8)
                        = 'may be ' || given_up.intent_id || ' '
                    and given_up.state = 'EOD_ABSENT'
            where asked.intent_id is null
                and exists (select 1 from notes where kind = 'ALERT' and symbol = asked.symbol
                    and replace(text, given_up.intent_id, '') <> text
                    and replace(text, 'none of ', '') <> text
                    and replace(text, asked.order_id, '') <> text)
            union
            select ghost.order_id from orders ghost join intents refused
                on substr(ghost.note || ' ', 1, length(refused.intent_id) + 12)
                        = 'looks like ' || refused.intent_id || ' '
                    and refused.state in ('REFUSED', 'MATCHED')
            where ghost.intent_id is null
                and exists (select 1 from notes where kind = 'ALERT' and symbol = ghost.symbol
                    and substr(text, 1, length(ghost.order_id) + 17)
                        = ghost.order_id || ' is at the broker')
                and exists (select 1 from halts where scope = 'symbol:' || ghost.symbol
                    and to_state = 'HALTED')
        """
        return frozenset(row["order_id"] for row in self.rows(query))

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Query the journal, opened read-only."""
        with reading(self.journal) as connection:
            return [dict(row) for row in connection.exec_driver_sql(query).mappings()]


Promise = Callable[[StoryResult], list[str]]
_PROMISES = list[Promise]()
"""What must hold for every outcome; each returns what breaks it."""


def promise(check: Promise) -> Promise:
    """Register a promise, to be checked on every outcome."""
    _PROMISES.append(check)
    return check


def outcome_of(state_dir: Path, journal: str | None = None) -> StoryResult:
    """Read both sides; the journal is the one in the folder unless its URL is given."""
    lines = read_ledger(state_dir / "sandbox.jsonl")
    orders = {str(line["order"]): line for line in lines if line["kind"] == "order"}
    times = [datetime.fromisoformat(str(line["at"])) for line in lines if "at" in line]
    url = journal or f"sqlite:///{state_dir / 'journal.db'}"
    return StoryResult(url, orders, ended_at=max(times, default=None))


def faults_in(outcome: StoryResult, *, by_hand: frozenset[str] = frozenset()) -> Sequence[str]:
    """Return everything that breaks a promise; empty if all is well.

    `by_hand` are the orders placed elsewhere: the bot shows them but owns none.
    """
    outcome = replace(outcome, by_hand=by_hand)
    try:
        posts = outcome.rows("select intent_id from attempts where verb = 'POST'")
    except Unreachable as error:  # the bot never came up; the reason is reported elsewhere
        return [str(error)]
    sent = Counter(row["intent_id"] for row in posts)
    raised = outcome.rows("select text, numbers from notes where kind = 'FAULT'")
    return [
        *(f"{key} was sent {count} times" for key, count in sent.items() if count > 1),
        *(fault for keeps in _PROMISES for fault in keeps(outcome)),
        *map(str, verify(outcome.journal).problems),
        *(f"{row['text']}\n{row['numbers']}" for row in raised),
    ]


@promise
def each_order_has_one_intent(outcome: StoryResult) -> list[str]:
    """Each order of the ledger has exactly one intent, and no intent has two."""
    rows = outcome.rows("select order_id, intent_id from orders")
    owners = {row["order_id"]: row["intent_id"] for row in rows}
    found = [f"{key} is not in the journal" for key in outcome.orders if key not in owners]
    found += [f"{key} is in no ledger" for key in owners if key not in outcome.orders]
    alone = {key for key, intent in owners.items() if intent is None}
    nobodys = outcome.by_hand | outcome.doubtful()
    found += [f"{key} has no intent" for key in sorted(alone - nobodys)]
    found += [
        f"{key} was placed by hand and is ours" for key in outcome.by_hand & owners.keys() - alone
    ]
    counted = Counter(intent for intent in owners.values() if intent is not None)
    return found + [f"{key} has {count} orders" for key, count in counted.items() if count > 1]


@promise
def no_intent_is_left_open(outcome: StoryResult) -> list[str]:
    """Each intent that was sent is an order, or is definitely none, or a person was told about it:
    its POST got through and no row shows it, or there are more rows than intents.
    """
    found = []
    alerts = [row["text"] for row in outcome.rows("select text from notes where kind = 'ALERT'")]
    owned = {row["intent_id"] for row in outcome.rows("select intent_id from orders")}
    for row in outcome.rows("select intent_id, state, proof from intents"):
        state, key = SendState(row["state"]), row["intent_id"]
        if state in HAS_ORDER and key not in owned:
            found.append(f"{key} is {state} without an order")
        if state in UNSETTLED:
            found.append(f"{key} is still {state}")
        if state in FOR_A_PERSON and not any(key in text for text in alerts):
            found.append(f"{key} is {state} and nobody was told")
        if state is SendState.NOT_PLACED and not row["proof"]:
            found.append(f"{key} is NOT_PLACED without a proof")
    return found


@promise
def orders_agree_with_the_ledger(outcome: StoryResult) -> list[str]:
    """Executed quantity and amount match the ledger, and what has ended there has ended here."""
    found = []
    nobodys = outcome.by_hand | outcome.doubtful()
    for row in outcome.rows("select * from orders"):
        key, truth = row["order_id"], outcome.orders.get(row["order_id"])
        if truth is None or (key in nobodys and outcome.is_last_minutes(key)):
            continue
        ours = (row["executed_quantity"], row["executed_amount"])
        theirs = (truth["executed"], truth["amount"])
        if ours != theirs:
            found.append(f"{row['order_id']}: executed {ours}, in the ledger {theirs}")
        if truth["remaining"] == 0 and row["state"] not in TERMINAL_STATES:
            found.append(f"{row['order_id']} has ended and is {row['state']}")
        if truth["remaining"] > 0 and row["state"] in TERMINAL_STATES - {"REJECTED"}:
            found.append(f"{row['order_id']} works and is {row['state']}")
    return found


@promise
def fills_add_up(outcome: StoryResult) -> list[str]:
    """The fills of each order add up to what was executed, in shares, money and fees."""
    sums = {
        row["order_id"]: (row["quantity"], row["amount"])
        for row in outcome.rows(
            "select order_id, sum(quantity) quantity, sum(amount) amount from fills group by 1"
        )
    }
    nobodys = outcome.by_hand | outcome.doubtful()
    return [
        f"{key}: fills {sums.get(key)} of {truth['executed']}, {truth['amount']}"
        for key, truth in outcome.orders.items()
        if key not in nobodys and sums.get(key, (0, 0)) != (truth["executed"], truth["amount"])
    ]


@promise
def moves_follow_one_another(outcome: StoryResult) -> list[str]:
    """The moves of each order are consecutive, occur once each, and end at the order's present
    state.
    """
    found, at = [], dict[str, str]()
    query = """
        select order_id, from_state, to_state from transitions
        where order_id is not null and machine = 'order' order by seq
    """
    for row in outcome.rows(query):
        key, begins, ends = row["order_id"], row["from_state"], row["to_state"]
        if begins == ends or at.get(key, begins) != begins:
            found.append(f"{key} moves from {begins} to {ends}, and was {at.get(key)}")
        at[key] = ends
    return found + [
        f"{row['order_id']} is {row['state']}, and moved to {at[row['order_id']]}"
        for row in outcome.rows("select order_id, state from orders")
        if at.get(row["order_id"], row["state"]) != row["state"]
    ]
