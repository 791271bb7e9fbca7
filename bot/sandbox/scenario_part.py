"""Base class of scenario parts: unknown keys are errors, values are immutable.

It is a separate module because `scenario` imports the packages that define the parts.
"""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A mapping of a scenario file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
