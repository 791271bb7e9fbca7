"""Access: tiers, signatures, timestamps and nonces, and the usual mistakes with them.

The requests are rows of `access.yaml`. `check_nonce_memory` is a separate run of several minutes:
does the server remember nonces well enough to settle a lost order by them? A place whose answer is
lost is proved never placed by using its nonce for a harmless read. That proof depends on four
things: a nonce is accepted once, whatever the path; also when two requests come at the same moment;
for at least 290 s; and a timestamp of 35 s ago is refused. 500 pairs without a failure mean that
fewer than 0.6 in 100 are accepted twice (95 %). Source: broker open API 0.2.0-preview.3, 2.1 to
2.4, which promises five minutes.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from bot.conformance.data import AccessCase, Read
from bot.conformance.facts import Facts, MissingFact
from bot.conformance.finding import Finding, Verdict, judged, skipped
from bot.conformance.raw_client import SIGNINGS, STAMPS, TRIES_MAX, UNSIGNED, RawClient, Reply
from bot.conformance.reads import is_tier_one, missing_finding

ME: Final = "/users/v1/users/me"
ELSEWHERE: Final = "/users/v1/users/0/sub-accounts"
TIER_ONE: Final = "/trading/market/session?exchange=HOSE"


async def check_access(
    client: RawClient, facts: Facts, *, may_post: bool
) -> AsyncIterator[Finding]:
    """Make every request of the table, then those about nonces."""
    for case in AccessCase.rows():
        if case.post is not None and not may_post:
            yield skipped(case.id, case.what, "a POST, and only reads were requested")
        else:
            yield await _check(client, facts, case)
    async for finding in check_nonces(client):
        yield finding


async def check_tiers(client: RawClient, facts: Facts) -> AsyncIterator[Finding]:
    """Request each tier 2 path with the key alone: every one needs a signature (2.1)."""
    any_order = Facts({"order_id": "ORD0", **facts.known}, facts.unknown)
    for path in dict.fromkeys(read.path for read in Read.rows() if not is_tier_one(read.path)):
        id_, what = f"2.1 signed {path}", "needs a signature"
        case = AccessCase(id=id_, what=what, status=(401,), path=path, is_unsigned=True)
        yield await _check(client, any_order, case)


async def _check(client: RawClient, facts: Facts, case: AccessCase) -> Finding:
    try:
        target = facts.target(case.path, case.query)
    except MissingFact as missing:
        return missing_finding(case.id, case.what, missing)
    nonce = {"X-FH-NONCE": uuid4().hex} if case.has_hex_nonce else {}
    reply = await client.ask(
        "GET" if case.post is None else "POST",
        target,
        raw=None if case.post is None else case.post.encode(),
        headers={**(UNSIGNED if case.is_unsigned else {}), **nonce, **case.headers},
        signing=SIGNINGS[case.signing],
        stamp=STAMPS[case.stamp],
    )
    has_fitting_body = reply.is_success if reply.status < 400 else reply.code not in {"", "0"}
    is_met = reply.status in case.status and has_fitting_body
    if is_met and case.codes and reply.code not in case.codes:
        found = f"{reply}; the document names {' or '.join(case.codes)}"
        return Finding(case.id, case.what, Verdict.DRIFT, found)
    return judged(case.id, case.what, is_met=is_met, found=reply)


async def check_nonces(client: RawClient) -> AsyncIterator[Finding]:
    """Use nonces twice: on one path, on another, and after a wrong signature."""
    used = {"X-FH-NONCE": str(uuid4())}
    first, second = await client.get(ME, used), await client.get(ME, used)
    elsewhere = await client.get(ELSEWHERE, used)
    yield judged("2.2 nonce", "a fresh nonce is taken", is_met=first.is_success, found=first)
    for id_, what, reply in (
        ("2.2 nonce again", "the same nonce again is AUTH_NONCE_REUSED", second),
        ("2.2 nonce elsewhere", "a nonce is used up whatever the path", elsewhere),
    ):
        is_met = reply.status == 401 and reply.code == "AUTH_NONCE_REUSED"
        yield judged(id_, what, is_met=is_met, found=reply)
    nonce = {"X-FH-NONCE": str(uuid4())}
    await client.get(ME, {**nonce, "X-FH-SIGNATURE": "0" * 64})
    unspent, ignored = await client.get(ME, nonce), await client.get(TIER_ONE, used)
    for id_, what, reply in (  # if these spent a nonce, a stranger could use nonces up
        ("2.2 nonce of a stranger", "a wrong signature uses up no nonce", unspent),
        ("2.1 nonce ignored", "tier 1 looks at no nonce", ignored),
    ):
        drift = Verdict.DRIFT
        yield judged(id_, what, is_met=reply.is_success, found=reply, otherwise=drift)


IN_TURN: Final = 200
AT_ONCE: Final = 300
SHOWN_EVERY: Final = 50
"""Pairs between two findings, so that a person sees progress."""
KEPT: Final = timedelta(seconds=290)
PROMISED: Final = timedelta(seconds=300)
"""A nonce that is used later may be free again."""
FORGOTTEN: Final = timedelta(seconds=310)
LATE_MS: Final = 35_000
REUSED: Final = "AUTH_NONCE_REUSED"

Pair = tuple[Reply, Reply]


async def check_nonce_memory(client: RawClient) -> AsyncIterator[Finding]:
    """Send the pairs while two nonces grow old, then use those again.

    A small quota stretches the pairs: then another nonce grows old after them.
    """
    kept, forgotten = _nonce(), _nonce()
    old = await client.get(ME, kept)
    older = await client.get(ME, forgotten)
    began = client.offset.now()
    for first in range(1, IN_TURN + 1, SHOWN_EVERY):
        pairs = [await _in_turn(client, ME) for _ in range(SHOWN_EVERY)]
        yield _once_each(f"pairs {first} to {first + SHOWN_EVERY - 1}", "one by one", pairs)
    for first in range(IN_TURN + 1, IN_TURN + AT_ONCE + 1, SHOWN_EVERY):
        pairs = [await _at_once(client) for _ in range(SHOWN_EVERY)]
        yield _once_each(f"pairs {first} to {first + SHOWN_EVERY - 1}", "both at once", pairs)
    yield _once_each("across paths", "two paths", [await _in_turn(client, ELSEWHERE)])
    late = await client.ask("GET", ME, stamp=lambda now_ms: str(now_ms - LATE_MS))
    what = "a timestamp of 35 s ago is refused"
    yield judged("2.2 timestamp 35 s late", what, is_met=late.status == 401, found=late)
    since = began
    if client.offset.now() > since + KEPT:
        kept = _nonce()
        old, since = await client.get(ME, kept), client.offset.now()
    await _until(client, since + KEPT)
    pair = old, await client.get(ME, kept)
    if client.offset.now() < since + PROMISED:
        yield _once_each("after 290 s", "290 s between them", [pair])
    else:
        after_s = (client.offset.now() - since).total_seconds()
        why = f"the second came {after_s:.0f} s later: a nonce may be free by then"
        yield skipped("2.2 nonce after 290 s", "a nonce is kept for 290 s", why)
    await _until(client, began + FORGOTTEN)
    again = await client.get(ME, forgotten)
    is_safe = older.is_success and (again.is_success or _is_reused(again))
    what = "a nonce of 310 s ago is free again, or refused still"
    yield judged("2.2 nonce after 310 s", what, is_met=is_safe, found=again)


async def _in_turn(client: RawClient, second: str) -> Pair:
    nonce = _nonce()
    return await client.get(ME, nonce), await client.get(second, nonce)


async def _at_once(client: RawClient) -> Pair:
    """Send both without waiting for either; if the quota refuses one, retry it with
    another nonce.
    """
    pair = await client.get_twice_at_once(ME, _nonce())
    for _ in range(TRIES_MAX - 1):
        if all(reply.status != 429 for reply in pair):
            break
        pair = await client.get_twice_at_once(ME, _nonce())
    return pair


def _once_each(id_: str, how: str, pairs: Sequence[Pair]) -> Finding:
    """Check that of each pair one is accepted and the other refused for its nonce; a lost answer
    proves nothing, so its pair fails too.
    """
    kinds = Counter[str]()
    for pair in pairs:
        taken = sum(reply.is_success for reply in pair)
        if taken == len(pair):
            kinds["TAKEN TWICE"] += 1
        elif taken and any(_is_reused(reply) for reply in pair):
            kinds["taken once"] += 1
        else:
            kinds[f"unproved ({' and '.join(str(reply) for reply in pair)})"] += 1
    words = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    what = f"a nonce used twice, {how}, is taken once"
    return judged(f"2.2 nonce {id_}", what, is_met=set(kinds) == {"taken once"}, found=words)


def _is_reused(reply: Reply) -> bool:
    return reply.status == 401 and reply.code == REUSED


def nonces_last(per_minute: int) -> timedelta:
    """Return about how long `check_nonce_memory` takes at this rate."""
    pairs = timedelta(minutes=2 * (IN_TURN + AT_ONCE) / per_minute)
    return pairs + KEPT if pairs > KEPT else FORGOTTEN


def _nonce() -> dict[str, str]:
    return {"X-FH-NONCE": str(uuid4())}


async def _until(client: RawClient, instant: datetime) -> None:
    await client.pause(max(instant - client.offset.now(), timedelta()))
