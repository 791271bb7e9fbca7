"""The cost of decoding and encoding an answer: depth, quote, order result.

    .venv/bin/python bench/codec.py [--rounds 5] [--calls 2000]

Decoding goes from the bytes of a whole answer to our value, encoding from our value to the bytes;
both including all checks. Microseconds per call, medians of the rounds, compared with `json` alone
for the same bytes in the same run.
"""

import json
import statistics
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import click

from bot.clock import performance_s
from bot.domain.instrument import Exchange
from bot.domain.order import OrderResult, OrderState, OrderType, Side
from bot.domain.quote import Depth, DepthLevel, Quote
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.endpoints.trading import PLACE_ORDER, STOCK_DEPTH, STOCK_QUOTE
from bot.protocol.envelope import Answer, open_envelope, seal
from bot.protocol.orders import decode_order_results, encode_order_results
from bot.protocol.quotes import decode_depth, decode_quote, encode_depth, encode_quote

AT = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)
DEPTH = Depth(
    "HPG",
    tuple(DepthLevel(price, 12_300) for price in (26_950, 26_900, 26_850)),
    tuple(DepthLevel(price, 45_600) for price in (27_000, 27_050, 27_100)),
    AT,
)
QUOTE = Quote(
    symbol="HPG",
    exchange=Exchange.HOSE,
    last=27_000,
    reference=26_900,
    ceiling=28_750,
    floor=25_050,
    open=26_950,
    high=27_100,
    low=26_900,
    volume=1_234_500,
    updated_at=AT,
)
RESULT = OrderResult(
    order_id="ORD10000001",
    account="120C900001.1",
    transaction_date=date(2026, 11, 19),
    symbol="HPG",
    side=Side.BUY,
    quantity=100,
    limit_price=27_000,
    market_price=None,
    executed_quantity=0,
    average_price=0,
    executed_amount=0,
    status="SENT",
    state=OrderState.ACCEPTED,
    order_type=OrderType.LO,
    fee=0,
    tax=0,
    code=None,
    reason=None,
    lot="EVEN",
    raw="",
)


class Case(NamedTuple):
    """One kind of answer."""

    endpoint: Endpoint
    encode: Callable[[], object]
    decode: Callable[[Any], object]


CASES = {
    "depth": Case(STOCK_DEPTH, lambda: encode_depth(DEPTH), decode_depth),
    "quote": Case(STOCK_QUOTE, lambda: encode_quote(QUOTE, name="Hoa Phat"), decode_quote),
    "order result": Case(PLACE_ORDER, lambda: encode_order_results([RESULT]), decode_order_results),
}


def works(case: Case) -> tuple[int, dict[str, Callable[[], object]]]:
    """Return the size of the body, and the functions to measure."""
    endpoint, encode, decode = case
    body = seal(endpoint, encode())
    answer, plain = Answer(200, {}, body), json.loads(body)
    return len(body), {
        "decode": lambda: decode(open_envelope(endpoint, answer)),
        "json.loads": lambda: json.loads(body),
        "encode": lambda: seal(endpoint, encode()),
        "json.dumps": lambda: json.dumps(plain),
    }


def microseconds(work: Callable[[], object], calls: int) -> float:
    """Return the average time of one call."""
    started_s = performance_s()
    for _ in range(calls):
        work()
    return (performance_s() - started_s) / calls * 1e6


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--calls", default=2_000, show_default=True)
def main(rounds: int, calls: int) -> None:
    """Print microseconds a call."""
    for name, case in CASES.items():
        size, todo = works(case)
        seen = [
            {what: microseconds(work, calls) for what, work in todo.items()} for _ in range(rounds)
        ]
        middles = {what: statistics.median(each[what] for each in seen) for what in todo}
        told = "  ".join(f"{what} {middle:5.1f} us" for what, middle in middles.items())
        click.echo(f"{name:12} {size:4} bytes  {told}")


if __name__ == "__main__":
    main()
