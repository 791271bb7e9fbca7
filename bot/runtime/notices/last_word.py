"""What people are told when a service does not start, or ends by a mistake: nobody sees its screen.

The other notices belong to a run that works. This one is sent on its own, once, with a bound on how
long all channels together may take; what goes wrong with it changes nothing about the end.
"""

from contextlib import suppress
from functools import partial
from typing import Final

from bot.clock import SystemClock, monotonic_s
from bot.config.problems import OperatorMistake
from bot.config.settings.load import Loaded
from bot.config.settings.sources import process_environment
from bot.domain.notice import SEVERITIES, NoticeKind, Volume
from bot.runtime.notices.channels import Message, open_channels
from bot.runtime.notices.sender import Result, Sender
from bot.runtime.notices.wording import Wording, clock_of, safe

ALL_S: Final = 8.0
"""Below what a service manager waits for an end, and enough for two tries."""
KIND: Final = NoticeKind.HALTED
"""A bot that is not there sends no order either: as urgent, and told on the same channels."""


def tell_end(loaded: Loaded, mistake: OperatorMistake) -> None:
    """Tell each channel why the service is not there."""
    settings = loaded.settings
    wording = Wording(settings.notify.language or settings.language, loaded.name, settings.mode)
    first, *others = mistake.problems
    lines = [wording.said("ended", at=clock_of(SystemClock().now()), what=safe(first.head))]
    if others:
        lines.append(wording.said("more_wrong", count=len(others)))
    lines.append(wording.said("ended_do"))
    title, body = wording.title(wording.said("ended_title")), "\n".join(lines)
    senders = list[Sender]()
    with suppress(OperatorMistake):  # an address that is not good: the screen names it
        for channel in open_channels(loaded.channels(process_environment())):
            volume = channel.plan.volume(KIND)
            if volume is not Volume.OFF:
                words = partial(wording.said, "dropped")
                sender = Sender(channel.plan.name, channel.send, _ignore, dropped_words=words)
                sender.put(Message(SEVERITIES[KIND], volume, title, body))
                sender.start()
                senders.append(sender)
    until_s = monotonic_s() + ALL_S
    for sender in senders:
        sender.stop()
    for sender in senders:
        sender.join(max(0.0, until_s - monotonic_s()))


def _ignore(_: Result) -> None:
    """Nobody is left to hear what came of it."""
