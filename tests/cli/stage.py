"""A journal with a day in it, a project around it, and an in-process command line."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from bot.cli.main import run
from bot.domain.entry import AuthEvent, CheckResult, Decision, Entry, IntentRecorded, Verdict
from bot.domain.order import OrderState, SendState, Side
from bot.journal.database.schema import migrate
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.writing.lease import acquire
from tests.canaries import CODE, require_clean
from tests.journal.facts import T0, Story, after, but

FILLED = Story(1, "sma-fpt", "FPT", quantity=100, price=132_000, start=-300)
PARTLY = Story(3)
REJECTED = Story(4, "sma-fpt", "VNM", quantity=100, price=79_900, start=360)
BLOCKED = Story(5, "sma-fpt", "VNM", quantity=900, price=71_900, start=600)
LOST = Story(8, "depth-hpg", "HPG", quantity=300, price=27_000, start=1_200)
_SEND = SendState

CONFIG = """\
mode: sandbox
journal: {url: "sqlite:///journal.db"}
state_dir: state
"""


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str


SHOWN: Final = {
    "export": ("account number",),  # it writes whole rows
    "api": ("account number", "account id"),  # the payload of the requested call
    "conformance": ("account number", "account id"),  # what a server has answered
}
"""The secrets that commands are meant to show."""


def call(
    *arguments: str,
    stdin: str = "",
    columns: int = 100,
    environment: Mapping[str, str | None] | None = None,
) -> Ran:
    """Run `bot` with arguments as a process would, with stdin and both streams not a terminal."""
    screen = {"COLUMNS": str(columns), "NO_COLOR": None, "FORCE_COLOR": None, "TERM": "xterm"}
    with CliRunner().isolation(input=stdin, env={**screen, **(environment or {})}) as streams:
        code = run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = streams[0].getvalue().decode(), streams[1].getvalue().decode()
    shown = next((SHOWN[word] for word in arguments if word in SHOWN), ())
    require_clean(out + err, CODE, *shown)
    return Ran(code, out, err)


def no(minute: int, gap: float) -> Decision:
    """A skip in a strategy's own words."""
    return Decision(
        at=after(minute * 60),
        strategy="sma-fpt",
        symbol="FPT",
        verdict=Verdict.SKIPPED,
        code="SKIP",
        why=f"no cross (gap {gap:.2f}%)",
        numbers={"gap": gap},
    )


def rejected() -> list[Entry]:
    """The row of an order refused inside an HTTP 200."""
    row = but(
        REJECTED.accepted,
        state=OrderState.REJECTED,
        broker_status="REJECTED",
        code="-900017",
        reason="Giá nằm ngoài biên độ",
    )
    refused = but(REJECTED.finished, outcome="REFUSED", code="-900017")
    return [refused, REJECTED.moved(_SEND.SENDING, _SEND.REFUSED, 0.044), row]


def blocked() -> list[Entry]:
    """A request that a limit refused."""
    check = CheckResult("MAX_ORDER_VALUE", False, {"value_vnd": 64_710_000}, "order 64.7M of 50M")
    decision = but(
        BLOCKED.decision,
        verdict=Verdict.BLOCKED,
        code="MAX_ORDER_VALUE",
        why="SMA crossed",
        checks=(check,),
    )
    return [decision, IntentRecorded(BLOCKED.at(0), BLOCKED.intent, _SEND.DENIED, check.text)]


def cut() -> list[Entry]:
    """The end of a partly filled order."""
    row = but(
        PARTLY.filled(200, position=200)[1],
        at=PARTLY.at(181.2),
        state=OrderState.CANCELLED,
        cancelled_quantity=300,
        note="expire 3m: 200 filled, 300 cancelled",
    )
    return [row, PARTLY.transition(OrderState.PARTIALLY_FILLED, OrderState.CANCELLED, 181.2)]


def a_day() -> list[list[Entry]]:
    """Filled, partly filled, rejected in a 200, blocked, lost, two skips, a missed signal."""
    missed = but(
        no(20, 0.1), verdict=Verdict.BLOCKED, code="TWO_FACTOR", why="SMA crossed", side=Side.BUY
    )
    return [
        *FILLED.placed(),
        FILLED.filled(100, position=100),
        *PARTLY.placed(),
        [PARTLY.result(1, '{"status":"SENT","execqtty":0}'), *PARTLY.filled(200, position=200)],
        cut(),
        [REJECTED.decision, REJECTED.recorded],
        REJECTED.sending,
        rejected(),
        blocked(),
        [LOST.decision, LOST.recorded],
        LOST.sending,
        [LOST.moved(_SEND.SENDING, _SEND.UNKNOWN)],
        [no(1, 0.4), no(2, 0.05), missed],
        [AuthEvent(after(1_201), "needed", "OTP_SESSION_EXPIRED", "the session ended", "L-0007")],
    ]


async def _write(url: str) -> None:
    lease = acquire(url, Holder(1, "test", T0))
    journal = Journal.open(url, epoch=lease.epoch)
    facts = {"mode": "sandbox", "version": "0.1.0", "config_sha256": "ab" * 32}
    run_id = await journal.start_run(at=after(-600), **facts)
    for entries in a_day():
        await journal.write(entries)
    await journal.end_run(run_id, "the hour is over", at=after(1_260))
    await journal.close()
    lease.release()


def make_project(folder: Path) -> Path:
    """Write a configuration whose journal holds the day; return the configuration."""
    config = folder / "bot.yaml"
    config.write_text(CONFIG)
    url = f"sqlite:///{folder / 'journal.db'}"
    migrate(url)
    asyncio.run(_write(url))
    return config
