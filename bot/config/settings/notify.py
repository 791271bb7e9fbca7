"""The `notify` section of bot.yaml, and where the addresses of its channels come from.

An address of Apprise holds a token or a password, so it is a secret. It belongs in a file of mode
0600 (`notify.yaml`, a name and an address a line) or a systemd credential; outside live mode the
environment may name some too. In bot.yaml itself an address is accepted only if nobody else can
read that file, or if it leads to this machine. No message ever shows an address.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field
from pydantic_core import PydanticCustomError

from bot.config.field_types import local_time, reader, text, texts, whole, wrong
from bot.config.model_check import Section, did_you_mean
from bot.config.private_files import CREDENTIALS_DIRECTORY, read_credential, read_private, refused
from bot.config.problems import ExitCode, OperatorMistake, Problem, shown_path
from bot.config.settings.places import expanded
from bot.config.yaml_file import parse_yaml
from bot.domain.notice import CRITICAL_KINDS, NoticeKind, Severity, Volume
from bot.protocol.secret import Secret

NOTIFY_FILE: Final = "notify.yaml"
CREDENTIAL: Final = "notify"
"""The name of a systemd credential with the same lines."""
CHANNELS_MAX: Final = 8
URL_LENGTH_MAX: Final = 2_000
TOKEN_LENGTH_MIN: Final = 6
"""A shorter part of an address is too common a word to be masked wherever it occurs."""
_BETWEEN_STEPS: Final = re.compile(r"[/?&]+")
_SERVER: Final = re.compile(r"(localhost|\[[0-9a-f:]+\]|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+)(:\d+)?")
_WORD: Final = re.compile(r"[a-z]{1,12}")
"""A word in a path, such as `hook`, is no token; masking it would mask it in every line."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,19}")
_SPAN: Final = re.compile(r"(\S{4,5}) ?- ?(\S{4,5})")
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

Volumes = Mapping[NoticeKind, Volume]
Span = tuple[time, time]
"""From and until, local to the exchange; it may span midnight."""


@reader({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]})
def addresses(value: object) -> tuple[Secret, ...]:
    """Addresses of Apprise, which never appear in messages."""
    try:
        found = texts.read(value)
    except PydanticCustomError:
        raise wrong("E-CFG-013", "a list of Apprise addresses", None) from None
    if len(found) > CHANNELS_MAX or any(len(each) > URL_LENGTH_MAX for each in found):
        wanted = f"at most {CHANNELS_MAX} addresses of at most {URL_LENGTH_MAX:,} characters"
        raise wrong("E-CFG-015", wanted, list(found))
    return tuple(map(Secret, found))


@reader({"type": "object", "additionalProperties": {"enum": [*Volume]}})
def volumes(value: object) -> Volumes:
    """Kinds of notices, each on, silent or off."""
    if not isinstance(value, Mapping):
        raise wrong("E-CFG-013", "kinds of notices, like {fill: silent}", value)
    found = {}
    for kind, volume in value.items():
        if kind not in [*NoticeKind]:
            hint = did_you_mean(str(kind), [each.value for each in NoticeKind])
            wanted = f"one of {', '.join(NoticeKind)}{f' ({hint})' if hint else ''}"
            raise wrong("E-CFG-014", wanted, kind)
        if volume not in [*Volume]:
            raise wrong("E-CFG-014", f"{', '.join(Volume)} for {kind}", volume)
        found[NoticeKind(kind)] = Volume(volume)
    return found


@reader({"type": "object", "additionalProperties": volumes.schema})
def volumes_by_channel(value: object) -> Mapping[str, Volumes]:
    """The same for individual channels, by name."""
    if not isinstance(value, Mapping):
        raise wrong("E-CFG-013", "channels, like {phone: {fill: off}}", value)
    return {str(name): volumes.read(each) for name, each in value.items()}


@reader({"type": "string", "pattern": "^[0-9]{1,2}:[0-9]{2} ?- ?[0-9]{1,2}:[0-9]{2}$"})
def hours(value: object) -> Span:
    """A span of a day, local to the exchange: 22:00-07:00."""
    found = _SPAN.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise wrong("E-CFG-016", "two times of day, like 22:00-07:00", value)
    span = local_time.read(found[1]), local_time.read(found[2])
    if span[0] == span[1]:
        raise wrong("E-CFG-016", "two different times of day, like 22:00-07:00", value)
    return span


class QuietHours(Section):
    """When notices wait, and are told together when the hours end. Critical ones never wait."""

    warning: Annotated[Span, hours] | None = None
    """Of rejections, differences, held data, limits, trouble: 22:00-07:00."""
    info: Annotated[Span, hours] | None = None
    """Of fills, changes of state, the day's summary: 16:00-08:30."""

    @property
    def of(self) -> Mapping[Severity, Span]:
        """The hours of each severity that has any."""
        spans = {Severity.WARNING: self.warning, Severity.INFO: self.info}
        return {severity: span for severity, span in spans.items() if span is not None}


class NotifySettings(Section):
    """Who is told what while nobody looks at the screen: bot notify list."""

    urls: Annotated[tuple[Secret, ...], addresses, Field(exclude=True, repr=False)] = ()
    """Apprise addresses; better in notify.yaml, since they hold tokens."""
    file: Annotated[str, text()] | None = None
    """A file of mode 0600 with a name and an address a line; default: notify.yaml beside this."""
    kinds: Annotated[Volumes, volumes] = Field(default_factory=dict)
    """Kinds on, silent or off on every channel: {fill: silent, alive: off}."""
    channels: Annotated[Mapping[str, Volumes], volumes_by_channel] = Field(default_factory=dict)
    """The same on single channels: {mail: {fill: off}}."""
    quiet_hours: QuietHours = QuietHours()
    group_s: Annotated[int, whole(10, 3_600)] = 60
    """Notices of one kind within so many seconds of the first are told in one summary."""
    language: Literal["en", "vi"] | None = None
    """Of the notices; left out: that of the settings."""


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """One channel: its name, its address, where that was found, and how it delivers each kind."""

    name: str
    address: Secret
    origin: str
    volumes: Volumes = field(default_factory=dict)

    def volume(self, kind: NoticeKind) -> Volume:
        return self.volumes.get(kind, Volume.ON)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The address, and each part of it that may be a token: a service's error messages quote
        them in another order. A server's name is not one.
        """
        address = self.address.reveal()
        place, *path = _BETWEEN_STEPS.split(address.partition("://")[2].partition("#")[0])
        login, _, host = place.rpartition("@")
        parts = [login, *login.split(":")]
        if not login and not _SERVER.fullmatch(host):
            parts = [host, *host.split(":")]  # tgram://TOKEN/chat, slack://TOKEN/TOKEN
        steps = (step.rpartition("=")[2] for step in path)
        parts += [step for step in steps if not _WORD.fullmatch(step)]
        found = {address, *parts, *map(unquote, parts)}
        return tuple(
            Secret(each) for each in sorted(found, key=len) if len(each) >= TOKEN_LENGTH_MIN
        )


def find_channels(
    settings: NotifySettings,
    *,
    config: Path,
    origin: str,
    is_live: bool,
    environment: Mapping[str, str],
) -> tuple[ChannelPlan, ...]:
    """Return the channels of a configuration. Raises OperatorMistake, without showing any address.

    `origin` says where `notify.urls` was set.
    """
    found = dict[str, tuple[Secret, str]]()
    named = settings.file is not None
    file = config.absolute().parent / expanded(settings.file or NOTIFY_FILE)
    if named or os.path.lexists(file):
        found |= _in_file(read_private(file), file)
    if folder := environment.get(CREDENTIALS_DIRECTORY):
        credential = Path(folder) / CREDENTIAL
        if os.path.lexists(credential):
            found |= _in_file(read_credential(credential), credential)
    if settings.urls:
        require_private(settings.urls, config, origin, is_live=is_live)
        for number, url in enumerate(settings.urls, start=1):
            found[f"url{number}"] = (url, origin)
    if len(found) > CHANNELS_MAX:
        text = f"{len(found)} notice channels; wanted at most {CHANNELS_MAX}"
        raise OperatorMistake.of("E-CFG-015", text)
    unknown = [name for name in settings.channels if name not in found]
    if unknown:
        known = ", ".join(found) or "none"
        text = f"'notify.channels' names {', '.join(unknown)}; channels with an address: {known}"
        raise OperatorMistake.of("E-CFG-014", text)
    plans = tuple(
        ChannelPlan(name, url, origin, {**settings.kinds, **settings.channels.get(name, {})})
        for name, (url, origin) in found.items()
    )
    if problems := list(silenced(plans)):
        raise OperatorMistake(problems)
    return plans


def silenced(plans: tuple[ChannelPlan, ...]) -> Iterator[Problem]:
    """Yield the critical kinds that no channel delivers with a sound."""
    for kind in sorted(CRITICAL_KINDS):
        if plans and all(each.volume(kind) is not Volume.ON for each in plans):
            text = f"'notify': {kind} is critical, so at least one channel must have it on"
            yield Problem("E-CFG-049", text)


def _in_file(written: str, file: Path) -> dict[str, tuple[Secret, str]]:
    """Return the channels of a file: a name and an address a line."""
    wanted = "wanted lines like phone: 'tgram://…', names of a-z, 0-9, _ and -"
    try:
        data = parse_yaml(written, shown_path(file)).data
    except OperatorMistake:
        # its cause quotes the file
        raise refused(file, f"{wanted}; found something else") from None
    for name, url in data.items():
        if not _NAME.fullmatch(str(name)):
            raise refused(file, f"{wanted}; found another name")
        if not isinstance(url, str) or not url or len(url) > URL_LENGTH_MAX:
            raise refused(file, f"wanted an Apprise address for {name}; put it in quotes")
    return {name: (Secret(str(url)), shown_path(file)) for name, url in data.items()}


def require_private(urls: tuple[Secret, ...], config: Path, origin: str, *, is_live: bool) -> None:
    """Refuse addresses that others can read, unless they lead to this machine."""
    if all(_is_local(each) for each in urls):
        return
    if origin.startswith("env "):
        if is_live:
            text = (
                "notify.urls is set in the environment, which other processes can read: in live "
                f"mode, use {NOTIFY_FILE} (mode 0600) or a systemd credential"
            )
            raise OperatorMistake.of("E-SEC-003", text, ExitCode.SECRET)
    elif config.stat().st_mode & _OTHERS:
        text = (
            f"notify.urls contains tokens, and others can read {shown_path(config)}: move it to "
            f"{NOTIFY_FILE} beside it (phone: 'tgram://…', mode 0600), or: "
            f"chmod 600 {shown_path(config)}"
        )
        raise OperatorMistake.of("E-SEC-002", text, ExitCode.SECRET)


def _is_local(url: Secret) -> bool:
    try:
        parts = urlsplit(url.reveal())
        return parts.hostname in LOOPBACK and not (parts.username or parts.password)
    except ValueError:
        return False
