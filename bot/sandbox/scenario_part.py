"""Base class of scenario parts: unknown keys are errors, values are immutable.

It is a separate module because `scenario` imports the packages that define the parts.
"""

from datetime import time
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator


class Part(BaseModel):
    """A mapping of a scenario file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _without_zone(value: time) -> time:
    """Refuse a time of another zone, and a number, which would be seconds after midnight."""
    if value.tzinfo is not None:
        raise ValueError("wanted a time of the exchange's own zone, like 09:15")
    return value


LocalTime = Annotated[time, AfterValidator(_without_zone)]
"""A time of day, local to the exchange."""


class Span(Part):
    """A part of the day, from `at` to `until`."""

    at: LocalTime
    until: LocalTime

    @model_validator(mode="after")
    def _ends_later(self) -> "Span":
        if self.until <= self.at:
            raise ValueError(f"until: wanted a time after {self.at:%H:%M:%S}")
        return self
