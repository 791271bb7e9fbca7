"""2FA sessions that end at random moments, in whole runs against the sandbox.

    python -m tests.simulation.expiries [expiries] [first seed]      400, seed 0

Each story has three strategies that buy, sell and cancel all the time, and four moments at which
the broker ends the session, with each of its four words once (it mails five codes a day, one is for
the start). A person answers after a while. A seed gives the same story on any machine. Counted are
only the moments at which a write was refused and the gate closed; required of each:

- the alert is in the journal within 5 s of the refusal, and names every open order; meanwhile
  `bot status` says NEEDS_2FA, the broker's word, and what is held;
- nothing is sent until there is a token; the bot runs again within 5 s of it;
- what was held goes out at most once, as a new intent with a whole list of passed checks that were
  made after the token came; nothing that was asked for meanwhile is ever sent;
- an order that was held and given up has a code of its own, and never a POST;
- in the end journal and ledger agree, as the oracle wants it.
"""

import asyncio
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from bot.clock import performance_s
from bot.domain.entry import (
    AttemptFinished,
    AuthEvent,
    Decision,
    IntentRecorded,
    Note,
    RunState,
    StateChanged,
    Verdict,
)
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import Intent
from bot.domain.outcome import TWO_FACTOR_CODES
from bot.drill.oracle import faults_in, outcome_of
from bot.engine.orders.held import GIVEN_UP
from tests.by_hand import Ask, tell_by_hand
from tests.proofs import undone
from tests.story import Story, once, write_project

SECONDS_MAX: Final = timedelta(seconds=5)
MINUTES: Final = 16
CODES: Final = sorted(TWO_FACTOR_CODES)
LOOKS_S: Final = (1, 10, 30)
"""When the status is read after a session was ended: the first write after it may be refused later.
"""
BEGIN: Final = datetime.combine(date(2026, 11, 19), datetime.min.time(), EXCHANGE_TZ).replace(
    hour=10
)
TRADER: Final = """
from random import Random

from bot import Strategy


class Trader(Strategy):
    seed: int

    def on_start(self):
        self.random = Random(self.seed)

    def on_quote(self, quote):
        draw = self.random.random()
        if self.position.sellable and draw < 0.4:
            self.close(why="out")
        elif draw < 0.6:
            far = self.random.choice([0, 0, 200, 400])
            self.buy(100, limit=quote.last - quote.last % 100 - far, why="in")
        elif draw < 0.8:
            self.cancel(why="no more")
"""


@dataclass
class Tally:
    """What was counted, and what was found wrong."""

    expiries: int = 0
    held: int = 0
    sent_after: int = 0
    given_up: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    looks: int = 0
    """At the status, while there was no token."""
    posts: int = 0
    alert_s: float = 0
    resume_s: float = 0
    wrong: list[str] = field(default_factory=list)


def live_through(seed: int, tally: Tally, most: int) -> None:
    """Live through the story of a seed, and look at what it has left; count `most` at most."""
    random = Random(seed)
    moments = sorted(random.sample(range(30, MINUTES * 60 - 150), len(CODES)))
    faults = [
        {
            "match": {"at": f"{BEGIN + timedelta(seconds=second):%H:%M:%S}"},
            "action": {"do": "drop_2fa", "code": code},
        }
        for second, code in zip(moments, random.sample(CODES, len(CODES)), strict=True)
    ]
    symbols = [("HPG", "HOSE", 27_000), ("FPT", "HOSE", 120_000), ("SHS", "HNX", 18_500)]
    scenario = {
        "seed": seed,
        "day": BEGIN.date(),
        "start": f"{BEGIN:%H:%M:%S}",
        "symbols": [
            {"symbol": symbol, "exchange": exchange, "reference": price, "trade_chance": 0.5}
            for symbol, exchange, price in symbols
        ],
        "accounts": [{"id": "1", "cash": 5_000_000_000}],
        "quota": "PRO",
        "faults": faults,
    }
    strategies = [
        once(
            f"trader-{symbol.lower()}",
            use="trader",
            symbols=[symbol],
            params={"seed": seed},
            wake={"quote": "5s"},
            on_2fa=random.choice(["hold 60s", "hold 2m", "hold 10m"]),
            order={"size": {"shares": 100}, "type": "LIMIT", "price": "last", "expire": "45s"},
        )
        for symbol, _, _ in symbols
    ]
    answered = timedelta(seconds=random.choice([2, 20, 50, 100]))
    with TemporaryDirectory() as folder:
        config = write_project(Path(folder), scenario=scenario, strategies=strategies)
        (Path(folder) / "strategies" / "trader.py").write_text(TRADER)
        looks = [
            Ask(timedelta(seconds=second + after), {"do": "status"})
            for second in moments
            for after in LOOKS_S
        ]
        told = asyncio.run(tell_by_hand(config, *looks, minutes=MINUTES, answer_otp_after=answered))
        _look_at(told.story, told.replies, seed, tally, most)
        wrong = faults_in(outcome_of(told.story.loaded.state_dir))
        tally.wrong.extend(f"seed {seed}: {each}" for each in wrong)


def _look_at(
    story: Story, replies: Sequence[Mapping[str, object]], seed: int, tally: Tally, most: int
) -> None:
    def require(is_right: bool, *what: object) -> None:
        if not is_right:
            tally.wrong.append(f"seed {seed}: {' '.join(map(str, what))}")

    shown = story.shown
    attempts = _attempts(story)
    refusals = [
        each
        for each in shown.all(AttemptFinished)
        if each.http_status == 403 and each.code in TWO_FACTOR_CODES
    ]
    alerts = [note for note in shown.all(Note) if note.numbers.get("alert") == "TWO_FACTOR_NEEDED"]
    tokens = [each.at for each in shown.all(AuthEvent) if each.kind == "ready"]
    states = [each for each in shown.all(StateChanged) if each.scope == "all"]
    pauses: list[tuple[datetime, datetime]] = []
    for closed in (each for each in states if each.to_state is RunState.NEEDS_2FA):
        first = next((each for each in refusals if each.at == closed.at), None)
        if first is None or tally.expiries >= most:
            continue
        tally.expiries += 1
        tally.codes[str(first.code)] += 1
        tally.verbs[attempts[first.attempt_id].verb] += 1
        told = next((note for note in alerts if note.at >= first.at), None)
        late = told.at - first.at if told is not None else timedelta.max
        require(late <= SECONDS_MAX, "no alert in time after", first)
        tally.alert_s = max(tally.alert_s, late.total_seconds())
        token = next((at for at in tokens if at >= closed.at), None)
        if token is None:
            pauses.append((closed.at, story.end.market_time))
            continue
        pauses.append((closed.at, token))
        opened = next(each for each in states if each.at >= token)
        require(opened.to_state is RunState.RUNNING, "the token opened", opened)
        require(opened.at - token <= SECONDS_MAX, "resumed too late", opened)
        tally.resume_s = max(tally.resume_s, (opened.at - token).total_seconds())
    _look_at_status(replies, states, tally, require=require)
    _look_at_orders(story, attempts, pauses, tokens, tally, require=require)


def _look_at_status(
    replies: Sequence[Mapping[str, object]],
    states: Sequence[StateChanged],
    tally: Tally,
    *,
    require: Callable[..., None],
) -> None:
    for reply in replies:
        status = reply["status"]
        assert isinstance(status, Mapping)
        at = _instant(str(status["at"]))
        last = next((each for each in reversed(states) if each.at < at), None)
        moves = any(each.at == at for each in states)
        if moves or last is None or last.to_state is not RunState.NEEDS_2FA:
            continue
        tally.looks += 1
        said = (status["state"], last.reason.startswith(status["reason"]))
        require(said == ("NEEDS_2FA", True), "the status says", status["reason"], "at", at)
        held = {each["code"] for each in status["held"]}
        require(held <= TWO_FACTOR_CODES, "the status says of what is held", held, "at", at)


@dataclass(frozen=True)
class _Attempt:
    at: datetime
    verb: str
    intent_id: str


def _attempts(story: Story) -> dict[str, _Attempt]:
    with closing(sqlite3.connect(story.loaded.state_dir / "journal.db")) as connection:
        rows = connection.execute("select attempt_id, at, verb, intent_id from attempts").fetchall()
    return {name: _Attempt(_instant(at), verb, intent_id) for name, at, verb, intent_id in rows}


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _look_at_orders(
    story: Story,
    attempts: dict[str, _Attempt],
    pauses: Sequence[tuple[datetime, datetime]],
    tokens: Sequence[datetime],
    tally: Tally,
    *,
    require: Callable[..., None],
) -> None:
    shown = story.shown
    decisions = shown.all(Decision)
    intents = {each.intent.intent_id: each.intent for each in shown.all(IntentRecorded)}
    posts = Counter(each.intent_id for each in attempts.values() if each.verb == "POST")
    tally.posts += sum(posts.values())
    for intent_id, count in posts.items():
        require(count == 1, intent_id, "has", count, "POSTs")
    for attempt in attempts.values():
        for closed, opened in pauses:
            require(not closed < attempt.at < opened, "sent without a token:", attempt)
    accepted = Counter(
        _root(intents, attempts[each.attempt_id].intent_id)
        for each in shown.all(AttemptFinished)
        if each.outcome == "ACCEPTED" and attempts[each.attempt_id].verb == "POST"
    )
    for root, count in accepted.items():
        require(count == 1, root, "was placed", count, "times")
    passed = {
        each.request_id: each
        for each in decisions
        if each.verdict is Verdict.PASSED and each.code != "CANCEL"
    }
    for intent in intents.values():
        if intent.follows is None or intent.intent_id not in posts:
            continue
        tally.sent_after += 1
        check = passed.get(intent.intent_id)
        last = max((at for at in tokens if at <= intent.created_at), default=None)
        is_fresh = check is not None and last is not None and check.at >= last
        require(is_fresh, intent.intent_id, "went out without a fresh check")
        if check is not None:
            require(bool(check.checks), intent.intent_id, "was sent unchecked")
            require(all(each.passed for each in check.checks), intent.intent_id, "failed a check")
    for each in decisions:
        tally.held += each.verdict is Verdict.HELD
        tally.missed += (each.verdict, each.code) == (Verdict.BLOCKED, "TWO_FACTOR")
        if each.verdict is Verdict.EXPIRED:
            tally.given_up[each.code] += 1
            followers = [one for one in intents.values() if one.follows == each.request_id]
            codes = {*GIVEN_UP, "STOPPING", "NOT_SENT"}
            require(each.code in codes, "given up without a code:", each)
            require(followers == [], each.request_id, "was given up, and sent as", followers)


def _root(intents: dict[str, Intent], intent_id: str) -> str:
    while (before := intents[intent_id].follows) is not None:
        intent_id = before
    return intent_id


def main(expiries: int = 400, first_seed: int = 0) -> int:
    """Live through as many stories as it takes, print what was counted; 1 if anything is wrong."""
    tally, seed, begun_s = Tally(), first_seed, performance_s()
    while tally.expiries < expiries and not tally.wrong and seed - first_seed < expiries:
        live_through(seed, tally, expiries)
        seed += 1
    given_up = ", ".join(f"{code} {count}" for code, count in sorted(tally.given_up.items()))
    is_whole = tally.expiries == expiries
    tally.wrong += [] if is_whole else [f"only {tally.expiries} of {expiries} expiries"]
    tally.wrong += undone(expiries=tally.expiries, POSTs=tally.posts, looks=tally.looks)
    tally.wrong += undone(order_held=tally.held, order_sent_after=tally.sent_after)
    lines = (
        (
            f"{tally.expiries} expiries in {seed - first_seed} stories from seed {first_seed} on, "
            f"{performance_s() - begun_s:.0f} s: refused {dict(tally.verbs)}, {dict(tally.codes)}\n"
            f"{tally.posts:,} POSTs, {tally.held} held, {tally.sent_after} sent after a full "
            f"check, given up: {given_up or 'none'}; {tally.missed} signals missed\n"
            f"{tally.looks} looks at the status without a token; "
            f"alert after at most {tally.alert_s:g} s, resumed after at most {tally.resume_s:g} s"
        ),
        *tally.wrong,
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
