"""The pulse: what happened lately, in one line, so that silence is never mistaken for death."""

from datetime import datetime

from bot.domain.entry import Note
from bot.engine.standing import Standing


def pulse_of(standing: Standing, at: datetime) -> Note:
    """Say how many strategies are on, what was counted today, and what is open."""
    on = sum(each.state == "on" for each in standing.strategies)
    counted = ", ".join(f"{count} {name}" for name, count in sorted(standing.counts.items()))
    text = (
        f"{on} strategies on, {len(standing.open_orders)} open orders; today {counted or 'quiet'}"
    )
    return Note(at, "PULSE", text, dict(standing.counts))
