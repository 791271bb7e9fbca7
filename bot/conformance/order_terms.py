"""Whether an order can be tried now, and at which prices and quantities.

What is learnt becomes facts: floor and ceiling, the steps beside them, and quantities that buying
power and shares do not cover.
"""

from typing import Final

from bot.config.rulebook import load_rulebook
from bot.conformance.facts import Facts, payload
from bot.conformance.talk import Talker, target_of
from bot.domain.errors import RuleDataError
from bot.domain.instrument import Exchange, Instrument

LOT: Final = 100
_MILLION_SHARES: Final = 1_000_000


async def why_not(talker: Talker, facts: Facts) -> str:
    """Why no order can be tried now; empty when one can."""
    needed = ("account", "extended", "stock", "floor", "ceiling", "exchange")
    missing = [name for name in needed if name not in facts.known]
    if missing or talker.token is None:
        return f"without {', '.join([*missing, *([] if talker.token else ['a token'])])}"
    query = {"exchange": facts["exchange"]}
    reply = await talker.get(target_of("/trading/market/session", query))
    phase = payload(reply, {}).get("exchange_session")
    if phase != "PROGRESS":
        return f"{facts['exchange']} is {phase}: an order at the floor waits only in PROGRESS"
    return await _learn_prices(talker, facts)


async def _learn_prices(talker: Talker, facts: Facts) -> str:
    try:
        instrument = Instrument(facts["stock"], Exchange(facts["exchange"]))
        rulebook = load_rulebook()
    except (ValueError, RuleDataError) as error:
        return str(error)
    floor, ceiling = int(float(facts["floor"])), int(float(facts["ceiling"]))
    power = await available(talker, facts, "BUY", "pp0")
    sellable = await available(talker, facts, "SELL", "trade")
    step = rulebook.tick_size(instrument, floor)
    numbers = {
        "floor": floor,
        "ceiling": ceiling,
        "next_price": rulebook.tick_up(instrument, floor + 1),
        "above_ceiling": rulebook.tick_up(instrument, ceiling + 1),
        "below_floor": floor - step,
        "off_tick": floor + 1,
        "overbuy": min((power // floor // LOT + 10) * LOT, _MILLION_SHARES),
        "oversell": (sellable // LOT + 1) * LOT,
    }
    facts.known |= {name: str(value) for name, value in numbers.items()}
    needed = 3 * LOT * floor
    return "" if power >= needed else f"buying power {power:,} is below {needed:,}"


async def available(talker: Talker, facts: Facts, side: str, name: str) -> int:
    """Return a figure of available-trade, 0 when there is none."""
    query = {"orderSide": side, "symbol": "{stock}", "quotePrice": "{floor}"}
    price = str(int(float(facts["floor"])))
    facts.known["floor"] = price
    reply = await talker.get(facts.target("/trading/v2/accounts/{account}/available-trade", query))
    found = payload(reply, {}).get(name)
    return int(found) if isinstance(found, int) else 0
