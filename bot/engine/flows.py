"""Movements by fills that the broker's figures may not contain yet, and the comparison of both.

A fill after the figures were requested costs money or shares at once. What it brings counts from
its settlement on, unless that was before the request. Brokers deliver sooner than the rule says, as
early as noon: figures of the settlement's own day may contain it before its time. It then counts
only if they certainly lacked it; else the figures of after it show it, which are requested at once.

Fills come in time order, so those after a request are the last ones; settlements are stored by
instant, of which there are few.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from bot.domain.account import AccountSnapshot, Break
from bot.domain.local_time import instant_of, local_date
from bot.engine.settings import LONG_AGO


@dataclass(frozen=True, slots=True)
class Flow:
    """Money and shares moved by a fill: paid and delivered at once, received at settlement."""

    at: datetime
    account: str
    symbol: str
    cash_out: int
    cash_in: int
    shares_out: int
    shares_in: int
    settles_at: datetime


class Moves:
    """The movements of one thing: an account's money, or its shares of a symbol."""

    def __init__(self) -> None:
        self._out: deque[tuple[datetime, datetime, int]] = deque()
        self._coming: defaultdict[datetime, int] = defaultdict(int)
        self._asked_at, self._out_since = LONG_AGO, 0
        self._in_doubt_to = LONG_AGO

    def add(self, at: datetime, settles_at: datetime, *, out: int, coming: int) -> None:
        """Add a fill, not earlier than the previous one."""
        self._out.append((at, settles_at, out))
        if coming:
            self._coming[settles_at] += coming
        if at > self._asked_at:
            self._out_since += out

    def net(self, asked_at: datetime, now: datetime) -> int:
        """Return what figures requested at `asked_at` lack by now."""
        if asked_at != self._asked_at:
            self._asked_at, self._out_since = asked_at, 0
            for at, _, out in reversed(self._out):
                if at <= asked_at:
                    break
                self._out_since += out
        shown_to = max(asked_at, self._in_doubt_to)
        come = (amount for at, amount in self._coming.items() if shown_to < at <= now)
        return sum(come) - self._out_since

    def is_newer(self, asked_at: datetime) -> bool:
        """Return whether there was a fill after `asked_at`."""
        return bool(self._out) and self._out[-1][0] > asked_at

    def next_coming(self, now: datetime) -> datetime | None:
        """Return when something is next received, or was without being counted yet."""
        left = (at for at in self._coming if at > now or at <= self._in_doubt_to)
        return min(left, default=None)

    def forget(self, asked_at: datetime, in_doubt_to: datetime) -> None:
        """Drop what figures of `asked_at`, and all later ones, contain in full. What is received
        until `in_doubt_to` may be in them, too.
        """
        self._in_doubt_to = in_doubt_to
        while self._out and max(self._out[0][:2]) <= asked_at:
            self._out.popleft()
        for at in [at for at in self._coming if at <= asked_at]:
            del self._coming[at]


class Flows:
    """The movements of every account's cash and shares."""

    def __init__(self) -> None:
        self._cash: dict[str, Moves] = {}
        self._shares: dict[tuple[str, str], Moves] = {}
        self._held: dict[tuple[str, str], Moves] = {}

    def add(self, flow: Flow) -> None:
        """Add a fill's movements."""
        at, settles_at, key = flow.at, flow.settles_at, (flow.account, flow.symbol)
        cash = self._cash.setdefault(flow.account, Moves())
        cash.add(at, settles_at, out=flow.cash_out, coming=flow.cash_in)
        shares = self._shares.setdefault(key, Moves())
        shares.add(at, settles_at, out=flow.shares_out, coming=flow.shares_in)
        held = self._held.setdefault(key, Moves())
        held.add(at, at, out=flow.shares_out - flow.shares_in, coming=0)

    def restore(self, flows: Iterable[Flow]) -> None:
        """Add the movements of before a start, in any order."""
        for flow in sorted(flows, key=lambda each: each.at):
            self.add(flow)

    def cash(self, account: str, asked_at: datetime, now: datetime) -> int:
        """Return the money that figures of `asked_at` lack by now."""
        moves = self._cash.get(account)
        return moves.net(asked_at, now) if moves else 0

    def shares(self, account: str, symbol: str, asked_at: datetime, now: datetime) -> int:
        """Return the free shares that figures of `asked_at` lack by now."""
        moves = self._shares.get((account, symbol))
        return moves.net(asked_at, now) if moves else 0

    def held(self, account: str, asked_at: datetime, now: datetime) -> dict[str, int]:
        """Return, by symbol, the total shares that figures of `asked_at` lack by now."""
        mine = [(key[1], moves) for key, moves in self._held.items() if key[0] == account]
        return {symbol: moves.net(asked_at, now) for symbol, moves in mine}

    def next_delivery(self, account: str, symbol: str, now: datetime) -> datetime | None:
        """Return when bought shares next settle; None if none are pending."""
        moves = self._shares.get((account, symbol))
        return moves.next_coming(now) if moves else None

    def symbols_since(self, at: datetime) -> set[str]:
        """Return the symbols of all fills after an instant."""
        return {symbol for (_, symbol), moves in self._shares.items() if moves.is_newer(at)}

    def forget(self, account: str, asked_at: datetime, lacking: Collection[str | None]) -> None:
        """The account's figures of `asked_at` have come: drop what they contain in full.

        `lacking`: the symbols (None: cash) of which they certainly do not contain yet what settles
        later that day.
        """
        day_end = instant_of(local_date(asked_at) + timedelta(days=1), time())
        cash = [((account, None), self._cash[account])] if account in self._cash else []
        for (name, symbol), moves in (*self._shares.items(), *self._held.items(), *cash):
            if name == account:
                moves.forget(asked_at, asked_at if symbol in lacking else day_end)


@dataclass(frozen=True, slots=True)
class Lack:
    """What a read of the account lacks of our own fills: it shows the state before the fill at
    `since`. Its cash is too high by `cash` VND, and its `shares` too few by these quantities, by
    symbol.
    """

    since: datetime
    cash: int = 0
    shares: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class OldReads:
    """Consecutive reads that all lack a fill older than any node may lag: how many, when the first
    was requested, and how many good ones have come since. `lack` is the last one's.
    """

    lack: Lack
    since: datetime
    count: int = 1
    good: int = 0
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class Doubt:
    """A number in reads that differs from ours. `found`: the last read's, `off` by so much; `since`
    when reads show the same difference, and from `begun_at` to `seen_at` they show some.
    `elsewhere`: how many shares other people's orders had executed by then.
    """

    found: int
    off: int
    elsewhere: int
    since: datetime
    begun_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Unshown:
    """All shares of a symbol by our fills and by reads that differ in the same way from `since` to
    `seen_at`.
    """

    ours: int
    found: int
    since: datetime
    seen_at: datetime


@dataclass(slots=True)
class AccountLedger:
    """Our own figures for one account: the broker's as the base, plus our fills since.

    `coming` are fills before the base that settle after it; `doubts` are differences in reads, by
    symbol (None: cash) and kind: each awaits a confirming read. `is_new`: these
    figures are not journalled yet. `lack` is that of the read that counts, `held` the part of
    its cash that is spent on buys of the day and deducted later, `undelivered` the symbols (None:
    cash) of which it certainly lacks what settles later on its day; `old` are reads that show the
    account before a fill. `gone`: by symbol, how many shares strategies count that the account
    does not have. `paid_on`: the last day on which the broker was seen to deduct a buy of that day
    from its cash, `held_on` on which it held the money of buys back, `early_on` on which it had
    delivered what settles later that day. `past` are the base's fills of its day: an old read may
    be of before them. `unshown`: by symbol, what fills that no row shows would explain.
    """

    base: AccountSnapshot
    flows: list[Flow] = field(default_factory=list)
    coming: list[Flow] = field(default_factory=list)
    doubts: dict[tuple[str | None, str], Doubt] = field(default_factory=dict)
    is_new: bool = False
    past: list[Flow] = field(default_factory=list)
    lack: Lack | None = None
    held: int = 0
    undelivered: frozenset[str | None] = frozenset()
    old: OldReads | None = None
    gone: dict[str, int] = field(default_factory=dict)
    unshown: dict[str, Unshown] = field(default_factory=dict)
    paid_on: date = date.min
    held_on: date = date.min
    early_on: date = date.min


@dataclass(frozen=True, slots=True)
class RowDoubt:
    """Executed shares and VND in the rows of an order that differ from ours, `since` when they are
    the same, and when they `begun_at` to differ at all.
    """

    figures: tuple[tuple[int, int], ...]
    since: datetime
    begun_at: datetime


@dataclass(frozen=True, slots=True)
class NetAssets:
    """The NAV of an account's newest read, and the one that counts for the day's loss limit.
    `is_sure`: two reads in turn have shown about the same.
    """

    counted: int
    last: int
    is_sure: bool = False

    @classmethod
    def first(cls, new: int, ledger: AccountLedger | None) -> "NetAssets":
        """Return what counts after the first read of a run: one that is more than twice what was
        last agreed on, so far as anything was, does so once the next read shows about the same.
        """
        base = ledger.base.net_asset_value if ledger is not None else 0
        if new > 2 * base > 0:
            return cls(base, new, is_sure=True)
        return cls(new, new, is_sure=base > 0 and is_near(new, base))

    def followed_by(self, new: int) -> "NetAssets":
        """Return what counts after another read. One that has more than doubled, or fallen to less
        than half, counts once the next read shows about the same: alone it may be false.
        """
        is_seen_twice = is_near(new, self.last)
        counts = is_seen_twice or not self.is_sure or is_near(new, self.counted)
        return NetAssets(new if counts else self.counted, new, self.is_sure or is_seen_twice)


def is_near(one: int, other: int) -> bool:
    """Return whether neither of two amounts is more than twice the other."""
    return max(one, other) <= 2 * min(one, other)


@dataclass(frozen=True, slots=True)
class EndedSale:
    """A sale of ours that ended with shares unsold. The broker has freed them, but figures of the
    account that were requested in between still lack them.
    """

    account: str
    symbol: str
    sent_at: datetime
    ended_at: datetime

    def is_in(self, asked_at: datetime) -> bool:
        """Return whether figures of `asked_at` were requested while it worked."""
        return self.sent_at < asked_at < self.ended_at


@dataclass(slots=True)
class Reconciling:
    """What the comparison of journal and broker has found, and what it awaits.

    `breaks` are unaccepted differences, `met` those whose order appeared later; `look_again_at`:
    when orders and account are read again; `settled_at`: when the account is read because something
    settles; `closing_since`: since when the day is over; `rows`: orders that its last day order
    book shows with other figures than the journal has; `elsewhere`: accounts that this run does not
    read, with the names of orders that an earlier day left there. `net_assets` are by account.
    `known_at_start`: the orders that the journal knew then, until the broker's are compared.
    `ended_sales` are those that no counting figures of their account are of after.
    """

    breaks: dict[str, Break] = field(default_factory=dict)
    next_number: int = 1
    met: set[str] = field(default_factory=set)
    look_again_at: datetime | None = None
    settled_at: datetime | None = None
    closing_since: datetime | None = None
    rows: dict[str, RowDoubt] = field(default_factory=dict)
    elsewhere: list[tuple[str, str]] = field(default_factory=list)
    known_at_start: frozenset[str] | None = None
    net_assets: dict[str, NetAssets] = field(default_factory=dict)
    ended_sales: list[EndedSale] = field(default_factory=list)
