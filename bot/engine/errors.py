"""What can go wrong in the engine: our own bugs only; outside trouble is a value or an event.

EngineError
└── IllegalMove       a state machine was asked for a move that its table does not have
"""


class EngineError(Exception):
    """Root of the engine's errors."""


class IllegalMove(EngineError):
    """A move that is absent from its table. `subject` is the intent or order."""

    def __init__(self, subject: str, from_state: str, to_state: str) -> None:
        super().__init__(f"{subject}: {from_state} to {to_state} is no move of the table")
        self.subject = subject
