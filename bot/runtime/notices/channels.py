"""The services that notices go to, through Apprise: the only module that uses it.

An address is checked before anything starts: a service that Apprise knows, over TLS or to this
machine, and no redirects. A name is resolved before each message, and refused if it leads into a
private network or to a cloud's metadata. Apprise connects by itself, so the name may resolve
differently then; more is not possible with it. A service's answer may contain the address, so it is
reported in a few words of our own.
"""

import ipaddress
import logging
import re
import socket
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bot.config.problems import OperatorMistake, Problem
from bot.config.settings.notify import LOOPBACK, ChannelPlan
from bot.domain.notice import Severity, Volume

MISSING: Final = (
    "notices need Apprise, which is not installed: pip install 'vnbot[notify]' (in a clone: "
    "sh scripts/setup.sh)"
)
CONNECT_S: Final = 5.0
READ_S: Final = 5.0
"""How long a service may take to connect, and between two pieces of its answer."""
TITLE_MAX: Final = 120
BODY_MAX: Final = 3_000
ONE_SMS_MAX: Final = 1_000
"""A service whose limit is smaller counts in single SMS (160, 70), and sends a longer text in
several.
"""
JOINT: Final = len("\r\n")
"""Between title and text, where a service has no title of its own and both count as one."""
_TYPES: Final = {
    Severity.INFO: "info",
    Severity.WARNING: "warning",
    Severity.CRITICAL: "failure",
}
_FORMAT: Final = "text"
"""Else Apprise takes a text for HTML or Markdown where a service knows that: Telegram refuses one
with a `<`, and text from outside would be links.
"""
_SILENT: Final[Mapping[str, Mapping[str, str]]] = {
    "tgram": {"silent": "yes"},
    "ntfys": {"priority": "low"},
    "ntfy": {"priority": "low"},
    "pover": {"priority": "low"},
}
"""What makes a service deliver a message silently; other services have no such option."""
_REASONS: Final = (
    (re.compile(r"timed? ?out", re.IGNORECASE), "no answer in time"),
    (re.compile(r"refused", re.IGNORECASE), "the connection was refused"),
    (
        re.compile(r"name or service|resol|getaddrinfo|nodename", re.IGNORECASE),
        "its name is not found",
    ),
    (re.compile(r"certificate|ssl", re.IGNORECASE), "its TLS certificate is not good"),
    (re.compile(r"authenticat|unauthorized", re.IGNORECASE), "it refused our token"),
)
_INSIDE: Final = (
    "it leads into a private network, or to a cloud's metadata, and nothing is sent there"
)
_HEARD: Final = (Volume.ON, Volume.SILENT)
_LINES_MAX: Final = 50
_LINE_MAX: Final = 1_000
_STATUS: Final = re.compile(r"error=(\d{3})\b")


@dataclass(frozen=True, slots=True)
class Message:
    """What one channel is sent."""

    severity: Severity
    volume: Volume
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of a message: whether the service accepted it, else why not, in few words."""

    is_taken: bool
    words: str


class Channel:
    """One service, with the Apprise objects that send to it, one for each volume."""

    def __init__(self, plan: ChannelPlan, senders: Mapping[Volume, Any]) -> None:
        self.plan = plan
        self._senders = senders
        plugin = senders[Volume.ON][0]
        self.service = str(plugin.service_name)
        self._host = _host_of(plugin)
        limit = int(plugin.body_maxlen)
        self._body_max = limit if limit >= ONE_SMS_MAX else BODY_MAX

    def send(self, message: Message) -> Sent:
        """Send a message; it may take as long as the network does, and never raises."""
        try:
            if why := objection_to(self._host):
                return Sent(is_taken=False, words=why)
            title = message.title[:TITLE_MAX]
            with _Said() as said:
                is_taken = self._senders[message.volume].notify(
                    title=title,
                    body=_cut(message.body, self._body_max - len(title) - JOINT),
                    notify_type=_TYPES[message.severity],
                    body_format=_FORMAT,
                )
        except Exception as error:
            return Sent(is_taken=False, words=f"its plug-in failed ({type(error).__name__})")
        return Sent(True, "taken") if is_taken else Sent(False, reason_of("\n".join(said.lines)))


def _cut(body: str, room: int) -> str:
    """Return a text that a service has room for; it would refuse a longer one. It is cut in the
    middle, as its last sentence, or line, says what to do.
    """
    most = max(1, min(BODY_MAX, room))
    if len(body) <= most:
        return body
    last = max(body.rfind(". ") + 1, body.rfind("\n"), len(body) - most // 2)
    end = body[last:]
    return f"{body[: most - 1 - len(end)]}…{end}"


def open_channels(plans: Sequence[ChannelPlan]) -> tuple[Channel, ...]:
    """Return a channel for each plan. Raises OperatorMistake, which shows no address."""
    if not plans:
        return ()
    try:
        import apprise
    except ImportError as error:
        raise OperatorMistake.of("E-CFG-051", MISSING) from error
    logger = logging.getLogger("apprise")
    logger.propagate = False  # it would write to the screen, and may name an address
    logger.setLevel(logging.DEBUG)  # the reason of a failure is only logged there
    asset = apprise.AppriseAsset(http_redirects=False)
    asset._service_timeout = 0.0  # noqa: SLF001 - else it sends on a thread that our end waits for
    channels, problems = list[Channel](), list[Problem]()
    for plan in plans:
        with _Said(), warnings.catch_warnings(action="ignore"):  # about modules that Apprise loads
            plugins = {volume: plugin_for(apprise, asset, plan, volume) for volume in _HEARD}
        if why := fault_in(plugins[Volume.ON]):
            text = f"the address of channel '{plan.name}': {why}"
            problems.append(Problem("E-CFG-050", f"{plan.origin}: {text}"))
        else:
            senders = {volume: _sender(apprise, asset, each) for volume, each in plugins.items()}
            channels.append(Channel(plan, senders))
    if problems:
        raise OperatorMistake(problems)
    return tuple(channels)


def plugin_for(apprise: Any, asset: Any, plan: ChannelPlan, volume: Volume) -> Any:
    """Return an Apprise plug-in for an address; None if there is none."""
    found = apprise.Apprise.instantiate(
        plan.address.reveal(), asset=asset, suppress_exceptions=True
    )
    if found is None or not hasattr(found, "notify"):
        return None
    extra = _SILENT.get(found.schema, {}) if volume is Volume.SILENT else {}
    if extra:
        address = found.url(privacy=False)
        address += ("&" if "?" in address else "?") + "&".join(f"{k}={v}" for k, v in extra.items())
        found = apprise.Apprise.instantiate(address, asset=asset, suppress_exceptions=True) or found
    found.redirects = False  # an address must not be able to enable it again
    found.socket_connect_timeout = CONNECT_S
    found.socket_read_timeout = READ_S
    return found


def _sender(apprise: Any, asset: Any, plugin: Any) -> Any:
    """Return what sends by a plug-in: only that converts a text to what the service wants."""
    sender = apprise.Apprise(asset=asset)
    sender.add(plugin)
    return sender


def fault_in(plugin: Any) -> str:
    """Return what is wrong with an address, without showing any of it; empty if nothing is."""
    if plugin is None:
        return (
            "not one that Apprise knows, or a part of it is missing; wanted one like tgram://…, "
            "mailtos://…, ntfys://… (docs/notices.md)"
        )
    host, secure = _host_of(plugin), plugin.secure_protocol or ()
    if host in LOOPBACK:
        return ""
    if plugin.schema not in ((secure,) if isinstance(secure, str) else secure):
        known = secure if isinstance(secure, str) else next(iter(secure), "")
        instead = f"use {known}://" if known else "use a service over TLS"
        return (
            f"{plugin.schema}:// is not encrypted, so it may lead to this machine only; {instead}"
        )
    if not plugin.verify_certificate:
        return "it switches off the check of the TLS certificate; take verify=no out"
    return _fault_of_ip(host)


def _host_of(plugin: Any) -> str:
    """Return the host of an address that has one; in others that part would be a token."""
    has_host = any("{host}" in str(each) for each in plugin.templates)
    smtp = getattr(plugin, "smtp_host", None)
    return str(smtp or plugin.host or "").strip("[]").lower() if has_host or smtp else ""


def _fault_of_ip(host: str) -> str:
    try:
        is_global = ipaddress.ip_address(host).is_global
    except ValueError:
        return ""
    return "" if is_global else _INSIDE


def objection_to(host: str) -> str:
    """Return why a host may not be contacted: its name leads into a private network."""
    if not host or host in LOOPBACK:
        return ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""  # a proxy may know it; else Apprise reports that it is not found
    faults = (_fault_of_ip(str(address[0]).partition("%")[0]) for *_, address in found)
    return next(filter(None, faults), "")


class _Said(logging.Handler):
    """Collects what Apprise logs on this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = list[str]()
        self._thread = threading.get_ident()

    def __enter__(self) -> "_Said":
        logging.getLogger("apprise").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("apprise").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if threading.get_ident() == self._thread and len(self.lines) < _LINES_MAX:
            self.lines.append(record.getMessage()[:_LINE_MAX])


def reason_of(said: str) -> str:
    """Return why a message was not accepted, in our own words, without any part of an address."""
    if status := _STATUS.search(said):
        return f"it answered HTTP {status[1]}"
    return next((words for found, words in _REASONS if found.search(said)), "it was not taken")
