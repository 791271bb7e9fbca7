"""The kills and the halt: real processes, a broker that outlives the bot, and SIGKILL.

The broker's market runs `SPEED` times as fast as the wall clock, and so does the bot's request
quota. The bot is killed at random moments, while starting or trading, and started again; at the end
everything settles, and journal and ledger are compared.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from random import Random
from time import sleep
from typing import Any, Final

from bot.clock import monotonic_s
from bot.config.problems import OperatorMistake
from bot.drill.broker import SCENARIO, STATE
from bot.drill.exercise import HALT, KILLS, OutOfTime, Row
from bot.drill.oracle import StoryResult, faults_in, outcome_of
from bot.drill.project import Project
from bot.drill.story import HALT as ASK_HALT
from bot.drill.story import REST
from bot.runtime.control.socket import NoBotRunning, ask

KILLS_COUNT: Final = 20
BROKEN: Final = {
    KILLS: "the bot is killed (SIGKILL) {kills} times at random moments",
    HALT: "bot halt with open orders, then a kill",
}
SPEED: Final = 20
PER_MINUTE_MAX: Final = 6_000
BEAT_S: Final = 2
EARLY: Final = 0.25
"""How often the bot is killed before it is up."""
EARLY_S: Final = 1.5
LIFE_S: Final = 1.5
"""The longest it lives: from the start if not waited for, or from when it trades."""
KILLS_S_MAX: Final = 120.0
"""How long the kills may take in all, so that a drill ends within five minutes."""
AFTER_KILLS_S: Final = 60.0
"""What is left of the drill's time for the settling after the kills, and for the halt."""
READY_S_MAX: Final = 30.0
QUIET_S_MAX: Final = 40.0
STOP_S_MAX: Final = 20.0
LOOK_S: Final = 0.05
STILL_S: Final = 1.5
"""How long no order may be sent after the restart of a halted bot."""
WEATHER: Final = (
    {"match": {"verb": "POST", "path": "*/orders", "prob": 0.1}, "point": "after_apply",
     "action": {"do": "rst"}},
    {"match": {"verb": "POST", "path": "*/orders", "prob": 0.3}, "point": "after_apply",
     "action": {"do": "delay", "seconds": 0.3}},
)  # fmt: skip
"""Lost or late answers, so that kills hit orders under way."""

Progress = Callable[[str], None]


class Stuck(Exception):
    """The bot did not come up, or did not settle."""


@dataclass
class Process:
    """The bot's current process, and the broker beside it. No wait goes on after `ends`, when the
    drill's time is over.
    """

    project: Project
    folder: Path
    environment: Mapping[str, str]
    given: Mapping[str, Any]
    ends: float
    bot: subprocess.Popen[str] | None = None
    ready_s: list[float] = field(default_factory=list)

    @property
    def outcome(self) -> StoryResult:
        """Return what journal and ledger say now."""
        return outcome_of(self.folder / STATE)

    def start(self) -> None:
        """Start the bot without waiting for it."""
        words = ["run", "-q", "--no-input", "-c", str(self.project.config)]
        self.bot = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "bot", *words],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,  # Ctrl-C reaches only the drill, which ends the rest
        )

    def start_up(self, state: str = "RUNNING") -> None:
        """Start the bot and wait until it reaches a state. Raises Stuck, and OutOfTime."""
        started = monotonic_s()
        self.start()
        self.until(lambda it: it["state"] == state, READY_S_MAX, f"to be {state}")
        self.ready_s.append(monotonic_s() - started)

    def kill(self) -> None:
        """End the bot as a power cut would."""
        if self.bot is not None:
            self.bot.kill()
            self.bot.communicate()
            self.bot = None

    def stop(self) -> str:
        """Stop the bot in good order; return error output that it should not have made. Raises
        OutOfTime.
        """
        assert self.bot is not None
        self.bot.send_signal(signal.SIGTERM)
        try:
            left_s = max(self.ends - monotonic_s(), 0)
            _, said = self.bot.communicate(timeout=min(STOP_S_MAX, left_s))
        except subprocess.TimeoutExpired:
            if monotonic_s() >= self.ends:
                raise OutOfTime from None
            return f"the bot did not stop within {STOP_S_MAX:g} s"
        code, self.bot = self.bot.returncode, None
        return "" if code == 0 else f"the bot stopped with exit code {code}: {said.strip()}"

    def ask(self, request: Mapping[str, object]) -> Mapping[str, Any]:
        """Send the bot a request; it may be dead, or not listening yet."""
        with suppress(NoBotRunning, OperatorMistake, TimeoutError, OSError):
            return ask(self.folder / STATE, request, timeout_s=5)
        return {}

    def status(self) -> Mapping[str, Any]:
        """Return its status, empty if it does not answer. If it lacks a code, give it one."""
        found = self.ask({"do": "status"}).get("status", {})
        assert isinstance(found, dict)
        if found.get("state") == "NEEDS_2FA":
            self.ask({"do": "otp_request"})
            self.ask({"do": "otp_submit", "code": self.given["otp"]})
        return found

    def until(
        self, is_so: Callable[[Mapping[str, Any]], object], seconds: float, what: str
    ) -> None:
        """Poll the status until the condition holds. Raises Stuck, and OutOfTime."""
        give_up, found = min(monotonic_s() + seconds, self.ends), self.status()
        while monotonic_s() < give_up:
            found = self.status()
            if found and is_so(found):
                return
            if self.bot is not None and self.bot.poll() is not None:
                _, said = self.bot.communicate()
                raise Stuck(f"the bot ended while it was waited for {what}: {said.strip()}")
            sleep(LOOK_S)
        if monotonic_s() >= self.ends:
            raise OutOfTime
        raise Stuck(f"waited {seconds:g} s for the bot {what}; it is {found.get('state')}")

    def come_to_rest(self) -> None:
        """Stop new orders, cancel all, wait until none is open. Raises Stuck, and OutOfTime."""
        self.ask(REST)

        def is_quiet(found: Mapping[str, Any]) -> bool:
            if found.get("open_orders") or found.get("cancels") or found.get("held"):
                return False
            states = self.outcome.rows("select intent_id, state from intents")
            unknown = found.get("unknown", ())
            return not any(
                row["state"] != "REACHED" for row in states if row["intent_id"] in unknown
            )

        self.until(is_quiet, QUIET_S_MAX, "to come to rest")


@contextmanager
def beside_a_broker(project: Project, folder: Path, ends: float) -> Iterator[Process]:
    """Yield a bot that is not started yet, beside a running broker; both end with the context."""
    script = project.scenario(WEATHER, speed=SPEED)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    secrets = {"api_key": script.key_text, "api_secret": script.secret_text}
    text = json.loads(script.model_dump_json(exclude_unset=True))
    (folder / SCENARIO).write_text(json.dumps({**text, **secrets, "otp_code": "424242"}))
    (folder / STATE).mkdir(mode=0o700, exist_ok=True)
    broker = subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-m", "bot.drill.broker", str(folder)],
        env=dict(os.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        assert broker.stdout is not None
        given = json.loads(broker.stdout.readline())
        quota = project.quota * SPEED
        laid = project.lay(
            folder,
            script,
            given["base_url"],
            beat_s=BEAT_S,
            BOT_BROKER__REQUESTS_PER_MINUTE=str(min(quota, PER_MINUTE_MAX)),
        )
        process = Process(project, folder, laid, given, ends)
        try:
            yield process
        finally:
            process.kill()
    finally:
        broker.kill()
        broker.communicate()


def kill_often(
    project: Project, folder: Path, progress: Progress, ends: float = inf, kills: int = KILLS_COUNT
) -> Row:
    """Kill the bot again and again; nothing may be lost, doubled or miscounted. Raises OutOfTime
    at `ends`, by the monotonic clock.
    """
    started, dice = monotonic_s(), Random(f"kills {project.seed}")
    problems: list[str] = []
    enough = min(started + KILLS_S_MAX, ends - AFTER_KILLS_S)
    with beside_a_broker(project, folder, ends) as process:
        try:
            for number in range(1, kills + 1):
                if monotonic_s() > enough:
                    done = f"{number - 1} of {kills} kills took {max(enough - started, 0):.0f} s"
                    why = "the bot starts too slowly, or the machine is too busy"
                    problems.append(f"{done}, and no more were made: {why}")
                    break
                if dice.random() < EARLY:
                    process.start()
                    sleep(dice.uniform(0, EARLY_S))
                else:
                    process.start_up()
                    sleep(dice.uniform(0, LIFE_S))
                process.kill()
                progress(f"kill {number} of {kills}")
            process.start_up()
            process.come_to_rest()
            problems += filter(None, [process.stop()])
        except Stuck as error:
            problems.append(str(error))
        process.kill()
        problems += faults_in(process.outcome)
        orders, ready = len(process.outcome.orders), sorted(process.ready_s)
    if not orders:
        problems.append("nothing was ordered")
    shown = f"{orders} orders at the broker; ready again after"
    span = f"{ready[len(ready) // 2]:.1f} s, at most {ready[-1]:.1f} s" if ready else "never"
    return Row(
        KILLS,
        BROKEN[KILLS].format(kills=kills),
        f"{shown} {span}",
        problems,
        monotonic_s() - started,
    )


def halt_once(project: Project, folder: Path, progress: Progress, ends: float = inf) -> Row:
    """Halt a bot with open orders: none may be left or sent, and a restart must keep the halt.
    Raises OutOfTime at `ends`, by the monotonic clock.
    """
    started, problems, did = monotonic_s(), list[str](), list[str]()
    with beside_a_broker(project, folder, ends) as process:
        try:
            progress("waiting for open orders")
            process.start_up()
            open_now = list[int]()

            def has_open(found: Mapping[str, Any]) -> bool:
                open_now.append(len(found["open_orders"]))
                return bool(found["open_orders"])

            process.until(has_open, QUIET_S_MAX, "to have an open order")
            asked = monotonic_s()
            process.ask(ASK_HALT)
            sent = _posts(process)
            process.until(lambda it: not it["open_orders"], QUIET_S_MAX, "to cancel all")
            did.append(f"{open_now[-1]} open, none left in {monotonic_s() - asked:.1f} s")
            process.kill()
            process.start_up("HALTED")
            did.append("killed and started again: still halted")
            sleep(STILL_S)
            if more := _posts(process) - sent:
                problems.append(f"{more} orders left after the halt")
            problems += filter(None, [process.stop()])
        except Stuck as error:
            problems.append(str(error))
        process.kill()
        problems += faults_in(process.outcome)
    return Row(HALT, BROKEN[HALT], "; ".join(did), problems, monotonic_s() - started)


def _posts(process: Process) -> int:
    return len(process.outcome.rows("select attempt_id from attempts where verb = 'POST'"))
