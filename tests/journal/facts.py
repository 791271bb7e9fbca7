"""Entries for the tests: one order's life, with every field given, and ways to vary it."""

import dataclasses
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import (
    AccountSeen,
    AttemptFinished,
    AttemptStarted,
    AuthEvent,
    CheckResult,
    Decision,
    Entry,
    Fill,
    IntentMoved,
    IntentRecorded,
    Note,
    OrderResultSeen,
    OrderUpdated,
    RunState,
    StateChanged,
    StrategySwitched,
    Transition,
    Verdict,
)
from bot.domain.instrument import Exchange
from bot.domain.order import Intent, OrderState, OrderType, SendState, Side

DAY = date(2026, 11, 19)
T0 = datetime(2026, 11, 19, 2, 21, 0, 102_000, UTC)  # 09:21:00.102 in Vietnam
EPOCH = 1
_SEND, _ORDER = SendState, OrderState

E = TypeVar("E")


def but(entry: E, **changes: object) -> E:
    """The same entry with some fields changed."""
    return dataclasses.replace(entry, **changes)  # type: ignore[type-var]


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Story:
    """What is written about order `number` of the day: 500 HPG bought, 200 filled."""

    number: int = 3
    strategy: str = "depth-hpg"
    symbol: str = "HPG"
    side: Side = Side.BUY
    quantity: int = 500
    price: int = 27_050
    start: float = 0.0
    trading_date: date = DAY

    @property
    def local_id(self) -> str:
        return f"L-{self.number:04}"

    @property
    def order_id(self) -> str:
        return f"ORD1000{self.number:04}"

    def at(self, seconds: float) -> datetime:
        return after(self.start + seconds)

    @property
    def decision(self) -> Decision:
        return Decision(
            at=self.at(0),
            strategy=self.strategy,
            symbol=self.symbol,
            verdict=Verdict.PASSED,
            code="ok",
            why="bids 4.6x asks",
            numbers={"ratio": 4.6},
            saw={"bid": 27_000, "ask": 27_050},
            checks=(
                CheckResult("lot", True, {"quantity": self.quantity}),
                CheckResult("max_order_value", True, {"value": 13_525_000, "limit": 50_000_000}),
            ),
            request_id=self.local_id,
            side=self.side,
            quantity=self.quantity,
            order_type="LO",
            price=self.price,
        )

    @property
    def intent(self) -> Intent:
        return Intent(
            intent_id=self.local_id,
            signal_id=f"signal-{self.number}",
            strategy=self.strategy,
            account="120C900001.1",
            trading_date=self.trading_date,
            symbol=self.symbol,
            exchange=Exchange.HOSE,
            side=self.side,
            quantity=self.quantity,
            order_type=OrderType.LO,
            limit_price=self.price,
            why="bids 4.6x asks",
            created_at=self.at(0),
            ttl_at=self.at(5),
            expire_after=timedelta(minutes=3),
        )

    @property
    def recorded(self) -> IntentRecorded:
        return IntentRecorded(self.at(0.001), self.intent, SendState.READY)

    @property
    def started(self) -> AttemptStarted:
        return AttemptStarted(
            at=self.at(0.003),
            attempt_id=f"attempt-{self.number}",
            intent_id=self.local_id,
            verb="POST",
            target="/trading/v1/accounts/***/orders",
            order_id=None,
            nonce=f"5f0c{self.number:04}-0000-4000-8000-000000000000",
            signed_ms=1_795_000_000_000 + self.number,
            boot_id="boot-1",
            boottime_ns=77_000_000_000,
            body_sha256="9a31" * 16,
            body='{"symbol":"HPG"}',
            known_ids=("ORD10000001", "ORD10000002"),
            epoch=EPOCH,
        )

    def moved(self, before: SendState, then: SendState, seconds: float = 0.003) -> IntentMoved:
        return IntentMoved(self.at(seconds), self.local_id, before, then, "the broker said so")

    @property
    def sending(self) -> list[Entry]:
        return [self.started, self.moved(_SEND.READY, _SEND.SENDING)]

    @property
    def finished(self) -> AttemptFinished:
        return AttemptFinished(
            at=self.at(0.044),
            attempt_id=f"attempt-{self.number}",
            intent_id=self.local_id,
            outcome="ACCEPTED",
            http_status=200,
            code=None,
            reason="",
            raw='{"error_code":"0"}',
            latency_ms=41,
        )

    def result(self, seconds: float, raw: str, source: str = "book") -> OrderResultSeen:
        return OrderResultSeen(self.at(seconds), source, self.order_id, self.local_id, None, raw)

    @property
    def accepted(self) -> OrderUpdated:
        return OrderUpdated(
            at=self.at(0.044),
            order_id=self.order_id,
            account="120C900001.1",
            trading_date=self.trading_date,
            intent_id=self.local_id,
            strategy=self.strategy,
            symbol=self.symbol,
            exchange=Exchange.HOSE,
            side=self.side,
            quantity=self.quantity,
            order_type="LO",
            price=self.price,
            state=OrderState.ACCEPTED,
            broker_status="SENT",
            executed_quantity=0,
            executed_amount=0,
            cancelled_quantity=0,
            fee=0,
            tax=0,
            code=None,
            reason=None,
        )

    def transition(self, before: OrderState, then: OrderState, seconds: float) -> Transition:
        return Transition(
            at=self.at(seconds),
            intent_id=self.local_id,
            order_id=self.order_id,
            from_state=before,
            to_state=then,
            broker_status="SENT",
            source="book",
        )

    def filled(self, quantity: int, *, position: int, realised: int = 0) -> list[Entry]:
        """The fill, the order's row and its transition, as the engine writes them together."""
        whole = quantity == self.quantity
        state = _ORDER.FILLED if whole else _ORDER.PARTIALLY_FILLED
        status = "MATCHED_ALL" if whole else "SENT"
        amount = quantity * self.price
        order = but(
            self.accepted,
            at=self.at(90.1),
            state=state,
            broker_status=status,
            executed_quantity=quantity,
            executed_amount=amount,
        )
        fill = Fill(
            at=self.at(90.1),
            fill_id=f"F-{self.number:04}",
            order_id=self.order_id,
            intent_id=self.local_id,
            strategy=self.strategy,
            account="120C900001.1",
            symbol=self.symbol,
            side=self.side,
            quantity=quantity,
            price=self.price,
            amount=amount,
            fee=amount * 1_500 // 1_000_000,
            tax=amount // 1_000 if self.side is Side.SELL else 0,
            order_quantity=self.quantity,
            order_executed=quantity,
            broker_status=status,
            position=position,
            realised=realised,
        )
        return [self.transition(_ORDER.ACCEPTED, state, 90.1), order, fill]

    def placed(self) -> list[list[Entry]]:
        """The transactions of an order that the broker took."""
        return [
            [self.decision, self.recorded],
            self.sending,
            [
                self.finished,
                self.result(0.044, '{"status":"SENT"}', "place"),
                self.moved(_SEND.SENDING, _SEND.ACKED, 0.044),
                self.accepted,
                self.transition(_ORDER.SUBMITTED, _ORDER.ACCEPTED, 0.044),
            ],
        ]


EVERY_KIND: list[Entry] = [
    Story().decision,
    Story().recorded,
    *Story().sending,
    Story().finished,
    Story().result(0.044, '{"orderid":"ORD10000003"}'),
    *Story().filled(200, position=200),
    AuthEvent(after(100), "NEEDED", "OTP_SESSION_EXPIRED", "the session ended", "L-0003"),
    StateChanged(after(100), RunState.RUNNING, RunState.NEEDS_2FA, "403", "2fa"),
    StrategySwitched(after(101), "depth-hpg", "paused", "earnings", "operator"),
    AccountSeen(
        after(102),
        AccountSnapshot(
            at=after(102),
            account="120C900001.1",
            cash=94_590_000,
            net_asset_value=100_000_000,
            holdings={"HPG": Holding("HPG", 200, 0, 200, 27_050)},
        ),
    ),
    Note(after(103), "PHASE", "HOSE continuous", {"minutes": 47}, None),
]


def names_of(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}
