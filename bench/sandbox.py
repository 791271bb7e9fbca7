"""How fast the sandbox answers, compared with a bare ASGI application on the same HTTP server.

.venv/bin/python bench/sandbox.py [--rounds 5] [--turns 40]
"""

import json
import socket
import statistics
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bench.load import ask, connected, request_bytes, seconds_for
from bot.clock import Clock, SystemClock, wire_ms
from bot.protocol.signing import body_sha256, sign

KINDS = ("bare", "memory", "ledger")
WANTED = {"order": 0.3, "depth": 0.45}
BATCH = 25
WARM_UP = 4
"""Turns of every round that are not counted."""
ORDER = {
    "sub_account": "120C900001.1",
    "side": "BUY",
    "symbol": "HPG",
    "quantity": 100,
    "type": "LIMIT",
    "limit_price": 25_500,
    "market_price": None,
    "stock_type": "STOCK",
}
ORDERS = "/trading/oa/sub-accounts/0009000011/orders"
DEPTH = "/market/quotes/stocks/HPG/order-book"
ASKED: dict[str, tuple[str, dict[str, Any] | None]] = {
    "order": (ORDERS, ORDER),
    "depth": (DEPTH, None),
}


@contextmanager
def server(kind: str) -> Iterator[dict[str, Any]]:
    """Start a server of `servers.py` and yield its first line."""
    command = [sys.executable, str(Path(__file__).with_name("servers.py")), kind]
    with subprocess.Popen(  # noqa: S603 - our own file
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


class Signer:
    """Makes signed requests for one server; one without a key gets an arbitrary one."""

    def __init__(self, facts: dict[str, Any], clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._key = facts.get("api_key", "ak_test_0123456789abcdef01234567")
        self._secret = facts.get("api_secret", "0" * 64)
        self.token = "x" * 200
        self._number = 0

    def log_in(self, base_url: str, code: str) -> None:
        """Exchange the one-time code for the token that order writes need."""
        two_factor = "/auth/v1/openapi/2fa"
        ticket = json.loads(ask(base_url, self(two_factor + "/request", {"channel": "EMAIL"})))
        proof = {"ticket_id": ticket["ticket_id"], "otp_code": code}
        answer = json.loads(ask(base_url, self(two_factor + "/verify", proof)))
        self.token = answer["session_token"]

    def __call__(self, target: str, fields: dict[str, Any] | None = None) -> bytes:
        """Make a POST of `fields`, or a GET."""
        method, headers, body = self.parts(target, fields)
        return request_bytes(method, target, headers, body)

    def parts(
        self, target: str, fields: dict[str, Any] | None = None, method: str | None = None
    ) -> tuple[str, dict[str, str], bytes]:
        """Return method, signed headers and body."""
        self._number += 1
        body = json.dumps(fields, separators=(",", ":")).encode() if fields else b""
        method, stamp = method or ("POST" if fields else "GET"), wire_ms(self._clock.now())
        digest = body_sha256(body)
        signature = sign(
            self._secret, timestamp_ms=stamp, method=method, target=target, body_sha256=digest
        )
        headers = {
            "X-FH-APIKEY": self._key,
            "X-FH-TIMESTAMP": str(stamp),
            "X-FH-NONCE": f"{self._number:032x}",
            "X-FH-SIGNATURE": signature,
            "X-FH-BODYHASH": digest,
            "X-FH-2FA-TOKEN": self.token,
            "device-id": "bench",
            "Content-Type": "application/json",
        }
        return method, headers, body


@dataclass
class Runner:
    """One server, and a single connection to it."""

    signed: Signer
    wire: socket.socket

    @classmethod
    def of(cls, facts: dict[str, Any]) -> "Runner":
        """Make the client of a server that has just started."""
        signed = Signer(facts)
        if "otp" in facts:
            signed.log_in(facts["base_url"], facts["otp"])
        return cls(signed, connected(facts["base_url"]))

    def seconds(self, what: str) -> float:
        """Send a batch and return its time; building it is not timed."""
        target, fields = ASKED[what]
        return seconds_for(self.wire, [self.signed(target, fields) for _ in range(BATCH)])


Turn = Mapping[str, float]
"""Seconds of a batch, by kind of server."""


def one_round(turns: int) -> dict[str, list[Turn]]:
    """Measure fresh servers: the turns by what was asked.

    In a turn each server gets one small batch, right after one another and another first each time,
    so that what else the machine does hits all of them, and the disk's work for one the others.
    """
    with ExitStack() as stack:
        runners = {kind: Runner.of(stack.enter_context(server(kind))) for kind in KINDS}
        for runner in runners.values():
            stack.enter_context(runner.wire)
        order, taken = deque(KINDS), {what: list[Turn]() for what in WANTED}
        for _ in range(WARM_UP + turns):
            order.rotate()
            for what, seen in taken.items():
                seen.append({kind: runners[kind].seconds(what) for kind in order})
        return {what: seen[WARM_UP:] for what, seen in taken.items()}


def ratio(turns: list[Turn], kind: str) -> float:
    """Return the speed of a server relative to the bare one: the median of the turns'
    own ratios.
    """
    return statistics.median(turn["bare"] / turn[kind] for turn in turns)


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--turns", default=40, show_default=True, help=f"of {BATCH} requests, each round")
def main(rounds: int, turns: int) -> None:
    """Print rates, and ratios as medians of the rounds."""
    seen = []
    for number in range(rounds):
        seen.append(one_round(turns))
        for kind in KINDS:
            click.echo(f"round {number + 1}  {kind:7} " + _rates(seen[-1], kind))
    for kind in KINDS[1:]:
        for what, wanted in WANTED.items():
            ratios = [ratio(each[what], kind) for each in seen]
            middle = statistics.median(ratios)
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            click.echo(f"{kind:7} {what}: {middle:.2f} of bare ({spread}; wanted {wanted})")


def _rates(seen: Mapping[str, list[Turn]], kind: str) -> str:
    typical = {
        what: BATCH / statistics.median(turn[kind] for turn in turns)
        for what, turns in seen.items()
    }
    return "  ".join(f"{what} {rate:6.0f}/s" for what, rate in typical.items())


if __name__ == "__main__":
    main()
