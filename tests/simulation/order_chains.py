"""A thousand orders in bad weather, each with its whole story in the journal.

    python -m tests.simulation.order_chains [orders] [seed]      1,000 orders, seed 3
    python -m tests.simulation.order_chains day [seed]           as many in one day, to its close

The days are those of `sixty_days`: answers are lost, late and doubled, the bot is killed and
started again. Then every order is followed from the journal alone: the decision with its checks,
the intent, the attempt that was committed before it left, its answer or how the doubt was settled,
what the broker reported, every move, the fills, and the end. The orders of the last day are not
judged: what nobody knows about is settled when its day has closed. The one day is a whole one, of a
bot that is not killed: answers of a twentieth of its requests are lost, cut short or refused.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import sqlalchemy as sa

from bot.domain.order import TERMINAL_STATES, SendState
from bot.journal.database import tables
from bot.journal.database.engines import reading
from tests.proofs import undone
from tests.simulation.sixty_days import SixtyDays
from tests.simulation.traders import write_plugins
from tests.story import tell, write_project

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


def one_day(folder: Path, seed: int) -> None:
    """Trade from before the opening to after the close."""
    actions: list[dict[str, object]] = [
        {"do": "fin"},
        {"do": "truncate", "length": 60},
        {"do": "status", "status": 503},
        {"do": "reject", "code": "-900017"},
        {"do": "hide_row", "seconds": 40},
    ]
    bad = {"prob": 0.05 / len(actions), "times": 0, "until": "14:20:00"}
    faults = [{"match": {"path": "/trading/*", **bad}, "action": each} for each in actions]
    config = write_day(folder, seed, faults)
    asyncio.run(tell(config, minutes=6.5 * 60, answer_otp_after=timedelta(seconds=20)))


def write_day(
    folder: Path,
    seed: int,
    faults: Sequence[Mapping[str, Any]],
    *,
    start: str = "09:00:00",
    every: str = "30s",
    price: str = "ask",
    max_unknown: int = 1,
) -> Path:
    """Write the project of a bot that is busy in nine symbols for a whole day, with its faults."""
    prices = {"HPG": 27_000, "FPT": 45_000, "VNM": 36_000, "SSI": 31_000, "MBB": 24_000}
    prices |= {"VCB": 60_000, "MWG": 58_000, "VIC": 42_000, "STB": 29_000}
    scenario = {
        "day": "2026-11-19",
        "start": start,
        "symbols": [
            {"symbol": symbol, "exchange": "HOSE", "reference": price, "flow": {}}
            for symbol, price in prices.items()
        ],
        "quota": "PRO",
        "seed": seed,
        "faults": faults,
        "accounts": [{"id": "0009000011", "cash": 10_000_000_000, "holdings": {"HPG": 20_000}}],
    }
    until = round(datetime(2026, 11, 19, 7, 20, tzinfo=UTC).timestamp())
    strategy = {
        "name": "busy",
        "use": "busy",
        "symbols": [*prices],
        "params": {"seed": seed, "until": until},
        "wake": {"quote": every},
        "order": {"size": {"shares": 100}, "type": "LIMIT", "price": price, "expire": "45s"},
    }
    risk = {"max_unknown": max_unknown}
    config = write_project(folder, scenario=scenario, strategies=[strategy], risk=risk)
    write_plugins(folder)
    return config


def main() -> int:
    """Live through days until there are orders enough; 0 when no story lacks anything."""
    is_one = sys.argv[1:2] == ["day"]
    given = [int(each) for each in sys.argv[1 + is_one :]]
    wanted, seed = (ORDERS, *given, 3)[:2] if is_one else (*given, *(ORDERS, 3)[len(given) :])
    with TemporaryDirectory() as name:
        url, kills, until = f"sqlite:///{Path(name) / 'state' / 'journal.db'}", 0, date.max
        if is_one:
            one_day(Path(name), seed)
        else:
            days = SixtyDays(Path(name), seed)
            days.run(min(DAYS_MAX, wanted // ORDERS_A_DAY + 2))
            kills, until = days.kills, days.last_day
        found = chains_in(url, until=until)
        with reading(url) as connection:
            query = sa.select(tables.intents.c.state, sa.func.count())
            rows = connection.execute(query.group_by(tables.intents.c.state))
            states = {row[0]: row[1] for row in rows}
    lacking = {key: what for key, what in found.items() if what}
    nothing = undone(orders=len(found)) if is_one else undone(orders=len(found), kills=kills)
    nothing += [f"only {len(found)} orders"] if len(found) < wanted else []
    told = f"{len(found):,} orders, {kills} kills: {states}; {len(lacking)} lack something"
    lines = [told, *(f"  {key}: {'; '.join(what)}" for key, what in lacking.items()), *nothing]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if lacking or nothing else 0


if __name__ == "__main__":
    sys.exit(main())
