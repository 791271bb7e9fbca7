"""Lengths of time on the command line: `90`, `90s`, `2m` or `1h`."""

import re
from typing import Final

import click

_LENGTH: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smh]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600}


class Length(click.ParamType[float]):
    """A length of time in seconds; a number alone means seconds."""

    name = "length"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> float:
        """Read it, or say what was wanted."""
        found = _LENGTH.fullmatch(str(value))
        if found is None:
            self.fail(f"{str(value)!r}: wanted a length of time like 60s or 2m", param, context)
        return float(found[1]) * _SECONDS[found[2]]
