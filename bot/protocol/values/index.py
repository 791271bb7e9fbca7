"""An index as it moves.

Values, changes and references are points, `change_percent` percent, quantities shares, amounts VND,
times Unix milliseconds on the wire. Source: broker open API 0.2.0-preview.3, index analysis; field
names by the broker's public command-line client.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from bot.protocol.fields import (
    Count,
    CountOrNone,
    Named,
    Number,
    NumberOrNone,
    SharesOrNone,
    Text,
    UnixMs,
    VndOrNone,
)


@dataclass(frozen=True, slots=True)
class IndexNow:
    """An index, the counts of its stocks, and its day so far.

    `values`, `volumes` and `times` belong together by position; so do, for indices of the KRX
    system alone, the series of counts. `phase` is the broker's word for the exchange's phase.
    """

    index: Named
    value: Annotated[NumberOrNone, Field(alias="indexValue")] = None
    name: Text = ""
    change: NumberOrNone = None
    change_percent: Annotated[NumberOrNone, Field(alias="changePercent")] = None
    reference: NumberOrNone = None
    quantity: Annotated[SharesOrNone, Field(alias="allQuantity")] = None
    amount: Annotated[VndOrNone, Field(alias="allValue")] = None
    advances: CountOrNone = None
    declines: CountOrNone = None
    unchanged: Annotated[CountOrNone, Field(alias="nochanges")] = None
    ceiling: CountOrNone = None
    floor: CountOrNone = None
    values: tuple[Number, ...] = ()
    volumes: tuple[Number, ...] = ()
    times: tuple[UnixMs, ...] = ()
    advances_series: Annotated[tuple[Count, ...], Field(alias="advancesArr")] = ()
    declines_series: Annotated[tuple[Count, ...], Field(alias="declinesArr")] = ()
    unchanged_series: Annotated[tuple[Count, ...], Field(alias="nochangesArr")] = ()
    ceiling_series: Annotated[tuple[Count, ...], Field(alias="ceilings")] = ()
    floor_series: Annotated[tuple[Count, ...], Field(alias="floors")] = ()
    phase: Annotated[Text, Field(alias="sessionInExchange")] = ""
