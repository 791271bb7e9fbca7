"""Places whose outcome nobody knows: settled by the nonce and the day book, never by sending again.

    UNKNOWN ─ nonce unused ─► FRESH ─ horizon over, absent in enough reads ─► NOT_PLACED
    UNKNOWN ─ nonce used ──► REACHED ─ row found ─► MATCHED; more rows than intents ─► AMBIGUOUS
                                     └ day over without a row ─► EOD_ABSENT

Rows are matched by what was asked for (order-safety section 6): a row that was seen before the
bytes left cannot be the order's own. When a read was asked for says nothing: one that was under way
while the order went out may have been answered after it.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final

from bot.domain.message import NonceBurnt, TodaysOrdersRead
from bot.domain.order import OrderReport, OrderState, OrderType, SendState
from bot.domain.outcome import Resolution
from bot.engine.faults import guarded
from bot.engine.orders import orders, set_aside
from bot.engine.orders.moves import move_intent, move_unplaced
from bot.engine.settings import UnknownPolicy
from bot.engine.state import Book
from bot.engine.tracks import IntentTrack

_OPEN_QUESTIONS: Final = frozenset(
    {SendState.UNKNOWN, SendState.FRESH, SendState.REACHED, SendState.AMBIGUOUS}
)
_MAY_BE_FRESH: Final = frozenset({SendState.UNKNOWN, SendState.FRESH})


def on_nonce_burnt(book: Book, event: NonceBurnt) -> None:
    """The nonce has said whether the POST had passed the broker's door."""
    track = book.intents.get(event.intent_id)
    if track is None or track.state is not SendState.UNKNOWN:
        return
    if event.resolution is Resolution.FRESH:
        move_intent(book, track, SendState.FRESH, event.detail)
        if book.settings.unknown_policy is UnknownPolicy.FENCE:
            _not_placed(book, track, f"nonce unused: {event.detail}")
    else:
        move_intent(book, track, SendState.REACHED, event.detail)


def match(book: Book, event: TodaysOrdersRead, rows: Sequence[OrderReport]) -> list[OrderReport]:
    """Give rows that nobody owns to open questions; return those that are nobody's for certain.

    A row that might belong to a place still in flight, or to one whose row could not be read, is
    left out: the next read shows it again.
    """
    waiting = [t for t in book.intents.values() if t.state is SendState.SENDING]
    for group in _groups(book):
        if any(set_aside.may_hide(book, event, track) for track in group):
            waiting += group
            continue
        fitting = [row for row in rows if is_candidate(book, group[0], row)]
        rows = [row for row in rows if row not in fitting]
        guarded(book, f"the rows of {group[0].intent.intent_id}", _assign, book, group, fitting)
    _count_absences(book, event)
    return [row for row in rows if not any(is_candidate(book, t, row) for t in waiting)]


def _groups(book: Book) -> list[list[IntentTrack]]:
    """Open questions that the broker could not tell apart, each group by ascending send time."""
    groups: dict[str, list[IntentTrack]] = {}
    questions = [t for t in book.intents.values() if t.state in _OPEN_QUESTIONS]
    for track in sorted(questions, key=lambda t: (t.sent_at or book.now, t.intent.intent_id)):
        groups.setdefault(track.intent.fingerprint, []).append(track)
    return list(groups.values())


def _assign(book: Book, group: list[IntentTrack], rows: list[OrderReport]) -> None:
    rows = sorted(rows, key=lambda row: row.order_id)
    is_for_a_person = any(track.state is SendState.AMBIGUOUS for track in group)
    if rows and (is_for_a_person or len(rows) > len(group)):
        _ambiguous(book, group, rows)
        return
    for track, row in zip(group, rows, strict=False):
        move_intent(book, track, SendState.MATCHED, f"found in the day book as {row.order_id}")
        track.poll = None
        orders.own_order(book, track, row, "book")


def _ambiguous(book: Book, group: list[IntentTrack], rows: list[OrderReport]) -> None:
    """More equal rows than orders of ours: all count in the exposure, a person must decide."""
    for track in group:
        if track.state in _MAY_BE_FRESH:
            move_intent(book, track, SendState.REACHED, "equal rows are in the day book")
        if track.state is SendState.REACHED:
            move_intent(book, track, SendState.AMBIGUOUS, f"{len(rows)} equal rows")
    ids = ", ".join(row.order_id for row in rows)
    ours = ", ".join(track.intent.intent_id for track in group)
    text = f"{ours} may be any of {ids}: none of them is touched"
    book.alert_once(f"ambiguous {ours}", text, symbol=rows[0].symbol)
    for row in rows:
        orders.external_order(book, row, f"may be {ours}")


def _count_absences(book: Book, event: TodaysOrdersRead) -> None:
    for track in book.intents.values():
        is_asked = track.state in _MAY_BE_FRESH and track.intent.account == event.account
        if (
            is_asked
            and not set_aside.may_hide(book, event, track)
            and track.sent_at is not None
            and event.requested_at > track.sent_at
        ):
            track.absent_reads += 1
            where = f"the question of {track.intent.intent_id}"
            guarded(book, where, _release_if_proven, book, track, event)


def _release_if_proven(book: Book, track: IntentTrack, event: TodaysOrdersRead) -> None:
    assert track.sent_at is not None, "the caller has looked"
    waited = event.requested_at - track.sent_at
    is_over = waited > book.settings.horizon and _is_absent_often(book, track)
    if track.state is SendState.FRESH and is_over:
        seconds = round(waited.total_seconds())
        _not_placed(
            book,
            track,
            f"nonce unused, absent in {track.absent_reads} whole reads over {seconds} s",
        )


def _is_absent_often(book: Book, track: IntentTrack) -> bool:
    return track.absent_reads >= book.settings.absent_reads


def _not_placed(book: Book, track: IntentTrack, proof: str) -> None:
    move_intent(book, track, SendState.NOT_PLACED, "never placed", proof=proof)
    track.poll = None
    move_unplaced(book, track, OrderState.EXPIRED, source="engine", note="never placed")
    orders.reject(book, track, "NOT_PLACED", proof)


def end_day(book: Book, today: date) -> None:
    """The day book of the days before `today` is closed: what it never showed was not placed, as
    far as can be known.
    """
    for track in list(book.intents.values()):
        if track.intent.trading_date >= today:
            continue
        if track.state is SendState.FRESH and _is_absent_often(book, track):
            _not_placed(book, track, "nonce unused, absent until the day's end")
        elif track.state in {SendState.UNKNOWN, SendState.FRESH, SendState.REACHED}:
            _absent(book, track)


def _absent(book: Book, track: IntentTrack) -> None:
    if track.state in _MAY_BE_FRESH:
        move_intent(book, track, SendState.REACHED, "the day ended before it was known")
    move_intent(book, track, SendState.EOD_ABSENT, "in no day book until the day's end")
    track.poll = None
    move_unplaced(book, track, OrderState.EXPIRED, source="engine", note="absent at day end")
    intent = track.intent
    text = f"{intent.intent_id} was never seen: compare the holding of {intent.symbol}"
    book.alert_once(f"absent {intent.intent_id}", text, symbol=intent.symbol)


# --------------------------------------------------------------------------------------- matching


def is_candidate(book: Book, track: IntentTrack, row: OrderReport) -> bool:
    """True when the row may be this intent's order."""
    intent = track.intent
    if track.sent_at is None or row.order_id in track.known_ids:
        return False
    is_same = (row.account, row.trading_date, row.symbol, row.side, row.quantity) == (
        intent.account,
        intent.trading_date,
        intent.symbol,
        intent.side,
        intent.quantity,
    )
    return is_same and _is_same_price(book, track, row) and _is_in_time(book, track, row)


def _is_same_price(book: Book, track: IntentTrack, row: OrderReport) -> bool:
    intent = track.intent
    kind = _canonical(book, track, row.order_type)
    if intent.order_type is OrderType.LO:
        return row.price == intent.limit_price and kind in {None, OrderType.LO}
    wanted = book.rulebook.canonical(intent.exchange, intent.order_type)
    became_limit = wanted is OrderType.MTL and kind is OrderType.LO
    return kind is wanted or became_limit


def _canonical(book: Book, track: IntentTrack, text: str) -> OrderType | None:
    known = OrderType.__members__.get(text)
    return book.rulebook.canonical(track.intent.exchange, known) if known else None


def _is_in_time(book: Book, track: IntentTrack, row: OrderReport) -> bool:
    """The row's own time, when it has one, lies around the send, in market time."""
    if row.placed_at is None or track.sent_at is None:
        return True
    settings = book.settings
    earliest = track.sent_at - settings.clock_skew
    return earliest <= row.placed_at <= track.sent_at + settings.horizon


def ghost_of(book: Book, row: OrderReport) -> IntentTrack | None:
    """Return an intent that was certainly not placed, and yet this row looks like its order."""
    ended: Iterable[IntentTrack] = (
        track
        for track in book.intents.values()
        if track.state in {SendState.REFUSED, SendState.NOT_PLACED, SendState.NOT_SENT}
    )
    return next(
        (track for track in ended if not track.order_id and is_candidate(book, track, row)), None
    )
