"""The settings as bot.yaml holds them: one definition that checks and describes its keys.

Every default is here and nowhere else. API keys and passwords are not settings: see `secrets.py`.
"""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from bot.config.field_types import flag, pace, reader, text, texts, whole, wrong
from bot.config.limits import AccountSection, EveryStrategySection
from bot.config.model_check import FileModel, Section
from bot.config.settings.notify import NotifySettings
from bot.domain.plan import AccountLimits, Limits
from bot.protocol.secret import Secret
from bot.sandbox.markets.mirror.model import FillName

Mode = Literal["sandbox", "paper", "live"]
Language = Literal["en", "vi"]

_DEVICE_ID: Final = "1 to 64 letters, digits and signs (ASCII only, no blanks), like my-server-01"
_ACCOUNT: Final = text(
    r"[A-Za-z0-9._-]{1,40}", "normal, margin, an id, or a suffix like '.1' in quotes"
)
_SYMBOL: Final = re.compile(r"[A-Z0-9]{1,12}")
_FEE: Final = "parts per million (1_500 for 0.15 %)"
_SETTLED: Final = whole(1, 1_000_000_000, "settled shares")

PREFIX: Final = "BOT_"
"""Prefix of the environment variables that set a setting."""
NESTING: Final = "__"


class BrokerSettings(Section):
    """Where the broker is and how to speak to it. Keys never belong in this file."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    base_url: Annotated[str, text(r"https?://[^\s]+", "an address like https://host")] | None = None
    """The broker's address. Left out in sandbox mode: the embedded broker."""
    secrets_file: Annotated[str, text()] | None = None
    """A file of mode 0600 with api_key and api_secret; default: secrets.yaml beside this file."""
    device_id: Annotated[str, text(r"[\x21-\x7e]{1,64}", _DEVICE_ID)] = "vnbot"
    """Sent with every order: 1 to 64 characters of your choice."""
    account: Annotated[str, _ACCOUNT] = "normal"
    """normal, margin, a sub-account's id, its extended id, or the suffix of that."""
    requests_per_minute: Annotated[int, whole(1, 6_000)] = 60
    """The request quota of your key. Orders go first, reads share the rest."""
    api_key: Annotated[Secret | None, Field(exclude=True)] = None
    api_secret: Annotated[Secret | None, Field(exclude=True)] = None


class KeepSettings(Section):
    """For how many days rows stay in the journal; 0: for ever. Orders, requests, attempts, fills,
    transitions and halts always do. What is older goes at the close of a day.
    """

    decisions: Annotated[int, whole(0, 3_650)] = 90
    """Reasons why nothing was ordered. Decisions about an order stay."""
    order_results: Annotated[int, whole(0, 3_650)] = 730
    """What the broker said of an order, raw, each time that it differed."""
    account_snapshots: Annotated[int, whole(0, 3_650)] = 365
    """The broker's numbers of the account, as they were read."""
    notes: Annotated[int, whole(0, 3_650)] = 730
    """Pulses, alerts, changes of phase."""


class JournalSettings(Section):
    """Where the journal is kept."""

    url: Annotated[str, text(r"\S{1,500}", "sqlite:///FILE or postgresql+psycopg://…")] | None = (
        Field(default=None, repr=False)
    )
    """sqlite:///FILE or postgresql+psycopg://user@host/name; default: in the state folder."""
    write_timeout_s: Annotated[int, whole(1, 60)] = 5
    """A write that has not returned by then: no order leaves until it does (wall clock)."""
    keep: KeepSettings = KeepSettings()
    backups: Annotated[str, text()] | None = None
    """The folder that bot journal backup writes to. With it no row goes that no backup there holds.
    """


class ClockSettings(Section):
    """How far our clock may be from the broker's."""

    max_offset_s: Annotated[int, whole(6, 25)] = 20
    """From here on no order is sent, from 5 s there is a warning. An order that got lost is looked
    for among rows whose time is off by as much.
    """


class SourceAges(Section):
    """How old quote and depth may be by their own time, in continuous trading (market time).

    A symbol that trades seldom may be silent for ten of its usual gaps of the day.
    """

    quote: Annotated[int, whole(60, 36_000)] = 900
    """Seconds since the quote's own time."""
    depth: Annotated[int, whole(10, 36_000)] = 60
    """Seconds since the depth's own time."""


class RiskSettings(Section):
    """How careful to be, for all strategies together."""

    max_in_flight: Annotated[int, whole(1, 32)] = 4
    """Orders being sent at once."""
    max_quote_age_s: Annotated[int, whole(1, 3_600)] = 10
    """No order on a quote older than this (market time)."""
    max_source_age_s: SourceAges = SourceAges()
    """Older by its own time than this, in continuous trading, market data is not believed."""
    exit_on_held_data: Annotated[bool, flag] = False
    """Whether positions may be sold while a symbol's market data is not believed."""
    signal_ttl_s: Annotated[int, whole(1, 3_600)] = 5
    """A decision that cannot be sent within this is dropped (market time)."""
    duplicate_window_s: Annotated[int, whole(0, 3_600)] = 60
    """The same order again within this is refused (market time)."""
    max_unknown: Annotated[int, whole(1, 10)] = 1
    """Orders of unknown outcome at which an account takes no new entries."""
    allow_amend: Annotated[bool, flag] = False
    """Whether `bot modify` may change orders; cancelling and placing a new one is safer."""
    fee_ppm: Annotated[int, whole(0, 4_500, _FEE)] = 1_500
    """The broker's fee in parts per million of the amount; 1_500 is 0.15 %, 4_500 the legal cap.

    Once set, it outranks `broker_fee_ppm` of the `market_rules` file.
    """
    pause_on_cash_difference_vnd: Annotated[int | None, whole(0, 10**12)] = None
    """The bot pauses when cash differs by more than this unexplained; left out: it notes it."""
    limits: EveryStrategySection = EveryStrategySection()
    """Limits of every strategy, in addition to its own; the tighter one holds."""
    account: AccountSection = AccountSection()
    """Limits that all strategies of the account share; the tightest one holds."""

    @property
    def all_strategies(self) -> Limits:
        """The limits that every strategy has besides its own."""
        return self.limits.to_domain()

    @property
    def whole_account(self) -> AccountLimits:
        """The limits that all strategies share."""
        return self.account.to_domain()

    @property
    def at_default(self) -> frozenset[str]:
        """The keys of limits that nobody has set, as they are written: `risk.limits.capital`."""
        parts = {"risk.": self, "risk.limits.": self.limits, "risk.account.": self.account}
        return frozenset(
            f"{start}{name}"
            for start, part in parts.items()
            for name in type(part).model_fields
            if name not in part.model_fields_set
        )


class SandboxSettings(Section):
    """The embedded broker."""

    seed: Annotated[int, whole(0, 2**31)] = 7
    """The same seed gives the same market."""
    speed: Annotated[float, pace] = 60.0
    """Seconds of market time in a second, or max: as fast as the machine goes."""
    scenario: Annotated[str, text()] = "market"
    """The name of a shipped scenario, or a file."""
    port: Annotated[int, whole(0, 65_535, "a port")] | None = 8790
    """Its port on loopback; 0: any free one; null: none, it answers in this process only."""


@reader({"type": "object", "additionalProperties": _SETTLED.schema})
def settled_shares(value: object) -> Mapping[str, int]:
    """Settled shares by symbol."""
    wanted = "symbols with their settled shares, like {HPG: 1_000}"
    if not isinstance(value, Mapping):
        raise wrong("E-CFG-013", wanted, value)
    for symbol in value:
        if not isinstance(symbol, str) or not _SYMBOL.fullmatch(symbol):
            raise wrong("E-CFG-024", wanted, symbol)
    return {symbol: _SETTLED.read(shares) for symbol, shares in value.items()}


class PaperSettings(Section):
    """The paper account. What it began with stays, until you begin a new one."""

    fill: FillName = "queue"
    """How orders are filled: touch, depth or queue, from the kindest to the most careful."""
    cash: Annotated[int, whole(0, 1_000_000_000_000, "whole VND")] = 100_000_000
    """VND that the account begins with."""
    holdings: Annotated[Mapping[str, int], settled_shares] = {}
    """Settled shares that it begins with, at the price of that day: {HPG: 1_000}."""
    fee_ppm: Annotated[int, whole(0, 10_000, _FEE)] | None = None
    """Its fee in parts per million of the amount; left out: risk.fee_ppm."""


class LogSettings(Section):
    """The log of the process: JSON, one line for each thing that happened."""

    level: Literal["debug", "info", "warning", "error", "off"] = "info"
    """The least that is written. debug: also why nothing was ordered."""
    file: Annotated[str, text()] | None = None
    """Where; left out: bot.log in the state folder."""
    max_mb: Annotated[int, whole(1, 1_000)] = 10
    """Of one file; then it is put aside and another begun."""
    keep: Annotated[int, whole(1, 100)] = 5
    """How many that were put aside are kept."""


class HealthSettings(Section):
    """Pages for a monitor, on this machine alone: /healthz, /readyz and /metrics."""

    port: Annotated[int, whole(1_024, 65_535, "a port")] | None = None
    """Of 127.0.0.1; left out: there are none."""


class LegalSettings(Section):
    """What you must state before real orders go out."""

    automation_allowed_by_broker: Annotated[str, text()] | None = None
    """Your dated statement, like '2026-11-02, letter of the broker, N. V. An'."""


class Settings(FileModel):
    """Everything that bot.yaml may hold."""

    not_yet: ClassVar = {"web": "there is no dashboard yet"}

    mode: Mode = "sandbox"
    """sandbox: all simulated; paper: real prices, orders matched here; live: real orders."""
    language: Language = "en"
    """Of the alerts on the screen and in bot status: en is English, vi Vietnamese."""
    broker: BrokerSettings = BrokerSettings()
    journal: JournalSettings = JournalSettings()
    strategies: Annotated[tuple[str, ...], texts] = ("strategies/*.yaml",)
    """Which strategy files run: a pattern, or a list of them."""
    market_rules: Annotated[str, text()] | None = None
    """A file of changes: days closed or open, largest orders, the broker's fee if risk.fee_ppm
    is not set.
    """
    state_dir: Annotated[str, text()] | None = None
    """A folder for journal, control socket and ledger; default: below the XDG state folder."""
    record: Annotated[bool, flag] = False
    """Whether each run is recorded in the state folder, for bot replay: some MB a day."""
    record_days: Annotated[int, whole(1, 3_660)] = 30
    """How many days of recordings are kept."""
    clock: ClockSettings = ClockSettings()
    risk: RiskSettings = RiskSettings()
    sandbox: SandboxSettings = SandboxSettings()
    paper: PaperSettings = PaperSettings()
    legal: LegalSettings = LegalSettings()
    log: LogSettings = LogSettings()
    notify: NotifySettings = NotifySettings()
    health: HealthSettings = HealthSettings()

    @property
    def is_embedded(self) -> bool:
        """Whether the broker is the sandbox in this process."""
        return self.mode == "sandbox" and self.broker.base_url is None
