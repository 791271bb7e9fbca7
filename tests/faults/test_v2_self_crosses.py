"""V2: of 100,000 pairs of opposite orders of two strategies, none could trade with one another."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, time, timedelta
from functools import partial
from random import Random

from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.message import AmendOrder, PlaceOrder, Recovered, TimerFired
from bot.domain.operations import AmendAsked
from bot.domain.order import Intent, OrderState, OrderType, Side
from bot.domain.outcome import Accepted, Unknown
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.engine import Engine
from bot.engine.settings import EngineSettings, LoadedStrategy, invoke_plainly
from bot.strategy import Strategy
from tests.engine.stage import DAY, HPG, PLAN, RULEBOOK, Stage, report_of, result_of
from tests.faults.strikes import STRIKES, times

FEW = 500
PAIRS = 50
"""Of one stage: it remembers every order."""
HELD = 1_000_000
NAMES = ("one", "other")
WHEN = {
    Phase.OPEN: ("09:01", "09:14"),
    Phase.PROGRESS: ("09:16", "14:29"),
    Phase.PRE_CLOSED: ("14:31", "14:44"),
}
NEAR = timedelta(minutes=1)
AUCTIONS = {Phase.OPEN, Phase.PRE_CLOSED}
MARKET = {Phase.OPEN: OrderType.ATO, Phase.PROGRESS: OrderType.MTL, Phase.PRE_CLOSED: OrderType.ATC}
Ask = Callable[[Strategy], object]


class Told(Strategy):
    """Requests what the test says."""

    def on_timer(self, _timer: time) -> None:
        if ASKS:
            ASKS.pop()(self)


ASKS = list[Ask]()


def _stage(phase: Phase, dice: Random) -> Stage:
    settings = EngineSettings(duplicate_window=timedelta(0), amend_enabled=True, max_unknown=99)
    stage = Stage(settings=settings, cash=10**13, sellable=2 * HELD, is_open=False)
    plans = [replace(PLAN, name=name) for name in NAMES]
    stage.engine = Engine(
        rulebook=RULEBOOK,
        strategies=[LoadedStrategy(plan, Told, (HPG,)) for plan in plans],
        settings=settings,
        invoke=invoke_plainly,
    )
    first, last = (
        datetime.combine(DAY, time.fromisoformat(each), EXCHANGE_TZ) for each in WHEN[phase]
    )
    at = first + (last - first) * dice.random()
    if phase is Phase.PROGRESS and dice.random() < 0.2:
        at = last + timedelta(seconds=dice.randint(-30, 59))
    stage.now = at.astimezone(stage.now.tzinfo)
    held = RecoveredStrategy({"HPG": (HELD, HELD * 27_000)}, 0, 0, 0, "on")
    stage.handle(Recovered(stage.now, Recovery(DAY, strategies=dict.fromkeys(NAMES, held))))
    stage.open()
    stage.phase(phase)
    return stage


def _wish(side: Side, phase: Phase, dice: Random) -> Ask:
    quantity = 100 * dice.randint(1, 5)
    method = Strategy.buy if side is Side.BUY else Strategy.sell
    if dice.random() < 0.2:
        return partial(method, quantity=quantity, market=MARKET[phase])
    return partial(method, quantity=quantity, limit=27_000 + 50 * dice.randint(-6, 6))


def _asked(stage: Stage, name: str, ask: Ask) -> Intent | None:
    ASKS.append(ask)
    stage.handle(TimerFired(stage.now, name, time(9, 30)))
    return next((one.intent for one in stage.new(PlaceOrder)), None)


def _meet(stage: Stage, price: int | None, opposite: int | None, phase: Phase) -> bool:
    """Return whether a buy and a sale at these prices could trade with one another."""
    if phase is not Phase.PROGRESS or price is None or opposite is None:
        return True
    soon = RULEBOOK.phase_at(HPG.exchange, stage.now + NEAR)
    return price >= opposite or soon in AUCTIONS


def _play(seed: int, found: Counter[str]) -> list[str]:
    """Play some pairs; return those that could have traded."""
    dice, crossed = Random(seed), list[str]()
    phase = dice.choice((Phase.PROGRESS, Phase.PROGRESS, Phase.OPEN, Phase.PRE_CLOSED))
    stage = _stage(phase, dice)
    for pair in range(PAIRS):
        intents, ids, sent = dict[Side, Intent](), dict[str, str](), set[str]()
        for name, side in zip(NAMES, dice.sample((Side.BUY, Side.SELL), 2), strict=True):
            intent = _asked(stage, name, _wish(side, phase, dice))
            if intent is None:
                found[stage.decided()[1]] += 1
                continue
            intents[side], ids[intent.intent_id] = intent, f"ORD{pair}{name}"
            fate = dice.random()
            if fate < 0.9:
                stage.send(intent)
                sent.add(intent.intent_id)
            if fate < 0.8:
                stage.answer(intent, Accepted(result_of(intent, ids[intent.intent_id])))
            elif fate < 0.9:
                stage.answer(intent, Unknown("lost"))
        found["pairs"] += 1
        if len(intents) == 2:
            buy, sale = intents[Side.BUY], intents[Side.SELL]
            found["stood together"] += 1
            if _meet(stage, buy.limit_price, sale.limit_price, phase):
                crossed.append(f"seed {seed}: {buy} meets {sale}")
            if meets := _amend(stage, intents, dice, found):
                crossed.append(f"seed {seed}: {meets}")
        _end(stage, intents, ids, sent)
    return crossed


def _amend(
    stage: Stage, intents: dict[Side, Intent], dice: Random, found: Counter[str]
) -> str | None:
    """Change the price of one of two orders that stand together, perhaps across the other's.

    Returns what crosses, if anything does.
    """
    side = dice.choice((Side.BUY, Side.SELL))
    mine, others = intents[side], intents[Side.SELL if side is Side.BUY else Side.BUY]
    if mine.limit_price is None or others.limit_price is None:
        return None
    orders = stage.engine.status().open_orders
    order = next((each for each in orders if each.intent_id == mine.intent_id), None)
    new = 27_000 + 50 * dice.randint(-6, 6)
    if order is None or new == mine.limit_price:
        return None
    stage.handle(AmendAsked(stage.now, order.order_id, new, None, "operator", "dice"))
    stage.row(report_of(mine, order.order_id, may_amend=True), order.order_id)
    if not stage.new(AmendOrder):
        found["change refused"] += 1
        return None
    found["changed"] += 1
    low, high = (others.limit_price, new) if side is Side.BUY else (new, others.limit_price)
    return f"{mine} changed to {new:,} meets {others}" if high >= low else None


def _end(stage: Stage, intents: dict[Side, Intent], ids: dict[str, str], sent: set[str]) -> None:
    """End every order of a pair, also one whose answer was lost or never came."""
    stage.after(0.1)
    for intent in intents.values():
        order_id = ids[intent.intent_id]
        row = report_of(intent, order_id, cancelled=intent.quantity, state=OrderState.CANCELLED)
        if intent.intent_id not in sent:
            stage.accept(intent, order_id)
        stage.book(replace(row, status="CANCELLED", placed_at=stage.now))


def test_no_two_orders_of_ours_could_trade_with_one_another(
    record_property: Callable[[str, object], None],
) -> None:
    found, crossed, seed = Counter[str](), list[str](), 0
    while found["pairs"] < times("V2", FEW) and not crossed:
        crossed += _play(seed, found)
        seed += 1

    assert crossed == []
    assert found["stood together"] * 50 > found["pairs"]
    assert found["SELF_CROSS"] * 20 > found["pairs"]
    assert min(found["changed"], found["change refused"]) > 0
    record_property(STRIKES, found["pairs"])
