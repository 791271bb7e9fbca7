"""What a trader reads has no name of a state machine in it; those stand under `--raw` and JSON."""

import re
from collections.abc import Iterable

from bot.cli.commands.decisions import WORDS
from bot.cli.commands.status import lines_of
from bot.cli.telling.narrator import Narrator
from bot.domain.entry import Verdict
from bot.domain.instrument import Phase
from bot.domain.order import OrderState, SendState
from bot.engine.risk.codes import CODES
from bot.journal.reading.values import STOPPED
from bot.runtime.control.status import order_fields
from tests.cli.stage import a_day
from tests.engine.stage import Stage, limited, report_of
from tests.journal.facts import EVERY_KIND

TRADERS_OWN = {
    "UNKNOWN",
    "CANCELLED",
    "REJECTED",
    "EXPIRED",
    "FILLED",
    "HELD",
    "OPEN",
    "BREAK",
    "CLOSED",
}
"""Names of states that are a trader's words as well, or a kind of line."""
INTERNAL = {
    *OrderState,
    *SendState,
    *Phase,
    *Verdict,
    "NO_SIGNAL",
    "WARMING",
    "NOT_SETTLED",
    "ORDER_WORKING",
} - TRADERS_OWN


def internal_names(lines: Iterable[str]) -> set[str]:
    return {word for line in lines for word in re.findall(r"[A-Z_]+", line) if word in INTERNAL}


def test_the_lines_of_a_run_name_no_inner_state() -> None:
    narrator = Narrator()
    entries = [*EVERY_KIND, *(entry for entries in a_day() for entry in entries)]

    lines = [line for entry in entries for line in narrator.lines_of(entry)]

    assert len(lines) > 20
    assert internal_names(lines) == set()


def test_bot_status_names_no_inner_state() -> None:
    stage = Stage(limited(max_order_value=10_000_000), sellable=1_000)
    bought = stage.working(100)
    stage.after(1).book(report_of(bought, executed=50))
    status = stage.engine.status()

    lines = lines_of(
        {
            "state": status.state,
            "mode": "live",
            "phases": dict(status.phases),
            "strategies": [
                {"name": each.name, "state": each.state, "reason": each.reason}
                for each in status.strategies
            ],
            "open_orders": [order_fields(each) for each in status.open_orders],
            "orders_today": dict(status.orders_today),
        },
        "mybot (live)",
    )

    assert internal_names(lines) == set()


def test_every_verdict_has_a_word_of_the_runs_lines() -> None:
    assert set(WORDS) == {*Verdict, STOPPED}


def test_every_refusal_is_a_sentence_and_no_code() -> None:
    texts = [words for code in CODES.values() for words in (code.refused, code.unknown) if words]

    assert internal_names(texts) == set()
    assert all(len(text.split()) > 2 for text in texts)
