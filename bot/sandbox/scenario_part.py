"""What the parts of a scenario file share: unknown keys are errors, values do not change."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A mapping of a scenario file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
