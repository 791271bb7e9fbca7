"""What is folded is counted, never lost; what is about an order is never folded."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from bot.domain.entry import CheckResult, Decision, Entry, Note, Numbers, Verdict
from bot.domain.order import Side
from bot.journal.journal import Journal
from bot.journal.reading import folding
from bot.journal.reading.folding import FIGURE, PERIOD, DecisionFolder, group, reason_of, unfolded
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.values import DecisionGroup, ReasonRow
from bot.journal.upkeep.verify import verify
from tests.journal.facts import DAY, Story, after

NO = Decision(after(0), "sma", "FPT", Verdict.SKIPPED, "NO_SIGNAL", "gap 0.40%", {"gap": 0.4})
PERIOD_S = PERIOD.total_seconds()


def no(seconds: float, gap: float, **changes: object) -> Decision:
    said = {"why": f"gap {gap:.2f}%", "numbers": {"gap": gap}, **changes}
    return replace(NO, at=after(seconds), **said)  # type: ignore[arg-type]


def reasons(entries: Iterable[Entry]) -> list[ReasonRow]:
    names = ("at", "strategy", "symbol", "verdict", "code", "why", "numbers", "checks")
    decisions = [each for each in entries if isinstance(each, Decision)]
    return [ReasonRow(*(getattr(each, name) for name in names)) for each in decisions]


def test_equal_nos_are_the_first_and_the_last_with_the_range_of_the_others() -> None:
    fold, gaps = DecisionFolder(), (0.40, 0.05, 0.31, 0.20)
    asked = [no(number, gap) for number, gap in enumerate(gaps)]

    written = [*fold.take(asked), *fold.rest()]

    numbers: Numbers = {
        "gap": 0.20,
        "folded": 3,
        "folded since": "2026-11-19T02:21:01.102000+00:00",
        "folded least gap": 0.05,
        "folded most gap": 0.31,
        "folded least why": "gap 0.05%",
        "folded most why": "gap 0.31%",
    }
    assert written == [asked[0], replace(asked[-1], numbers=numbers)]
    assert unfolded(after(3), numbers, "gap 0.20%").numbers == {"gap": 0.20}


def test_two_equal_nos_are_both_whole() -> None:
    fold, asked = DecisionFolder(), [no(0, 0.4), no(1, 0.1)]

    assert [*fold.take(asked), *fold.rest()] == asked


@pytest.mark.parametrize(
    "change",
    [
        {"strategy": "other"},
        {"symbol": "HPG"},
        {"verdict": Verdict.BLOCKED},
        {"code": "SKIP"},
        {"why": "no volume 0.40%"},
        {"side": Side.BUY},
        {"numbers": {"gap": 0.4, "reason": "halted"}},
    ],
)
def test_what_differs_in_more_than_figures_is_not_equal(change: dict[str, object]) -> None:
    asked = [no(0, 0.4), no(1, 0.4, **change)]

    assert DecisionFolder().take(asked) == asked


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": Verdict.BLOCKED, "request_id": "L-0001"},
        *({"verdict": each} for each in Verdict if each not in {"SKIPPED", "BLOCKED"}),
    ],
)
def test_what_is_about_an_order_is_never_folded(change: dict[str, object]) -> None:
    asked = [no(number, 0.4, **change) for number in range(5)]

    assert DecisionFolder().take(asked) == asked


def test_an_order_in_the_symbol_ends_what_led_to_it_and_no_other() -> None:
    fold, story = DecisionFolder(), Story(strategy="sma", symbol="FPT")
    others = [no(number, 0.4, symbol="HPG") for number in range(3)]
    order = replace(story.decision, at=after(3))

    written = fold.take([*others, no(0, 0.4), no(1, 0.1), no(2, 0.2), order, no(4, 0.3)])

    assert [(each.symbol, each.at, "folded" in each.numbers) for each in _decisions(written)] == [
        ("HPG", after(0), False),
        ("FPT", after(0), False),
        ("FPT", after(2), True),
        ("FPT", after(3), False),
        ("FPT", after(4), False),
    ]


def test_a_group_is_written_when_its_period_is_over_by_whatever_comes_then() -> None:
    fold = DecisionFolder()
    fold.take([no(0, 0.4), no(1, 0.1), no(2, 0.2)])
    early = Note(after(PERIOD_S - 1), "PULSE", "quiet")
    late = Note(after(PERIOD_S), "PULSE", "quiet")

    assert fold.take([early]) == [early]
    [row, note] = fold.take([late])

    assert isinstance(row, Decision)
    assert (row.at, row.numbers["folded"], note) == (after(2), 2, late)
    assert fold.rest() == []


def test_a_group_that_lives_takes_a_row_a_period() -> None:
    fold, periods = DecisionFolder(), 6
    seconds = range(0, int(PERIOD_S) * periods, 5)

    written = _decisions([*fold.take(no(at, 0.1) for at in seconds), *fold.rest()])

    assert len(written) == periods + 1
    assert sum(_count(each) for each in written) == len(seconds)


def test_a_no_after_a_long_silence_is_whole_again() -> None:
    fold = DecisionFolder()
    fold.take([no(0, 0.4), no(1, 0.1), no(2, 0.2)])
    fold.take([Note(after(PERIOD_S), "PULSE", "quiet"), Note(after(2 * PERIOD_S), "PULSE", "")])
    again = no(2 * PERIOD_S + 1, 0.4)

    assert fold.take([again]) == [again]


def test_groups_are_bounded() -> None:
    fold = DecisionFolder()
    count = folding.GROUPS_MAX + 1
    asked = [no(0, 0.4, symbol=f"S{number}") for number in range(count)]
    assert len(fold.take([*asked[:-1], *asked[:-1]])) == count - 1

    written = fold.take([asked[-1]])

    assert len(written) == count
    assert fold.rest() == []


@pytest.mark.parametrize("seed", range(5))
def test_folded_rows_group_to_what_all_rows_would(seed: int) -> None:
    dice, asked, at = Random(seed), list[Entry](), 0.0
    for number in range(600):
        at += dice.choice((0, 1, 7, 45))
        symbol, strategy = dice.choice(("FPT", "HPG")), dice.choice(("sma", "depth"))
        which = dice.randrange(12)
        if which == 0:
            asked.append(replace(Story(number, strategy, symbol).decision, at=after(at)))
        elif which == 1:
            asked.append(Note(after(at), "PULSE", "quiet"))
        else:
            a, b = dice.uniform(-1, 1), dice.randrange(90_000)
            why = dice.choice((f"gap {a:.2f}%", f"SMA5 {b:,} above SMA20 {b + 9:,}", "holding"))
            asked.append(
                no(at, a, symbol=symbol, strategy=strategy, why=why, numbers={"a": a, "b": b})
            )
    fold, written = DecisionFolder(), list[Entry]()
    rest = list(asked)
    while rest:
        size = dice.randrange(1, 40)
        written += fold.take(rest[:size])
        rest = rest[size:]
    written += fold.rest()

    def key(each: object) -> str:
        return str(each)

    assert sorted(group(reasons(written)), key=key) == sorted(group(reasons(asked)), key=key)
    assert len(written) < len(asked)
    whole = [each for each in asked if not folding_may(each)]
    assert [each for each in written if not folding_may(each)] == whole


def folding_may(entry: Entry) -> bool:
    return isinstance(entry, Decision) and folding.is_foldable(entry)


async def test_folded_rows_are_a_chain_and_count_in_the_summary_of_the_day(
    journal: Journal, db_url: str
) -> None:
    fold = DecisionFolder()
    await journal.write(fold.take(no(number, number / 100) for number in range(40)))
    await journal.write(fold.rest())

    with JournalReader(db_url) as reader:
        summary = reader.summary(DAY)
        with reader.decisions(ReasonRow) as page:
            [told] = group(page.rows)

    assert summary.decisions == Counter(SKIPPED=40)
    assert (told.count, told.why, told.ranges) == (40, "gap 0.00 to 0.39%", {"gap": (0.0, 0.39)})
    assert (told.first_at, told.last_at) == (after(0), after(39))
    assert verify(db_url).is_whole


def _decisions(entries: Sequence[Entry]) -> list[Decision]:
    return [each for each in entries if isinstance(each, Decision)]


def _count(row: Decision) -> int:
    return unfolded(row.at, row.numbers, row.why).count


@pytest.mark.parametrize(
    "named",
    [
        {"folded": 7},
        {"folded": "x", "folded since": "yesterday"},
        {"folded since": 3, "folded least gap": 1, "folded most why": 2},
        {"folded_up": 4, "foldedness": 0.5},
    ],
)
async def test_a_strategy_may_call_its_numbers_what_it_likes(
    named: dict[str, int | str], journal: Journal, db_url: str
) -> None:
    fold = DecisionFolder()
    asked = [no(number, 0.4, numbers=named) for number in range(5)]
    yes = replace(asked[0], verdict=Verdict.PASSED, request_id="L-0001", at=after(9))
    await journal.write([*fold.take([*asked, yes]), *fold.rest()])

    with JournalReader(db_url) as reader:
        summary = reader.summary(DAY)
        with reader.decisions(ReasonRow) as page:
            rows = list(page.rows)
    stands = [unfolded(row.at, row.numbers, row.why) for row in rows]

    assert summary.decisions == Counter(SKIPPED=5, PASSED=1)
    assert [each.count for each in stands] == [1, 4, 1]
    plain = {"folded_up", "foldedness"}
    own = {name if name in plain else f"its {name}": value for name, value in named.items()}
    assert [each.numbers for each in stands] == [own] * 3
    assert sum(each.count for each in group(rows)) == 6


@pytest.mark.parametrize(
    "whys", [("rank #1", "rank ##", "rank #2"), ("a 1", "a #"), ("n/a", "5/a"), ("", "7")]
)
def test_reasons_that_differ_in_words_by_a_hair_are_never_mixed(whys: tuple[str, ...]) -> None:
    fold, asked = DecisionFolder(), [no(at, 0.4, why=why) for at, why in enumerate(whys * 3)]

    written = [*fold.take(asked), *fold.rest()]

    counts = Counter(each.why.strip("0123456789") for each in asked)
    found = Counter[str]()
    for each in _decisions(written):
        found[each.why.strip("0123456789")] += _count(each)
    assert found == counts
    assert sum(each.count for each in group(reasons(asked))) == len(asked)


def test_what_a_reason_and_its_hindrance_say_is_not_one_text() -> None:
    asked = [
        no(0, 0.4, why="gap 1 of", numbers={"reason": "2"}),
        no(1, 0.4, why="gap", numbers={"reason": "1 of 2"}),
    ]

    assert DecisionFolder().take([*asked, *asked]) == asked


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
