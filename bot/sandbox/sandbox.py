"""The sandbox: the one object that a program starts and talks to.

`app` answers the broker's API over ASGI, `advance` moves the market, and the ledger records both: a
new sandbox with the same ledger, scenario and seed continues where the old one was. Market time
comes from `clock`, wire time (signatures, nonces, quota, tokens) from `wire`; in a simulation they
may be one.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from bot.clock import Clock
from bot.domain.account import SubAccount
from bot.domain.quote import Quote
from bot.domain.rulebook import Rulebook
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.values.border import PlaceRequest
from bot.sandbox.api.call import Call, Handler, by_endpoint
from bot.sandbox.api.connection import Sleep
from bot.sandbox.api.fault_injection import FaultInjector
from bot.sandbox.api.gatekeeper import Gatekeeper
from bot.sandbox.api.reads import AccountReads, MarketReads, sub_accounts
from bot.sandbox.api.shell import Controls, Shell
from bot.sandbox.api.variants import with_fidelity, with_variants
from bot.sandbox.api.writes import OrderWrites, TwoFactorCalls, place_line
from bot.sandbox.errors import HttpRefusal, LedgerBroken
from bot.sandbox.faults.script import FaultScript
from bot.sandbox.house.checkpoint import CHECKPOINT_EVERY, CODE, Checkpoints, identity_of
from bot.sandbox.house.house import House
from bot.sandbox.house.ledger import START, Ledger, Line, Mark, read_ledger
from bot.sandbox.house.order_entry import Change
from bot.sandbox.house.two_factor import given_of
from bot.sandbox.library.reads import IndexDays, LibraryReads, checked
from bot.sandbox.scenario import AccountScript, Scenario

LEDGER_VERSION = 1
_NOTED_EVERY = timedelta(seconds=1)
"""In market time: how far a restart may fall back if nothing was requested in between."""
_OUTCOMES = frozenset({"order", "account"})


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client needs. The texts belong to the sandbox, yet stay out of every repr."""

    api_key: str = field(repr=False)
    api_secret: str = field(repr=False)
    otp_code: str = field(repr=False)
    user_id: int
    accounts: tuple[SubAccount, ...]


class Sandbox:
    """One broker with its exchanges. Raises LedgerBroken for a ledger of another scenario.

    `speed`: how many seconds of market time pass on its `clock` in a second of `wire`.
    """

    def __init__(
        self,
        scenario: Scenario,
        rulebook: Rulebook,
        *,
        clock: Clock,
        wire: Clock,
        seed: int | None = None,
        ledger: Path | None = None,
        checkpoint_every: int = CHECKPOINT_EVERY,
        speed: float = 1.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if seed is not None:
            scenario = scenario.model_copy(update={"seed": seed})
        self.scenario = scenario
        self._clock = clock
        self._wire = wire
        self._speed = speed
        self._checkpoints = _checkpoints(ledger, scenario, rulebook, checkpoint_every)
        kept = self._checkpoints.load() if self._checkpoints else None
        self._house = House(scenario, rulebook) if kept is None else kept.state.house
        self.forced = self._house.forced
        self._gate = Gatekeeper(scenario, self._house.otp, on_nonce=self._note_nonce)
        self._library = LibraryReads(self._house, self._gate)
        if kept is not None:
            for nonce, at in kept.state.nonces:
                self._gate.nonces.use(nonce, at)
            self._library.recall(kept.state.index_days)
            self._house.faults.begin_again()
        self.before_moving: Callable[[datetime], None] | None = None
        """Called before market time moves, with its new value."""
        self._noted_at: datetime | None = None
        after = kept.mark if kept else START
        lines = read_ledger(ledger, after) if ledger else ()
        missing = self._replay(lines, after) if lines or kept else [self._head()]
        self._ledger = Ledger(ledger)
        self._ledger.record(*missing)
        self.app = self._application(sleep)

    # ------------------------------------------------------------------------------ time

    @property
    def now(self) -> datetime:
        """Market time up to which everything has been processed."""
        return self._house.now

    def is_code_out(self) -> bool:
        """Return whether somebody may be typing the code that was mailed last."""
        return self._house.otp.is_code_out(self._wire.now())

    def next_due(self) -> datetime | None:
        """Market time of the next thing that happens by itself."""
        return self._house.next_due()

    def advance(self, to: datetime) -> None:
        """Process everything due by `to`, in a fixed order."""
        self._move(to)
        if self._noted_at is None or self.now - self._noted_at >= _NOTED_EVERY:
            self._note_time()
        if self._checkpoints is not None and self._checkpoints.is_due(self._ledger.lines):
            state = _State(self._house, self._gate.nonces.every(), self._library.index_days())
            self._checkpoints.save(state, self._ledger.mark())

    def _reach(self) -> datetime:
        """Bring the market up to its clock; the ledger notes how far it has been seen."""
        self._move(self._clock.now())
        now = self.now
        if self._noted_at != now:
            self._note_time()
        return now

    def _move(self, to: datetime) -> None:
        if self.before_moving is not None:
            self.before_moving(to)
        self._house.advance(to)
        self._jot_outcomes()

    def _note_time(self) -> None:
        self._noted_at = self.now
        if self._ledger.is_kept and self._house.mirror is None:
            self._ledger.jot(self._line("time"))

    # ---------------------------------------------------------------------- a mirrored market

    def observe(self, kind: str, **facts: JsonValue) -> None:
        """Feed an observation to the mirrored market; it is on disk when this returns."""
        self.advance(self._clock.now())
        self._carry_out(self._line(kind, **facts))

    def lose(self, symbol: str, why: str) -> None:
        """Tell the mirrored market that it cannot be seen from where it is, before it moves on."""
        self._carry_out(self._line("mirror_lost", symbol=symbol, why=why))

    def show(self, quote: Quote) -> None:
        """Update the board of a symbol in which we have no working order."""
        self.advance(self._clock.now())
        self._house.show(quote)

    def working_symbols(self) -> frozenset[str]:
        """The symbols in which an order of ours is open, including held ones."""
        orders = self._house.day_order_book.every()
        return frozenset(order.symbol for order in orders if order.remaining)

    def symbol_of(self, order_id: str) -> str | None:
        """Return the symbol of an order by its current id, None if the order is not ours."""
        order = self._house.day_order_book.find(order_id)
        return order.symbol if order else None

    # ------------------------------------------------------------------------- operating

    @property
    def credentials(self) -> Credentials:
        return Credentials(
            api_key=self.scenario.key_text,
            api_secret=self.scenario.secret_text,
            otp_code=self.scenario.otp_code.get_secret_value(),
            user_id=self.scenario.user_id,
            accounts=sub_accounts(self.scenario),
        )

    def clocks(self) -> dict[str, JsonValue]:
        """Return market time, wire time and speed for the control path."""
        return {
            "market": self._reach().isoformat(),
            "wire": self._wire.now().isoformat(),
            "speed": self.scenario.speed,
        }

    def add_fault(self, script: FaultScript) -> None:
        self._carry_out(self._line("add_fault", script=script.model_dump(mode="json")))

    def end_faults(self) -> None:
        self._carry_out(self._line("end_faults"))

    def drop_two_factor(self, code: str) -> None:
        """Make every 2FA token issued so far answer `code`."""
        self._carry_out(self._line("drop_2fa", code=code))

    def finish(self) -> None:
        """Record in the ledger that the scenario is over: the next start begins a new one."""
        self._ledger.record(self._line("finished"))

    def close(self) -> None:
        self._ledger.close()

    # ---------------------------------------------------------------------------- ledger

    def _carry_out(self, line: Line) -> Change | None:
        change = self._house.carry_out(line)
        if self._ledger.is_kept:
            self._ledger.record(line, *self._house.take_outcomes())
        return change

    def _place(
        self, call: Call, account: AccountScript, request: PlaceRequest, scripted: Line
    ) -> Change:
        change = self._house.place(account, request, call.market_at, scripted)
        if self._ledger.is_kept:
            line = place_line(call, account, request, scripted)
            self._ledger.record(line, *self._house.take_outcomes())
        return change

    def _note_nonce(self, nonce: str, at: datetime) -> None:
        if self._ledger.is_kept:
            self._ledger.jot({"kind": "nonce", "nonce": nonce, "wire": at.isoformat()})

    def _jot_outcomes(self) -> None:
        if self._ledger.is_kept:
            self._ledger.jot(*self._house.take_outcomes())
        else:
            self._house.forget_outcomes()

    def _note_faults(self) -> None:
        for rule in self._house.faults.take_changed():
            first = rule.first_struck.isoformat() if rule.first_struck else None
            counts = {"rule": rule.number, "seen": rule.seen, "struck": rule.struck}
            self._ledger.jot(self._line("fault", **counts, first=first))

    def _line(self, kind: str, **facts: JsonValue) -> dict[str, JsonValue]:
        return {"kind": kind, "at": self.now.isoformat(), **facts}

    def _head(self) -> dict[str, JsonValue]:
        scenario = self.scenario
        names: dict[str, JsonValue] = {"scenario": scenario.name, "seed": scenario.seed}
        digest = scenario.fingerprint
        return self._line("head", version=LEDGER_VERSION, sha256=digest, **names)

    def _replay(
        self, lines: tuple[dict[str, JsonValue], ...], after: Mark
    ) -> list[dict[str, JsonValue]]:
        """Repeat what the ledger says, and return the outcomes that it does not contain yet."""
        if after == START and lines[0] != self._head():
            text = "the ledger is of another scenario, seed or version"
            raise LedgerBroken(f"{text}; move it away together with the journal")
        outcomes: list[dict[str, JsonValue]] = []
        last = max((n for n, line in enumerate(lines) if line["kind"] == "time"), default=0)
        for number, line in enumerate(lines):
            # The market is the same in whatever steps it advances, so the last time note is enough.
            if line["kind"] == "time" and number != last:
                continue
            self._replay_line(line)
            outcomes += self._house.take_outcomes()
        kept = [line for line in lines if line["kind"] in _OUTCOMES]
        if list(map(_undated, outcomes[: len(kept)])) != list(map(_undated, kept)):
            raise LedgerBroken(
                "replaying the ledger gives other outcomes than it holds: undo what market_rules "
                "changed for past days; after an upgrade continue it with the program before, or "
                "move the ledger away"
            )
        self._house.faults.take_changed()  # the ledger already holds the counts
        return outcomes[len(kept) :]

    def _replay_line(self, line: Line) -> None:
        if line["kind"] == "nonce":
            wire_at = datetime.fromisoformat(str(line["wire"]))
            self._gate.nonces.use(str(line["nonce"]), wire_at)
        elif self._house.is_input(line):
            with suppress(HttpRefusal):
                self._house.carry_out(line)
        else:
            self._house.advance(datetime.fromisoformat(str(line["at"])))

    # ------------------------------------------------------------------------------- app

    def _application(self, sleep: Sleep) -> Shell:
        injector = FaultInjector(
            self._house.faults,
            reach=self._reach,
            wire=self._wire,
            speed=self._speed,
            sleep=sleep,
            too_many=self._gate.too_many,
            on_strike=self._note_faults,
            on_struck=self._house.forced.note_request,
            drop_two_factor=self.drop_two_factor,
        )
        return Shell(
            self._handlers(),
            gate=self._gate,
            injector=injector,
            reach=self._reach,
            wire=self._wire,
            sleep=sleep,
            controls=Controls(self.scenario.key_text, self.clocks, self.add_fault, self.end_faults),
        )

    def _handlers(self) -> Mapping[str, Handler]:
        house, gate = self._house, self._gate
        reads = AccountReads(house, gate)
        writes = OrderWrites(
            self.scenario,
            reads=reads,
            gate=gate,
            place=self._place,
            carry_out=self._carry_out,
        )
        library = self._library
        market = MarketReads(house, gate, foreign=library.foreign_quote)
        two_factor = TwoFactorCalls(house.otp, gate=gate, note=self._ledger.record)
        found: dict[str, Handler] = {name: library.handler(name) for name in ENDPOINTS}
        found |= by_endpoint(market, reads, writes, two_factor)
        varied = with_variants(found, self.scenario.switches)
        if house.mirror is not None:
            varied = with_fidelity(varied, house.fidelity)
        return {name: checked(name, answer, gate) for name, answer in varied.items()}


@dataclass(frozen=True, slots=True)
class _State:
    """Everything that the ledger can rebuild. `index_days` are the days stored by the library."""

    house: House
    nonces: tuple[tuple[str, datetime], ...]
    index_days: IndexDays


def _checkpoints(
    ledger: Path | None, scenario: Scenario, rulebook: Rulebook, every: int
) -> Checkpoints[_State] | None:
    """Return the checkpoints of a ledger; a mirrored market has none.

    It receives things that its ledger does not hold, and a ledger without time notes is short.
    """
    if ledger is None or scenario.fill is not None:
        return None
    identity = partial(identity_of, scenario, rulebook, LEDGER_VERSION)
    outside = {"scenario": scenario, "rulebook": rulebook, "recording": scenario.recording}
    outside |= {"switches": scenario.switches, CODE: given_of(scenario)}
    outside |= {f"account {each.id}": each for each in scenario.accounts}
    outside |= {f"symbol {each.symbol}": each for each in scenario.symbols}
    found = Checkpoints[_State](ledger, outside, identity=identity, every=every)
    if not ledger.exists():
        found.clear()
    return found


def _undated(line: Line) -> Line:
    """Leave out settlement times: a day that the operator has closed since moves them."""
    record = line.get("record")
    due = record.get("due") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(due, list):
        return line
    undated: list[JsonValue] = [{**each, "at": None} for each in due if isinstance(each, dict)]
    return {**line, "record": {**record, "due": undated}}
