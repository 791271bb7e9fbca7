"""Judges a finished story: the bot's journal against the broker's ledger, which the bot never
reads.
"""

import json
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
UNSURE = timedelta(seconds=30)
"""By how much the bot's time of a read may differ from the ledger's: its clock may be 20 s off, and
an answer takes its time.
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
    accounts: Sequence[Mapping[str, Any]] = ()
    """The ledger's lines on the account, one after each trade; none where it has several accounts.
    """

    @property
    def nobodys(self) -> frozenset[str]:
        """The orders that the bot does not own."""
        return self.by_hand | self.doubtful()

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

    def handed_back(self) -> frozenset[str]:
        """Return the orders placed elsewhere that the bot had found by their looks, and then said
        to be another's: it takes nothing more from their rows, and cancels none by itself.
        """
        alerts = self.rows("select text, numbers from notes where kind = 'ALERT'")
        told = [json.loads(row["numbers"]) for row in alerts]
        return self.by_hand & {str(each.get("order_id")) for each in told if each.get("is_kept")}

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
    accounts = [line for line in lines if line["kind"] == "account"]
    is_one = len({str(line["account"]) for line in accounts}) == 1
    url = journal or f"sqlite:///{state_dir / 'journal.db'}"
    ended_at = max(times, default=None)
    return StoryResult(url, orders, ended_at=ended_at, accounts=accounts if is_one else ())


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
    """Executed quantity and amount, and fee and tax of our own, match the ledger, and what has
    ended there has ended here.
    """
    found = []
    nobodys, handed_back = outcome.nobodys, outcome.handed_back()
    for row in outcome.rows("select * from orders"):
        key, truth = row["order_id"], outcome.orders.get(row["order_id"])
        if truth is None or (key in nobodys and outcome.is_last_minutes(key)):
            continue
        if key in handed_back:
            continue
        ours = (row["executed_quantity"], row["executed_amount"])
        theirs = (truth["executed"], truth["amount"])
        if ours != theirs:
            found.append(f"{row['order_id']}: executed {ours}, in the ledger {theirs}")
        costs, charged = (row["fee"], row["tax"]), (truth["fee"], truth["tax"])
        if key not in nobodys and costs != charged:
            found.append(f"{key}: executed with fee and tax {costs}, in the ledger {charged}")
        if truth["remaining"] == 0 and row["state"] not in TERMINAL_STATES:
            found.append(f"{row['order_id']} has ended and is {row['state']}")
        if truth["remaining"] > 0 and row["state"] in TERMINAL_STATES - {"REJECTED"}:
            found.append(f"{row['order_id']} works and is {row['state']}")
    return found


@promise
def fills_add_up(outcome: StoryResult) -> list[str]:
    """The fills of each order add up to what was executed: in shares, money, fee and tax, to the
    VND. Fee and tax of an order are those of its whole amount, however many fills it has.
    """
    query = """
        select order_id, sum(quantity) quantity, sum(amount) amount, sum(fee) fee, sum(tax) tax
        from fills group by order_id
    """
    sums = {
        row["order_id"]: tuple(int(row[name]) for name in ("quantity", "amount", "fee", "tax"))
        for row in outcome.rows(query)
    }
    nobodys = outcome.nobodys
    found = []
    for key, truth in outcome.orders.items():
        ours = sums.get(key, (0, 0, 0, 0))
        theirs = tuple(truth[name] for name in ("executed", "amount", "fee", "tax"))
        if key not in nobodys and ours != theirs:
            found.append(f"{key}: fills, their amount, fee and tax {ours} of {theirs}")
    return found


@promise
def fills_go_to_the_strategy_that_asked(outcome: StoryResult) -> list[str]:
    """A fill belongs to the strategy, the account and the side of its intent, and the position
    after it is that before it and its shares; where nothing is left of one, nothing is of its cost.
    """
    query = """
        select f.*, i.strategy asked_by, i.account asked_in, i.symbol asked_for, i.side asked_side
        from fills f left join intents i on f.intent_id = i.intent_id order by f.seq
    """
    found, held, cost = [], Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in outcome.rows(query):
        ours = tuple(row[name] for name in ("strategy", "account", "symbol", "side"))
        asked = tuple(row[name] for name in ("asked_by", "asked_in", "asked_for", "asked_side"))
        if ours != asked:
            found.append(f"fills: {row['fill_id']} is of {ours}, its intent of {asked}")
        one, sign = (row["asked_by"], row["symbol"]), 1 if row["side"] == "BUY" else -1
        held[one] += sign * row["quantity"]
        cost[one] += row["amount"] if sign > 0 else row["realised"] - row["amount"]
        if row["position"] != held[one]:
            found.append(f"fills: {row['fill_id']} leaves {row['position']}, not {held[one]}")
        if not held[one] and cost[one]:
            found.append(f"fills: {row['fill_id']} leaves no share and {cost[one]:+,} VND of cost")
    return found


@promise
def the_account_is_explained(outcome: StoryResult) -> list[str]:
    """What the account began with, our fills, and the ledger's orders of others make the cash and
    the shares that the ledger ends with: 0 VND, 0 shares unexplained.

    It cannot be said where the journal has no read of the account from before the first trade.
    """
    reads = _reads_of_account(outcome)
    if not reads:
        return []
    read = reads[0]
    first_trade_at = datetime.fromisoformat(outcome.accounts[0]["at"])
    if datetime.fromisoformat(read["taken_at"]) > first_trade_at - UNSURE:
        return []
    left = Counter({None: read["cash"], **_totals(read)})
    fills = outcome.rows("select * from fills")
    others = outcome.nobodys & outcome.orders.keys() - {each["order_id"] for each in fills}
    theirs = (outcome.orders[key] for key in others)
    for each in (*fills, *({**order, "quantity": order["executed"]} for order in theirs)):
        sign = 1 if each["side"] == "BUY" else -1
        left[each["symbol"]] += sign * each["quantity"]
        left[None] -= sign * each["amount"] + each["fee"] + each["tax"]
    left.subtract(_ledger_account(outcome.accounts[-1], at=None))
    return [
        f"fills: {-amount:+,} {'VND' if what is None else f'shares of {what}'} unexplained"
        for what, amount in left.items()
        if amount
    ]


@promise
def the_last_read_is_the_ledgers(outcome: StoryResult) -> list[str]:
    """Cash and shares as the bot has last read them are the ledger's of that time, which they are
    not where a fault lies about the account until the end.
    """
    reads = _reads_of_account(outcome)
    if not reads:
        return []
    read = reads[-1]
    at = datetime.fromisoformat(read["taken_at"])
    ours = {None: read["cash"], **_totals(read)}
    times = [datetime.fromisoformat(line["at"]) for line in outcome.accounts]
    before = sum(when < at - UNSURE for when in times)
    after = sum(when <= at + UNSURE for when in times)
    if not before:
        return []  # the ledger has no line on an account before its first trade
    known = [
        _ledger_account(line, at=when)
        for line in outcome.accounts[before - 1 : after]
        for when in (at - UNSURE, at + UNSURE)
    ]
    return [] if ours in known else [f"the account was {ours} at last, in the ledger {known[-1]}"]


@promise
def breaks_have_a_reason(outcome: StoryResult) -> list[str]:
    """Journal and broker have differed in a symbol, or in cash, only where somebody else traded."""
    elsewhere = {
        outcome.orders[key]["symbol"]
        for key in outcome.nobodys & outcome.orders.keys()
        if outcome.orders[key]["executed"]
    }
    alerts = outcome.rows("select symbol, text, numbers from notes where kind = 'ALERT'")
    return [
        f"no order of others explains the break {row['text']}"
        for row in alerts
        if json.loads(row["numbers"]).get("alert") == "BREAK"
        and not (elsewhere if row["symbol"] is None else row["symbol"] in elsewhere)
    ]


def _reads_of_account(outcome: StoryResult) -> list[dict[str, Any]]:
    """Return the reads of the account, none if they cannot be compared: there are several accounts,
    nothing was traded, or a corporate action gives it what no line of the ledger shows.
    """
    if not outcome.accounts or outcome.accounts[-1]["record"]["entitlements"]:
        return []
    found = outcome.rows(
        "select taken_at, account, cash, holdings from account_snapshots order by seq"
    )
    return found if len({each["account"] for each in found}) == 1 else []


def _totals(read: Mapping[str, Any]) -> dict[str | None, int]:
    """Return all shares of a read of the account, by symbol."""
    holdings = json.loads(read["holdings"])
    return {symbol: each["total"] for symbol, each in holdings.items() if each["total"]}


def _ledger_account(line: Mapping[str, Any], at: datetime | None) -> dict[str | None, int]:
    """Return the ledger's shares by symbol, and its cash under None: as of a time, or with all that
    is still to come.
    """
    record, found = line["record"], Counter[str | None]()
    found[None] = record["cash"]
    for each in record["positions"]:
        found[each["symbol"]] += each["settled"]
    for each in record["due"]:
        if each["symbol"] or at is None or datetime.fromisoformat(each["at"]) <= at:
            found[each["symbol"] or None] += each["quantity"]
    return {what: amount for what, amount in found.items() if amount or what is None}


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
