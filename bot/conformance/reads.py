"""The reads: six assertions for each line of the data, and the refusals of bad parameters.

Status, envelope, required fields, types and words, names, and that our own client understands it.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

from bot.broker.client import check_echo
from bot.broker.errors import Malformed
from bot.conformance.data import Read, Refusal, words
from bot.conformance.facts import Facts, MissingFact
from bot.conformance.finding import Finding, Verdict, judged, skipped
from bot.conformance.raw_client import UNSIGNED, RawClient, Reply
from bot.conformance.shape import Differences, compare, shown
from bot.protocol.envelope import Answer, open_envelope
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.runtime.api import READS

STATUS: Final = "status"
_TIER_ONE: Final = (
    *("/market/", "/trading/market/", "/trading/securities/"),
    "/fund-trading/public/",
)
NO_SHAPE: Final = "fields not asserted: no source shows them"


def is_tier_one(path: str) -> bool:
    """Return whether a GET of this path needs only the key (2.1)."""
    return path.startswith(_TIER_ONE)


async def check_read(client: RawClient, facts: Facts, read: Read) -> AsyncIterator[Finding]:
    """Request and assert; if a read fails, its other assertions are skipped."""
    id_, what = f"{read.id} {STATUS}", f"{read.call}: HTTP 200"
    try:
        target = facts.target(read.path, read.query)
    except MissingFact as missing:
        yield missing_finding(id_, what, missing)
        return
    reply = await client.get(target, UNSIGNED if is_tier_one(read.path) else None)
    if reply.status == 404 and (read.is_optional or reply.code in read.absent):
        why = "no source promises this path" if read.is_optional else "the document allows that"
        yield skipped(id_, what, f"{reply}: {why}")
        return
    yield judged(id_, what, is_met=reply.status == 200, found=reply)
    if reply.status != 200:
        return
    envelope = _envelope(read, reply)
    yield envelope
    if envelope.verdict is not Verdict.OK:
        return
    assert reply.body is not None, "the envelope has been checked"
    value = reply.body[read.key]
    if read.shape is not None and not (value is None and read.is_nullable):
        for finding in _shape(read, compare(read.shape, value, words())):
            yield finding
    yield _understood(read, reply, target)


def missing_finding(id_: str, what: str, missing: MissingFact) -> Finding:
    """Return SKIPPED if the server has no such thing, FAIL if it failed to answer."""
    verdict = Verdict.FAIL if missing.is_failure else Verdict.SKIPPED
    return Finding(id_, what, verdict, missing.why)


def _envelope(read: Read, reply: Reply) -> Finding:
    trouble, body = list[str](), reply.body
    if body is None:
        trouble.append(reply.trouble)
    else:
        if body.get("error_code") != "0":
            trouble.append(f"error_code {body.get('error_code')!r:.40}")
        if not isinstance(body.get("message"), str):
            trouble.append("no message")
        if read.key not in body:
            trouble.append(f"no {read.key}; found {', '.join(body)}")
    what = f'{read.call}: error_code "0", message, and the payload under {read.key}'
    if read.shape is None:
        what = f"{read.call}: envelope, {NO_SHAPE}"
    found = "; ".join(trouble) or "as documented"
    return judged(f"{read.id} envelope", what, is_met=not trouble, found=found)


def _shape(read: Read, found: Differences) -> Iterator[Finding]:
    missing = f"missing: {shown(found.missing)}" if found.missing else ""
    what = f"{read.call}: every required field is there"
    yield judged(f"{read.id} required", what, is_met=not missing, found=missing or "all")
    odd = _listed({"numbers sent as texts": found.textual, "null": found.null})
    yield judged(
        f"{read.id} types",
        f"{read.call}: every field of its type, every word a known one",
        is_met=not found.wrong and not odd,
        found=shown(found.wrong) or odd or "all",
        otherwise=Verdict.FAIL if found.wrong else Verdict.DRIFT,
    )
    if read.is_free:
        return
    gone = {name for name in found.gone if not name.endswith(read.seldom)}
    changed = _listed({"added": found.added, "gone": gone})
    yield judged(
        f"{read.id} names",
        f"{read.call}: the fields of the document and no others",
        is_met=not changed,
        found=changed or "the same",
        otherwise=Verdict.DRIFT,
    )


def _listed(groups: Mapping[str, set[str]]) -> str:
    return "; ".join(f"{word}: {shown(names)}" for word, names in groups.items() if names)


def _understood(read: Read, reply: Reply, target: str) -> Finding:
    """Check that the bot's own client can read the answer, and that it is about the
    right subject.
    """
    codec, trouble = READS[read.call], ""
    steps = zip(codec.endpoint.path.split("/"), target.partition("?")[0].split("/"), strict=False)
    asked = {hole[1:-1]: value for hole, value in steps if hole.startswith("{")}
    try:
        opened = open_envelope(codec.endpoint, Answer(reply.status, reply.headers, reply.raw))
        codec.decode(opened)
        check_echo(opened, asked)
    except (BrokerRefusal, MalformedAnswer, Malformed) as error:
        trouble = str(error)
    what = f"{read.call}: our client understands it, and it is about what was asked for"
    return judged(f"{read.id} client", what, is_met=not trouble, found=trouble or "understood")


async def check_refusal(client: RawClient, facts: Facts, refusal: Refusal) -> Finding:
    """Request what the document refuses: expect an error with an error body."""
    try:
        target = facts.target(refusal.path, refusal.query)
    except MissingFact as missing:
        return missing_finding(refusal.id, refusal.what, missing)
    reply = await client.get(target)
    is_met = reply.status in refusal.status and reply.code not in {"", "0"}
    if refusal.codes:
        is_met = is_met and reply.code in refusal.codes
    return judged(refusal.id, refusal.what, is_met=is_met, found=reply, otherwise=refusal.otherwise)
