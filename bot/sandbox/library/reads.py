"""The library as calls: a question read and checked, a value found, its payload answered."""

from collections.abc import Mapping
from functools import partial

from bot.protocol.calls import CODECS
from bot.protocol.parameters import PARAMETERS, query_faults, with_defaults
from bot.sandbox.call import Call, Handler
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.gatekeeper import Gatekeeper
from bot.sandbox.house import House
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.library import Library
from bot.sandbox.library.market_assets import Asset
from bot.sandbox.library.stock_quotes import FOREIGN


class LibraryReads:
    """Answers every call of the library."""

    def __init__(self, house: House, gate: Gatekeeper) -> None:
        self.library = Library(house, gate)
        self._gate = gate

    def handlers(self) -> Mapping[str, Handler]:
        """Return what answers each call, by its name."""
        answers = self.library.answers()
        return {name: partial(self._answer, name, answer) for name, answer in answers.items()}

    def foreign(self, symbol: str) -> Asset | None:
        """Return a foreign share, None when it is none."""
        return self.library.assets.find(FOREIGN, symbol)

    def _answer(self, name: str, answer: Answer, call: Call) -> object:
        asked = Asked(call.path_values, with_defaults(name, call.query), call.market_at, self._bad)
        return CODECS[name].encode(answer(asked))

    def _bad(self, reason: str) -> HttpRefusal:
        return self._gate.bad_parameter(f"Invalid parameter: {reason}")


def checked(name: str, handler: Handler, gate: Gatekeeper) -> Handler:
    """Return a handler that refuses a query which the table of parameters finds wrong."""
    if not PARAMETERS[name]:
        return handler

    def answer(call: Call) -> object:
        faults = query_faults(name, call.query)
        if faults:
            found = f"{faults[0].name}: {faults[0].reason}"
            raise gate.bad_parameter(f"Invalid parameter: {found}")
        return handler(call)

    return answer
