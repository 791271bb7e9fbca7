"""Two-factor authentication: what an order write needs, and the OTP exchange.

Source: broker open API 0.2.0-preview.3, section 3. A run asks for two of the five codes a day: one
to use, and one to lock its ticket with wrong codes.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Final

from bot.conformance.cleanup import ORDERS
from bot.conformance.data import IncompleteWrite
from bot.conformance.facts import Facts, MissingFact
from bot.conformance.finding import Finding, Verdict, judged, skipped
from bot.conformance.raw_client import RawClient, Reply
from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.secret import Secret

REQUEST: Final = "/auth/v1/openapi/2fa/request"
VERIFY: Final = "/auth/v1/openapi/2fa/verify"
REVOKE: Final = "/auth/v1/openapi/2fa/revoke"
EMAIL: Final = {"channel": "EMAIL"}
WRONG_CODES_MAX: Final = 3
_WRONG_CODE: Final = Secret("000000")

AskCode = Callable[[str], Awaitable[str]]
"""Asks the user for the code sent to this masked destination."""


async def check_incomplete(client: RawClient, facts: Facts) -> AsyncIterator[Finding]:
    """Try to write without what a write needs."""
    for case in IncompleteWrite.rows():
        try:
            target = facts.target(ORDERS)
        except MissingFact as missing:
            yield skipped(case.id, case.what, missing.why)
            continue
        reply = await client.ask("POST", target, {"sub_account": ""}, headers=case.headers)
        is_met = reply.status == case.status and reply.code in case.codes
        otherwise = Verdict.DRIFT if reply.status in {400, 403} else Verdict.FAIL
        yield judged(case.id, case.what, is_met=is_met, found=reply, otherwise=otherwise)


async def sign_in(client: RawClient, ask_code: AskCode) -> AsyncIterator[Finding]:
    """Request a code, use it, and keep the token for the orders that follow."""
    asked = await client.ask("POST", REQUEST, EMAIL)
    is_sent = asked.status == 200
    yield judged("3 request", "a code is sent", is_met=is_sent, found=asked.status)
    for name in ("ticket_id", "masked_destination"):
        yield _at_top(asked, name)
    ticket = str((asked.body or {}).get("ticket_id") or "")
    if not ticket:
        return
    yield await _refused(client, "3 unknown ticket", "an unknown ticket is refused", "T-none")
    yield await _refused(client, "3 wrong code", "a wrong code is OTP_INVALID", ticket)
    code = Secret(await ask_code(str((asked.body or {}).get("masked_destination") or "")))
    verified = await _verify(client, ticket, code)
    for finding in _token_findings(client, verified):
        yield finding
    again = await _verify(client, ticket, code)
    is_met, what = again.is_client_error, "a verified ticket is not good twice"
    yield judged("3 used ticket", what, is_met=is_met, found=again, otherwise=Verdict.DRIFT)


def _token_findings(client: RawClient, reply: Reply) -> list[Finding]:
    """Keep the token, and return the assertions about it."""
    is_met, what = reply.status == 200, "the right code gives a token"
    names, body = ("session_token", "expires_at", "expires_at_epoch"), reply.body or {}
    findings = [
        judged("3 verify", what, is_met=is_met, found=reply.status),
        *(_at_top(reply, name) for name in names),
    ]
    token = body.get("session_token")
    if isinstance(token, str) and token:
        client.token = Secret(token)
        is_jwt = token.count(".") == 2
        found = "three parts" if is_jwt else "not three parts"
        findings.append(judged("3 JWT", "the token is a JWT", is_met=is_jwt, found=found))
    text, epoch = body.get("expires_at"), body.get("expires_at_epoch")
    today = client.offset.now().astimezone(EXCHANGE_TZ).date()
    try:
        ends = datetime.fromisoformat(str(text)).astimezone(EXCHANGE_TZ)
        is_met = f"{ends:%F %T}" == f"{today} 23:59:59" and epoch == int(ends.timestamp())
    except ValueError:
        is_met = False
    what = "a token ends at 23:59:59 +07:00 of its day, in both forms (epoch in seconds)"
    found = f"{text!s:.40} and {epoch!s:.20}"
    return [*findings, judged("3 expiry", what, is_met=is_met, found=found)]


async def check_lock(client: RawClient) -> AsyncIterator[Finding]:
    """Use up the tries of a second ticket."""
    asked = await client.ask("POST", REQUEST, EMAIL)
    ticket = str((asked.body or {}).get("ticket_id") or "")
    for number in range(1, WRONG_CODES_MAX + 1):
        what = f"wrong code {number} of {WRONG_CODES_MAX} is OTP_INVALID"
        yield await _refused(client, f"3 try {number}", what, ticket)
    what = "then the ticket is OTP_LOCKED"
    yield await _refused(client, "3 locked", what, ticket, code="OTP_LOCKED")


async def check_revoke(client: RawClient, facts: Facts) -> AsyncIterator[Finding]:
    """Revoke the token, and check that it is refused afterwards."""
    if client.token is None:
        return
    reply = await client.ask("POST", REVOKE, {"session_token": client.token.reveal()})
    is_met = 200 <= reply.status < 300
    yield judged("3 revoke", "a token can be revoked", is_met=is_met, found=reply)
    reply = await client.ask("POST", facts.target(ORDERS), {"sub_account": ""})
    is_met = reply.status == 403 and reply.code == "OTP_SESSION_REVOKED"
    what = "a revoked token is OTP_SESSION_REVOKED"
    yield judged("3 revoked", what, is_met=is_met, found=reply)
    client.token = None


async def _refused(
    client: RawClient, id_: str, what: str, ticket: str, code: str = "OTP_INVALID"
) -> Finding:
    reply = await _verify(client, ticket, _WRONG_CODE)
    is_met = reply.is_client_error and reply.code == code
    return judged(id_, what, is_met=is_met, found=reply)


async def _verify(client: RawClient, ticket: str, code: Secret) -> Reply:
    return await client.ask("POST", VERIFY, {"ticket_id": ticket, "otp_code": code.reveal()})


def _at_top(reply: Reply, name: str) -> Finding:
    is_there = (reply.body or {}).get(name) is not None
    found = "there" if is_there else f"only {', '.join(reply.body or {}) or 'nothing'}"
    return judged(f"3 {name}", f"{name} is at top level", is_met=is_there, found=found)
