"""A line of the process's log in plain words, for `bot logs`: what happened, without its details.

The details are in `bot logs --json`, and in the journal.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from bot.domain.entry import RunState

Facts = Mapping[str, object]

WORDS: Final[Mapping[str, str]] = {
    "run_started": "{name}, {mode}, version {version}, process {pid}",
    "run_ended": "{why}",
    "start": "{step}: {text}",
    "recovered": "{orders} orders and {intents} requests from before",
    "trouble": "{text}",
    "library": "{logger}: {text}",
    "lines_lost": "{count} lines could not be written",
    "decision": "{strategy} {symbol} {verdict} {code}: {why}",
    "intent_recorded": "{intent[intent_id]} of {intent[strategy]}: {intent[side]} "
    "{intent[quantity]} {intent[symbol]}, {state} {reason}",
    "intent_moved": "{intent_id} {from_state} to {to_state}: {reason}",
    "attempt_started": "{intent_id} {verb} {order_id}",
    "attempt_finished": "{intent_id} {outcome}, HTTP {http_status} after {latency_ms} ms {code} "
    "{reason}",
    "order_result_seen": "{order_id} as the broker has it ({source})",
    "order_updated": "{order_id} {side} {quantity} {symbol} {state}, {executed_quantity} done "
    "{code} {reason} {note}",
    "transition": "{order_id} {intent_id} {from_state} to {to_state} ({source}) {note}",
    "fill": "{order_id} {side} {quantity:,} {symbol} at {price:,}: {amount:,} VND, fee {fee:,}, "
    "tax {tax:,}, holds {position:,}",
    "auth_event": "{kind} {code} {detail}",
    "state_changed": "{from_state} to {to_state} by {by}: {reason}",
    "strategy_switched": "{strategy} {state} by {by}: {reason}",
    "account_seen": "cash {snapshot[cash]:,}, net assets {snapshot[net_asset_value]:,}",
}
"""By event. Of a note, which has a word of its own as event, its text is shown."""
_LATE: Final = " (not in the journal yet)"


def words_of(line: Facts) -> str:
    """Return what a line says, but for its time, level and event."""
    event, facts, end = str(line.get("event")), line, ""
    if isinstance(entry := line.get("entry"), Mapping):  # the journal was out of reach
        facts, end = entry, _LATE
    if isinstance(facts.get("kind"), str) and "numbers" in facts:
        symbol = f"{facts['symbol']}: " if facts.get("symbol") else ""
        return f"{symbol}{facts.get('text')}{end}"
    template = WORDS.get(event)
    if event == "state_changed" and facts.get("from_state") == facts.get("to_state"):
        template = "{scope}: {reason}"
    elif event == "state_changed" and facts.get("scope") != "all":
        is_back = facts.get("to_state") == RunState.RUNNING
        moved = "no longer {from_state}" if is_back else "{from_state} to {to_state}"
        template = f"{{scope}} {moved} by {{by}}: {{reason}}"
    try:
        told = template.format_map(_Shown(facts)) if template else " ".join(_pairs(facts))
    except (KeyError, IndexError, TypeError, ValueError):  # of a later version, or cut
        told = " ".join(_pairs(facts))
    return " ".join(told.split()).removesuffix(":") + end  # nothing may stand behind it


class _Shown(dict[str, object]):
    """The facts, nothing for what is None."""

    def __init__(self, facts: Facts) -> None:
        super().__init__({name: "" if value is None else value for name, value in facts.items()})


def _pairs(facts: Facts, before: str = "") -> Iterator[str]:
    for name, value in facts.items():
        if value is None or (not before and name in {"time", "level", "event", "at"}):
            continue
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{before}{name}.")
        elif isinstance(value, list):
            yield f"{before}{name}={','.join(map(str, value))}"
        else:
            yield f"{before}{name}={value}"
