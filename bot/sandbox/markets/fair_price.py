"""Where a simulated price wants to be: a scripted path, a slow wave and noise that returns to it.

Floats are right here: this models opinion, not money. The price that comes out is on the grid.
"""

from datetime import datetime
from math import pi, sin, sqrt
from random import Random
from typing import Final

from bot.domain.bands import Band
from bot.domain.instrument import Instrument
from bot.domain.rulebook import Rulebook
from bot.sandbox.scenario import Scenario, SymbolScript

_MEMORY: Final = 0.97
"""How much of the noise is left one step later; half of it is gone after about two minutes."""
_WAVE_PERIOD_S: Final = (900.0, 1_800.0)
_WAVE_SHARE: Final = 0.6


class FairPrice:
    """The wanted price of one symbol, step by step, from a random stream of its own."""

    def __init__(
        self, script: SymbolScript, scenario: Scenario, rulebook: Rulebook, band: Band
    ) -> None:
        self._instrument: Instrument = script.instrument
        self._rulebook = rulebook
        self._swing = script.swing_ticks
        self._anchors = [(scenario.starts_at, script.reference)]
        self._anchors += sorted((scenario.at(anchor.at), anchor.price) for anchor in script.path)
        self._random = Random(f"{scenario.seed}|price|{script.symbol}")
        self._period_s = self._random.uniform(*_WAVE_PERIOD_S)
        self._phase = self._random.uniform(0, 2 * pi)
        self._noise = 0.0
        self._band = band

    def begin_day(self, at: datetime, reference: int, band: Band) -> None:
        """Go on from another day's reference, within its band; the script's path was of one day."""
        self._anchors = [(at, reference)]
        self._noise, self._band = 0.0, band

    def step(self, at: datetime) -> int:
        """Return the bid that the crowd wants at `at`; each call moves the noise by one step."""
        base = self._on_path(at)
        tick = self._rulebook.tick_size(self._instrument, round(base))
        wanted = round(base + tick * (self._wave(at) + self._next_noise()))
        low, high = self._band.floor + 5 * tick, self._band.ceiling - 6 * tick
        inside = max(min(wanted, high), low, self._band.floor)
        return inside - inside % self._rulebook.tick_size(self._instrument, inside)

    def _on_path(self, at: datetime) -> float:
        before = [anchor for anchor in self._anchors if anchor[0] <= at]
        after = [anchor for anchor in self._anchors if anchor[0] > at]
        if not before or not after:
            return float((before[-1:] or after[:1])[0][1])
        (start, from_price), (end, to_price) = before[-1], after[0]
        return from_price + (to_price - from_price) * ((at - start) / (end - start))

    def _wave(self, at: datetime) -> float:
        elapsed_s = (at - self._anchors[0][0]).total_seconds()
        angle = 2 * pi * elapsed_s / self._period_s + self._phase
        return self._swing * _WAVE_SHARE * (sin(angle) - sin(self._phase))

    def _next_noise(self) -> float:
        deviation = self._swing * (1 - _WAVE_SHARE) * sqrt(1 - _MEMORY**2)
        self._noise = _MEMORY * self._noise + self._random.gauss(0.0, deviation)
        return self._noise
