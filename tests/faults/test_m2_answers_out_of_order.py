"""M2: polls are answered out of order: what is known is always what was asked for last."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random

from bot.domain.message import DepthReceived, QuoteReceived
from bot.domain.order import OrderReport
from bot.domain.order import OrderState as S
from tests.engine.stage import START, Stage, report_of
from tests.engine.test_belief import DEPTH, QUOTE, staged
from tests.faults.strikes import STRIKES, times

POLLS = 8
"""Of quote, of depth and of the day order book, a second apart, all under way at once."""
LIFE = (
    (0, 0, S.ACCEPTED, "WAITING_TO_SEND"),
    (0, 0, S.ACCEPTED, "SENT"),
    (100, 0, S.ACCEPTED, "SENT"),
    (200, 0, S.ACCEPTED, "MATCHED"),
    (300, 0, S.ACCEPTED, "MATCHED"),
)
ENDS = ((300, 200, S.CANCELLED, "CANCELLED"), (500, 0, S.FILLED, "MATCHED_ALL"))


def _rows(dice: Random, stage: Stage) -> list[OrderReport]:
    """What the day order book shows of one order, at one poll after another."""
    intent = stage.working(500)
    steps = sorted(dice.choices(range(len(LIFE)), k=POLLS - 1))
    rows = [*(LIFE[step] for step in steps), dice.choice([LIFE[steps[-1]], *ENDS])]
    return [
        report_of(intent, executed=done, cancelled=gone, state=state, status=status)
        for done, gone, state, status in rows
    ]


def _shuffled(seed: int) -> int:
    """Have answers come in an order of chance; return how many a newer one had overtaken."""
    dice = Random(seed)
    stage = staged()
    stage.account()
    rows, newest, overtaken = _rows(dice, stage), {"quote": 0, "depth": 0}, 0
    asked = [(kind, poll) for kind in ("quote", "depth", "book") for poll in range(1, POLLS + 1)]
    is_still = dice.random() < 0.5
    stage.after(POLLS + 1)
    for kind, poll in dice.sample(asked, len(asked)):
        at = START + timedelta(seconds=poll)
        # Where nothing is traded all have one time of their own: then that of the request decides.
        own = START if is_still else at - timedelta(seconds=dice.choice((0, 0, 0.5)))
        if kind == "book":
            stage.book(rows[poll - 1], asked_at=at)
            continue
        if kind == "quote":
            quote = replace(QUOTE, last=27_000 + 50 * poll, updated_at=own, volume=poll)
            stage.handle(QuoteReceived(at, quote, stage.now))
        else:
            depth = replace(DEPTH, bids=(replace(DEPTH.bids[0], volume=poll),), updated_at=own)
            stage.handle(DepthReceived(at, depth, stage.now))
        overtaken += poll < newest[kind]
        newest[kind] = max(newest[kind], poll)
        _require_newest(stage, newest, seed)

    end, known = rows[-1], stage.entries_of_order()
    assert stage.engine.status().alerts == (), f"seed {seed}"
    assert (known.executed_quantity, known.cancelled_quantity, known.broker_status) == (
        end.executed_quantity,
        end.cancelled_quantity,
        end.status,
    ), f"seed {seed}"
    return overtaken


def _require_newest(stage: Stage, newest: dict[str, int], seed: int) -> None:
    """What is known now is the newest of what has come, not only at the end."""
    known = stage.engine.symbol_status("HPG")
    if known.quote is not None and newest["quote"]:
        assert known.quote.quote.volume == newest["quote"], f"seed {seed}"
    if known.depth is not None and newest["depth"]:
        assert known.depth.depth.bids[0].volume == newest["depth"], f"seed {seed}"


def test_whatever_overtakes_whatever_the_newest_stands(
    record_property: Callable[[str, object], None],
) -> None:
    overtaken = seed = 0
    while overtaken < times("M2", 300):
        overtaken += _shuffled(seed)
        seed += 1

    record_property(STRIKES, overtaken)
