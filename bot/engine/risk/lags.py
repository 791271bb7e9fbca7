"""Detects whether the broker's account shows our own fills: figures from before them are old.

While an own order works, nobody knows what its symbol, or the cash, should show by now: it may have
been filled a second ago. But the effects of our earlier fills must be there. A read whose number is
exactly that from before one of them dates from before that fill, whenever it was requested. So

  its age counts from that fill: R19 (ACCOUNT_AGE) keeps buys back once that is too long ago,
  what it lacks is put to it: no money is spent twice, no limit of a position counts too little,
  several reads in a row that lack a fill of long ago raise an alert, until the numbers move.

Cash is compared to a VND a fill, by which the broker may round a fee in another way. A number that
our fills cannot explain is ignored here: more may have been filled, or money paid in.
The comparison in a quiet moment handles that (`ledgers.py`). Cash held for a buy of the day and
taken at its end is not old, if the broker shows as much as secured and has not deducted another buy
of the day at once; but it is spent as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Final

from bot.domain.account import AccountSnapshot
from bot.domain.entry import Numbers
from bot.domain.local_time import day_and_clock_of, local_date
from bot.engine.control_state import Standing
from bot.engine.flows import AccountLedger, Flow, Lack, OldReads
from bot.engine.state import State

READS_MIN: Final = 3
"""This many old reads in a row, over this long, cannot be a single slow node any more."""
SPAN_MIN: Final = timedelta(seconds=15)
GOOD_AGAIN: Final = 3
"""This many reads in a row must show the fills before it is over."""
ROUNDED_MAX: Final = 1
"""By this many VND a fill's fee or tax may be rounded in another way."""
SECURED_MIN_PERCENT: Final = 99
"""What is held for a buy need not include its fee."""


def lack_of(
    ledger: AccountLedger,
    snapshot: AccountSnapshot,
    *,
    cash: int,
    sooner: int,
    totals: Mapping[str, int],
) -> Lack | None:
    """Return what a read lacks; `cash` and `totals` are the figures after all fills, `sooner` is
    money that may have come already.
    """
    known, later = _known(ledger, snapshot), _later(ledger, snapshot)
    found: list[datetime] = []
    excess, since = _excess(ledger, snapshot, cash=cash, sooner=sooner)
    if since is None or _is_held_back(ledger, snapshot, known, since):
        excess = 0
    else:
        found.append(since)
    shares: dict[str, int] = {}
    by_symbol = attrgetter("symbol")
    for symbol, of_symbol in groupby(sorted(known, key=by_symbol), by_symbol):
        flows = list(of_symbol)
        total = totals.get(symbol, 0) - sum(_bought(f) for f in later if f.symbol == symbol)
        holding = snapshot.holdings.get(symbol)
        lacking = total - (holding.total if holding else 0)
        since = _since(flows, [_bought(flow) for flow in flows], lacking)
        if since is not None:
            shares[symbol] = lacking
            found.append(since)
    return Lack(min(found), excess, shares) if found else None


def held_of(ledger: AccountLedger, snapshot: AccountSnapshot, *, cash: int, sooner: int) -> int:
    """Return how much of a read's cash is spent on buys of the day, and deducted only later; what
    `lack_of` finds is not part of it.
    """
    excess, since = _excess(ledger, snapshot, cash=cash, sooner=sooner)
    is_held = since is not None and _is_held_back(ledger, snapshot, _known(ledger, snapshot), since)
    return excess if is_held else 0


def _known(ledger: AccountLedger, snapshot: AccountSnapshot) -> list[Flow]:
    mine = (*ledger.past, *ledger.flows)
    return sorted((flow for flow in mine if flow.at <= snapshot.at), key=attrgetter("at"))


def _later(ledger: AccountLedger, snapshot: AccountSnapshot) -> list[Flow]:
    return [flow for flow in ledger.flows if flow.at > snapshot.at]


def _excess(
    ledger: AccountLedger, snapshot: AccountSnapshot, *, cash: int, sooner: int
) -> tuple[int, datetime | None]:
    """Return the money that a read shows above what our fills have left, if the last of them add up
    to it, and since when.
    """
    known = _known(ledger, snapshot)
    cash += sum(flow.cash_out for flow in _later(ledger, snapshot))
    for extra in (0, sooner):
        excess = snapshot.cash - cash - extra
        moved = [flow.cash_out for flow in known]
        if (since := _since(known, moved, excess, slack=ROUNDED_MAX * len(known))) is not None:
            return excess, since
    return 0, None


def _bought(flow: Flow) -> int:
    return flow.shares_in - flow.shares_out


def _since(
    flows: Sequence[Flow], moved: Sequence[int], lacking: int, *, slack: int = 0
) -> datetime | None:
    """Return the oldest of the last fills that add up to what is lacking; None if none do."""
    total = 0
    for flow, each in zip(reversed(flows), reversed(moved), strict=True):
        if abs(total - lacking) <= slack:
            break
        total += each
        if abs(total - lacking) <= slack:
            return flow.at
    return None


def _is_held_back(
    ledger: AccountLedger, snapshot: AccountSnapshot, known: Sequence[Flow], since: datetime
) -> bool:
    """Return whether the excess money in a read may be held for buys of the day."""
    today = local_date(snapshot.at)
    buys = [flow for flow in known if local_date(flow.at) == today and flow.cash_out]
    held = sum(flow.cash_out for flow in buys)
    return bool(buys) and since == buys[0].at and may_be_held(ledger, snapshot, held)


def may_be_held(ledger: AccountLedger, snapshot: AccountSnapshot, held: int) -> bool:
    """Return whether so much money may still be in a read that is held for buys of the day: not
    where the broker was seen today to deduct it at once, or says that it has secured less.
    """
    secured = snapshot.secured
    is_secured = secured is None or secured * 100 >= held * SECURED_MIN_PERCENT
    return is_secured and ledger.paid_on != local_date(snapshot.at)


def note_paid(ledger: AccountLedger, snapshot: AccountSnapshot, cash: int) -> None:
    """Learn from a read whose cash includes all fills that this broker deducts buys at once."""
    today = local_date(snapshot.at)
    spent = (f.cash_out for f in ledger.flows if f.at <= snapshot.at and local_date(f.at) == today)
    if snapshot.cash == cash and any(spent):
        ledger.paid_on = today


# ------------------------------------------------------------------------------- what is told of it


def follow(
    state: State, ledger: AccountLedger, snapshot: AccountSnapshot, lack: Lack | None
) -> None:
    """Count old reads in a row; report them once there are too many, and when they are over."""
    old = ledger.old
    if lack is not None and snapshot.at - lack.since >= state.settings.book_lag:
        if old is None:
            ledger.old = OldReads(lack, snapshot.at)
            return
        old.lack, old.count, old.good = lack, old.count + 1, 0
        if old.is_told or old.count < READS_MIN or snapshot.at - old.since < SPAN_MIN:
            return
        old.is_told = True
        told = _standing(state, snapshot.account, old)
        state.alert(told.code, told.text, told.facts)
    elif old is not None:
        old.good += 1
        if not old.is_told:
            ledger.old = None
        elif old.good >= GOOD_AGAIN:
            ledger.old = None
            state.note("RESUME", "the broker's account shows our fills again")


def is_to_look_again(ledger: AccountLedger) -> bool:
    """Return whether a read was old, so that further ones have to show whether that lasts."""
    return ledger.old is not None and not ledger.old.is_told


def read_of(state: State, account: str) -> datetime | None:
    """Return the time of an account's figures that count now; None if it was never read."""
    snapshot, ledger = state.accounts.get(account), state.ledgers.get(account)
    if snapshot is None or ledger is None or ledger.lack is None:
        return None if snapshot is None else snapshot.at
    return min(snapshot.at, ledger.lack.since)


def alerts(state: State) -> Iterator[Standing]:
    """Yield the accounts whose figures at the broker still lack our fills."""
    for account, ledger in state.ledgers.items():
        if ledger.old is not None and ledger.old.is_told:
            yield _standing(state, account, ledger.old)


def _standing(state: State, account: str, old: OldReads) -> Standing:
    lack = old.lack
    since = day_and_clock_of(lack.since)
    parts = [f"{symbol} {-shares:+,}" for symbol, shares in sorted(lack.shares.items())]
    parts += [f"cash {lack.cash:+,} VND"] if lack.cash else []
    off = ", ".join(parts)
    limit = state.settings.account_limits.max_account_age
    limit_s = None if limit is None else round(limit.total_seconds())
    does = "buys go on, as risk.account.max_account_age_s is not set"
    if limit_s is not None:
        does = f"nothing is bought while it is older than {limit_s:,} s"
    text = (
        f"the broker shows the account as it was before our fill of {since}: off by {off} from our "
        f"own fills, in {old.count} reads. The bot goes by its own fills; {does}; sales and "
        "cancels go on. Compare holdings and cash with the broker's app (bot reconcile). If it "
        "lasts, ask the broker"
    )
    facts: Numbers = {
        "account": account[-5:],
        "since": lack.since.isoformat(),
        "off": off,
        "reads": old.count,
        "are_buys_held": limit_s is not None,
        "limit_s": limit_s,
    }
    return Standing("ACCOUNT_OLD", text, facts)
