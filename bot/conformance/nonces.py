"""Does the server keep nonces well enough to settle a lost order by them? Reads only, for minutes.

A place whose answer is lost is proved never placed by using its nonce for a harmless read. That
proof stands on four things: a nonce is taken once, whatever the path; also when two requests come
at the same moment; for at least 290 s; and a timestamp of 35 s ago is refused. 500 pairs without a
failure mean that fewer than 0.6 in 100 are accepted twice (95 %). Source: broker open API
0.2.0-preview.3, 2.1 and 2.2, which promises five minutes.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from bot.conformance.access import ELSEWHERE, ME
from bot.conformance.finding import Finding, judged
from bot.conformance.raw_client import TRIES_MAX, RawClient, Reply

IN_TURN: Final = 200
AT_ONCE: Final = 300
SHOWN_EVERY: Final = 50
"""Pairs of one finding, so that a person sees it going on."""
KEPT: Final = timedelta(seconds=290)
FORGOTTEN: Final = timedelta(seconds=310)
LATE_MS: Final = 35_000
REUSED: Final = "AUTH_NONCE_REUSED"

Pair = tuple[Reply, Reply]


async def check_nonce_memory(client: RawClient) -> AsyncIterator[Finding]:
    """Make the pairs while two nonces grow old, then use those again."""
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
    await _until(client, began + KEPT)
    yield _once_each("after 290 s", "290 s between them", [(old, await client.get(ME, kept))])
    await _until(client, began + FORGOTTEN)
    again = await client.get(ME, forgotten)
    is_safe = older.is_success and (again.is_success or _is_reused(again))
    what = "a nonce of 310 s ago is free again, or refused still"
    yield judged("2.2 nonce after 310 s", what, is_met=is_safe, found=again)


async def _in_turn(client: RawClient, second: str) -> Pair:
    nonce = _nonce()
    return await client.get(ME, nonce), await client.get(second, nonce)


async def _at_once(client: RawClient) -> Pair:
    """Neither waits for the other; what the quota refuses is tried again with another nonce."""
    pair = await client.get_twice_at_once(ME, _nonce())
    for _ in range(TRIES_MAX - 1):
        if all(reply.status != 429 for reply in pair):
            break
        pair = await client.get_twice_at_once(ME, _nonce())
    return pair


def _once_each(id_: str, how: str, pairs: Sequence[Pair]) -> Finding:
    """Of each pair one is taken and the other refused for its nonce; an answer that got lost proves
    nothing, so its pair fails too.
    """
    kinds = Counter(_kind(pair) for pair in pairs)
    words = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    what = f"a nonce used twice, {how}, is taken once"
    return judged(f"2.2 nonce {id_}", what, is_met=set(kinds) == {"taken once"}, found=words)


def _kind(pair: Pair) -> str:
    taken = sum(reply.is_success for reply in pair)
    if taken == len(pair):
        return "TAKEN TWICE"
    if taken and any(_is_reused(reply) for reply in pair):
        return "taken once"
    return f"unproved ({' and '.join(str(reply) for reply in pair)})"


def _is_reused(reply: Reply) -> bool:
    return reply.status == 401 and reply.code == REUSED


def _nonce() -> dict[str, str]:
    return {"X-FH-NONCE": str(uuid4())}


async def _until(client: RawClient, instant: datetime) -> None:
    await client.pause(max(instant - client.offset.now(), timedelta()))
