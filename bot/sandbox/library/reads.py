"""The library's calls: checks the query, finds the value, answers its payload.

The library and its tables are loaded with the first question, or when a day ends that the library
has to store: a sandbox used only for trading starts without them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import query_faults, with_defaults
from bot.protocol.shaped import Codec
from bot.sandbox.api.call import Call, Handler
from bot.sandbox.api.gatekeeper import Gatekeeper
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.house.house import House
from bot.sandbox.library.answer import Answer, Asked, Narrowed

if TYPE_CHECKING:
    from bot.sandbox.library.library import Library
    from bot.sandbox.library.walk import DayBar

IndexDays = dict[str, dict[date, "DayBar"]]


@dataclass(frozen=True, slots=True)
class _Loaded:
    library: "Library"
    answers: Mapping[str, Answer]
    codecs: Mapping[str, Codec[Any]]


class LibraryReads:
    def __init__(self, house: House, gate: Gatekeeper) -> None:
        self._house = house
        self._gate = gate
        house.on_day_over = self._keep_day

    def _keep_day(self) -> None:
        self._loaded.library.indices.keep_day()

    def index_days(self) -> IndexDays:
        """Return the stored days of the indices, by code."""
        is_loaded = "_loaded" in self.__dict__
        return self._loaded.library.indices.kept if is_loaded else {}

    def recall(self, days: IndexDays) -> None:
        """Restore the days stored before a restart."""
        if any(days.values()):
            self._loaded.library.indices.kept.update(days)

    @cached_property
    def _loaded(self) -> _Loaded:
        from bot.protocol.calls import CODECS
        from bot.sandbox.library.library import Library

        library = Library(self._house, self._gate)
        return _Loaded(library, library.answers(), CODECS)

    def handler(self, name: str) -> Handler:
        """Return the handler of a call; an unknown call fails only when it is made."""
        return partial(self._answer, name)

    def _answer(self, name: str, call: Call) -> object:
        query = with_defaults(ENDPOINTS[name], call.query)
        asked = Asked(name, call.path_values, query, call.market_at, partial(_bad, self._gate))
        answered, codec = self._loaded.answers[name](asked), self._loaded.codecs[name]
        if isinstance(answered, Narrowed):
            return answered.narrow(codec.encode(answered.value))
        return codec.encode(answered)

    def foreign_quote(self, call: Call) -> object | None:
        """Answer the quote of a foreign share, None for any other symbol."""
        symbol = call.path_values["symbol"].upper()
        quote = self._loaded.library.foreign_quote(symbol, call.market_at)
        return None if quote is None else self._loaded.codecs["stock_quote"].encode(quote)


def checked(name: str, handler: Handler, gate: Gatekeeper) -> Handler:
    """Return a handler that refuses queries invalid by the table of parameters."""
    if not ENDPOINTS[name].takes:
        return handler

    def answer(call: Call) -> object:
        faults = query_faults(ENDPOINTS[name], call.query)
        if faults:
            raise _bad(gate, f"{faults[0].name}: {faults[0].reason}")
        return handler(call)

    return answer


def _bad(gate: Gatekeeper, reason: str) -> HttpRefusal:
    return gate.bad_parameter(f"Invalid parameter: {reason}")
