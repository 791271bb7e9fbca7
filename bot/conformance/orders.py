"""Order writes: one order from its place to its cancel, and everything that must be refused.

The order is a buy of one lot at the day's floor: it is on the tick, inside the band, and far from
the market. It is cancelled at the end whatever happened in between. An order that trades at once if
a server takes it after all is tried only where that was asked for. Source: broker open API
0.2.0-preview.3, sections 4.2, 6.2, 7 and 8.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from bot.broker.errors import RateLimited
from bot.config.rulebook import load_rulebook
from bot.conformance.cleanup import DAY_ORDERS, ORDERS, PAUSE, Cleanup, Sent
from bot.conformance.data import BadBody, order_data, words
from bot.conformance.facts import MARKET_PHASE, Facts, MissingFact, payload, rows
from bot.conformance.finding import Finding, Show, Verdict, judged, nobody, skipped
from bot.conformance.raw_client import RawClient, Reply
from bot.conformance.reads import missing_finding
from bot.conformance.shape import compare, shown
from bot.domain.errors import RuleDataError
from bot.domain.instrument import BOARD_LOT, Exchange, Instrument
from bot.protocol.envelope import is_no_error

REFUSING: Final = frozenset({"REJECTED", "FAILED"})
TOO_BOLD: Final = "a broker that takes it trades at once: tried only with --at-market"
LOOKS_MAX: Final = 3
_MILLION_SHARES: Final = 1_000_000
_COMPARED: Final = (
    *("orderid", "status", "qtty", "price", "execqtty", "remainqtty", "cancelqtty"),
)

Body = dict[str, Any]


async def check_orders(
    client: RawClient, facts: Facts, *, at_market: bool = False, on_left: Show = nobody
) -> AsyncIterator[Finding]:
    """Place, read, amend, read, cancel, read; then orders to be refused. Always clean up.

    A run interrupted by a signal or an endless limit cleans up too; interrupted again, it names
    what may be left. `on_left` gets what an interrupted run has left; `at_market` includes orders
    that trade if they are not refused.
    """
    try:
        await learn_order_terms(client, facts)
    except MissingFact as missing:
        yield missing_finding("4.2 orders", "order writes", missing)
        return
    sent = Sent()
    check = _OrderCheck(client, facts, sent, at_market=at_market)
    cleanup = Cleanup(client, facts, sent)
    if not await cleanup.remember():
        why = "the day order book can't be read: whose orders are there already is not known"
        yield missing_finding("4.2 orders", "order writes", MissingFact(why, is_failure=True))
        return
    left: Finding | None = None
    try:
        for step in (check.place, check.amend, check.cancel, check.refuse):
            async for finding in step():
                yield finding
            if not check.order_id:
                break
        left = await cleanup.clear()
    finally:
        if left is None:
            try:
                cut_off = await cleanup.clear()
            except (asyncio.CancelledError, RateLimited):
                cut_off = cleanup.given_up()
            on_left(cut_off)
    yield left


async def learn_order_terms(client: RawClient, facts: Facts) -> None:
    """Find prices and quantities for orders, valid and invalid. Raises MissingFact if no order can
    be tried now.

    They are floor and ceiling, the ticks beside them, and quantities that buying power and shares
    do not cover.
    """
    needed = ("account", "extended", "stock", "floor", "ceiling", "exchange")
    missing = [name for name in needed if name not in facts.known]
    if missing or client.token is None:
        names = [*missing, *([] if client.token else ["a token"])]
        raise MissingFact(f"without {', '.join(names)}")
    phase = payload(await client.get(facts.target(*MARKET_PHASE)), {}).get("exchange_session")
    if phase != "PROGRESS":
        why = f"{facts['exchange']} is {phase}: an order at the floor waits only in PROGRESS"
        raise MissingFact(why)
    try:
        instrument = Instrument(facts["stock"], Exchange(facts["exchange"]))
        rulebook = load_rulebook()
    except (ValueError, RuleDataError) as error:
        raise MissingFact(str(error)) from error
    floor, ceiling = facts.price("floor"), facts.price("ceiling")
    facts.known["floor"] = str(floor)
    power = await _available(client, facts, "BUY", "pp0")
    sellable = await _available(client, facts, "SELL", "trade")
    numbers = {
        "ceiling": ceiling,
        "next_price": rulebook.ticks_of(instrument).up(floor + 1),
        "above_ceiling": rulebook.ticks_of(instrument).up(ceiling + 1),
        "below_floor": floor - rulebook.ticks_of(instrument).tick_at(floor),
        "off_tick": floor + 1,
        "overbuy": min((power // floor // BOARD_LOT + 10) * BOARD_LOT, _MILLION_SHARES),
        "oversell": (sellable // BOARD_LOT + 1) * BOARD_LOT,
    }
    facts.known |= {name: str(value) for name, value in numbers.items()}
    if power < 3 * BOARD_LOT * floor:
        raise MissingFact(f"buying power {power:,} is below {3 * BOARD_LOT * floor:,}")


async def _available(client: RawClient, facts: Facts, side: str, name: str) -> int:
    """Return a figure of available-trade, 0 if it is missing."""
    query = {"orderSide": side, "symbol": "{stock}", "quotePrice": "{floor}"}
    reply = await client.get(facts.target("/trading/v2/accounts/{account}/available-trade", query))
    found = payload(reply, {}).get(name)
    return int(found) if isinstance(found, int) else 0


class _OrderCheck:
    """One order and what is asserted about it.

    `order_id` is empty until a place is accepted.
    """

    def __init__(self, client: RawClient, facts: Facts, sent: Sent, *, at_market: bool) -> None:
        self.order_id = ""
        self._sent = sent
        self._at_market = at_market
        self._client = client
        self._facts = facts
        self._target = facts.target(ORDERS)
        self._price = int(facts["floor"])
        self._good: Mapping[str, Any] = {
            "sub_account": facts["extended"],
            "side": "BUY",
            "symbol": facts["stock"],
            "quantity": BOARD_LOT,
            "type": "LIMIT",
            "limit_price": self._price,
            "market_price": None,
            "stock_type": "STOCK",
        }
        """The good body: both price keys always present, one of them null."""
        self._cancel_body: Body = {"sub_account": facts["extended"]}

    async def place(self) -> AsyncIterator[Finding]:
        """Place the order; check its row, the day order book and the buying power."""
        before = await _available(self._client, self._facts, "BUY", "pp0")
        for finding in self._placed(await self._post(self._good)):
            yield finding
        if not self.order_id:
            return
        row = await self._row()
        book = rows(await self._client.get(self._facts.target(DAY_ORDERS)))
        after, worth = (
            await _available(self._client, self._facts, "BUY", "pp0"),
            BOARD_LOT * self._price,
        )
        wanted = {
            "orderid": self.order_id,
            "rootorderid": self.order_id,
            "symbol": self._facts["stock"],
            "side": "BUY",
            "qtty": BOARD_LOT,
            "price": self._price,
            "pricetype": "LO",
            "execqtty": 0,
            "remainqtty": BOARD_LOT,
            "cancelqtty": 0,
            "allowcancel": "Y",
            "allowamend": "Y",
            "afacctno": self._facts["account"],
        }
        for finding in _fields("4.3 row", "the row of a placed order", row, wanted):
            yield finding
        listed = [each for each in book if each.get("orderid") == self.order_id]
        what, found = "the day order book has it once", f"{len(listed)} rows of {len(book)}"
        yield judged("4.3 row listed", what, is_met=len(listed) == 1, found=found)
        is_equal = bool(listed) and _is_same(listed[0], row)
        found = "the same" if is_equal else "they differ"
        yield judged("4.3 row equal", "list and detail agree", is_met=is_equal, found=found)
        found = f"{before:,} before, {after:,} after an order of {worth:,}"
        what = "a waiting buy lowers the buying power by its value"
        yield judged("4.3 pp0", what, is_met=before - after >= worth, found=found)

    def _placed(self, reply: Reply) -> list[Finding]:
        result, findings = _one_result("4.2 place", reply)
        if result is None:
            return findings
        is_live = result.get("order_status") not in REFUSING
        self.order_id = str(result.get("order_id") or "") if is_live else ""
        self._facts.known["order_id"] = self.order_id
        wanted = {
            "symbol": self._facts["stock"],
            "order_side": "BUY",
            "order_quantity": BOARD_LOT,
            "limit_price": self._price,
            "market_price": None,
            "account_id": self._facts["extended"],
            "order_type": "LO",
            "lot": "EVEN",
            "transaction_date": self._facts["today"],
            "execute_quantity": 0,
            "execute_price": 0,
            "execute_amount": 0,
        }
        findings += _fields("4.2 place", "the result of a place", result, wanted)
        findings.append(_no_error("4.2 place code", "an accepted place has no code", result))
        what, found = "an order at the floor is accepted", result.get("order_status")
        return [*findings, judged("4.2 place taken", what, is_met=is_live, found=found)]

    async def _row(self) -> Mapping[str, Any]:
        """Return the detail row; a new one may appear a moment late."""
        target = self._facts.target(f"{DAY_ORDERS}/{{order_id}}")
        for _ in range(LOOKS_MAX):
            if row := payload(await self._client.get(target), {}):
                return dict(row)
            await self._client.pause(PAUSE)
        return {}

    async def amend(self) -> AsyncIterator[Finding]:
        """Amend price and quantity, then try what must be refused."""
        target, price = self._order(self.order_id), int(self._facts["next_price"])
        for name, value, echoed, column in (
            ("price", price, "limit_price", "price"),
            ("quantity", 2 * BOARD_LOT, "order_quantity", "qtty"),
        ):
            id_, reply = f"4.2 amend {name}", await self._client.ask("PUT", target, {name: value})
            result, findings = _one_result(id_, reply)
            if result is not None:
                wanted = {"order_id": self.order_id, echoed: value}
                findings += _fields(id_, "an amendment echoes", result, wanted)
                findings.append(_no_error(f"{id_} code", "an amendment has no code", result))
            findings += _fields(id_, "the row shows", await self._row(), {column: value})
            for finding in findings:
                yield finding
        for bad in order_data().amendments:
            reply = await self._client.ask("PUT", target, bad.body)
            yield judged(bad.id, bad.what, is_met=reply.status == 400, found=reply)
        for method, body in (("PUT", {"price": self._price}), ("DELETE", self._cancel_body)):
            reply = await self._client.ask(method, self._order("ORD0"), body)
            id_, what = f"4.2 {method} unknown", f"{method} of an unknown order is refused"
            is_met, drift = reply.status in {400, 404}, Verdict.DRIFT
            yield judged(id_, what, is_met=is_met, found=reply, otherwise=drift)

    async def cancel(self) -> AsyncIterator[Finding]:
        """Cancel the order, then try to change it once more."""
        target = self._order(self.order_id)
        reply = await self._client.ask("DELETE", target, raw=b"")
        id_, what, drift = "4.2 cancel without body", "a cancel needs its body", Verdict.DRIFT
        yield judged(id_, what, is_met=reply.status == 400, found=reply, otherwise=drift)
        reply = await self._client.ask("DELETE", target, self._cancel_body)
        result, findings = _one_result("4.2 cancel", reply)
        if result is not None:
            same = {"order_id": self.order_id, "execute_quantity": 0}
            findings += _fields("4.2 cancel", "a cancel answers", result, same)
            status = result.get("order_status")
            is_met = status in {"CANCELLED", "CANCELLING"}
            what = "an untouched order becomes CANCELLED"
            findings.append(judged("7.2 cancel", what, is_met=is_met, found=status))
        row = await self._row()
        ended = {"execqtty": 0, "remainqtty": 0, "cancelqtty": 2 * BOARD_LOT, "status": "CANCELLED"}
        flags = {"allowcancel": "N", "allowamend": "N"}
        findings += _fields("7.2 cancelled row", "the row of a cancelled order", row, ended)
        findings += _fields("7.1 flags", "the flags of an ended order", row, flags)
        for finding in findings:
            yield finding
        for method, body in (("DELETE", self._cancel_body), ("PUT", {"price": self._price})):
            reply = await self._client.ask(method, target, body)
            codes = [each.get("code") for each in rows(reply)]
            is_refused = reply.status in {400, 404} or any(not is_no_error(code) for code in codes)
            is_met = is_refused and _is_same(row, await self._row())
            what = f"{method} of an ended order is refused and changes nothing"
            found = f"{reply}, code {codes[0] if codes else '-'}"
            yield judged(f"7.2 {method} again", what, is_met=is_met, found=found)

    async def refuse(self) -> AsyncIterator[Finding]:
        """Try orders that must be refused; one that is accepted is cancelled at once."""
        for bad in order_data().refused:
            if self._is_too_bold(bad):
                yield skipped(bad.id, bad.what, TOO_BOLD)
                continue
            if bad.text is None:
                reply = await self._post(self._changed(bad))
            else:
                reply = await self._client.ask("POST", self._target, raw=bad.text.encode())
            await self._undo(reply)
            is_met = reply.status == 400 and reply.code not in {"", "0"}
            yield judged(bad.id, bad.what, is_met=is_met, found=reply, otherwise=bad.otherwise)
        for bad in order_data().rejected:
            if self._is_too_bold(bad):
                yield skipped(bad.id, bad.what, TOO_BOLD)
                continue
            reply = await self._post(self._changed(bad))
            await self._undo(reply)
            results = rows(reply)
            result = results[0] if len(results) == 1 else {}
            code, status = result.get("code"), result.get("order_status")
            missing = compare(order_data().result, result, words()).missing
            found = f"{reply.status} {status} code {code}"
            is_refused = reply.status == 200 and status in REFUSING and not is_no_error(code)
            is_explained = is_refused and bool(result.get("rejected_reason"))
            is_met = is_explained and str(code) in bad.codes and not missing
            otherwise = Verdict.DRIFT if is_explained else bad.otherwise
            if missing:
                found, otherwise = f"{found}, without {shown(missing)}", Verdict.FAIL
            yield judged(bad.id, bad.what, is_met=is_met, found=found, otherwise=otherwise)

    def _is_too_bold(self, bad: BadBody) -> bool:
        return bad.trades_if_taken and not self._at_market

    async def _post(self, body: Mapping[str, Any]) -> Reply:
        """Send an order. Until an answer says so, it is not known whether it was taken."""
        self._sent.lost.append(body)
        reply = await self._client.ask("POST", self._target, body)
        results = rows(reply) if reply.status == 200 else []
        taken = [each for each in results if each.get("order_status") not in REFUSING]
        ids = [str(each["order_id"]) for each in taken if each.get("order_id")]
        is_refused = reply.is_client_error and reply.code not in {"", "0"}  # a proxy gives no code
        if is_refused or (results and len(ids) == len(taken)):
            self._sent.lost.pop()
        self._sent.ids += ids
        return reply

    def _changed(self, bad: BadBody) -> Body:
        """Return the good body with a row's changes; `{name}` is the number of a fact."""
        changes = {
            name: int(self._facts.fill(value))
            if isinstance(value, str) and value.startswith("{")
            else value
            for name, value in bad.set.items()
        }
        changed = {**self._good, **changes}
        return {name: value for name, value in changed.items() if name not in bad.drop}

    async def _undo(self, reply: Reply) -> None:
        """Cancel an order that should never have been accepted."""
        for result in rows(reply):
            if reply.status == 200 and result.get("order_status") not in REFUSING:
                target = self._order(str(result.get("order_id")))
                await self._client.ask("DELETE", target, self._cancel_body)

    def _order(self, order_id: str) -> str:
        return f"{self._target}/{order_id}"


def _one_result(id_: str, reply: Reply) -> tuple[Body | None, list[Finding]]:
    """Return the one result and what is asserted of any order write that is answered 200."""
    found = rows(reply)
    is_one = reply.status == 200 and "result" in (reply.body or {}) and len(found) == 1
    answer = f"{reply}, {len(found)} results"
    findings = [judged(f"{id_} answer", "200 with result[] of one", is_met=is_one, found=answer)]
    if not is_one:
        return None, findings
    differs = compare(order_data().result, found[0], words())
    names = "the fields of the document and no others"
    parts = (
        ("required", "the result is whole", shown(differs.missing), Verdict.FAIL),
        ("types", "every field of its type", shown(differs.wrong), Verdict.FAIL),
        ("names", names, shown(differs.added | differs.gone), Verdict.DRIFT),
    )
    findings += [
        Finding(
            f"{id_} {part}", what, otherwise if places else Verdict.OK, places or "as documented"
        )
        for part, what, places, otherwise in parts
    ]
    return found[0], findings


def _fields(
    id_: str, what: str, row: Mapping[str, Any], wanted: Mapping[str, object]
) -> list[Finding]:
    made = ((name, value, row.get(name)) for name, value in wanted.items())
    return [
        judged(f"{id_} {name}", f"{what}: {name} {value}", is_met=found == value, found=found)
        for name, value, found in made
    ]


def _no_error(id_: str, what: str, result: Mapping[str, Any]) -> Finding:
    code = result.get("code")
    return judged(id_, what, is_met=is_no_error(code), found=code)


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(name) == other.get(name) for name in _COMPARED)
