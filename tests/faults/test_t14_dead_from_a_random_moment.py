"""T14: of the seven routes that are read each is dead from a random moment on: 500, 404 or silence.

A bot is busy in two symbols, and halted a while later. What is dead is on the screen and in the
status within ten seconds of the moment at which the bot could know, unless it does without; no
order leaves whose checks need it; the halt ends with no order open, or says why one is.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any, NamedTuple

import pytest

from bot.config.limits import AccountSection
from bot.domain.entry import Note, StateChanged
from bot.drill.oracle import faults_in, outcome_of
from tests.by_hand import Ask, HandStory, tell_by_hand
from tests.faults.named import STAYING, WITHIN_S, Stays, words_of
from tests.faults.strikes import STRIKES, is_in_full, times
from tests.simulation.traders import write_plugins
from tests.staging import QUIET, START
from tests.story import write_project

DETAIL = "detail of an order"
"""Named from the second failure on, while an order needs it: test_t14_dead_routes.py holds that."""
ROUTES = (
    "list of the day's orders",
    DETAIL,
    "portfolio",
    "summary",
    "quote",
    "depth",
    "users/me",
)
WAYS = [(route, way) for route in ROUTES for way in STAYING[route].ways]
MODES = [mode for mode in WAYS if mode[1] != "hangs" or is_in_full()]
"""A hang lasts in real time, minutes a story: else one each in test_t14_dead_routes.py."""
MAX_ACCOUNT_AGE_S, READ_EVERY_S = 75, 60
ENTRIES_END_S = {
    "list of the day's orders": 10.0,
    "quote": 15.0,
    "portfolio": MAX_ACCOUNT_AGE_S + 8.0,
    "summary": MAX_ACCOUNT_AGE_S + 8.0,
}
"""After how long without the route no buy leaves any more: HPG's for the quote."""
TOGETHER = 25
"""Stories told at once: in one whose answers hang the market stands still meanwhile."""
LOOK_EVERY_S, AFTER_HALT_S, UNTIL_NONCE_IS_OLD_S = 10, 40, 330


class Told(NamedTuple):
    """A story, and when of it the route broke and the bot was halted."""

    told: HandStory
    broke_at: datetime
    halted_at: datetime


async def _told(folder: Path, route: str, way: str, seed: int) -> Told:
    dice, stays = Random(f"{seed} {route} {way}"), STAYING[route]
    broke_s = dice.randint(15, 90)
    halted_s = broke_s + dice.randint(12, 130)
    more_s = UNTIL_NONCE_IS_OLD_S if stays.also else AFTER_HALT_S
    busy = {
        "name": "busy",
        "use": "busy",
        "symbols": ["HPG", "SHS"],
        "params": {"seed": seed, "until": round((START + timedelta(seconds=halted_s)).timestamp())},
        "wake": {"quote": "5s", "depth": "5s"},
        "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "30s"},
    }
    limits = dict.fromkeys(AccountSection.model_fields)
    config = write_project(
        folder,
        scenario={**QUIET, "seed": seed, "faults": _faults(stays, way, broke_s)},
        strategies=[busy],
        risk={"account": {**limits, "max_account_age_s": MAX_ACCOUNT_AGE_S}},
    )
    write_plugins(folder)
    looks = range(broke_s + LOOK_EVERY_S, halted_s + AFTER_HALT_S, LOOK_EVERY_S)
    halt = Ask(timedelta(seconds=halted_s), {"do": "halt", "reason": "dead", "by": "me"})
    told = await tell_by_hand(
        config,
        *(Ask(timedelta(seconds=at), {"do": "status"}) for at in looks),
        halt,
        minutes=(halted_s + more_s) / 60,
    )
    return Told(told, *(START + timedelta(seconds=each) for each in (broke_s, halted_s)))


def _faults(stays: Stays, way: str, broke_s: int) -> Sequence[Mapping[str, Any]]:
    at = {"at": f"09:2{broke_s // 60}:{broke_s % 60:02d}", "times": 0}
    does = dict(stays.ways[way])
    point = {"point": does.pop("point")} if "point" in does else {}
    dead = {"match": {**stays.match, **at}, **point, "action": does}
    return [dead, *({**each, "match": {**each["match"], **at}} for each in stays.also)]


def _struck_at(told: HandStory) -> datetime | None:
    """When the first answer was wrong; None: the bot has asked for nothing there."""
    lines = [line for line in told.story.ledger() if line["kind"] == "fault" and line["rule"] == 0]
    first = next((str(line["first"]) for line in lines if line["struck"]), None)
    return datetime.fromisoformat(first) if first else None


def _wrong(story: Told, route: str, way: str, struck_at: datetime) -> list[str]:
    told, broke_at, halted_at = story
    outcome = outcome_of(told.story.loaded.state_dir)
    wrong = [*faults_in(outcome), *_unnamed(told, route, way, struck_at)]
    wrong += [f"{reply}" for reply in told.replies if not reply["ok"]]
    buys = outcome.rows(
        "select attempts.at, symbol from attempts join intents using (intent_id)"
        " where verb = 'POST' and side = 'BUY'"
    )
    for row in buys:
        at = datetime.fromisoformat(row["at"]).replace(tzinfo=START.tzinfo)
        late = (at - broke_at).total_seconds() > ENTRIES_END_S.get(route, 1e9)
        if at > halted_at or (late and (route != "quote" or row["symbol"] == "HPG")):
            wrong.append(f"a buy of {row['symbol']} left at {at}, dead since {broke_at}")
    asked = [note.text for note in told.story.shown.all(Note) if note.kind == "ALERT"]
    owners = {
        row["order_id"]: row["intent_id"]
        for row in outcome.rows("select order_id, intent_id from orders")
    }
    for order_id, order in outcome.orders.items():
        names = (order_id, str(owners.get(order_id)))
        if order["remaining"] and not any(name in text for text in asked for name in names):
            wrong.append(f"{names} is open and nobody was told")
    return wrong


def _unnamed(told: HandStory, route: str, way: str, struck_at: datetime) -> list[str]:
    stays, shown = STAYING[route], told.story.shown
    if not stays.words or route == DETAIL:
        return []
    known_at = struck_at + timedelta(seconds=stays.deadline_s if way == "hangs" else 0)
    soon = known_at + timedelta(seconds=WITHIN_S)
    said = [(note.at, note.text) for note in shown.all(Note) if note.kind == "ALERT"]
    said += [(change.at, change.reason) for change in shown.all(StateChanged)]
    named = [at for at, text in said if at >= struck_at and stays.words in text]
    wrong = []
    if soon < told.story.end.market_time and (not named or min(named) > soon):
        wrong.append(f"not on the screen by {soon}: {said}")
    for reply in told.replies:
        status: Any = reply.get("status", {})
        at = datetime.fromisoformat(status["at"]) if status else known_at
        if at > soon and not any(stays.words in text for text in words_of(reply)):
            wrong.append(f"at {at}, known since {known_at}, the status says {words_of(reply)}")
    return wrong


async def _strike(folder: Path, route: str, way: str, seed: int) -> bool:
    """Tell a story and judge it; return whether the bot has asked what was dead."""
    story = await _told(folder, route, way, seed)
    if (struck_at := _struck_at(story.told)) is not None:
        assert _wrong(story, route, way, struck_at) == [], f"{route}, {way}, seed {seed}"
    rmtree(folder)
    return struck_at is not None


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("route", "way"), MODES)
async def test_a_route_that_is_dead_is_named_and_keeps_no_halt_from_cancelling(
    tmp_path: Path, record_property: Callable[[str, object], None], route: str, way: str
) -> None:
    each, struck, seeds = times("T14", len(MODES)) // len(MODES), 0, 0
    while struck < each and seeds < 3 * each:
        batch = range(seeds, seeds + min(each - struck, TOGETHER))
        stories = [_strike(tmp_path / str(seed), route, way, seed) for seed in batch]
        struck += sum(await asyncio.gather(*stories))
        seeds += len(batch)

    assert struck == each
    record_property(STRIKES, struck)
