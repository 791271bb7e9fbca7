"""All observers of a run: its screen, and beside it the service manager and the process log.

The observers beside the screen never keep the run from its work: they take what they are shown at
once, and handle their own failures.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from bot import __version__
from bot.broker.broker import Broker
from bot.clock import SystemClock
from bot.config.settings.load import Loaded
from bot.config.settings.sources import process_environment
from bot.domain.entry import Entry
from bot.domain.recovery import Recovery
from bot.engine.control_state import Standing
from bot.protocol.secret import Secret
from bot.runtime.health.heartbeat import Heartbeat, Progress, ServiceManager, Work, words_of
from bot.runtime.health.process_log import MEGABYTE, LogWatch, ProcessLog, log_file
from bot.runtime.health.readings import Counts, Readings
from bot.runtime.hush import Hiding, hiding
from bot.runtime.parts import Parts
from bot.runtime.run_controls import Screen
from bot.runtime.supervisor import Supervisor, tell_once_of_files

if TYPE_CHECKING:
    from bot.runtime.health.listening import Listening


class Onlookers:
    """Shows a run to each of them."""

    def __init__(
        self,
        loaded: Loaded,
        screen: Screen,
        supervisor: Supervisor,
        hidden_by: Callable[[Callable[[str], str]], object],
    ) -> None:
        self._loaded = loaded
        self._supervisor = supervisor
        self._manager = ServiceManager(process_environment())
        self._heartbeat = Heartbeat(self._manager, supervisor.is_up)
        self._secrets: list[Callable[[], Secret | None]] = []
        self._channels = loaded.channels(process_environment())
        self.hiding = Hiding(self._known)
        """Removes this run's secrets from a text."""
        hidden_by(self.hiding.text)
        self._log = log_of(loaded, self.hiding)
        self._log_watch = LogWatch(self._log) if self._log else None
        beside = (self._heartbeat, *((self._log,) if self._log else ()))
        self._screens: tuple[Screen, ...] = (screen, *beside)
        self._counts = Counts()
        self._listening: Listening | None = None

    async def begin(self, stack: AsyncExitStack) -> None:
        """Begin with the run; what has to be closed goes on the stack."""
        stack.enter_context(hiding(self._known))
        tell_once_of_files(self.trouble)
        if self._log is not None:
            self._log.begin()
            stack.callback(self._log.end)
            facts = {**self._loaded.bot, "version": __version__, "pid": os.getpid()}
            self._log.say("info", "run_started", facts)
        if self._log_watch is not None:
            watching = asyncio.create_task(self._supervisor.guard(self._log_watch.run()))
            stack.callback(watching.cancel)
        stack.push(self._at_the_end)
        if (port := self._loaded.settings.health.port) is not None:
            self._listen(port, stack)
        beating = asyncio.create_task(self._supervisor.guard(self._heartbeat.run()))
        stack.callback(beating.cancel)

    def _listen(self, port: int, stack: AsyncExitStack) -> None:
        # If nobody asks for the server, it must not cost memory or start time.
        from bot.runtime.health.listening import HOST, Listening, Taken

        listening = Listening(port)
        try:
            listening.begin()
        except Taken as taken:  # a monitor will notice; it is no reason not to trade
            self.trouble(f"{taken}: no pages of health there. Set another health.port")
            return
        self._listening = listening
        stack.callback(listening.end)
        self.row("health", f"http://{HOST}:{listening.port}/metrics")

    def follow(self, work: Work, parts: Parts, broker: Broker) -> None:
        """From here on there is work to observe."""
        self._secrets.append(broker.two_factor.token)

        def words() -> str:
            return words_of(parts.engine.status(), parts.trouble.text)

        if self._log_watch is not None:
            self._log_watch.follow(parts.inbox.post, parts.environment.market.now)
        progress = Progress(work)
        self._heartbeat.follow(progress, words)
        if self._listening is not None:
            mode = self._loaded.settings.mode
            self._listening.follow(Readings(parts, broker, progress, self._counts, mode))

    @property
    def alerts(self) -> tuple[Standing, ...]:
        """What is wrong with the log now."""
        return self._log_watch.alerts if self._log_watch else ()

    def _known(self) -> Iterator[Secret | None]:
        """The secrets that this process knows now."""
        yield self._loaded.settings.broker.api_key
        yield self._loaded.settings.broker.api_secret
        for channel in self._channels:
            yield from channel.secrets
        yield from (secret() for secret in self._secrets)

    def _at_the_end(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Tell the observers other than the screen why the run ended."""
        words, is_clean = "stopped", error is None
        if isinstance(error, asyncio.CancelledError):  # by a signal, before the run handled signals
            words, is_clean = "stopped while it was starting", True
        elif error is not None:
            words = f"{type(error).__name__}: {error}"
        self._heartbeat.end(words if is_clean else f"ended: {words}")
        if self._log is not None:
            self._log.say("info" if is_clean else "error", "run_ended", {"why": words})

    def ahead(self, *shows: Callable[[Entry], None]) -> Callable[[Entry], None]:
        """Return what also logs the entries that the journal cannot take now."""

        def shown(entry: Entry) -> None:
            if self._log is not None:
                self._log.ahead(entry)
            for show in shows:
                show(entry)

        return shown

    # ------------------------------------------------------------------------------- as a screen

    def entry(self, entry: Entry) -> None:
        self._counts.see(entry)
        for each in self._screens:
            each.entry(entry)

    def recovered(self, recovery: Recovery) -> None:
        for each in self._screens:
            each.recovered(recovery)

    def row(self, name: str, text: str) -> None:
        for each in self._screens:
            each.row(name, text)

    def trouble(self, text: str) -> None:
        for each in self._screens:
            each.trouble(text)


def log_of(loaded: Loaded, hiding: Hiding) -> ProcessLog | None:
    settings = loaded.settings.log
    if settings.level == "off":
        return None
    return ProcessLog(
        log_file(loaded),
        level=settings.level,
        bytes_max=settings.max_mb * MEGABYTE,
        keep=settings.keep,
        hiding=hiding,
        now=SystemClock().now,
    )
