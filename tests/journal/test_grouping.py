"""Grouping in one walk says what a comparison of whole lists would."""

from collections.abc import Iterable
from datetime import timedelta
from random import Random

from bot.domain.entry import CheckResult, Numbers
from bot.journal.alike import FIGURE
from bot.journal.grouping import group, reason_of
from bot.journal.values import DecisionGroup, ReasonRow
from tests.journal.facts import after

WHYS = (
    "no cross (gap {a:.2f}%)", "SMA5 {b:,} above SMA20 {c:,}", "holding",
    "waits until 09:{d:02d}:15", "{a:+.1f} of {c}, then {b:,}.", "", "at {d}: {d}",
)  # fmt: skip


def whole_lists(decisions: Iterable[ReasonRow]) -> list[DecisionGroup]:
    """The slow double: every row is kept, and every group looked at as a whole."""
    found: dict[tuple[str, ...], list[ReasonRow]] = {}
    for row in decisions:
        words = FIGURE.sub("#", reason_of(row))
        found.setdefault((row.strategy, row.symbol, row.verdict, row.code, words), []).append(row)
    groups = []
    for rows in found.values():
        figures: dict[str, list[float]] = {}
        for name, value in (item for row in rows for item in row.numbers.items()):
            if isinstance(value, int | float) and not isinstance(value, bool):
                figures.setdefault(name, []).append(value)
        ranges = {name: (min(seen), max(seen)) for name, seen in sorted(figures.items())}
        last = rows[-1]
        named = (last.strategy, last.symbol, last.verdict, last.code)
        why = spread([reason_of(row) for row in rows])
        groups.append(DecisionGroup(rows[0].at, last.at, *named, len(rows), why, ranges))
    return groups


def spread(whys: list[str]) -> str:
    columns = zip(*(FIGURE.findall(why) for why in whys), strict=True)
    spans = iter([span(figures) for figures in columns])
    return FIGURE.sub(lambda _: next(spans), whys[-1])


def span(figures: tuple[str, ...]) -> str:
    try:
        ordered = sorted(figures, key=lambda each: float(each.rstrip(".,:").replace(",", "")))
    except ValueError:
        return figures[-1]
    least, most = ordered[0].rstrip(".,:"), ordered[-1]
    return most if least == most.rstrip(".,:") else f"{least} to {most}"


def some_rows(seed: int) -> list[ReasonRow]:
    dice, rows = Random(seed), []
    for number in range(400):
        a, b, c, d = dice.uniform(-2, 9), dice.randint(0, 99_999), dice.randint(0, 9), number % 60
        why = dice.choice(WHYS).format(a=a, b=b, c=c, d=d)
        figures: list[Numbers] = [{}, {"gap": a}, {"gap": b, "yes": True}, {"reason": f"late {c}"}]
        passed, refused = (
            CheckResult("LOT", True, {}, "lot"),
            CheckResult("CASH", False, {}, f"{b:,}"),
        )
        checks = dice.choice([(), (passed,), (passed, refused)])
        verdict = dice.choice(["SKIPPED", "BLOCKED", "HELD"])
        named = (
            dice.choice("ab"),
            dice.choice(["FPT", "HPG"]),
            verdict,
            dice.choice(["SKIP", "X"]),
        )
        rows.append(
            ReasonRow(
                after(0) + timedelta(seconds=number), *named, why, dice.choice(figures), checks
            )
        )
    return rows


def test_one_walk_finds_what_whole_lists_show() -> None:
    for seed in range(20):
        rows = some_rows(seed)

        assert group(iter(rows)) == whole_lists(rows), seed
