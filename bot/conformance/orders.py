"""Order writes: one order from its place to its cancel, and everything that must be refused.

The order is a buy of one lot at the day's floor: it is on the step, inside the band, and far from
the market. It is cancelled at the end whatever happened in between. Source: broker open API
0.2.0-preview.3, sections 4.2, 6.2, 7 and 8.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from bot.broker.errors import RateLimited
from bot.conformance.data import BadBody, order_data, words
from bot.conformance.facts import Facts, payload, rows
from bot.conformance.finding import Finding, Show, Verdict, judged, nobody, skipped
from bot.conformance.order_terms import LOT, available, why_not
from bot.conformance.shape import compare, shown
from bot.conformance.sweep import PAUSE, Sweep
from bot.conformance.talk import Reply, Talker
from bot.protocol.envelope import is_no_error

ORDERS: Final = "/trading/oa/sub-accounts/{account}/orders"
BOOK: Final = "/trading/v1/accounts/{account}/order-book"
REFUSING: Final = frozenset({"REJECTED", "FAILED"})
LOOKS_MAX: Final = 3

Body = dict[str, Any]


async def check_orders(
    talker: Talker, facts: Facts, *, on_left: Show = nobody
) -> AsyncIterator[Finding]:
    """Place, look, amend, look, cancel, look; then what is refused.

    `on_left` hears what a run has left that is cut off on the way.
    """
    why = await why_not(talker, facts)
    if why:
        yield skipped("4.2 orders", "order writes", why)
        return
    story = OrderStory(talker, facts, on_left)
    async for finding in story.told():
        yield finding


class OrderStory:
    """One order and what is asserted about it."""

    def __init__(self, talker: Talker, facts: Facts, on_left: Show) -> None:
        self._talker = talker
        self._facts = facts
        self._on_left = on_left
        self._target = facts.target(ORDERS, {})
        self._price = int(facts["floor"])
        self._order_id = ""
        self._is_lost = True

    async def told(self) -> AsyncIterator[Finding]:
        """Tell it from the beginning to the end, and clear up whatever that was.

        A run that is cut off, by a signal or by a limit without end, clears up too; cut off once
        more, it says what may be left.
        """
        sweep = Sweep(self._talker, self._facts)
        await sweep.remember()
        left: Finding | None = None
        try:
            async for finding in self._story():
                yield finding
            left = await sweep.clear(self._order_id, is_lost=self._is_lost)
        finally:
            if left is None:
                self._on_left(await self._cleared(sweep))
        yield left

    async def _cleared(self, sweep: Sweep) -> Finding:
        try:
            return await sweep.clear(self._order_id, is_lost=self._is_lost)
        except (asyncio.CancelledError, RateLimited):
            return sweep.given_up(self._order_id)

    async def _story(self) -> AsyncIterator[Finding]:
        before = await available(self._talker, self._facts, "BUY", "pp0")
        placed = await self._talker.ask("POST", self._target, self.body())
        for finding in self._placed(placed):
            yield finding
        if not self._order_id:
            return
        for finding in [*await self._seen(), await self._held_back(before)]:
            yield finding
        for finding in [*await self._amended(), *await self._bad_amendments()]:
            yield finding
        for finding in await self._cancelled():
            yield finding
        async for finding in self._refusals():
            yield finding

    def body(self) -> Body:
        """The good body: both price keys always there, one of them null."""
        return {
            "sub_account": self._facts["extended"],
            "side": "BUY",
            "symbol": self._facts["stock"],
            "quantity": LOT,
            "type": "LIMIT",
            "limit_price": self._price,
            "market_price": None,
            "stock_type": "STOCK",
        }

    def _order(self, order_id: str) -> str:
        return f"{self._target}/{order_id}"

    # ------------------------------------------------------------------------------- the place

    def _placed(self, reply: Reply) -> list[Finding]:
        self._is_lost = reply.status == 0 or reply.status >= 500
        results, findings = _one_result("4.2 place", reply)
        if not results:
            return findings
        [result] = results
        is_live = result.get("order_status") not in REFUSING
        self._order_id = str(result.get("order_id") or "") if is_live else ""
        self._facts.known["order_id"] = self._order_id
        wanted = {
            "symbol": self._facts["stock"],
            "order_side": "BUY",
            "order_quantity": LOT,
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
        findings.append(_no_error("4.2 place code", "a place that is taken has no code", result))
        told = str(result.get("order_status"))
        findings.append(
            judged("4.2 place taken", "an order at the floor is taken", is_met=is_live, found=told)
        )
        return findings

    async def _seen(self) -> list[Finding]:
        row = await self._row()
        wanted = {
            "orderid": self._order_id,
            "rootorderid": self._order_id,
            "symbol": self._facts["stock"],
            "side": "BUY",
            "qtty": LOT,
            "price": self._price,
            "pricetype": "LO",
            "execqtty": 0,
            "remainqtty": LOT,
            "cancelqtty": 0,
            "allowcancel": "Y",
            "allowamend": "Y",
            "afacctno": self._facts["account"],
        }
        book = rows(await self._talker.get(self._facts.target(BOOK, {})))
        listed = [each for each in book if each.get("orderid") == self._order_id]
        is_one, found = len(listed) == 1, f"{len(listed)} rows of {len(book)}"
        is_equal = bool(listed) and _same(listed[0], row)
        equal = "the same" if is_equal else "they differ"
        return [
            *_fields("4.3 row", "the row of a placed order", row, wanted),
            judged("4.3 row listed", "the day order book has it once", is_met=is_one, found=found),
            judged("4.3 row equal", "list and detail agree", is_met=is_equal, found=equal),
        ]

    async def _held_back(self, before: int) -> Finding:
        after, worth = await available(self._talker, self._facts, "BUY", "pp0"), LOT * self._price
        found = f"{before:,} before, {after:,} after an order of {worth:,}"
        what = "a waiting buy lowers the buying power by its worth"
        return judged("4.3 pp0", what, is_met=before - after >= worth, found=found)

    async def _row(self) -> Mapping[str, Any]:
        """The detail row; a new one may show up a moment late."""
        target = self._facts.target(f"{BOOK}/{{order_id}}", {})
        for _ in range(LOOKS_MAX):
            if row := payload(await self._talker.get(target), {}):
                return dict(row)
            await self._talker.pause(PAUSE)
        return {}

    # --------------------------------------------------------------------- amend and cancel it

    async def _amended(self) -> list[Finding]:
        target, price = self._order(self._order_id), int(self._facts["next_price"])
        findings: list[Finding] = []
        for id_, body, wanted, column in (
            ("4.2 amend price", {"price": price}, {"limit_price": price}, "price"),
            ("4.2 amend quantity", {"quantity": 2 * LOT}, {"order_quantity": 2 * LOT}, "qtty"),
        ):
            results, said = _one_result(id_, await self._talker.ask("PUT", target, body))
            findings += said
            if results:
                same_id = {"order_id": self._order_id, **wanted}
                findings += _fields(id_, "an amendment echoes", results[0], same_id)
                findings.append(_no_error(f"{id_} code", "an amendment has no code", results[0]))
            row = await self._row()
            findings += _fields(id_, "the row shows", row, {column: next(iter(wanted.values()))})
        return findings

    async def _bad_amendments(self) -> list[Finding]:
        target, findings = self._order(self._order_id), []
        for bad in order_data().amendments:
            reply = await self._talker.ask("PUT", target, bad.body)
            findings.append(judged(bad.id, bad.what, is_met=reply.status == 400, found=str(reply)))
        for method, body in (("PUT", {"price": self._price}), ("DELETE", self._cancel_body())):
            reply = await self._talker.ask(method, self._order("ORD0"), body)
            what = f"{method} of an unknown order is refused"
            is_met = reply.status in {400, 404}
            findings.append(
                judged(
                    f"4.2 {method} unknown",
                    what,
                    is_met=is_met,
                    found=str(reply),
                    otherwise=Verdict.DRIFT,
                )
            )
        return findings

    def _cancel_body(self) -> Body:
        return {"sub_account": self._facts["extended"]}

    async def _cancelled(self) -> list[Finding]:
        reply = await self._talker.ask("DELETE", self._order(self._order_id), raw=b"")
        findings = [
            judged(
                "4.2 cancel without body",
                "a cancel needs its body",
                is_met=reply.status == 400,
                found=str(reply),
                otherwise=Verdict.DRIFT,
            )
        ]
        reply = await self._talker.ask("DELETE", self._order(self._order_id), self._cancel_body())
        results, said = _one_result("4.2 cancel", reply)
        findings += said
        if results:
            same = {"order_id": self._order_id, "execute_quantity": 0}
            findings += _fields("4.2 cancel", "a cancel answers", results[0], same)
            status = results[0].get("order_status")
            is_met = status in {"CANCELLED", "CANCELLING"}
            what = "an untouched order becomes CANCELLED"
            findings.append(judged("7.2 cancel", what, is_met=is_met, found=str(status)))
        row = await self._row()
        ended = {"execqtty": 0, "remainqtty": 0, "cancelqtty": 2 * LOT, "status": "CANCELLED"}
        findings += _fields("7.2 cancelled row", "the row of a cancelled order", row, ended)
        findings += _fields(
            "7.1 flags", "the flags of an ended order", row, {"allowcancel": "N", "allowamend": "N"}
        )
        return [*findings, *await self._after_the_end(row)]

    async def _after_the_end(self, row: Mapping[str, Any]) -> list[Finding]:
        findings = []
        for method, body in (("DELETE", self._cancel_body()), ("PUT", {"price": self._price})):
            reply = await self._talker.ask(method, self._order(self._order_id), body)
            codes = [each.get("code") for each in rows(reply)]
            is_refused = reply.status in {400, 404} or any(not is_no_error(code) for code in codes)
            is_met = is_refused and _same(row, await self._row())
            what = f"{method} of an ended order is refused and changes nothing"
            found = f"{reply}, code {codes[0] if codes else '-'}"
            findings.append(judged(f"7.2 {method} again", what, is_met=is_met, found=found))
        return findings

    # --------------------------------------------------------------------------- what is refused

    async def _refusals(self) -> AsyncIterator[Finding]:
        for bad in order_data().refused:
            raw = bad.text.encode() if bad.text is not None else None
            body = None if raw is not None else self._changed(bad)
            reply = await self._talker.ask("POST", self._target, body, raw=raw)
            await self._undo(reply)
            is_met = reply.status == 400 and reply.code not in {"", "0"}
            otherwise = Verdict.FAIL if bad.is_shown else Verdict.DRIFT
            yield judged(bad.id, bad.what, is_met=is_met, found=str(reply), otherwise=otherwise)
        for bad in order_data().rejected:
            reply = await self._talker.ask("POST", self._target, self._changed(bad))
            await self._undo(reply)
            yield _rejection(bad, reply)

    def _changed(self, bad: BadBody) -> Body:
        changed = {**self.body(), **{name: self._value(value) for name, value in bad.set.items()}}
        return {name: value for name, value in changed.items() if name not in bad.drop}

    def _value(self, value: object) -> object:
        if not isinstance(value, str) or not value.startswith("{"):
            return value
        return int(self._facts.fill(value))

    async def _undo(self, reply: Reply) -> None:
        """Cancel an order that should never have been taken."""
        for result in rows(reply):
            if reply.status == 200 and result.get("order_status") not in REFUSING:
                target = self._order(str(result.get("order_id")))
                await self._talker.ask("DELETE", target, self._cancel_body())


def _one_result(id: str, reply: Reply) -> tuple[list[Body], list[Finding]]:  # noqa: A002
    """Return the one result and what is asserted of any order write that is answered 200."""
    found = rows(reply)
    is_one = reply.status == 200 and "result" in (reply.body or {}) and len(found) == 1
    told = f"{reply}, {len(found)} results"
    findings = [judged(f"{id} answer", "200 with result[] of one", is_met=is_one, found=told)]
    if not is_one:
        return [], findings
    differs = compare(order_data().result, found[0], words())
    missing, wrong = shown(differs.missing), shown(differs.wrong)
    names = shown(differs.added | differs.gone)
    findings += [
        judged(f"{id} required", "the result is whole", is_met=not missing, found=missing or "all"),
        judged(f"{id} types", "every field of its type", is_met=not wrong, found=wrong or "all"),
        judged(
            f"{id} names",
            "the fields of the document and no others",
            is_met=not names,
            found=names or "the same",
            otherwise=Verdict.DRIFT,
        ),
    ]
    return found, findings


def _fields(
    id: str,  # noqa: A002
    what: str,
    found: Mapping[str, Any],
    wanted: Mapping[str, object],
) -> list[Finding]:
    return [
        judged(
            f"{id} {name}",
            f"{what}: {name} {value}",
            is_met=found.get(name) == value,
            found=str(found.get(name)),
        )
        for name, value in wanted.items()
    ]


def _no_error(id: str, what: str, result: Mapping[str, Any]) -> Finding:  # noqa: A002
    code = result.get("code")
    return judged(id, what, is_met=is_no_error(code), found=str(code))


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    names = ("orderid", "status", "qtty", "price", "execqtty", "remainqtty", "cancelqtty")
    return all(one.get(name) == other.get(name) for name in names)


def _rejection(bad: BadBody, reply: Reply) -> Finding:
    [result] = rows(reply) if len(rows(reply)) == 1 else [{}]
    code, status = str(result.get("code")), result.get("order_status")
    missing = compare(order_data().result, result, words()).missing
    found = f"{reply.status} {status} code {code}"
    if missing:
        return Finding(bad.id, bad.what, Verdict.FAIL, f"{found}, without {shown(missing)}")
    is_rejected = reply.status == 200 and status in REFUSING and not is_no_error(result.get("code"))
    has_reason = bool(result.get("rejected_reason"))
    if is_rejected and has_reason and code in bad.codes:
        return Finding(bad.id, bad.what, Verdict.OK, found)
    is_drift = (is_rejected and has_reason) or not bad.is_shown
    return Finding(bad.id, bad.what, Verdict.DRIFT if is_drift else Verdict.FAIL, found)
