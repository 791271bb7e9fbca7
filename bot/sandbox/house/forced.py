"""What the scenario has forced on a client, rather than the market or the broker's rules.

Whoever embeds the sandbox may ask, to mark it on a screen of its own. No answer of the API shows
it: a real broker would not.
"""

from collections import deque
from datetime import datetime
from typing import Final

from bot.sandbox.faults.rules import FaultRules
from bot.sandbox.house.two_factor import OtpIssuer
from bot.sandbox.scenario import Scenario

_STRUCK_MAX: Final = 1_000


class Forced:
    """Remembers which requests and orders were forced, and knows what is being forced."""

    def __init__(self, scenario: Scenario, *, faults: FaultRules, otp: OtpIssuer) -> None:
        self.scenario = scenario.name
        self._faults, self._otp = faults, otp
        self._struck: deque[str] = deque(maxlen=_STRUCK_MAX)
        self._orders: set[str] = set()
        self._still = {
            script.symbol: [(scenario.at(each.at), scenario.at(each.until)) for each in standstills]
            for script in scenario.symbols
            if (standstills := script.standstills)
        }

    def note_request(self, nonce: str) -> None:
        """A fault has struck the request with that nonce."""
        self._struck.append(nonce)

    def note_order(self, order_id: str) -> None:
        """A fault, or a scripted halt, has refused the order."""
        self._orders.add(order_id)

    def note_trade(self, symbol: str, order_ids: tuple[str, ...], at: datetime) -> None:
        """Orders have traded; while only scripted levels waited, the trade counts as forced."""
        if any(start <= at < end for start, end in self._still.get(symbol, ())):
            self._orders.update(order_ids)

    def struck(self, nonce: str) -> bool:
        return nonce in self._struck

    def shaped(self, order_id: str) -> bool:
        """Tell whether an order was refused by a fault, or traded with scripted levels only."""
        return order_id in self._orders

    @property
    def took_the_token(self) -> bool:
        """True while the newest 2FA token is one that a fault has ended."""
        return self._otp.is_dropped

    def limits(self, at: datetime) -> bool:
        """Tell whether a 429 that a fault began still lasts."""
        return self._faults.limits(at)
