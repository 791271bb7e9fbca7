"""What happens in the story of one seed: the day, the faults, who trades, who asks, when it dies.

Everything is drawn from streams of its own, so that a fault that is left out (to find the shortest
list that still fails) changes nothing about the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from random import Random
from typing import Any, Final

from bot.domain.instrument import EXCHANGE_TZ

DAY: Final = date(2026, 11, 19)
SHORT_FAULTS, OF_READS, LASTING_FAULTS = 34, 15, 12
"""How many are planned: of any kind that passes, of those of reads that every run makes, and of
those that stay. One whose requests are not made does not strike.
"""
_FOR_A_WHILE: Final = 0.3
"""The share of the short faults that strike by chance and for a while."""
_LONG: Final = timedelta(hours=3)
"""From here on a comparison after every event would take half of the time."""
FAIR: Final = timedelta(minutes=6)
"""Before the end everything is mended, so that what can be settled is."""
SYMBOLS: Final = ("HPG", "SHS")
SKEW_S_MAX: Final = 19
NEVER: Final = time(0, 0, 1)

_BOOK: Final = "/trading/v1/accounts/*/order-book"
_ORDERS: Final = "*/orders"


@dataclass(frozen=True, slots=True)
class Day:
    """A stretch of market time: its name, its first second, its length."""

    name: str
    start: time
    length: timedelta


DAYS: Final = (
    Day("morning", time(9, 20), timedelta(minutes=20)),
    Day("opening", time(8, 57), timedelta(minutes=23)),
    Day("lunch", time(11, 20), timedelta(minutes=110)),
    Day("close", time(14, 22), timedelta(minutes=33)),
    Day("night", time(14, 20), timedelta(hours=18, minutes=58)),
    Day("whole", time(8, 57), timedelta(hours=6, minutes=3)),
)
ODDS: Final = (50, 12, 4, 12, 2, 1)


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule of the sandbox, or something that happens to the machine. `name` says which kind."""

    name: str
    lasts: bool
    rule: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Act:
    """At a second of the story somebody does something: the operator, the machine, a stranger."""

    name: str
    at_s: float
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """The story of a seed. `left_out` are the numbers of the faults and acts that do not happen."""

    seed: int
    day: Day
    faults: Sequence[Fault]
    acts: Sequence[Act]
    kills: Sequence[int]
    pest: str
    is_eager: bool
    is_crowded: bool
    may_amend: bool
    is_scanned: bool
    skew: timedelta
    left_out: frozenset[str] = frozenset()

    @property
    def parts(self) -> list[str]:
        """Name everything that can be left out."""
        return [
            *(f"f{number}" for number in range(len(self.faults))),
            *(f"a{number}" for number in range(len(self.acts))),
            *(f"k{number}" for number in range(len(self.kills))),
            *(["skew"] if self.skew else []),
        ]

    def without(self, names: Sequence[str]) -> "Plan":
        return replace(self, left_out=self.left_out | frozenset(names))

    def words(self, name: str) -> str:
        """Say what a part is."""
        kind, number = name[0], int(name[1:]) if name[1:].isdigit() else 0
        if name == "skew":
            return f"skew: the bot's clock is {self.skew.total_seconds():+.0f} s off"
        if kind == "f":
            fault = self.faults[number]
            return f"{name}: {fault.name} {fault.rule['match']}"
        if kind == "a":
            act = self.acts[number]
            return f"{name}: {act.name} at {self.at(act.at_s):%H:%M:%S} {dict(act.facts) or ''}"
        return f"{name}: killed at step {self.kills[number]}"

    def at(self, second: float) -> datetime:
        start = datetime.combine(DAY, self.day.start, EXCHANGE_TZ)
        return start + timedelta(seconds=second)

    def rules(self) -> list[Mapping[str, Any]]:
        """Return the sandbox's rules; one that is left out keeps its place and never strikes."""
        off = {"path": "/nowhere"}
        return [
            {**fault.rule, "match": off} if f"f{number}" in self.left_out else fault.rule
            for number, fault in enumerate(self.faults)
        ]


Draw = Callable[[Random], tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Draws what a fault matches and what it does."""
Kind = tuple[str, Draw]
"""The ids of the failure catalogue that it plays, if any, and how it is drawn."""


def plan_of(seed: int) -> Plan:
    """Draw the story of a seed."""
    dice = Random(f"plan {seed}")
    day = dice.choices(DAYS, ODDS)[0]
    busy_s = min((day.length - FAIR).total_seconds(), _TRADED_S[day.name])
    names = dice.choices(list(_SHORT), k=SHORT_FAULTS) + dice.choices(_READS, k=OF_READS)
    faults = [_short(seed, n, name, day, busy_s) for n, name in enumerate(names)]
    lasting = sorted(dice.sample(list(_LASTING), LASTING_FAULTS), key=list(_LASTING).index)
    faults += [_lasting(seed, n, name, day, busy_s) for n, name in enumerate(lasting)]
    return Plan(
        seed=seed,
        day=day,
        faults=faults,
        acts=_acts(seed, busy_s),
        kills=[dice.randint(1, 1_500) for _ in range(dice.randint(0, 3))],
        pest=dice.choice(["none", "raises", "cancels", "floods"]),
        is_eager=dice.random() < 0.5,
        is_crowded=dice.random() < 0.5,
        may_amend=dice.random() < 0.3,
        is_scanned=dice.random() < 0.2 and day.length < _LONG,
        skew=timedelta(seconds=dice.choice([0, 0, dice.randint(-SKEW_S_MAX, SKEW_S_MAX)])),
    )


_TRADED_S: Final = {
    "morning": 840.0,
    "opening": 1_000.0,
    "lunch": 6_200.0,
    "close": 1_300.0,
    "night": 1_500.0,
    "whole": 20_000.0,
}
"""How long after the start something is worth a fault."""


def _time(day: Day, second: float) -> str:
    at = datetime.combine(DAY, day.start) + timedelta(seconds=round(second))
    return f"{at:%H:%M:%S}"


def _short(seed: int, number: int, name: str, day: Day, busy_s: float) -> Fault:
    """A fault that passes: some of what it is about is struck for a while, or the next few are."""
    dice = Random(f"fault {seed} {number}")
    match, action = _SHORT[name][1](dice)
    at_s, until_s = dice.uniform(0, busy_s * 0.8), busy_s
    most = 1 if name in _STOP_ALL else 4
    how: Mapping[str, Any] = {"times": dice.randint(1, most)}
    if dice.random() < _FOR_A_WHILE and name not in _STOP_ALL:
        until_s = min(at_s + dice.uniform(20, 240), busy_s)
        how = {"prob": dice.uniform(0.1, 0.7)}
    window = {"at": _time(day, at_s), "until": _time(day, until_s), **how}
    return Fault(name, False, _rule({**window, **match}, action))


def _lasting(seed: int, number: int, name: str, day: Day, busy_s: float) -> Fault:
    """A fault that stays until everything is mended."""
    dice = Random(f"lasting {seed} {number}")
    match, action = _LASTING[name][1](dice)
    first, last = (0.5, 0.8) if name in _STOP_A_START else (0.2, 0.5)
    at_s = dice.uniform(busy_s * first, busy_s * last)
    window = {"at": _time(day, at_s), "until": _time(day, busy_s)}
    return Fault(name, True, _rule({**window, **match}, action))


def _rule(match: Mapping[str, Any], action: Mapping[str, Any]) -> Mapping[str, Any]:
    """A rule of a scenario file; `point` is not the action's own."""
    point = {"point": action["point"]} if "point" in action else {}
    what = {key: value for key, value in action.items() if key != "point"}
    return {"match": match, **point, "action": what}


def _acts(seed: int, busy_s: float) -> list[Act]:
    dice = Random(f"acts {seed}")

    def at() -> float:
        return round(dice.uniform(30, busy_s), 1)

    acts = []
    for _ in range(dice.randint(0, 2)):
        begun = at()
        word = dice.choice(["pause", "halt", "pause_and_cancel"])
        acts += [Act(word, begun), Act("resume", begun + dice.uniform(5, 90))]
    acts += [Act("resume", at()) for _ in range(dice.randint(2, 5))]
    acts += [Act("cancel_all", at()) for _ in range(dice.randint(0, 1))]
    acts += [Act("cancel_newest", at()) for _ in range(dice.randint(0, 2))]
    acts += [
        Act("amend_newest", at(), {"by": dice.choice([-100, 100])})
        for _ in range(dice.randint(0, 3))
    ]
    acts += [Act("manual", at(), _manual(dice)) for _ in range(dice.randint(0, 3))]
    acts += [Act("twin", at()) for _ in range(dice.randint(0, 2))]
    if dice.random() < 0.5:
        acts.append(Act("disk_hangs", at(), {"seconds": dice.choice([2.0, 8.0, 40.0])}))
    if dice.random() < 0.3:
        acts.append(Act("stood_still", at(), {"seconds": dice.choice([8, 45, 310])}))
    if dice.random() < 0.3:
        acts.append(Act("wall_stepped", at(), {"seconds": dice.choice([-3_600, -14, 9, 3_600])}))
    return acts


def _manual(dice: Random) -> Mapping[str, Any]:
    symbol = dice.choice(SYMBOLS)
    tick, price = (50, 27_000) if symbol == "HPG" else (100, 18_500)
    return {
        "symbol": symbol,
        "side": dice.choice(["BUY", "SELL"]),
        "quantity": 100 * dice.randint(1, 3),
        "limit": price + tick * dice.randint(-6, 6),
    }


# ------------------------------------------------------------------------------------ the kinds


def _kind(path: str, verb: str | None, **action: Any) -> Draw:
    match = {"path": path, **({"verb": verb} if verb else {})}
    return lambda _: (match, action)


def _dead(path: str) -> Draw:
    """A route that is dead, in one of three ways."""

    def draw(dice: Random) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        ways: list[Mapping[str, Any]] = [
            {"do": "status", "status": 500},
            {"do": "status", "status": 404, "code": "NOT_FOUND"},
            {"do": "hang", "seconds": 9},
        ]
        return {"path": path, "verb": "GET"}, dice.choice(ways)

    return draw


def _other_row(dice: Random) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A row under our id about another order."""
    row_field = dice.choice(["account", "symbol", "side", "quantity", "price", "date"])
    action = {"do": "swap_row", "field": row_field}
    return {"path": f"{_BOOK}*", "verb": "GET", "prob": 0.05}, action


def _garbage(dice: Random) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    kind = dice.choice(["html", "half", "not_json", "no_payload", "null", "twice", "nan"])
    return {"path": dice.choice([_ORDERS, f"{_BOOK}*", "*/stocks/*"])}, {
        "do": "garbage",
        "kind": kind,
    }


def _slip(dice: Random) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    price = dice.choice([270, 2_700, 270_000, 27_000_000])
    return {"path": "/market/quotes/stocks/HPG"}, {
        "do": "set_fields",
        "fields": {"price": price},
    }


_SHORT: Final[Mapping[str, Kind]] = {
    "place: answer lost": ("T1", _kind(_ORDERS, "POST", do="rst")),
    "place: lost on its way": ("T2", _kind(_ORDERS, "POST", point="accept", do="rst")),
    "place: 503": ("S3", _kind(_ORDERS, "POST", do="status", status=503)),
    "place: 400": ("", _kind(_ORDERS, "POST", do="status", status=400, code="BAD")),
    "place: rejected": ("S1", _kind(_ORDERS, "POST", do="reject", code="-900017")),
    "place: cut": ("T7", _kind(_ORDERS, "POST", do="truncate", length=60)),
    "place: doubled": ("T5 A4", _kind(_ORDERS, "POST", do="dup_request", answer="second")),
    "place: too late": ("T10", _kind(_ORDERS, "POST", do="hang", seconds=11)),
    "place: row hidden": ("S5", _kind(_ORDERS, "POST", do="hide_row", seconds=40)),
    "place: no token": ("A1", _kind(_ORDERS, "POST", do="drop_2fa")),
    "place: redirected": ("T12", _kind(_ORDERS, "POST", do="redirect", to="http://127.0.0.1:9/")),
    "place: 429": ("S4", _kind(_ORDERS, "POST", do="too_many", reset_s=7)),
    "cancel: answer lost": ("", _kind(f"{_ORDERS}/*", "DELETE", do="rst")),
    "cancel: 500": ("", _kind(f"{_ORDERS}/*", "DELETE", do="status", status=500)),
    "cancel: doubled": ("", _kind(f"{_ORDERS}/*", "DELETE", do="dup_request")),
    # S12 is played by test_amend_storms.py: here an order is seldom open when somebody amends.
    "amend: answer lost": ("", _kind(f"{_ORDERS}/*", "PUT", do="rst")),
    "reads: 429": ("S4", _kind("*", "GET", do="too_many", reset_s=20)),
    "reads: lost": ("", _kind("*", "GET", do="fin")),
    "book: stale": ("S6", _kind(f"{_BOOK}*", "GET", do="stale_read", seconds=12)),
    "book: other order": ("S6", _kind(f"{_BOOK}", "GET", do="reorder", of="rows")),
    "book: unknown word": (
        "S7",
        _kind(f"{_BOOK}*", "GET", do="status_override", status="PONDERING"),
    ),
    "book: 404": ("S10", _kind(f"{_BOOK}/*", "GET", do="status", status=404, code="NOT_FOUND")),
    "burn: 503": ("", _kind("/users/v1/users/me", "GET", do="status", status=503)),
    "date: an hour off": ("C1", _kind("*", "GET", do="date_header", offset=3_600.0)),
    "garbage": ("T8", _garbage),
    "quote: a slip of the unit": ("M1", _slip),
}
_STOP_ALL: Final = ("reads: 429", "place: 429")
"""After them nothing leaves for a minute or more, which no other fault could strike."""
_STOP_A_START: Final = ("list route dead", "portfolio dead", "summary dead", "users/me dead")
"""A run that begins with them gets no further; so they come after the others."""
_READS: Final = (
    "reads: lost",
    "book: other order",
    "book: unknown word",
    "quote: a slip of the unit",
)
# Of those in force the first strikes: what strikes every read comes last.
_LASTING: Final[Mapping[str, Kind]] = {
    "detail route dead": ("T14", _dead(f"{_BOOK}/*")),
    "list route dead": ("T14", _dead(_BOOK)),
    "portfolio dead": ("T14", _dead("*/portfolio")),
    "summary dead": ("T14", _dead("*/summary")),
    "quotes of one symbol dead": ("T14", _dead("/market/quotes/stocks/SHS")),
    "depth of one symbol dead": ("T14", _dead("/market/quotes/stocks/HPG/order-book")),
    "users/me dead": ("T14", _dead("/users/v1/users/me")),
    "a lagging node": (
        "S6 S17",
        lambda _: (
            {"path": f"{_BOOK}*", "verb": "GET", "prob": 0.1},
            {"do": "stale_read", "seconds": 8},
        ),
    ),
    "rows about other orders": ("S15", _other_row),
    "places refused: 400": (
        "S13",
        _kind(_ORDERS, "POST", do="status", status=400, code="NEEDS_HEADER"),
    ),
    "cancels dead": ("", _kind(f"{_ORDERS}/*", "DELETE", do="status", status=500)),
    "frozen quote": (
        "M1",
        _kind(
            "/market/quotes/stocks/HPG",
            "GET",
            do="set_fields",
            fields={"updated_at": "2026-11-18T09:00:00+07:00"},
        ),
    ),
    "date 12 s off": ("C1", _kind("*", "GET", do="date_header", offset=12.0)),
}
CLOCK_OFF: Final = "clock: off"
KILL: Final = "machine: killed"
STOOD_STILL: Final = "machine: stood still"
WALL_STEPPED: Final = "machine: wall stepped"
DISK_HANGS: Final = "machine: disk hangs"
STRANGER: Final = "stranger: order by hand"
PLAYS: Final[Mapping[str, str]] = {
    **{name: ids for table in (_SHORT, _LASTING) for name, (ids, _) in table.items()},
    CLOCK_OFF: "C1",
    KILL: "P1",
    STOOD_STILL: "C2 P9",
    WALL_STEPPED: "C1 P9",
    DISK_HANGS: "D7",
    STRANGER: "O1",
}
"""The ids that each kind plays, with the kinds that no rule of the sandbox makes."""
