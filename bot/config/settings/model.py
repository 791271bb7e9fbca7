"""The settings as their keys stand in bot.yaml: one definition that checks and describes them.

Every default is here and nowhere else. Keys and passwords are no settings: see `secrets.py`.
"""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from bot.config.field_types import Flag, Speed, Text, Texts, Whole
from bot.config.limits import LimitsSection
from bot.config.model_check import FileModel
from bot.config.paper import PaperSettings
from bot.domain.plan import Limits
from bot.protocol.secret import Secret

Mode = Literal["sandbox", "paper", "live"]

_SECTION: Final = ConfigDict(
    extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True
)
_DEVICE_ID: Final = "1 to 64 letters, digits and signs (ASCII only, no blanks), like my-server-01"
_ACCOUNT: Final = Text(
    r"[A-Za-z0-9._-]{1,40}", "normal, margin, an id, or a suffix like '.1' in quotes"
)

PREFIX: Final = "BOT_"
"""How the name of a variable of the environment begins that sets a setting."""
NESTING: Final = "__"


class BrokerSettings(BaseModel):
    """Where the broker is and how to speak to it. Keys never stand in this file."""

    model_config = _SECTION

    base_url: Annotated[str, Text(r"https?://[^\s]+", "an address like https://host")] | None = None
    """The broker's address. Left out in the sandbox mode: the embedded broker."""
    secrets_file: Annotated[str, Text()] | None = None
    """A file of mode 0600 with api_key and api_secret; default: secrets.yaml beside this file."""
    device_id: Annotated[str, Text(r"[\x21-\x7e]{1,64}", _DEVICE_ID)] = "vnbot"
    """What the broker asks for with every order: 1 to 64 characters of your choice."""
    account: Annotated[str, _ACCOUNT] = "normal"
    """normal, margin, the id of a sub-account, its extended id, or the suffix of that."""
    requests_per_minute: Annotated[int, Whole(1, 6_000)] = 60
    """The request quota of your key. Orders go first, reads share the rest."""
    api_key: Annotated[Secret | None, Field(exclude=True)] = None
    api_secret: Annotated[Secret | None, Field(exclude=True)] = None


class JournalSettings(BaseModel):
    """Where everything is remembered."""

    model_config = _SECTION

    url: Annotated[str, Text(r"\S{1,500}", "sqlite:///FILE or postgresql+psycopg://…")] | None = (
        Field(default=None, repr=False)
    )
    """sqlite:///FILE or postgresql+psycopg://user@host/name; default: in the state folder."""


class RiskSettings(BaseModel):
    """How careful to be, for all strategies together."""

    model_config = _SECTION

    max_in_flight: Annotated[int, Whole(1, 32)] = 4
    """Orders being sent at once."""
    max_quote_age_s: Annotated[int, Whole(1, 3_600)] = 10
    """No order on a quote older than this (market time)."""
    signal_ttl_s: Annotated[int, Whole(1, 3_600)] = 5
    """A decision that could not be sent within this is dropped (market time)."""
    duplicate_window_s: Annotated[int, Whole(0, 3_600)] = 60
    """The same order again within this is refused (market time)."""
    max_unknown: Annotated[int, Whole(1, 10)] = 1
    """Orders of unknown outcome at which an account takes no new entries."""
    allow_amend: Annotated[bool, Flag()] = False
    """Whether `bot modify` may change orders; cancelling and ordering anew is the safer way."""
    fee_ppm: Annotated[int, Whole(0, 10_000)] = 1_500
    """The broker's fee in parts per million of the amount; 1_500 is 0.15 %."""
    pause_on_cash_difference_vnd: Annotated[int | None, Whole(0, 10**12)] = None
    """Cash that no order here explains, above which the bot pauses; without it, it is noted."""
    limits: LimitsSection = LimitsSection()
    """Limits of every strategy, beside its own; the tighter one holds."""

    @property
    def all_strategies(self) -> Limits:
        """The limits that every strategy has beside its own."""
        return self.limits.to_domain()


class SandboxSettings(BaseModel):
    """The embedded broker."""

    model_config = _SECTION

    seed: Annotated[int, Whole(0, 2**31)] = 7
    """The same seed gives the same market."""
    speed: Annotated[float, Speed()] = 60.0
    """Seconds of market time in a second, or max: as fast as it goes."""
    scenario: Annotated[str, Text()] = "market"
    """The name of a shipped scenario, or a file."""
    port: Annotated[int, Whole(0, 65_535, "a port")] | None = 8790
    """Its port on loopback; 0 takes a free one, null none: it answers in this process alone."""


class LegalSettings(BaseModel):
    """What has to be stated before real orders go out."""

    model_config = _SECTION

    automation_allowed_by_broker: Annotated[str, Text()] | None = None
    """Your dated statement, like '2026-11-02, letter of the broker, N. V. An'."""


class Settings(FileModel):
    """Everything that bot.yaml may say."""

    model_config = _SECTION
    not_yet: ClassVar = {"notify": "no notices are sent yet", "web": "there is no dashboard yet"}

    mode: Mode = "sandbox"
    """sandbox: all is played; paper: real prices, orders matched here; live: real orders."""
    broker: BrokerSettings = BrokerSettings()
    journal: JournalSettings = JournalSettings()
    strategies: Annotated[tuple[str, ...], Texts()] = ("strategies/*.yaml",)
    """Which strategy files run: a pattern, or a list of them."""
    market_rules: Annotated[str, Text()] | None = None
    """A file of what the exchanges changed: days closed or open, largest orders, the fee."""
    state_dir: Annotated[str, Text()] | None = None
    """A folder for journal, control socket and ledger; default: below the XDG state folder."""
    risk: RiskSettings = RiskSettings()
    sandbox: SandboxSettings = SandboxSettings()
    paper: PaperSettings = PaperSettings()
    legal: LegalSettings = LegalSettings()

    @property
    def is_embedded(self) -> bool:
        """Whether the broker is the sandbox in this very process."""
        return self.mode == "sandbox" and self.broker.base_url is None
