"""Who may ask: tiers, signatures and the usual mistakes in signing, timestamps and nonces.

Source: broker open API 0.2.0-preview.3, 2.1 to 2.4. The requests are rows of `access.yaml`.
"""

from collections.abc import AsyncIterator
from typing import Final
from uuid import uuid4

from bot.conformance.data import AccessCase, Read
from bot.conformance.facts import Facts, MissingFact
from bot.conformance.finding import Finding, Verdict, judged, skipped
from bot.conformance.raw_client import SIGNINGS, STAMPS, UNSIGNED, RawClient
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
    """Ask for each tier 2 path with the key alone: every one needs a signature (2.1)."""
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
    """Use nonces twice: in one path, in another, and after a wrong signature."""
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
    for id_, what, reply in (  # were a nonce spent there, a stranger could use nonces up
        ("2.2 nonce of a stranger", "a wrong signature uses up no nonce", unspent),
        ("2.1 nonce ignored", "tier 1 looks at no nonce", ignored),
    ):
        drift = Verdict.DRIFT
        yield judged(id_, what, is_met=reply.is_success, found=reply, otherwise=drift)
