"""A text that must not be shown: it comes out only where `reveal` is called."""

import hmac
from typing import NoReturn

from bot.protocol.secret import HIDDEN


class Secret:
    """A key's secret, a 2FA token or a one-time code.

    Printing, formatting and pickling it give `***`; unpickled, the text of the secret is `***`.
    A copy is the secret itself, which cannot be changed. Two secrets are compared in constant time.
    """

    __slots__ = ("__tell",)

    def __init__(self, text: str) -> None:
        # What lists the attributes of an object finds a function here, and no text.
        object.__setattr__(self, "_Secret__tell", lambda: text)

    def reveal(self) -> str:
        """Return the text itself, to be put on the wire and nowhere else."""
        return self.__tell()  # type: ignore[no-any-return,attr-defined,unused-ignore]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a secret cannot be changed")

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __reduce__(self) -> tuple[type["Secret"], tuple[str]]:
        return Secret, (HIDDEN,)

    def __getstate__(self) -> str:
        return HIDDEN

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.reveal())
