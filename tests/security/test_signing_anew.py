"""Our signature against one made from the document's text alone, over ten thousand requests."""

import hashlib
import json
import string
from datetime import UTC, datetime
from random import Random
from urllib.parse import quote, urlencode

from bot.broker.in_process import AsgiLink
from bot.broker.link import ORDER_BOUNDS, HttpRequest, Origin, Traffic
from bot.broker.signer import Credentials, Signer
from bot.clock import SimulatedClock
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Tier
from bot.protocol.secret import Secret

CASES = 10_000
SENT = 300
START = datetime(2026, 11, 19, 2, 20, 0, 123_000, tzinfo=UTC)
SIGNED = [each for each in ENDPOINTS.values() if each.tier is not Tier.ONE]
LETTERS = string.printable + "ấữđỗ€漢字\u202e\x00🙂"
BLOCK = 64


def hmac_sha256(key: bytes, text: bytes) -> str:
    """RFC 2104, word for word, on nothing but the hash."""
    key = (hashlib.sha256(key).digest() if len(key) > BLOCK else key).ljust(BLOCK, b"\0")
    inner = hashlib.sha256(bytes(each ^ 0x36 for each in key) + text).digest()
    return hashlib.sha256(bytes(each ^ 0x5C for each in key) + inner).hexdigest()


def expected(request: HttpRequest, secret: str) -> str:
    """The signature of what goes out, from the bytes that go out."""
    digest = hashlib.sha256(request.body).hexdigest() if request.body else ""
    parts = (request.headers["X-FH-TIMESTAMP"], request.method, request.target, digest)
    return hmac_sha256(secret.encode(), "\n".join(parts).encode())


def text(random: Random, longest: int) -> str:
    return "".join(random.choices(LETTERS, k=random.randint(0, longest)))


def made(random: Random, secret: str) -> HttpRequest:
    """Any signed call, with a query in any order, and a body also where it deletes."""
    clock = SimulatedClock(START)
    signer = Signer(Credentials(Secret("key"), Secret(secret), "device"), clock)
    endpoint = random.choice(SIGNED)
    query = [(text(random, 5), text(random, 8)) for _ in range(random.randint(0, 4))]
    target = "/" + "/".join(quote(text(random, 8), safe="") for _ in range(random.randint(1, 4)))
    target += f"?{urlencode(query)}" if query else ""
    body = json.dumps({text(random, 5): text(random, 20)}, ensure_ascii=False)
    raw = body.encode("utf-8", "surrogatepass") if random.random() < 0.7 else b""
    if endpoint.method == "GET":
        return signer.sign_read(endpoint, target, body=raw)
    return signer.sign_write(endpoint, target, raw, None)


def test_ten_thousand_requests_have_the_signature_of_another_implementation() -> None:
    random = Random(20_261_119)
    wrong, methods = 0, set[str]()
    for _ in range(CASES):
        secret = text(random, 100) or "x"
        request = made(random, secret)
        methods.add(request.method + " with a body" * bool(request.body))
        wrong += request.headers["X-FH-SIGNATURE"] != expected(request, secret)

    assert wrong == 0
    assert {"DELETE with a body", "DELETE", "POST with a body", "PUT", "GET"} <= methods


async def test_the_bytes_that_arrive_are_the_bytes_that_were_signed() -> None:
    random, arrived = Random(7), list[HttpRequest]()

    async def server(scope, receive, send):
        message = await receive()
        target = scope["raw_path"] + (b"?" + scope["query_string"]) * bool(scope["query_string"])
        headers = {name.decode().upper(): value.decode() for name, value in scope["headers"]}
        body = message.get("body", b"")
        arrived.append(HttpRequest(scope["method"], target.decode(), headers, body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    origin = Origin("http", "127.0.0.1", 80, "127.0.0.1")
    link = AsgiLink(origin, Traffic(), server)
    for _ in range(SENT):
        await link.exchange(made(random, "a secret"), ORDER_BOUNDS)

    assert len(arrived) == SENT
    wrong = [
        each for each in arrived if each.headers["X-FH-SIGNATURE"] != expected(each, "a secret")
    ]
    assert wrong == []
