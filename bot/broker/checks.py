"""What is checked around a read: the parameters before it is sent, the answer's subject after.

Source: broker open API 0.2.0-preview.3: parameters by call; unified quotes (`symbol` is
case-insensitive in the path and upper-case in the answer; the scale of prices in a stock's history
is not stated, and another call of the same API gives thousands of VND).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from bot.broker.errors import Malformed, WrongQuery
from bot.protocol.endpoints.endpoint import (
    Endpoint,
    build_target,
    path_parameters,
    query_faults,
    unknown_parameters,
)
from bot.protocol.envelope import Payload
from bot.protocol.errors import UnusableTarget
from bot.protocol.redact import redact
from bot.protocol.values.series import PriceBar

ECHOED: Final = ("symbol", "code", "indicator")
"""What an answer names as its subject under the name by which it was asked for."""
SCALE_MAX: Final = 30
"""No daily band lets a price move by so much between a close and the next quote; a slip of the
scale is a factor of 1000."""
_ANY: Final = "ALL"

Fault = tuple[str, str]


def check_query(
    endpoint: Endpoint, path: Mapping[str, str], query: Sequence[tuple[str, str]]
) -> None:
    """Raise WrongQuery for everything that the broker would answer with 400, or not understand."""
    names = Counter(name for name, _ in query)
    faults: list[Fault] = [(name, "given twice") for name, count in names.items() if count > 1]
    faults += _path_faults(endpoint, path)
    given = dict(query)
    faults += [(name, "no such parameter") for name in unknown_parameters(endpoint, given)]
    faults += [(each.name, each.reason) for each in query_faults(endpoint, given)]
    if faults:
        raise WrongQuery(endpoint.name, tuple(faults))


def _path_faults(endpoint: Endpoint, path: Mapping[str, str]) -> Iterable[Fault]:
    holes = path_parameters(endpoint)
    yield from ((hole, "required") for hole in holes if hole not in path)
    yield from ((name, "no such parameter") for name in path if name not in holes)


def target_of(endpoint: Endpoint, path: Mapping[str, str], query: Sequence[tuple[str, str]]) -> str:
    """Return the target to be signed and sent; raises WrongQuery for a value no path can carry."""
    try:
        return build_target(endpoint, path, query)
    except UnusableTarget as error:
        raise WrongQuery(endpoint.name, ((error.name, "empty, or a dot segment"),)) from error


def check_echo(payload: Payload, asked: Mapping[str, str]) -> None:
    """Raise Malformed when the answer says that it is about something else than was asked for."""
    if not isinstance(payload.value, dict):
        return
    for name in ECHOED:
        wanted, found = asked.get(name), payload.value.get(name)
        if wanted in {None, _ANY} or not isinstance(found, str):
            continue
        if found.strip().upper() != str(wanted).strip().upper():
            reason = f"asked for {name} {wanted}, the answer is about {redact(found)[:40]}"
            raise Malformed(payload.call, reason)


def check_scale(call: str, bars: Sequence[PriceBar], live: int) -> None:
    """Raise Malformed when the last close and the live quote cannot both be in VND.

    `bars` are oldest first, `live` is VND per share. Nothing is said without a close.
    """
    closes = [bar.close for bar in bars if bar.close is not None]
    if not closes or live <= 0:
        return
    last = Decimal(str(closes[-1]))
    if last <= 0 or not Decimal(1) / SCALE_MAX <= last / live <= SCALE_MAX:
        raise Malformed(call, f"the last close is {last}, the live quote {live}: another scale")
