"""The reads: six assertions for each line of the data, and the refusals of bad parameters.

Status, envelope, required fields, types and words, names, and that our own client understands it.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from bot.broker.checks import check_echo
from bot.broker.errors import Malformed
from bot.conformance.data import Read, Refusal, words
from bot.conformance.facts import Facts, MissingFact
from bot.conformance.finding import Finding, Verdict, judged, skipped
from bot.conformance.shape import Differences, compare, shown
from bot.conformance.talk import Reply, Talker
from bot.protocol.answer import Answer
from bot.protocol.envelope import is_no_error, open_envelope
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.runtime.api import READS

STATUS: Final = "status"
_TIER_ONE: Final = (
    "/market/",
    "/trading/market/",
    "/trading/securities/",
    "/fund-trading/public/",
)
NO_SHAPE: Final = "fields not asserted: no source shows them"


def is_tier_one(path: str) -> bool:
    """Tell whether a GET of this path needs only the key (2.1)."""
    return path.startswith(_TIER_ONE)


async def check_read(talker: Talker, facts: Facts, read: Read) -> AsyncIterator[Finding]:
    """Ask and assert; the rest of a read that fails is not asserted."""
    what = f"{read.call}: HTTP 200"
    try:
        target = facts.target(read.path, read.query)
    except MissingFact as missing:
        yield missing_finding(f"{read.id} {STATUS}", what, missing)
        return
    reply = await talker.get(target, _key_only(talker) if is_tier_one(read.path) else None)
    if reply.status == 404 and read.is_optional:
        yield skipped(f"{read.id} {STATUS}", what, f"{reply}: no source promises this path")
        return
    if reply.status == 404 and reply.code in read.absent:
        yield skipped(f"{read.id} {STATUS}", what, f"{reply}: the document allows that")
        return
    yield judged(f"{read.id} {STATUS}", what, is_met=reply.status == 200, found=str(reply))
    if reply.status != 200:
        return
    envelope = _envelope(read, reply)
    yield envelope
    if envelope.verdict is Verdict.OK:
        for finding in _payload(read, reply, target):
            yield finding


def missing_finding(id: str, what: str, missing: MissingFact) -> Finding:  # noqa: A002
    """Return SKIPPED where the server has no such thing, FAIL where it failed to tell."""
    if missing.is_failure:
        return Finding(id, what, Verdict.FAIL, missing.why)
    return skipped(id, what, missing.why)


def _key_only(talker: Talker) -> dict[str, str | None]:
    """Tier 1: the key and nothing else."""
    signed = ("X-FH-TIMESTAMP", "X-FH-NONCE", "X-FH-SIGNATURE", "X-FH-BODYHASH")
    return {"X-FH-APIKEY": talker.key.api_key.reveal(), **dict.fromkeys(signed)}


# ------------------------------------------------------------------------------------ one answer


def _envelope(read: Read, reply: Reply) -> Finding:
    trouble = list(_envelope_faults(read, reply))
    what = f'{read.call}: error_code "0", message, and the payload under {read.key}'
    if read.shape is None:
        what = f"{read.call}: envelope, {NO_SHAPE}"
    return judged(
        f"{read.id} envelope", what, is_met=not trouble, found="; ".join(trouble) or "as documented"
    )


def _envelope_faults(read: Read, reply: Reply) -> Iterator[str]:
    if reply.body is None:
        yield reply.trouble
        return
    if reply.body.get("error_code") != "0":
        yield f"error_code {reply.body.get('error_code')!r:.40}"
    if not isinstance(reply.body.get("message"), str):
        yield "no message"
    if read.key not in reply.body:
        yield f"no {read.key}; there are {', '.join(reply.body)}"
    elif not is_no_error(reply.body.get("error_code")):
        yield "a 200 with an error code"


def _payload(read: Read, reply: Reply, target: str) -> Iterator[Finding]:
    assert reply.body is not None, "the envelope has been checked"
    value = reply.body[read.key]
    if read.shape is not None and not (value is None and read.is_nullable):
        yield from _shape(read, compare(read.shape, value, words()))
    yield _understood(read, reply, target)


def _shape(read: Read, found: Differences) -> Iterator[Finding]:
    call = read.call
    yield judged(
        f"{read.id} required",
        f"{call}: every required field is there",
        is_met=not found.missing,
        found=f"missing: {shown(found.missing)}" if found.missing else "all",
    )
    yield _types(read, found)
    if not read.is_free:
        yield _names(read, found)


def _types(read: Read, found: Differences) -> Finding:
    what = f"{read.call}: every field of its type, every word a known one"
    if found.wrong:
        return Finding(f"{read.id} types", what, Verdict.FAIL, shown(found.wrong))
    told = _listed({"numbers sent as texts": found.textual, "null": found.null})
    return judged(
        f"{read.id} types", what, is_met=not told, found=told or "all", otherwise=Verdict.DRIFT
    )


def _names(read: Read, found: Differences) -> Finding:
    gone = {name for name in found.gone if not name.endswith(read.seldom)}
    told = _listed({"added": found.added, "gone": gone})
    return judged(
        f"{read.id} names",
        f"{read.call}: the fields of the document and no others",
        is_met=not told,
        found=told or "the same",
        otherwise=Verdict.DRIFT,
    )


def _listed(groups: Mapping[str, set[str]]) -> str:
    return "; ".join(f"{word}: {shown(names)}" for word, names in groups.items() if names)


def _understood(read: Read, reply: Reply, target: str) -> Finding:
    """Whether the bot's own client makes a value of it, about what was asked for."""
    codec = READS[read.call]
    trouble = ""
    try:
        opened = open_envelope(codec.endpoint, Answer(reply.status, reply.headers, reply.raw))
        codec.decode(opened)
        check_echo(opened, _asked(codec.endpoint.path, target))
    except (BrokerRefusal, MalformedAnswer, Malformed) as error:
        trouble = str(error)
    what = f"{read.call}: our client understands it, and it is about what was asked for"
    return judged(f"{read.id} client", what, is_met=not trouble, found=trouble or "understood")


def _asked(path: str, target: str) -> Mapping[str, str]:
    """The values of a path's holes as they were sent."""
    steps = zip(path.split("/"), target.partition("?")[0].split("/"), strict=False)
    return {hole[1:-1]: value for hole, value in steps if hole.startswith("{")}


# -------------------------------------------------------------------------------------- refusals


async def check_refusal(talker: Talker, facts: Facts, refusal: Refusal) -> Finding:
    """Ask for what the document refuses."""
    try:
        target = facts.target(refusal.path, refusal.query)
    except MissingFact as missing:
        return missing_finding(refusal.id, refusal.what, missing)
    reply = await talker.get(target)
    return refusal_finding(refusal.id, refusal.what, reply, refusal)


def refusal_finding(id: str, what: str, reply: Reply, wanted: Any) -> Finding:  # noqa: A002
    """Judge an answer that should be an error with an error body."""
    is_met = reply.status in wanted.status and reply.code not in {"", "0"}
    if wanted.codes:
        is_met = is_met and reply.code in wanted.codes
    otherwise = Verdict.FAIL if wanted.is_shown else Verdict.DRIFT
    return judged(id, what, is_met=is_met, found=str(reply), otherwise=otherwise)
