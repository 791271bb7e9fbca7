"""S16: answers to places are lost, and their orders' rows are 6 to 19 s off our clock.

The broker's `Date` is off as the rows are, not at all, or the other way. Each order is found as
ours. Where rows are still further off a person is asked whose they are, on the screen and in the
status; none of them is somebody else's in silence.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

import pytest

from bot.domain.entry import IntentMoved, Note
from bot.drill.oracle import StoryResult, faults_in, outcome_of
from tests.by_hand import Ask, HandStory, tell_by_hand
from tests.faults.strikes import STRIKES, times
from tests.simulation.weather import BOOK, BehindWeather, Exchange, Message, Weather
from tests.staging import QUIET
from tests.story import once, write_project

SYMBOLS = ("HPG", "FPT", "VNM", "MWG", "SSI", "ACB", "MBB", "VCB", "VIC", "TCB")
LOST: Sequence[Mapping[str, Any]] = (
    {"point": "after_apply", "action": {"do": "rst"}},
    {"point": "headers_sent", "action": {"do": "rst"}},
    {"point": "mid_body", "action": {"do": "fin"}},
    {"action": {"do": "swap_row", "rows": 0}},
    {"action": {"do": "garbage", "kind": "html"}},
    {"point": "after_apply", "action": {"do": "status", "status": 502}},
)
OFF = [(0, 0), *((sign, date) for sign in (-1, 1) for date in (-1, 0, 1))]
"""Whether the rows are early or late, and whether the broker's `Date` is off the other way, not at
all or as they are. The first has rows that are half a minute early, which a person has to judge.
"""
EARLY_S = 30.0
MINUTES = 1
LOOK = Ask(timedelta(seconds=50), {"do": "status"})


@dataclass
class Shifted(Weather):
    """A broker whose rows say times that are off by `shift_s`; nothing else befalls anything."""

    shift_s: float = 0.0
    struck: int = 0

    def _kind(self, exchange: Exchange) -> str:
        return "shifted" if exchange.verb == "GET" and BOOK in exchange.path else "fine"

    async def _shifted(self, exchange: Exchange) -> list[Message]:
        head, body, *more = await exchange.put_to(self.app)
        content = json.loads(body["body"])
        rows = content.get("result", content.get("data"))
        for row in rows if isinstance(rows, list) else [rows]:
            if isinstance(row, dict) and row.get("odtimestamp"):
                at = datetime.fromisoformat(row["odtimestamp"]) + timedelta(seconds=self.shift_s)
                row.update(odtimestamp=f"{at:%Y-%m-%dT%H:%M:%S}", txtime=f"{at:%H:%M:%S}")
                self.struck += 1
        headers = [one for one in head["headers"] if one[0] != b"content-length"]
        return [{**head, "headers": headers}, {**body, "body": json.dumps(content).encode()}, *more]


def _scenario(dice: Random, date_s: float) -> Mapping[str, object]:
    symbols = [
        {"symbol": symbol, "exchange": "HOSE", "reference": 27_000, "swing_ticks": 0}
        for symbol in SYMBOLS
    ]
    places = {"verb": "POST", "path": "/trading/*/orders", "times": 0}
    faults: list[Mapping[str, object]] = [
        {"match": {**places, "prob": 0.3}, **lost} for lost in LOST
    ]
    if date_s:
        dated = {"do": "date_header", "offset": date_s}
        faults.append({"match": {"path": "*", "times": 0}, "action": dated})
    accounts = [{"id": "0009000011", "cash": 900_000_000}]
    market = {"symbols": symbols, "accounts": accounts, "seed": dice.randrange(10**6)}
    return {**QUIET, **market, "faults": faults}


async def _told(folder: Path, seed: int) -> HandStory:
    dice = Random(seed)
    sign, date = OFF[seed % len(OFF)]
    shift_s = sign * dice.uniform(6, 19) if sign else -EARLY_S
    date_s = round(date * shift_s, 1)
    buyer = once(
        symbols=SYMBOLS,
        params={"price": dice.choice((26_000, 27_500)), "shares": dice.choice((100, 300))},
        wake={"quote": "5s"},
    )
    config = write_project(
        folder,
        scenario=_scenario(dice, date_s),
        strategies=[buyer],
        risk={"max_unknown": 10},
    )
    proxy = BehindWeather(partial(Shifted, shift_s=shift_s), dice)
    told = await tell_by_hand(config, LOOK, minutes=MINUTES, place_in=proxy)
    assert proxy.made[0].struck > 0
    return told


def _doubted(outcome: StoryResult) -> dict[str, str]:
    """Each intent about which a person was asked, and the order that may be its."""
    notes = outcome.rows("select order_id, note from orders where intent_id is null")
    found = [(re.match(r"may be (L-\d+) ", row["note"] + " "), row["order_id"]) for row in notes]
    return {may[1]: order_id for may, order_id in found if may}


def _judge(told: HandStory, ends: Counter[str], *, is_far: bool) -> list[str]:
    """Return what is wrong; count what became of the lost places."""
    outcome = outcome_of(told.story.loaded.state_dir)
    wrong = list(faults_in(outcome))
    doubted = _doubted(outcome)
    owned = outcome.rows("select intent_id from orders where intent_id is not null")
    found = {str(row["intent_id"]) for row in owned}
    status: Any = told.replies[0]["status"]
    shown = told.story.shown
    asked = [note.text for note in shown.all(Note) if note.kind == "ALERT"]
    for intent_id in {each.intent_id for each in shown.all(IntentMoved)}:
        if "UNKNOWN" not in [
            each.to_state for each in shown.all(IntentMoved) if each.intent_id == intent_id
        ]:
            continue
        if intent_id in found and not is_far:
            ends["found"] += 1
        elif intent_id in doubted and is_far:
            ends["asked about"] += 1
            names = (intent_id, doubted[intent_id])
            if not any(all(name in text for name in names) for text in asked):
                wrong.append(f"nobody was asked about {names}")
            if not any(all(name in text for name in names) for text in status["alerts"]):
                wrong.append(f"the status says nothing of {names}")
        else:
            wrong.append(f"{intent_id} was disowned")
    return wrong


@pytest.mark.long
async def test_no_lost_place_is_disowned_for_the_time_in_its_row(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    ends, wanted = Counter[str](), times("S16", 14)
    for seed in range(wanted):
        folder = tmp_path / str(seed)

        told = await _told(folder, seed)

        assert _judge(told, ends, is_far=seed % len(OFF) == 0) == [], f"seed {seed}"
        rmtree(folder)
        if ends["found"] >= wanted:
            break

    assert ends["asked about"] > 0
    record_property(STRIKES, ends["found"])
