"""The requests that a running bot takes: one handler for each word of the control socket."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from bot.broker.errors import BrokerError, is_unknown
from bot.config.problems import OperatorMistake
from bot.domain.entry import RunState
from bot.domain.operations import (
    Action,
    AmendAsked,
    BreakAccepted,
    CancelAsked,
    OperatorActed,
    ReconcileAsked,
    VerdictAsked,
)
from bot.journal.writing.thread import in_time
from bot.protocol.secret import Secret
from bot.runtime import api
from bot.runtime.brake import OVERTAKEN, Pulled
from bot.runtime.commits import KEEP_S
from bot.runtime.control.socket import Handler, Reply, Request, refused
from bot.runtime.control.status import (
    Facts,
    balance_fields,
    comparison_fields,
    depth_fields,
    fields_of,
    instant,
    job_fields,
    order_fields,
    phase_fields,
    reads_every,
    status_of,
    unread_fields,
    whole_or_none,
)
from bot.runtime.parts import Parts
from bot.runtime.read_health import ACCOUNT, BOOK
from bot.runtime.second_factor import NONE_MAILED, USED_UP

_NO_TEXT: Final = refused("E-CTL-002", "the request lacks its text")
NAMES: Final = ("strategy", "symbol", "order_id", "intent_id", "break_id")
"""The fields that say what a request is about. One left out may mean all; an empty one never."""
_TOO_MANY: Final = refused("E-CTL-007", "too many commands wait already; nothing was done")
_BY_HAND: Final = "by hand"
_GIVE_REASON: Final = 'to resume, give a reason: bot resume --reason "…"'
_GET_ONE: Final = "Have one mailed: bot otp request"
WORDS: Final = (
    *("status", "modify", "cancel", "quote", "api", "phases", "reconcile", "balance", "jobs"),
    *("read_all", "accept", "verdict"),
    *("otp_state", "otp_request", "otp_submit", "otp_token", "otp_forget", "otp_revoke"),
)
"""Requests other than actions: the names of the methods that answer them."""


async def _unless_empty(do: Handler, request: Request) -> Reply:
    """Answer the request, unless a name in it is empty: an unset variable of who asks."""
    for name in NAMES:
        named = request.get(name)
        if named is not None and not (isinstance(named, str) and named.strip()):
            return refused("E-CTL-002", f"the request's {name} is empty; nothing was done")
    return await do(request)


@dataclass(frozen=True, slots=True)
class Operations:
    """The handlers, and the parts that they use."""

    parts: Parts
    facts: Facts
    expect_end: Callable[[], object]
    """Called when the bot is asked to stop: what it waits for has to end in time from there on."""

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of each word."""
        actions = (Action.PAUSE, Action.RESUME, Action.HALT, Action.STOP)
        found: Mapping[str, Handler] = {
            **{action.value: partial(self.act, action) for action in actions},
            **{word: getattr(self, word) for word in WORDS},
        }
        return {word: partial(_unless_empty, do) for word, do in found.items()}

    def _now(self) -> datetime:
        return self.parts.environment.market.now()

    async def status(self, _: Request) -> Reply:
        return {"ok": True, "status": status_of(self.parts, self.facts)}

    async def act(self, action: Action, request: Request) -> Reply:
        """Pause, resume, halt or stop the bot, or one strategy."""
        strategy, symbol = request.get("strategy"), request.get("symbol")
        acted = OperatorActed(
            at=self._now(),
            action=action,
            reason=str(request.get("reason") or ""),
            by=str(request.get("by") or "operator"),
            strategy=str(strategy) if strategy else None,
            symbol=str(symbol).upper() if symbol else None,
            cancel_open=bool(request.get("cancel_open")),
            entries_only=bool(request.get("entries_only")),
            flatten=bool(request.get("flatten")),
        )
        if acted.symbol and (refusal := self.parts.engine.objection_to_resume(acted.symbol)):
            return refused("E-ASK-004", f"{refusal}; nothing was changed")
        is_whole = acted.symbol is None and acted.strategy is None
        if is_whole and action is Action.HALT:
            halted = self.parts.brake.pull(acted.reason, acted.by)
            if acted.flatten and (why := await self._allow_sales(halted)):
                self.parts.inbox.ask(replace(acted, flatten=False))
                return refused("E-RUN-012", f"the bot is HALTED, and sells nothing: {why}")
        elif is_whole and action is Action.RESUME:
            account = str(request.get("account") or "")
            if refusal_to_leave := await self._leave_halt(acted.reason, account):
                return refusal_to_leave
        if not self.parts.inbox.ask(acted):
            return _TOO_MANY
        if is_whole and action is Action.STOP:
            self.expect_end()
        return {"ok": True}

    async def _allow_sales(self, halted: Pulled) -> str:
        """Let the sales pass the halt; return why that failed, or an empty text."""
        try:
            return await in_time(partial(self.parts.brake.allow_sales, halted), KEEP_S)
        except TimeoutError:
            return f"the disk did not answer within {KEEP_S:g} s"

    async def _leave_halt(self, reason: str, typed: str) -> Reply | None:
        """Take the brake off if the request gives a reason and, with real money, names the account;
        else return why not. Until the engine has resumed it sends nothing on its own. What the
        engine would refuse for want of a reason is refused here, where somebody hears it.
        """
        parts, account = self.parts, self.parts.account
        causes = {each.state for each in parts.engine.status().causes}
        is_halted = RunState.HALTED in causes or parts.brake.look() is not None
        words = "the bot is HALTED" if is_halted else parts.engine.halted_words()
        if words and not reason.strip():
            return refused("E-RUN-003", f"{words}; {_GIVE_REASON}")
        if not is_halted:
            return None
        if self.facts.loaded.settings.mode == "live" and typed.strip() not in {
            account.id,
            account.extended_id,
        }:
            said = f"'{typed}' is not its account id" if typed else "its account id is missing"
            text = f"to trade with real money again, type the account's id ({account.masked})"
            return refused("E-RUN-009", f"{said}; {text}. Nothing was changed")
        try:
            why = await in_time(parts.brake.release, KEEP_S)
        except TimeoutError:
            why = f"the disk did not answer within {KEEP_S:g} s"
        if not why and parts.brake.look() is not None:
            why = OVERTAKEN  # after it was off: to resume now would leave that halt to the brake
        return refused("E-RUN-010", f"the bot stays HALTED: {why}") if why else None

    async def modify(self, request: Request) -> Reply:
        """Ask to change one field of an order; `amends` in the status shows the result."""
        return self._ask(
            AmendAsked(
                at=self._now(),
                order_id=str(request.get("order_id") or ""),
                limit_price=whole_or_none(request.get("limit")),
                quantity=whole_or_none(request.get("quantity")),
                by=str(request.get("by") or "operator"),
                reason=str(request.get("reason") or _BY_HAND),
            )
        )

    async def cancel(self, request: Request) -> Reply:
        """Ask to cancel an order, or with `all` every open one; the journal shows the result."""
        order_id = str(request.get("order_id") or "")
        return self._ask(
            CancelAsked(
                at=self._now(),
                order_id=None if request.get("all") is True else order_id,
                by=str(request.get("by") or "operator"),
                reason=str(request.get("reason") or _BY_HAND),
            )
        )

    async def verdict(self, request: Request) -> Reply:
        """Take a person's verdict on an order whose outcome is unknown."""
        return self._ask(
            VerdictAsked(
                at=self._now(),
                intent_id=str(request.get("intent_id") or ""),
                order_id=str(request.get("order_id") or "") or None,
                by=str(request.get("by") or "operator"),
                reason=str(request.get("reason") or ""),
            )
        )

    def _ask(self, ask: AmendAsked | CancelAsked | VerdictAsked) -> Reply:
        """Pass the request on even if it will be refused, as the engine journals both. Answer as
        the engine will judge.
        """
        check = self.parts.engine.objection(ask)
        if not self.parts.inbox.ask(ask):
            return _TOO_MANY
        if check is None:
            return {"ok": True, "asked_at": instant(ask.at)}
        code = "E-2FA-004" if check.numbers.get("state") == RunState.NEEDS_2FA else "E-ASK-001"
        reply = refused(code, f"{check.text} ({check.code}); nothing was changed")
        return {**reply, "check": check.code, "numbers": dict(check.numbers)}

    async def reconcile(self, _: Request) -> Reply:
        """Return journal, day order book and account side by side, as last read."""
        found, now = self.parts.engine.reconciliation(), self._now()
        phases = self.parts.engine.status().phases
        every = reads_every(phases, self.parts.rulebook, now)
        failing = {each.kind: each.reason for each, _ in self.parts.reads.health.dead()}
        reads = {BOOK: found.book_read_at, ACCOUNT: found.account_read_at}
        late = unread_fields(reads, failing, every=every, now=now)
        return {"ok": True, "compared": comparison_fields(found, now, late)}

    async def balance(self, _: Request) -> Reply:
        """Return what the account is worth, by our and the broker's numbers, as last read."""
        found = [balance_fields(each, {}) for each in self.parts.engine.balances()]
        return {"ok": True, "at": instant(self._now()), "balances": found}

    async def jobs(self, _: Request) -> Reply:
        """Return the timetable: what is due next, and each job's policy."""
        now = self._now()
        found = [job_fields(job, now) for job in self.parts.jobs]
        return {"ok": True, "at": instant(now), "jobs": found}

    async def read_all(self, request: Request) -> Reply:
        """Read orders and account now, merge and compare; the next `reconcile` shows the result."""
        ask = ReconcileAsked(self._now(), str(request.get("by") or "operator"))
        asked = {"ok": True, "asked_at": instant(ask.at)}
        return asked if self.parts.inbox.ask(ask) else _TOO_MANY

    async def accept(self, request: Request) -> Reply:
        """Accept a difference between journal and broker, with a reason."""
        ask = BreakAccepted(
            at=self._now(),
            break_id=str(request.get("break_id") or ""),
            reason=str(request.get("reason") or ""),
            by=str(request.get("by") or "operator"),
        )
        if refusal := self.parts.engine.objection_to_accept(ask):
            return refused("E-ASK-003", f"{refusal}; nothing was changed")
        return {"ok": True} if self.parts.inbox.ask(ask) else _TOO_MANY

    async def otp_state(self, _: Request) -> Reply:
        return self.parts.second_factor.state()

    async def otp_request(self, _: Request) -> Reply:
        async with self.parts.tasks.part():
            return await self.parts.second_factor.request()

    async def otp_submit(self, request: Request) -> Reply:
        """Exchange a code for a token."""
        code = request.get("code")
        if not isinstance(code, str):
            return _NO_TEXT
        async with self.parts.tasks.part():
            reply = await self.parts.second_factor.submit(Secret(code))
        if reply.get("code") in {NONE_MAILED, USED_UP}:
            return {**reply, "message": f"{reply['message']}. {_GET_ONE}"}
        return reply

    async def otp_token(self, request: Request) -> Reply:
        """Use a token made elsewhere."""
        token = request.get("token")
        if not isinstance(token, str):
            return _NO_TEXT
        return self.parts.second_factor.submit_token(Secret(token))

    async def otp_forget(self, _: Request) -> Reply:
        return self.parts.second_factor.lose()

    async def otp_revoke(self, _: Request) -> Reply:
        """Have the broker end the token's session, and drop it."""
        async with self.parts.tasks.part():
            return await self.parts.second_factor.revoke()

    async def quote(self, request: Request) -> Reply:
        """Return the market of a symbol.

        Data polled for strategies within `max_age_s` of market time costs no new request.
        """
        symbol = str(request.get("symbol") or "").upper()
        known = self.parts.engine.symbol_status(symbol)
        oldest = self._now() - timedelta(seconds=whole_or_none(request.get("max_age_s")) or 0)
        try:
            quote = known.quote.quote if known.quote and known.quote.at > oldest else None
            depth = known.depth.depth if known.depth and known.depth.at > oldest else None
            async with self.parts.tasks.part():
                quote = quote or await self.parts.broker.client.quote(symbol)
                depth = depth or await self.parts.broker.client.depth(symbol)
        except BrokerError as error:
            if is_unknown(error):
                text = f"the broker knows no '{symbol}'"
                return refused("E-SYM-001", text)
            return refused("E-NET-002", str(error))
        return {
            "ok": True,
            "at": instant(self._now()),
            "phase": self.parts.engine.status().phases.get(quote.exchange),
            "quote": fields_of(quote),
            "depth": depth_fields(depth),
            "open_orders": [order_fields(each) for each in known.open_orders],
        }

    async def api(self, request: Request) -> Reply:
        """Read one page of any call of the broker's API."""
        try:
            asked = api.asked_by(request)
            async with self.parts.tasks.part():
                return await api.answer(self.parts.broker.client, asked, self.parts.account.id)
        except OperatorMistake as mistake:
            return refused(mistake.problems[0].code, str(mistake))

    async def phases(self, _: Request) -> Reply:
        """Request the phase of each exchange from the broker."""
        exchanges = sorted(self.parts.engine.status().phases)
        try:
            async with self.parts.tasks.part():
                found = [await self.parts.broker.client.market_phase(each) for each in exchanges]
        except BrokerError as error:
            return refused("E-NET-002", str(error))
        now = self._now().isoformat()
        return {"ok": True, "at": now, "phases": [phase_fields(each) for each in found]}
