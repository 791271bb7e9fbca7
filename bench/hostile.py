"""How long one answer blocks everything else, whatever the broker puts into it.

    .venv/bin/python -m bench.hostile [--rounds 5]

The typed client reads answers of the maximum size of each call, built to cost as much as possible;
meanwhile a task on the same loop looks at the clock every millisecond. The figure is the longest
time in which it could not, the worst of the rounds, in milliseconds; the target is at most 50.
"""

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from random import Random

import click

from bot.broker.broker import Broker, open_broker
from bot.broker.budget import RequestBudget, SystemWaiter
from bot.broker.errors import BrokerError
from bot.broker.signer import Credentials
from bot.cli.main import COLLECT_AFTER
from bot.clock import SystemClock, performance_s
from bot.domain.account import SubAccount
from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.calls import CODECS
from bot.protocol.envelope import LARGE, ROWS_MAX, SMALL, Size
from bot.protocol.secret import Secret

AT = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)
ACCOUNT = SubAccount("0001234567", "120C900001.1", "Normal")
EVERY_S = 0.001
Read = Callable[[Broker], Awaitable[object]]


def _row(number: int) -> dict[str, object]:
    return {
        "orderid": f"ORD{number}", "symbol": "HPG", "side": "BUY", "qtty": 100, "price": 27_000,
        "txdate": "2026-11-19", "txtime": "09:20:00", "status": "SENT", "remainqtty": 100,
        "feedbackmsg": "Gi\u00e1", **{f"other{at}": "x" for at in range(30)},
    }  # fmt: skip


def _filled(size: Size, piece: bytes, head: bytes, tail: bytes) -> bytes:
    """As many pieces as fit, by bytes and by values."""
    values = sum(piece.count(sign) for sign in (b",", b"[", b"{"))
    room = size.bytes_max - len(head) - len(tail)
    many = min(room // len(piece), (size.values_max - 20) // max(values, 1))
    return head + (piece * many).removesuffix(b",") + tail


def _book(rows: list[object]) -> bytes:
    return json.dumps({"error_code": "0", "result": rows}).encode()


QUOTE = b'{"error_code":"0","data":{"symbol":"HPG","exchange":"HOSE","price":27000,'
HISTORY = b'{"error_code":"0","data":{"symbol":"HPG","series":['


def _depth(broker: Broker) -> Awaitable[object]:
    return broker.client.depth("HPG")


def _quote(broker: Broker) -> Awaitable[object]:
    return broker.client.quote("HPG")


def _orders(broker: Broker) -> Awaitable[object]:
    return broker.client.todays_orders(ACCOUNT, AT)


def _history(broker: Broker) -> Awaitable[object]:
    start, end = (AT.astimezone(EXCHANGE_TZ).date().isoformat() for _ in range(2))
    query = (("from", start), ("to", end))
    stamps = [(name, str(int(datetime.fromisoformat(day).timestamp()))) for name, day in query]
    return broker.client.read(CODECS["stock_history"], {"symbol": "HPG"}, stamps)


CASES: Mapping[str, tuple[Read, bytes]] = {
    "depth of too many levels": (
        _depth,
        _filled(
            SMALL, b'{"price":27000,"volume":100},', b'{"error_code":"0","data":{"symbol":"HPG",'
            b'"asks":[],"bids":[', b"]}}",
        ),
    ),
    "quote with empty lists": (_quote, _filled(SMALL, b"[],", QUOTE + b'"x":[', b"]}}")),
    "quote with new names": (
        _quote,
        QUOTE + b",".join(b'"f%d":1' % at for at in range(4_900)) + b"}}",
    ),
    "quote that is garbage": (_quote, b'"token":"' * (SMALL.bytes_max // 9)),
    "day order book of 1,000 orders": (_orders, _book([_row(at) for at in range(1_000)])),
    "day order book as long as it may be": (_orders, _book([_row(at) for at in range(ROWS_MAX)])),
    "day order book of rows without anything": (_orders, _book([{}] * ROWS_MAX)),
    "day order book of empty lists": (
        _orders,
        _filled(LARGE, b"[],", b'{"error_code":"0","result":[', b"]}"),
    ),
    "day order book with half a character": (
        _orders,
        _filled(LARGE, b"[],", b'{"error_code":"0","message":"\\ud83d\\ude00","result":[', b"]}"),
    ),
    "history of bars": (
        _history,
        _filled(LARGE, b'{"t":1763517600,"o":27,"h":27,"l":27,"c":27,"v":1},', HISTORY, b"]}}"),
    ),
    "4 MiB of one text": (
        _history,
        HISTORY + b'],"x":"' + b"x" * (LARGE.bytes_max - 100) + b'"}}',
    ),
}  # fmt: skip


def _playing(body: bytes) -> Callable[..., Awaitable[None]]:
    async def app(_scope: object, _receive: object, send: Callable[..., Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return app


async def _longest_ms(read: Read, body: bytes) -> tuple[float, float, str]:
    clock = SystemClock()
    budget = RequestBudget(per_minute=6_000, waiter=SystemWaiter(clock), jitter=Random(1))
    broker = open_broker(
        "http://127.0.0.1:1",
        Credentials(Secret("k"), Secret("s"), "bench"),
        wire=clock,
        waiter=SystemWaiter(clock),
        budget=budget,
        app=_playing(body),
    )
    gaps = [0.0]

    async def look() -> None:
        last = performance_s()
        while True:
            await asyncio.sleep(EVERY_S)
            now = performance_s()
            gaps.append(now - last - EVERY_S)
            last = now

    looking = asyncio.create_task(look())
    await asyncio.sleep(0.01)
    started = performance_s()
    try:
        await read(broker)
        told = "read"
    except BrokerError as error:
        told = str(error)[:60]
    took = performance_s() - started
    await asyncio.sleep(0.01)
    looking.cancel()
    await broker.close()
    return max(gaps) * 1000, took * 1000, told


@click.command()
@click.option("--rounds", default=5)
def main(rounds: int) -> None:
    """Print the longest wait of each case."""
    gc.set_threshold(*COLLECT_AFTER)
    click.echo(f"{'':<36} {'bytes':>9} {'held up':>9} {'in all':>9}")
    for name, (read, body) in CASES.items():
        found = [asyncio.run(_longest_ms(read, body)) for _ in range(rounds)]
        held, took = (max(each[at] for each in found) for at in (0, 1))
        click.echo(f"{name:<36} {len(body):>9,} {held:>6.0f} ms {took:>6.0f} ms  {found[-1][2]}")


if __name__ == "__main__":
    main()
