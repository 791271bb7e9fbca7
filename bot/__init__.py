"""vnbot: a trading daemon for the HTTP open API of a Vietnamese securities broker."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.strategy import Strategy

__version__ = "0.1.0"
__all__ = ["Strategy", "__version__"]


def __getattr__(name: str) -> object:
    """Import `Strategy` on first use, so that `import bot` stays cheap."""
    if name == "Strategy":
        from bot.strategy import Strategy

        return Strategy
    raise AttributeError(f"module 'bot' has no attribute {name!r}")
