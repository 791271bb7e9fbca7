"""What the parts of a scenario file share: unknown keys are errors, values do not change.

It is a module of its own because `scenario` imports the rooms in which the parts are defined.
"""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A mapping of a scenario file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
