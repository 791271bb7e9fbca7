"""Tells the channels that a standby, or the start of a service, can't see its database: neither has
a journal to tell it by.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from bot.clock import SystemClock
from bot.config.problems import OperatorMistake
from bot.config.settings.load import Loaded
from bot.config.settings.sources import process_environment
from bot.domain.notice import NoticeKind, Volume
from bot.runtime.notices.channels import Channel, open_channels
from bot.runtime.notices.policy import Ready
from bot.runtime.notices.sender import Result, Sender
from bot.runtime.notices.wording import Wording


class BlindNotices:
    """Opens the channels when there is something to tell, and not before."""

    def __init__(self, loaded: Loaded, wording: Wording) -> None:
        self._loaded, self._wording = loaded, wording
        self._senders = list[tuple[Channel, Sender]]()

    def tell(self, who: str, why: str) -> None:
        """Tell each channel why `who` (`standby` or `start`) sees nothing, or that it is over where
        `why` is empty. It does not wait for the network.
        """
        kind = NoticeKind.HALTED if why else NoticeKind.STATE
        name, at = f"{who}_{'blind' if why else 'sees'}", SystemClock().now()
        text = self._wording.said(name, why=why)
        notice = self._wording.notice(at, kind, text, group=name, has_do=False)
        ready = Ready(at, kind, (replace(notice, money=""),), 1)
        self._senders = self._senders or self._open()
        for channel, sender in self._senders:
            if (volume := channel.plan.volume(kind)) is not Volume.OFF:
                sender.put(self._wording.message(ready, volume))
            if not why:
                sender.stop(is_patient=True)
        if not why:
            self._senders = []

    def _open(self) -> list[tuple[Channel, Sender]]:
        words, senders = partial(self._wording.said, "dropped"), list[tuple[Channel, Sender]]()
        # A bad address has ended the start before; where no thread is left, nobody can be told.
        with suppress(OperatorMistake, RuntimeError):
            for channel in open_channels(self._loaded.channels(process_environment())):
                sender = Sender(channel.plan.name, channel.send, _ignore, dropped_words=words)
                sender.start()
                senders.append((channel, sender))
        return senders


def _ignore(_: Result) -> None:
    """There is no journal to keep the result."""
