"""The one queue into the engine. Whatever happens, happens by an event put here."""

import asyncio
from collections.abc import Callable

from bot.domain.message import Event
from bot.runtime.activity import Activity

Post = Callable[[Event], None]


class Inbox:
    """Events in the order of their arrival; an event counts as under way until it has been
    handled.
    """

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._queue: asyncio.Queue[Event] = asyncio.Queue()

    def post(self, event: Event) -> None:
        """Put an event at the end."""
        self._activity.begin()
        self._queue.put_nowait(event)

    @property
    def has_more(self) -> bool:
        """True when an event waits."""
        return not self._queue.empty()

    async def take(self) -> Event:
        """Wait for the next event; `done` must follow."""
        return await self._queue.get()

    def done(self) -> None:
        """The event taken last has been handled, its rows written and its commands started."""
        self._activity.end()
