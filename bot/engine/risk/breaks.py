"""Breaks: unexplained differences between journal and broker, to the share and the VND.

A break has a name, is journalled and raises an alert, and prevents the next day from beginning
until a person has accepted it with a reason. Until then cancels and reads work, and its symbol is
halted if the settings say so. A difference that a corporate action explains is only noted.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from bot.domain.account import AccountSnapshot, Break
from bot.domain.entry import EXPLAINED, RECONCILE_NOTE, Numbers, RunState, StateChanged
from bot.domain.local_time import day_and_clock_of
from bot.domain.message import ReadAccount, ReadTodaysOrders
from bot.domain.operations import BreakAccepted
from bot.domain.order import Side
from bot.domain.recovery import UNCHECKED
from bot.engine import gate
from bot.engine.control_state import BY_ENGINE, Standing
from bot.engine.risk.codes import percent
from bot.engine.risk.lags import is_to_look_again
from bot.engine.risk.ledgers import FEE_OF_MOST, IN_ALL, LOOK_AGAIN, Difference, own_shares
from bot.engine.risk.rights import explanation
from bot.engine.state import State

SCOPE: Final = "break:"
"""Prefix of the scope under which the journal stores a break, followed by its id."""
DAMAGE: Final = "JOURNAL"
"""The name of the break that stands for damage to the journal itself."""
SHOWN_MAX: Final = 5
"""How many orders of a break a message names; all of them are journalled."""
ASK_AGAIN: Final = timedelta(seconds=15)
"""How long to wait for the answer to another read."""
DOUBT_LASTS: Final = timedelta(minutes=3)
"""A difference of this age is told, though no read has confirmed another: a slow node takes a
minute, and so does a day order book.
"""


def judge(state: State, snapshot: AccountSnapshot, found: Sequence[Difference]) -> None:
    """Make a break of each certain difference, or note what explains it; tell what stays in doubt
    for long.
    """
    account, own = snapshot.account, own_shares(state, snapshot.account)
    for (_, of), position in state.unloaded.items():
        own[of] = own.get(of, 0) + position.shares
    totals = {each.symbol for each in found if each.what == IN_ALL}
    for each in found:
        symbol, facts = (
            each.symbol,
            {
                "expected": each.expected,
                "found": each.found,
                "difference": each.amount,
                **each.corrected,
            },
        )
        is_number = symbol is None or each.what == IN_ALL
        named = explanation(state, account, symbol, each.amount) if is_number else ""
        held = own.get(symbol or "", 0)
        if named or not is_number:
            if symbol not in totals or is_number:
                state.note(RECONCILE_NOTE, named or each.text, facts, symbol=symbol)
            if named and held > 0 and symbol is not None:
                state.halt_symbol(symbol, named)
            continue
        if before := _found_before(state, account, each):
            name, known = before
            state.note(RECONCILE_NOTE, known, {**facts, EXPLAINED: name}, symbol=symbol)
            continue
        hint = "" if symbol is not None else _fee_hint(state, each.amount)
        found_one = begin(
            state,
            each.text + hint,
            symbol,
            ours=each.expected,
            theirs=each.found,
            corrected=each.corrected,
        )
        if symbol is not None:
            of_owner = each.expected - each.beyond - held
            settings = state.settings
            if settings.halt_on_drift_of_external if of_owner > 0 else settings.halt_on_drift:
                state.halt_symbol(symbol, f"{found_one.break_id}: {each.text}")
        else:
            limit = state.settings.pause_on_cash_difference
            if limit is not None and abs(each.amount) > limit:
                gate.close(state, RunState.PAUSED, each.text, "engine")
    for about, told in _lasting(state):
        state.alert(told.code, told.text, told.facts, about=about)


def _found_before(state: State, account: str, each: Difference) -> tuple[str, str] | None:
    """Return which break already contains these shares, and in words: the order behind it was in no
    day order book then, and moved our own figures a second time when it appeared.
    """
    for one in state.reconciling.breaks.values():
        if one.symbol is None or one.symbol != each.symbol or one.break_id in state.reconciling.met:
            continue
        amount = (one.theirs or 0) - (one.ours or 0)
        for row in (order.row for order in state.orders.values()):
            moved = row.executed_quantity if row.side is Side.BUY else -row.executed_quantity
            is_its = (row.account, row.symbol) == (account, one.symbol)
            is_later = one.at is not None and row.at > one.at
            if is_its and is_later and each.amount == -amount == -moved:
                state.reconciling.met.add(one.break_id)
                text = (
                    f"{row.order_id} came later than {one.break_id}, which is its {amount:+,} "
                    f"{row.symbol}: they count once"
                )
                return one.break_id, text
    return None


def _fee_hint(state: State, amount: int) -> str:
    """Name the setting that may explain a cash difference that is small compared with what was
    traded: a wrong fee causes a break every day.
    """
    today = (each.row for each in state.orders.values() if each.is_own)
    traded = sum(row.executed_amount for row in today if row.trading_date == state.trading_date)
    if abs(amount) * FEE_OF_MOST > traded:
        return ""
    rate = state.rulebook.fee_ppm
    return (
        f". It may be a fee: see whether the broker takes {percent(rate)}, as risk.fee_ppm "
        f"({rate:,}) says"
    )


def begin(
    state: State,
    text: str,
    symbol: str | None,
    *,
    ours: int | None,
    theirs: int | None,
    corrected: Numbers = MappingProxyType({}),
) -> Break:
    """Name a break, journal it, with what it has corrected in our figures, and raise an alert."""
    name = f"B-{state.reconciling.next_number:04d}"
    state.reconciling.next_number += 1
    rows = [each.row for each in state.orders.values() if symbol in {None, each.row.symbol}]
    rests_on = tuple(
        row.order_id
        for row in rows
        if row.trading_date == state.trading_date and row.executed_quantity
    )
    found = Break(name, text, state.now, symbol, ours, theirs, rests_on)
    _keep(state, found, corrected)
    return found


def begin_damage(state: State, damage: Sequence[str]) -> None:
    """The journal itself is damaged, or an older copy, or nobody knows: nothing is sent because of
    what it says.
    """
    more = f"; {len(damage) - 1} findings more" if len(damage) > 1 else ""
    verb = "may be" if damage[0].startswith(UNCHECKED) else "is"
    text = f"the journal {verb} damaged, or an older copy of it: {damage[0]}{more}"
    _keep(state, Break(DAMAGE, text, state.now), {})


def _keep(state: State, found: Break, corrected: Numbers) -> None:
    name = found.break_id
    state.reconciling.breaks[name] = found
    running, halted, scope = RunState.RUNNING, RunState.HALTED, f"{SCOPE}{name}"
    state.record(StateChanged(state.now, running, halted, found.text, BY_ENGINE, scope=scope))
    told = _standing(found)
    facts = {**told.facts, **corrected}
    state.alert(told.code, told.text, facts, about=name, symbol=found.symbol)


def on_accepted(state: State, event: BreakAccepted) -> None:
    """A person has looked at a break and accepts it with a reason."""
    if refused := objection(state, event):
        facts = {"break": event.break_id, "why": refused}
        state.alert(
            "BREAK_NOT_ACCEPTED", f"nothing was changed: {refused}. See: bot reconcile", facts
        )
        return
    found = state.reconciling.breaks.pop(event.break_id)
    scope = f"{SCOPE}{event.break_id}"
    state.record(
        StateChanged(
            state.now, RunState.HALTED, RunState.RUNNING, event.reason, event.by, scope=scope
        )
    )
    numbers = {"break": event.break_id, "by": event.by}
    text = f"{event.break_id} accepted: {event.reason} ({found.text})"
    state.note(RECONCILE_NOTE, text, numbers, symbol=found.symbol)


def objection(state: State, event: BreakAccepted) -> str:
    """Return why a break cannot be accepted; empty if it can."""
    if event.break_id not in state.reconciling.breaks:
        known = ", ".join(state.reconciling.breaks) or "none"
        return f"there is no break '{event.break_id}' (open: {known})"
    return "" if event.reason.strip() else f"{event.break_id}: a break is accepted with a reason"


def look_again(state: State) -> None:
    """Read orders and account again if a read differs: only a second one is believed."""
    ledgers = state.ledgers.values()
    is_in_doubt = any(ledger.doubts or is_to_look_again(ledger) for ledger in ledgers)
    if not is_in_doubt and state.reconciling.closing_since is None:
        state.reconciling.look_again_at = None
    elif state.reconciling.look_again_at is None:
        state.reconciling.look_again_at = state.now + LOOK_AGAIN
    elif state.reconciling.look_again_at <= state.now:
        state.reconciling.look_again_at = state.now + ASK_AGAIN
        state.command(ReadTodaysOrders("a second look at a difference"))
        state.command(ReadAccount("a second look at a difference", is_second_look=is_in_doubt))


def doubts(state: State) -> Iterator[str]:
    """Yield what one read has shown differently and none has confirmed yet."""
    for ledger in state.ledgers.values():
        for (symbol, what), doubt in ledger.doubts.items():
            yield f"{_name(symbol, what)}: {doubt.found:,} at the broker"


def _name(symbol: str | None, what: str) -> str:
    return what if symbol is None else f"{symbol} {what}"


def alerts(state: State) -> Iterable[Standing]:
    """Yield the unaccepted breaks, and what stays in doubt for long."""
    for each in state.reconciling.breaks.values():
        yield _standing(each)
    for _, lasting in _lasting(state):
        yield lasting


def _lasting(state: State) -> Iterator[tuple[str, Standing]]:
    """Yield what each read of the last minutes has shown differently, with a name for it. While
    shares do, none of the reads counts, so that the account's figures grow old.
    """
    limit = state.settings.account_limits.max_account_age
    limit_s = None if limit is None else round(limit.total_seconds())
    for account, ledger in state.ledgers.items():
        are_held = limit_s is not None and any(symbol for symbol, _ in ledger.doubts)
        does = "Orders go on"
        if are_held:
            does = (
                f"Nothing is bought while its figures are older than {limit_s:,} s; sales and "
                "cancels go on"
            )
        for (symbol, what), doubt in ledger.doubts.items():
            if doubt.seen_at - doubt.begun_at < DOUBT_LASTS:
                continue
            name, since = _name(symbol, what), day_and_clock_of(doubt.begun_at)
            off = f"{doubt.off:+,} {'VND' if symbol is None else 'shares'}"
            text = (
                f"{name}: each read of the account …{account[-5:]} since {since} differs from the "
                f"bot's own fills (the last by {off}), and none has confirmed another: it is no "
                f"break yet. {does}. Compare with the broker's app (bot reconcile); if money "
                'or shares are missing: bot pause --reason "…"'
            )
            facts: Numbers = {
                "account": account[-5:],
                "symbol": symbol,
                "what": name,
                "since": doubt.begun_at.isoformat(),
                "off": off,
                "do_buys_leave": not are_held,
                "limit_s": limit_s,
            }
            yield f"{account} {name} {since}", Standing("ACCOUNT_IN_DOUBT", text, facts)


def _standing(found: Break) -> Standing:
    facts: Numbers = {
        "break": found.break_id,
        "symbol": found.symbol,
        "found": found.text,
        "ours": found.ours,
        "theirs": found.theirs,
        "rests_on": ", ".join(found.rests_on),
    }
    code = "JOURNAL_DAMAGED" if found.break_id == DAMAGE else "BREAK"
    return Standing(code, f"{_words(found)}. {_advice(found)}", facts)


def start_held(kept: Sequence[Break]) -> Standing:
    """Return the alert of breaks of before a start, which hold it."""
    first, more = kept[0], f" and {len(kept) - 1} more" if len(kept) > 1 else ""
    found = f"{_words(first)}{more}"
    text = (
        f"nobody has accepted {found} yet, which holds this start: no order leaves, cancels go on. "
        f"Compare with the broker (bot reconcile), then: bot reconcile --accept {first.break_id} "
        '--reason "…"'
    )
    return Standing("START_HELD", text, {"breaks": found, "first": first.break_id})


def _words(found: Break) -> str:
    more = len(found.rests_on) - SHOWN_MAX
    names = ", ".join(found.rests_on[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    rests_on = f" (orders {names})" if names else ""
    return f"{found.break_id} {found.text}{rests_on}"


def _advice(found: Break) -> str:
    accept = f'bot reconcile --accept {found.break_id} --reason "…"'
    if found.break_id == DAMAGE and UNCHECKED in found.text:
        return (
            "Orders are read and can be cancelled, none is sent. Let it be checked whole, as long "
            f"as that takes: bot journal verify. If nothing is wrong: {accept}. Later make it "
            "smaller, so that a start can check it: bot journal prune"
        )
    if found.break_id == DAMAGE:
        return (
            "Orders are read and can be cancelled, none is sent. See what is wrong: bot journal "
            "verify. Put the newest copy back, after moving the file away with any -wal and -shm "
            "beside it, or compare orders and holdings with the broker's "
            f"(bot reconcile), then: {accept}"
        )
    return (
        "The next day will not begin until somebody accepts it; cancels still work. Compare with "
        f"the broker, then: {accept}"
    )
