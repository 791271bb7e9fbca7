"""The rules as a table: what each says, since when, how sure we are, and who says so."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from bot.domain.rule_data import RuleData

_ABOUT: Final = frozenset({"from", "until", "confidence", "source", "note"})
_HOME: Final = "exchanges."


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One version of one rule. `rule` is its place, like `HOSE.ticks` or `fees.broker`.

    `since` and `until` are inclusive, None: open. `source` names entries of `sources.yaml`;
    `confidence` is high, medium or low, a closed day's status, or `operator`.
    """

    rule: str
    since: date | None
    until: date | None
    says: str
    confidence: str
    source: tuple[str, ...]
    note: str = ""

    def holds(self, on: date) -> bool:
        """Return whether the version is in effect on a day."""
        is_begun = self.since is None or self.since <= on
        return is_begun and (self.until is None or on <= self.until)


def rule_rows(data: RuleData) -> Iterator[RuleRow]:
    """Yield every dated version below `data`, in the order of the file."""
    if isinstance(data.value, dict) and "from" in data.value:
        yield _row(data)
    elif isinstance(data.value, dict):
        for key in data.value:
            yield from rule_rows(data[key])
    elif isinstance(data.value, list):
        for row in data.rows():
            yield from rule_rows(RuleData(row.value, data.place))


def closure_rows(calendar: RuleData) -> Iterator[RuleRow]:
    """Yield the weekdays on which the exchanges are closed, or perhaps are."""
    for name in ("closed", "unconfirmed_closures"):
        for row in calendar[name].rows():
            day, source = row["date"].day(), row["source"].text()
            status = row["status"].text() if name == "closed" else "UNCONFIRMED"
            yield RuleRow(f"calendar.{name}", day, day, row["name"].text(), status, (source,))


def override_rows(data: RuleData) -> Iterator[RuleRow]:
    """Yield what an operator has changed; of a mapping each entry."""
    for key, value in data.items():
        entries = dict(value.items()) if isinstance(value.value, dict) else {"": value}
        for name, entry in entries.items():
            rule = f"operator.{key}.{name}".rstrip(".")
            yield RuleRow(rule, None, None, shown(entry.value), "operator", ())


def _row(data: RuleData) -> RuleRow:
    until, note = data.get("until"), data.get("note")
    confidence, source = data.get("confidence"), data.get("source")
    says = {key: value.value for key, value in data.items() if key not in _ABOUT}
    return RuleRow(
        rule=data.place.removeprefix(_HOME),
        since=data["from"].day(),
        until=until.day_or_none() if until else None,
        says=shown(says),
        confidence=confidence.text() if confidence else "",
        source=tuple(row.text() for row in source.rows()) if source else (),
        note=note.text() if note else "",
    )


def shown(value: object) -> str:
    """Return rule data in one line: `band 7, special 20`, `LO/ATO`, `none`."""
    if isinstance(value, dict):
        return _span_or_zone(value) or ", ".join(f"{k} {shown(v)}" for k, v in value.items())
    if isinstance(value, list):
        is_plain = not any(isinstance(each, (dict, list)) for each in value)
        return ("/" if is_plain else "; ").join(map(shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _span_or_zone(value: dict[object, object]) -> str:
    """Return what has a short form: a span of the day by its start, a tick by its zone's end."""
    if "phase" in value and "end" not in value and "start" in value:
        return f"{value['start']} {value['phase']}"
    if set(value) == {"below", "tick"}:
        tick, below = shown(value["tick"]), value["below"]
        return tick if below is None else f"{tick} below {shown(below)}"
    return ""
