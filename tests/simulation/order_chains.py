"""A thousand orders in bad weather, each with its whole story in the journal.

    python -m tests.simulation.order_chains [orders] [seed]      1,000 orders, seed 3

The days are those of `sixty_days`: answers are lost, late and doubled, the bot is killed and
started again. Then every order is followed from the journal alone: the decision with its checks,
the intent, the attempt that was committed before it left, its answer or how the doubt was settled,
what the broker reported, every move, the fills, and the end. The orders of the last day are not
judged: what nobody knows about is settled when its day has closed.
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import sqlalchemy as sa

from bot.domain.order import TERMINAL_STATES, SendState
from bot.journal import tables
from bot.journal.engines import reading
from tests.simulation.sixty_days import SixtyDays

ORDERS: Final = 1_000
ORDERS_A_DAY: Final = 9
DAYS_MAX: Final = 120
NEVER_LEFT: Final = {"DENIED", "READY", "EXPIRED_LOCAL", "HELD"}
"""Send states of what was never signed, or given up before."""
HAS_ORDER: Final = {"ACKED", "MATCHED"}
SETTLED: Final = {*NEVER_LEFT, *HAS_ORDER, "REFUSED", "NOT_SENT", "NOT_PLACED", "EOD_ABSENT"}
"""Send states that are an end: nobody wonders what became of the POST any more."""

Row = Mapping[str, Any]


def chains_in(url: str, *, until: date = date.max) -> dict[str, list[str]]:
    """Of each intent in a journal of before a day what its story lacks; nothing: it is whole."""
    with reading(url) as connection:
        decided = _by(connection, tables.decisions, "request_id")
        attempts = _by(connection, tables.attempts, "intent_id")
        moves = _by(connection, tables.transitions, "intent_id")
        orders = _by(connection, tables.orders, "intent_id")
        results = _by(connection, tables.order_results, "intent_id")
        fills = _by(connection, tables.fills, "intent_id")
        intents = [*_by(connection, tables.intents, "intent_id").values()]
    found = {}
    for [intent] in intents:
        if str(intent["created_at"]) >= until.isoformat():
            continue
        key = str(intent["intent_id"])
        moved, placed = moves.get(key, []), orders.get(key, [])
        found[key] = [
            *_of_sending(intent, decided.get(key, []), attempts.get(key, []), moved),
            *_of_the_order(intent, placed, results.get(key, []), fills.get(key, []), moved),
        ]
    return found


def _by(connection: sa.Connection, table: sa.Table, name: str) -> dict[str, list[Row]]:
    order = table.c.seq
    found: dict[str, list[Row]] = {}
    for row in connection.execute(sa.select(table).order_by(order)).mappings():
        if row[name] is not None:
            found.setdefault(str(row[name]), []).append(dict(row))
    return found


def _of_sending(
    intent: Row, decided: list[Row], attempts: list[Row], moves: list[Row]
) -> Iterator[str]:
    """Say what is missing between the decision and what became of its POST."""
    state, posts = str(intent["state"]), [each for each in attempts if each["verb"] == "POST"]
    if not any(each["checks"] != "[]" and each["why"] for each in decided):
        yield "no decision with its checks and its reason"
    if state not in SETTLED:
        yield f"nobody knows what became of it: {state}"
    if state == "READY":
        yield "approved, and then nothing"
    if state not in {*NEVER_LEFT, "NOT_SENT"} and len(posts) != 1:
        yield f"{len(posts)} POSTs"
    for post in posts:
        if post["seq"] <= intent["seq"]:
            yield "the POST is older than its intent"
    sent = [each["to_state"] for each in moves if each["machine"] == "send"]
    if state != "DENIED" and (not sent or sent[-1] != state):
        yield f"its sending moved {', '.join(sent) or 'nowhere'}, and is {state}"
    is_answered = all(each["outcome"] is not None for each in posts)
    if not is_answered and not {*map(SendState, sent)} & {
        *(SendState.UNKNOWN, SendState.MATCHED, SendState.NOT_PLACED, SendState.EOD_ABSENT)
    }:
        yield "a POST without an answer, and nothing that settles it"


def _of_the_order(
    intent: Row, orders: list[Row], results: list[Row], fills: list[Row], moves: list[Row]
) -> Iterator[str]:
    """Say what is missing between the broker's first word and the end."""
    if intent["state"] in HAS_ORDER:
        if not orders:
            yield "accepted, and no order"
        if not results:
            yield "the broker never said anything of it"
    for order in orders:
        if order["state"] not in TERMINAL_STATES:
            yield f"{order['order_id']} never ended: {order['state']}"
        ended = [each["to_state"] for each in moves if each["machine"] == "order"]
        if not ended or ended[-1] != order["state"]:
            yield f"{order['order_id']} is {order['state']}, moved {', '.join(ended) or 'nowhere'}"
    executed = sum(order["executed_quantity"] for order in orders)
    filled = sum(fill["quantity"] for fill in fills)
    if executed != filled:
        yield f"executed {executed}, fills {filled}"


def main() -> None:
    """Live through days until there are orders enough; print what was counted."""
    wanted, seed, *_ = *map(int, sys.argv[1:]), *(ORDERS, 3)[len(sys.argv) - 1 :]
    with TemporaryDirectory() as name:
        days = SixtyDays(Path(name), seed)
        url = f"sqlite:///{days.folder / 'state' / 'journal.db'}"
        days.run(min(DAYS_MAX, wanted // ORDERS_A_DAY + 2))
        found = chains_in(url, until=days.last_day)
        with reading(url) as connection:
            query = sa.select(tables.intents.c.state, sa.func.count())
            rows = connection.execute(query.group_by(tables.intents.c.state))
            states = {row[0]: row[1] for row in rows}
    lacking = {key: what for key, what in found.items() if what}
    told = f"{len(found):,} orders, {days.kills} kills: {states}; {len(lacking)} lack something"
    lines = [told, *(f"  {key}: {'; '.join(what)}" for key, what in lacking.items())]
    sys.stdout.write("\n".join(lines) + "\n")
    assert len(found) >= wanted, f"only {len(found)} orders"
    assert not lacking, f"seed {seed}"


if __name__ == "__main__":
    main()
