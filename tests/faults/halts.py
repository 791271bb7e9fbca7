"""Halts at random moments: nothing is sent after one, and a kill does not end it.

    python -m tests.faults.halts [trials] [rounds]      200 trials in process, 1 round of processes

A trial has six orders on their way, some of which wait for the journal, a slot or a connection, at
a broker that works, loses answers, or has no quota left; the file HALT appears at a random moment.
Measured is how long after that the last order passed the last gate. A round has one bot in a
process of its own for each fault, which orders several times a second until it is halted; it is
killed then, and started again. A story halts a bot with two orders at the broker in the middle of
something: an amendment that has left, a 2FA pause, a full disk, its own sales and a kill.
"""

import argparse
import asyncio
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from bot.cli.commands.status import knows_what_is_held
from bot.cli.target import Fields
from bot.clock import performance_s
from bot.domain.account import AccountSnapshot, Holding, base_words
from bot.domain.entry import AccountSeen, RunState, StateChanged
from bot.journal.database.schema import migrate
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.writing.lease import acquire
from bot.runtime.brake import FLAG, Brake, raise_flag
from bot.runtime.state_dir import make_state_dir
from bot.sandbox.house.ledger import read_ledger
from tests.faults.hanging import Hanging, locked, trading
from tests.journal.facts import T0
from tests.journal.facts import Story as Bought
from tests.proofs import undone
from tests.staging import intent, scenario, set_stage
from tests.story import once

ORDERS: Final = 6
TRIALS_JUDGED: Final = 10
"""In so many some orders were on their way before the halt, and some were not."""
BLOCKED_MS: Final = 100.0
ARRIVED_MS: Final = 1_000.0
"""How late the broker may have written down what left before: this process is the broker, and waits
for its turn on a busy machine. A bot that is not halted orders until the look ends, twice that.
"""
LOST: Final = {
    "match": {"verb": "POST", "path": "*/orders", "times": 0},
    "point": "accept",
    "action": {"do": "rst"},
}
LIMITED: Final = {
    "match": {"verb": "POST", "path": "*/orders", "times": 0},
    "action": {"do": "status", "status": 429, "headers": {"X-RateLimit-Reset": "1"}},
}
WEATHER: Final[Mapping[str, Sequence[Mapping[str, object]]]] = {
    "well": (),
    "unknown orders": (LOST,),
    "429 storm": (LIMITED,),
}
EAGER: Final = """
from pathlib import Path

from bot import Strategy


class Eager(Strategy):
    price: int
    stuck: str = ""

    def on_start(self):
        self.count = 0

    def on_quote(self, quote):
        while self.stuck and Path(self.stuck).exists():
            pass
        self.count += 1
        if self.count % 2:
            shares = 100 * (1 + self.count // 2 % 4)  # no two alike: a twin is refused
            price = 25_200 + 50 * ((3 * self.count + self.price) % 32)
            self.buy(shares, limit=price, why=f"number {self.count}")
        else:
            self.cancel(why="another")
"""
ROUND: Final = ("file", "signal", "command", "blocked loop", "locked journal", *tuple(WEATHER)[1:])
"""How a bot is halted, and what hurts it meanwhile."""
SLOW_S: Final = 3
SLOW_PUT: Final = {
    "match": {"verb": "PUT", "path": "*/orders/*", "times": 0},
    "action": {"do": "delay", "seconds": SLOW_S},
}
HELD: Final = 300
SAMPLE_S: Final = 0.01
LOOK_S: Final = 2.0


@dataclass
class Tally:
    """The results of the trials. `late_ms` is how long after a halt an order was still sent."""

    trials: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    late_ms: dict[str, list[float]] = field(default_factory=dict)
    stories: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def note(self, kind: str, late_ms: float, most_ms: float) -> None:
        self.trials[kind] += 1
        self.late_ms.setdefault(kind, []).append(late_ms)
        if late_ms > most_ms:
            self.problems.append(f"{kind}: an order left {late_ms:.0f} ms after the halt")

    def lines(self) -> list[str]:
        found = []
        for kind, late in self.late_ms.items():
            late.sort()
            median, most = late[len(late) // 2], late[-1]
            counts = f"{self.left[kind]:>5,} left, {self.held[kind]:>5,} held back"
            found.append(
                f"  {kind:<24} {self.trials[kind]:>5,} halts  {counts}  "
                f"last left after: median {median:.1f} ms, most {most:.1f} ms"
            )
        return found


class Timed(Brake):
    """Records when it last let something pass."""

    passed_s = 0.0

    def objection(self) -> str | None:
        why = super().objection()
        if why is None:
            self.passed_s = performance_s()
        return why


async def trial(folder: Path, empty: Path, weather: str, random: Random, tally: Tally) -> None:
    """Have orders on their way, and halt."""
    shutil.copy(empty, folder / "journal.db")
    brake, url = Timed(folder), f"sqlite:///{folder / 'journal.db'}"
    stage = await set_stage(folder, url, scenario(faults=WEATHER[weather]), brake)
    await stage.day_order_book.read()

    async def order(number: int) -> None:
        wanted = await stage.ready(intent(number, limit_price=25_500 + 50 * number))
        await asyncio.sleep(random.random() * 0.1)
        await stage.orders.place(wanted)

    ordering = [asyncio.create_task(order(number)) for number in range(1, ORDERS + 1)]
    await asyncio.sleep(random.random() * 0.2)
    raise_flag(folder, "at random")
    halted_s = performance_s()
    await asyncio.gather(*ordering)
    reasons = [getattr(getattr(one, "outcome", None), "reason", "") for one in stage.events]
    held = sum(str(reason).startswith("HALTED") for reason in reasons)
    tally.held[f"{weather}, in process"] += held
    tally.left[f"{weather}, in process"] += ORDERS - held
    late_ms = max(brake.passed_s - halted_s, 0.0) * 1_000
    tally.note(f"{weather}, in process", late_ms, BLOCKED_MS)
    await stage.strike()


def _strategies(folder: Path) -> list[dict[str, object]]:
    found = []
    for number in range(ORDERS):
        more: dict[str, object] = {} if number else {"stuck": str(folder / "stuck")}
        found.append(
            once(
                f"eager-{number}",
                use="eager",
                params={"price": number, **more},
                wake={"quote": "1s"},
            )
        )
    return found


async def bot_round(folder: Path, how: str, tally: Tally) -> None:
    """Halt one bot in a process of its own; kill it, and start it again."""
    (folder / "strategies").mkdir()
    (folder / "strategies" / "eager.py").write_text(EAGER)
    faults = WEATHER.get(how, ())
    async with trading(
        folder, faults=faults, strategies=_strategies(folder), is_signed_in=False
    ) as hanging:
        await hanging.give_token()
        if faults:
            await asyncio.sleep(LOOK_S)
        else:
            await hanging.until(lambda _: len(hanging.orders()) >= 2 * ORDERS)
        before, late_ms = await _halt(hanging, how)
        after = len(hanging.orders())
        if how != "signal" and not (hanging.state_dir / FLAG).exists():
            tally.problems.append(f"{how}: there is no file {FLAG}")
        if hanging.bot.poll() is not None:
            tally.problems.append(f"{how}: the bot ended")
        await hanging.kill()
        (folder / "stuck").unlink(missing_ok=True)
        hanging.start_again()
        await hanging.until(lambda it: it["state"] == "HALTED")
        await asyncio.sleep(LOOK_S / 2)
        if len(hanging.orders()) > after:
            tally.problems.append(f"{how}: an order left after the kill")
    kind = f"{how}, kill -9"
    tally.left[kind] += before
    tally.note(kind, late_ms, ARRIVED_MS)


async def _halt(hanging: Hanging, how: str) -> tuple[int, float]:
    """Halt it; return the orders of before, and the milliseconds until the last one came."""
    with ExitStack() as stack:
        if how == "blocked loop":
            (hanging.folder / "stuck").touch()
            await asyncio.sleep(1.5)
        elif how == "locked journal":
            stack.enter_context(locked(hanging.state_dir / "journal.db"))
        if how == "signal":
            hanging.bot.send_signal(signal.SIGUSR1)
        elif how == "command":
            await hanging.call("halt", "--yes", "--reason", "a trial")
        else:
            raise_flag(hanging.state_dir, "a trial")
        halted_s, before = time.monotonic(), len(hanging.orders())
        late_ms, seen = 0.0, before
        while (since_s := time.monotonic() - halted_s) < LOOK_S:
            if (count := len(hanging.orders())) > seen:
                seen, late_ms = count, since_s * 1_000
            await asyncio.sleep(SAMPLE_S)
    return before, late_ms


# ------------------------------------------------------------------------------------- the stories


async def _halt_flat(hanging: Hanging, tally: Tally, what: str, more: str = "") -> None:
    """Halt it, await that nothing is open any more, and compare with the broker."""
    if not more:
        await hanging.ask("halt", reason=what)
    started_s = time.monotonic()
    found = await hanging.until(lambda it: not it["open_orders"])
    took_s = time.monotonic() - started_s
    states = set(hanging.orders().values())
    if (found["state"], states) != ("HALTED", {"CANCELLED"}):
        tally.problems.append(f"{what}: {found['state']}, at the broker {states}")
    tally.stories.append(f"  {what:<40} all cancelled {took_s:.1f} s after {more or 'the halt'}")


async def amending(folder: Path, tally: Tally, point: str, new_id: str) -> None:
    """Halt while a PUT is on its way, or has been applied without an answer yet."""
    risk, faults = {"allow_amend": True}, [{**SLOW_PUT, "point": point}]
    async with trading(folder, faults=faults, switches={"modify_id": new_id}, risk=risk) as hanging:
        first = (await hanging.status())["open_orders"][0]
        await hanging.ask("modify", order_id=first["order_id"], limit=first["price"] - 100)
        await hanging.until(lambda it: any(each["stage"] == "sent" for each in it["amends"]))
        await _halt_flat(hanging, tally, f"PUT in flight ({point}, {new_id} id)")
        await asyncio.sleep(SLOW_S)  # the broker's end of it, too


async def without_token(folder: Path, tally: Tally) -> None:
    """Halt in a 2FA pause: open orders are named, and cancelled first once there is a token."""
    async with trading(folder) as hanging:
        await hanging.ask("otp_forget")
        await hanging.until(lambda it: it["state"] == "NEEDS_2FA")
        told, _ = await hanging.call("halt", "--yes", "--reason", "no token")
        if told.count("STILL OPEN: there is no 2FA token") != len(hanging.orders()):
            tally.problems.append(f"2FA pause: it says {told}")
        await hanging.ask("otp_request")
        await hanging.ask("otp_submit", code=hanging.otp)
        await _halt_flat(hanging, tally, "2FA pause", "the token")


async def on_a_full_disk(folder: Path, tally: Tally) -> None:
    """Halt while nothing can be written: no cancel is sent unwritten, each is when there is room.

    A limit on the size of files simulates the full disk.
    """
    async with trading(folder) as hanging:
        endless = resource.RLIM_INFINITY
        resource.prlimit(hanging.bot.pid, resource.RLIMIT_FSIZE, (0, endless))
        told, _ = await hanging.call("halt", "--yes", "--reason", "full")
        kept = (hanging.state_dir / FLAG).exists()
        if "HALTED" not in told or told.count("STILL OPEN") != len(hanging.orders()) or not kept:
            tally.problems.append(f"full disk: it says {told}")
        if set(hanging.orders().values()) != {"SENT"}:
            tally.problems.append(f"full disk: unwritten cancels left: {hanging.orders()}")
        resource.prlimit(hanging.bot.pid, resource.RLIMIT_FSIZE, (endless, endless))
        await _halt_flat(hanging, tally, "full disk", "there was room")


async def _bought_last_week(state_dir: Path) -> None:
    """Write a journal in which a strategy has bought what has settled since."""
    url, account = f"sqlite:///{state_dir / 'journal.db'}", "120C900001.1"
    migrate(url)
    lease = acquire(url, Holder(1, "test", T0))
    journal = Journal.open(url, epoch=lease.epoch)
    bought = Bought(1, "once", quantity=HELD, start=-7 * 86_400, trading_date=date(2026, 11, 12))
    for entries in (*bought.placed(), bought.filled(HELD, position=HELD)):
        await journal.write(entries)
    at, running = T0 - timedelta(days=1), RunState.RUNNING
    snapshot = AccountSnapshot(
        at, account, 100_000_000, 108_100_000, {"HPG": Holding("HPG", HELD, HELD, 0, 27_050)}
    )
    counts = StateChanged(
        at, running, running, base_words(at, {}), "engine", scope=f"base:{account}"
    )
    await journal.write([AccountSeen(at, snapshot), counts])
    await journal.close()
    lease.release()


def _sold_all(status: Mapping[str, Any]) -> bool:
    found = Fields(status)  # one that is still starting has not loaded what is held
    return found["state"] == "HALTED" and not found.each("positions") and knows_what_is_held(found)


async def flattening(folder: Path, tally: Tally, random: Random) -> None:
    """Kill a bot while it sells: the next one continues, and nothing is sold twice."""
    make_state_dir(folder / "state")
    await _bought_last_week(folder / "state")
    buyer = once(wake={"quote": "1s"}, params={"price": 25_500})
    held = {"HPG": HELD}
    async with trading(folder, strategies=[buyer], is_signed_in=False, holdings=held) as hanging:
        await hanging.give_token()
        await hanging.until(lambda it: it["open_orders"])
        await hanging.ask("halt", reason="all", flatten=True)
        await asyncio.sleep(random.random() * 0.3)
        await hanging.kill()
        hanging.start_again()
        await hanging.until(_sold_all)
        rows = {it["order"]: it for it in read_ledger(hanging.ledger) if it["kind"] == "order"}
        sold = [it["executed"] for it in rows.values() if it["side"] == "SELL"]
        if sum(map(int, map(str, sold))) != HELD:
            tally.problems.append(f"flatten, kill -9: sold {sold} of {HELD}")
        tally.stories.append(f"  {'flatten, kill -9':<40} sold {sold} of {HELD}")


Story = Callable[[Path, Tally], Coroutine[None, None, None]]
STORIES: Final[Mapping[str, Story]] = {
    "put on its way": partial(amending, point="accept", new_id="same"),
    "put applied": partial(amending, point="after_apply", new_id="same"),
    "put applied, a new id": partial(amending, point="after_apply", new_id="new"),
    "without token": without_token,
    "full disk": on_a_full_disk,
    "flatten, killed": partial(flattening, random=Random(1)),
}


def main() -> int:
    """Halt as often as the command line says; the exit code tells whether all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.halts")
    parser.add_argument("trials", type=int, nargs="?", default=200)
    parser.add_argument("rounds", type=int, nargs="?", default=1)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    started, tally, random = time.monotonic(), Tally(), Random(asked.seed)
    with tempfile.TemporaryDirectory() as name_of_all:
        empty = Path(name_of_all) / "empty.db"
        migrate(f"sqlite:///{empty}")
        for number in range(asked.trials):
            folder = Path(name_of_all) / f"trial{number}"
            folder.mkdir(mode=0o700)
            weather = tuple(WEATHER)[number % len(WEATHER)]
            asyncio.run(trial(folder, empty, weather, random, tally))
            shutil.rmtree(folder)
        for number in range(asked.rounds):
            for how in ROUND:
                folder = Path(name_of_all) / f"round{number} {how}"
                folder.mkdir(mode=0o700)
                asyncio.run(bot_round(folder, how, tally))
            for name, story in STORIES.items():
                folder = Path(name_of_all) / f"story{number} {name}"
                folder.mkdir(mode=0o700)
                asyncio.run(story(folder, tally))
    tally.problems += undone(halts=tally.trials.total())
    if asked.trials >= TRIALS_JUDGED:
        tally.problems += undone(order_left=tally.left.total(), order_held_back=tally.held.total())
    title = f"{tally.trials.total():,} halts, seed {asked.seed}"
    took = f"{time.monotonic() - started:.0f} s"
    sys.stdout.write("\n".join((title, *tally.lines(), *tally.stories, *tally.problems, took, "")))
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
