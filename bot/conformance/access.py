"""Who may ask: tiers, signatures and the slips of public clients, timestamps and nonces.

Source: broker open API 0.2.0-preview.3, 2.1 to 2.4. The requests are rows of `access.yaml`.
"""

from collections.abc import AsyncIterator
from typing import Final
from uuid import uuid4

from bot.conformance.data import Access, Read, access_cases
from bot.conformance.facts import Facts, MissingFact
from bot.conformance.finding import Finding, Verdict, judged, skipped
from bot.conformance.reads import is_tier_one, missing_finding
from bot.conformance.slips import SLIPS, STAMPS
from bot.conformance.talk import Headers, Reply, Talker

ME: Final = "/users/v1/users/me"
TIER_ONE: Final = "/trading/market/session?exchange=HOSE"
SIGNING: Final = ("X-FH-TIMESTAMP", "X-FH-NONCE", "X-FH-SIGNATURE", "X-FH-BODYHASH")
UNSIGNED: Final[Headers] = dict.fromkeys(SIGNING)


async def check_access(talker: Talker, facts: Facts, *, may_post: bool) -> AsyncIterator[Finding]:
    """Make every request of the table, then those about nonces."""
    for case in access_cases():
        if case.post is not None and not may_post:
            yield skipped(case.id, case.what, "a POST, and only reads are wanted")
        else:
            yield await _check(talker, facts, case)
    async for finding in _nonces(talker):
        yield finding


async def check_tiers(
    talker: Talker, facts: Facts, reads: tuple[Read, ...]
) -> AsyncIterator[Finding]:
    """Ask for each tier 2 path with the key alone: every one needs a signature (2.1)."""
    any_order = Facts({"order_id": "ORD0", **facts.known}, facts.unknown)
    paths = dict.fromkeys(read.path for read in reads if not is_tier_one(read.path))
    for path in paths:
        case = Access(f"2.1 signed {path}", "needs a signature", (401,), path, is_unsigned=True)
        yield await _check(talker, any_order, case)


async def _check(talker: Talker, facts: Facts, case: Access) -> Finding:
    try:
        target = facts.target(case.path, case.query)
    except MissingFact as missing:
        return missing_finding(case.id, case.what, missing)
    nonce = {"X-FH-NONCE": uuid4().hex} if case.has_hex_nonce else {}
    reply = await talker.ask(
        "GET" if case.post is None else "POST",
        target,
        raw=None if case.post is None else case.post.encode(),
        headers={**(UNSIGNED if case.is_unsigned else {}), **nonce, **case.headers},
        slip=SLIPS[case.slip],
        stamp=STAMPS[case.stamp],
    )
    return _judged(case, reply)


def _judged(case: Access, reply: Reply) -> Finding:
    is_told = reply.is_success if reply.status < 400 else reply.code not in {"", "0"}
    is_met = reply.status in case.status and is_told
    if is_met and case.codes and reply.code not in case.codes:
        told = f"{reply}; the document names {' or '.join(case.codes)}"
        return Finding(case.id, case.what, Verdict.DRIFT, told)
    return judged(case.id, case.what, is_met=is_met, found=str(reply))


# ------------------------------------------------------------------------------------------ nonces


async def _nonces(talker: Talker) -> AsyncIterator[Finding]:
    used = {"X-FH-NONCE": str(uuid4())}
    first, second = await talker.get(ME, used), await talker.get(ME, used)
    is_taken = first.is_success
    yield judged("2.2 nonce", "a fresh nonce is taken", is_met=is_taken, found=str(first))
    yield _reuse("2.2 nonce again", "the same nonce again is AUTH_NONCE_REUSED", second)
    other = await talker.get("/users/v1/users/0/sub-accounts", used)
    yield _reuse("2.2 nonce elsewhere", "a nonce is used up whatever the path", other)
    yield await _strangers_nonce(talker)
    reply = await talker.get(TIER_ONE, used)
    yield _presumed("2.1 nonce ignored", "tier 1 looks at no nonce", reply)


async def _strangers_nonce(talker: Talker) -> Finding:
    """The nonce comes after the signature, or a stranger could use nonces up."""
    nonce = {"X-FH-NONCE": str(uuid4())}
    await talker.get(ME, {**nonce, "X-FH-SIGNATURE": "0" * 64})
    reply = await talker.get(ME, nonce)
    return _presumed("2.2 nonce of a stranger", "a wrong signature uses no nonce up", reply)


def _reuse(id: str, what: str, reply: Reply) -> Finding:  # noqa: A002
    is_met = reply.status == 401 and reply.code == "AUTH_NONCE_REUSED"
    return judged(id, what, is_met=is_met, found=str(reply))


def _presumed(id: str, what: str, reply: Reply) -> Finding:  # noqa: A002
    is_met = reply.is_success
    return judged(id, what, is_met=is_met, found=str(reply), otherwise=Verdict.DRIFT)
