"""The second factor: what stands before an order write, and the OTP exchange.

Source: broker open API 0.2.0-preview.3, section 3. A run asks for two of the five codes a day: one
to be used, and one whose ticket is locked by wrong codes.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.conformance.facts import Facts, MissingFact
from bot.conformance.finding import Finding, Verdict, judged, skipped
from bot.conformance.talk import Reply, Talker
from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.secret import Secret

REQUEST: Final = "/auth/v1/openapi/2fa/request"
VERIFY: Final = "/auth/v1/openapi/2fa/verify"
REVOKE: Final = "/auth/v1/openapi/2fa/revoke"
ORDERS: Final = "/trading/oa/sub-accounts/{account}/orders"
EMAIL: Final = {"channel": "EMAIL"}
DEVICE_ID_MAX: Final = 64
WRONG_CODES_MAX: Final = 3
_DEVICE: Final = "device-id"
_TOKEN: Final = "X-FH-2FA-TOKEN"  # noqa: S105 - the name of a header

AskCode = Callable[[str], Awaitable[str]]
"""Asks a person for the code that went to this masked destination."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A write that must be refused before it can do anything, and the code of its refusal."""

    id: str
    what: str
    headers: dict[str, str | None]
    status: int
    codes: tuple[str, ...]


_BEFORE_A_TOKEN: Final = (
    Gate(
        "3 no token",
        "a write without a token is OTP_SESSION_REQUIRED",
        {_TOKEN: None},
        403,
        ("OTP_SESSION_REQUIRED",),
    ),
    Gate(
        "3 no JWT",
        "a token that is none is OTP_SESSION_INVALID",
        {_TOKEN: "abc"},
        403,
        ("OTP_SESSION_INVALID",),
    ),
    Gate(
        "3 foreign token",
        "a token that another has signed is OTP_SESSION_INVALID",
        {_TOKEN: "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.AAAA"},
        403,
        ("OTP_SESSION_INVALID",),
    ),
    Gate(
        "2.2 longest device-id",
        "a device-id of 64 characters passes on to the token",
        {_TOKEN: None, _DEVICE: "d" * DEVICE_ID_MAX},
        403,
        ("OTP_SESSION_REQUIRED",),
    ),
    Gate(
        "6.1 no device-id",
        "a write without a device-id is 400",
        {_DEVICE: None},
        400,
        ("400", "INVALID_PARAMETER"),
    ),
    Gate(
        "6.1 empty device-id",
        "a write with an empty device-id is 400",
        {_DEVICE: ""},
        400,
        ("400", "INVALID_PARAMETER"),
    ),
    Gate(
        "6.1 long device-id",
        "a device-id of 65 characters is 400",
        {_DEVICE: "d" * (DEVICE_ID_MAX + 1)},
        400,
        ("400", "INVALID_PARAMETER"),
    ),
)


async def check_gate(talker: Talker, facts: Facts) -> AsyncIterator[Finding]:
    """Try to write without what a write needs. Its body could place nothing anyway.

    The order of these checks is not shown: being refused for the other reason is drift.
    """
    for gate in _BEFORE_A_TOKEN:
        try:
            target = facts.target(ORDERS, {})
        except MissingFact as missing:
            yield skipped(gate.id, gate.what, missing.why)
            continue
        reply = await talker.ask("POST", target, {"sub_account": ""}, headers=gate.headers)
        is_met = reply.status == gate.status and reply.code in gate.codes
        otherwise = Verdict.DRIFT if reply.status in {400, 403} else Verdict.FAIL
        yield judged(gate.id, gate.what, is_met=is_met, found=str(reply), otherwise=otherwise)


# ---------------------------------------------------------------------------------- the exchange


async def sign_in(talker: Talker, ask_code: AskCode) -> AsyncIterator[Finding]:
    """Have a code sent, use it, and keep the token for the orders that follow."""
    asked = await talker.ask("POST", REQUEST, EMAIL)
    yield _answered("3 request", "a code is sent", asked)
    for name in ("ticket_id", "masked_destination"):
        yield _at_top(f"3 {name}", asked, name)
    ticket = str((asked.body or {}).get("ticket_id") or "")
    if not ticket:
        return
    yield await _refused(talker, "3 unknown ticket", "an unknown ticket is refused", "T-none")
    yield await _refused(talker, "3 wrong code", "a wrong code is OTP_INVALID", ticket)
    code = Secret(await ask_code(str((asked.body or {}).get("masked_destination") or "")))
    verified = await talker.ask("POST", VERIFY, _verification(ticket, code))
    for finding in _token_findings(talker, verified):
        yield finding
    again = await talker.ask("POST", VERIFY, _verification(ticket, code))
    yield judged(
        "3 used ticket",
        "a verified ticket is not good twice",
        is_met=400 <= again.status < 500,
        found=str(again),
        otherwise=Verdict.DRIFT,
    )


def _token_findings(talker: Talker, reply: Reply) -> list[Finding]:
    found = [_answered("3 verify", "the right code gives a token", reply)]
    body = reply.body or {}
    names = ("session_token", "expires_at", "expires_at_epoch")
    found += [_at_top(f"3 {name}", reply, name) for name in names]
    token = body.get("session_token")
    if isinstance(token, str) and token:
        talker.token = Secret(token)
        found.append(
            judged(
                "3 JWT",
                "the token is a JWT",
                is_met=token.count(".") == 2,
                found="three parts" if token.count(".") == 2 else "not three parts",
            )
        )
    found.append(_expiry(talker, body.get("expires_at"), body.get("expires_at_epoch")))
    return found


def _expiry(talker: Talker, text: object, epoch: object) -> Finding:
    today = talker.offset.now().astimezone(EXCHANGE_TZ).date()
    try:
        ends = datetime.fromisoformat(str(text)).astimezone(EXCHANGE_TZ)
        is_met = f"{ends:%F %T}" == f"{today} 23:59:59" and epoch == int(ends.timestamp())
    except ValueError:
        is_met = False
    what = "a token ends at 23:59:59 +07:00 of its day, in both forms (epoch in seconds)"
    return judged("3 expiry", what, is_met=is_met, found=f"{text!s:.40} and {epoch!s:.20}")


async def check_lock(talker: Talker) -> AsyncIterator[Finding]:
    """Use up the tries of a second ticket."""
    asked = await talker.ask("POST", REQUEST, EMAIL)
    ticket = str((asked.body or {}).get("ticket_id") or "")
    for number in range(1, WRONG_CODES_MAX + 1):
        what = f"wrong code {number} of {WRONG_CODES_MAX} is OTP_INVALID"
        yield await _refused(talker, f"3 try {number}", what, ticket)
    reply = await talker.ask("POST", VERIFY, _verification(ticket, Secret("000000")))
    yield judged(
        "3 locked",
        "then the ticket is OTP_LOCKED",
        is_met=400 <= reply.status < 500 and reply.code == "OTP_LOCKED",
        found=str(reply),
    )


async def check_revoke(talker: Talker, facts: Facts) -> AsyncIterator[Finding]:
    """Give the token up, and see that it is."""
    if talker.token is None:
        return
    reply = await talker.ask("POST", REVOKE, {"session_token": talker.token.reveal()})
    yield judged(
        "3 revoke", "a token can be given up", is_met=200 <= reply.status < 300, found=str(reply)
    )
    reply = await talker.ask("POST", facts.target(ORDERS, {}), {"sub_account": ""})
    is_met = reply.status == 403 and reply.code == "OTP_SESSION_REVOKED"
    what = "a token that was given up is OTP_SESSION_REVOKED"
    yield judged("3 revoked", what, is_met=is_met, found=str(reply))
    talker.token = None


async def _refused(talker: Talker, id: str, what: str, ticket: str) -> Finding:  # noqa: A002
    reply = await talker.ask("POST", VERIFY, _verification(ticket, Secret("000000")))
    is_met = 400 <= reply.status < 500 and reply.code == "OTP_INVALID"
    return judged(id, what, is_met=is_met, found=str(reply))


def _verification(ticket: str, code: Secret) -> dict[str, str]:
    return {"ticket_id": ticket, "otp_code": code.reveal()}


def _answered(id: str, what: str, reply: Reply) -> Finding:  # noqa: A002
    return judged(id, what, is_met=reply.status == 200, found=str(reply.status))


def _at_top(id: str, reply: Reply, name: str) -> Finding:  # noqa: A002
    is_there = (reply.body or {}).get(name) is not None
    told = "there" if is_there else f"there are {', '.join(reply.body or {}) or 'none'}"
    return judged(id, f"{name} stands at top level", is_met=is_there, found=told)
