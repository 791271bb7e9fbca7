"""The contents of a scenario file: day, account, the market's script, faults, switches.

The caller parses the YAML text (as YAML 1.2 scalars) and gives the mapping to
`Scenario.model_validate`; every key except `symbols` is optional, and an unknown key is an error.
All times of day are local to the exchange, on `day`; money and prices are whole VND, volumes
shares.
"""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, SecretStr, model_validator

from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument, InstrumentKind
from bot.sandbox.faults.script import SECONDS_MAX, FaultScript
from bot.sandbox.house.corporate_actions import CorporateAction
from bot.sandbox.markets.flow.day import FlowScript
from bot.sandbox.markets.mirror.model import FillName
from bot.sandbox.markets.replay.data import Recording, RecordKind, ReplayScript
from bot.sandbox.scenario_part import LocalTime, Part, Span

Price = Annotated[int, Field(gt=0, le=100_000_000)]
Volume = Annotated[int, Field(gt=0, le=1_000_000_000)]
LevelVolume = Annotated[int, Field(gt=0, le=10_000_000)]
Money = Annotated[int, Field(ge=0)]
Level = tuple[Price, Volume]
Symbol = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9]{2,11}$")]
"""As the exchanges write symbols: `HPG`, `E1VFVN30`, `CHPG2601`."""


class Misplaced(ValueError):
    """A mistake that only the whole scenario shows, and the place in it to correct."""

    def __init__(self, place: tuple[str | int, ...], text: str) -> None:
        super().__init__(text)
        self.place = place


class Anchor(Part):
    """The market is drawn towards `price` at `at`, linearly between anchors."""

    at: LocalTime
    price: Price


class Imbalance(Span):
    """From `at` to `until` the volumes waiting to buy and to sell are multiplied."""

    bids: float = Field(default=1.0, gt=0)
    asks: float = Field(default=1.0, gt=0)


class Standstill(Span):
    """From `at` to `until` only these levels exist, nobody trades, and nothing taken
    is refilled.
    """

    bids: tuple[Level, ...] = ()
    asks: tuple[Level, ...] = ()


class Halt(Span):
    """From `at` to `until` the exchange halts the symbol: orders are refused and nothing trades."""


class Deal(Part):
    """At `at` somebody takes from the asks, or gives to the bids, at `price` or better."""

    at: LocalTime
    do: Literal["take", "give"]
    price: Price
    volume: Volume


class SymbolScript(Part):
    """One symbol and how its market behaves.

    `level_volume` is the typical volume of a price level, `swing_ticks` how far the noise carries
    the price from its path, `trade_chance` how likely somebody trades in one step of the market.
    With `flow` the market is the order flow instead, with `replay` the recorded days; neither is
    scripted.
    """

    symbol: Symbol
    exchange: Exchange
    kind: InstrumentKind = InstrumentKind.STOCK
    name: str = ""
    reference: Price
    is_halted: bool = False
    is_special: bool = False
    underlying: Symbol | None = None
    """For a covered warrant: the listed share that its band follows."""
    ratio: Decimal | None = Field(default=None, gt=0)
    """For a covered warrant: how many of it buy one share."""
    level_volume: LevelVolume = 3_000
    swing_ticks: float = Field(default=3.0, ge=0)
    trade_chance: float = Field(default=0.5, ge=0, le=1)
    path: tuple[Anchor, ...] = ()
    imbalances: tuple[Imbalance, ...] = ()
    standstills: tuple[Standstill, ...] = ()
    deals: tuple[Deal, ...] = ()
    halts: tuple[Halt, ...] = ()
    flow: FlowScript | None = None
    replay: RecordKind | None = None

    @model_validator(mode="after")
    def _has_one_market(self) -> "SymbolScript":
        scripted = self.path or self.imbalances or self.standstills or self.deals
        if sum(map(bool, (self.flow, self.replay, scripted))) > 1:
            raise ValueError(
                "a symbol has either flow, or replay, or path, imbalances, standstills and deals"
            )
        if self.is_halted and self.halts:
            raise ValueError("a symbol is halted for the whole run (is_halted) or at times (halts)")
        return self

    @property
    def instrument(self) -> Instrument:
        return Instrument(self.symbol, self.exchange, self.kind)


class AccountScript(Part):
    """One sub-account. `suffix`: .1 ordinary, .6 margin, .4 order routing."""

    id: str
    depository_number: str = Field(default="120C900001", pattern=r"^[0-9]{3}C[0-9]{6}$")
    suffix: str = Field(default=".1", pattern=r"^\.[0-9]$")
    type: Literal["Normal", "Margin"] = "Normal"
    name: str = "NGUYEN VAN DEMO"
    cash: Money = 100_000_000
    holdings: dict[str, Volume] = Field(default_factory=dict)
    """Settled shares."""

    @property
    def extended_id(self) -> str:
        """The name of the account in request bodies."""
        return self.depository_number + self.suffix


class Switches(Part):
    """How this broker behaves where the sources differ or are silent.

    `docs/switches.md` explains each switch and who decided its default.
    """

    partial_status: Literal["SENT", "MATCHED"] = "SENT"
    matched_may_cancel: bool = True
    matching: Literal["after_answer", "before_answer"] = "after_answer"
    cancel_answer: Literal["CANCELLED", "CANCELLING"] = "CANCELLED"
    refused_change: Literal["result", "http_400"] = "result"
    modify_both: Literal["accept", "refuse"] = "accept"
    modify_quantity: Literal["total", "open"] = "total"
    no_error_code: Literal["", "0"] | None = None
    error_codes: Literal["seed", "named", "numeric"] = "seed"
    verify_body_hash: bool = False
    only_routing_account_trades: bool = False
    refused_requests_count: bool = False
    modify_id: Literal["same", "new"] = "same"
    modify_executed: Literal["carried", "restarts"] = "carried"
    row_visible_after_s: float = Field(default=0, ge=0, le=SECONDS_MAX)
    rejected_order_id: Literal["given", "empty"] = "given"
    place_names_account: Literal["required", "optional"] = "required"
    status_codes: Literal["seed", "core"] = "seed"
    row_account: Literal["extended", "numbered"] = "extended"
    total_pnl: Literal["amount", "quantity"] = "amount"
    account_type_case: Literal["title", "lower"] = "title"
    other_user_status: Literal[401, 403, 404] = 401
    otp_refusal_status: Literal["suggested", "400"] = "suggested"
    check_tier_one_signature: bool = False
    listed_types: Literal["table", "narrow"] = "table"
    depth_order: Literal["best_first", "worst_first"] = "best_first"
    depth_levels: int = Field(default=3, ge=1, le=10)
    auction_levels: Literal["absent", "price_zero"] = "absent"
    history_scale: Literal["vnd", "thousand"] = "vnd"
    history_order: Literal["ascending", "descending"] = "ascending"
    index_count_series: bool = True
    calendar_unit: Literal["item", "detail", "figure"] = "item"
    no_reports: Literal["list", "null"] = "list"
    fund_paths: Literal["served", "gone"] = "served"
    earlier_paths: Literal["served", "gone"] = "served"


class Scenario(Part):
    """One day of the sandbox. Key and secret are made from name and seed unless set."""

    name: str = "scenario"
    day: date | None = None
    start: LocalTime = time(9, 14, 55)
    until: LocalTime | None = None
    """When a demo of this scenario ends; the sandbox itself continues."""
    seed: int = 7
    speed: float = Field(default=1.0, gt=0, le=100_000, allow_inf_nan=False)
    api_key: SecretStr | None = None
    api_secret: SecretStr | None = None
    otp_code: SecretStr = SecretStr("424242")
    email: str | None = "demo@example.com"
    quota: Literal["FREE", "BASIC", "PRO", "ENTERPRISE"] = "FREE"
    user_id: int = 900_001
    fee_ppm: int | None = Field(default=None, ge=0)
    accounts: tuple[AccountScript, ...] = (AccountScript(id="0009000011"),)
    fill: FillName | None = None
    """If set, observations drive the market instead of a simulation; this names the fill model."""
    symbols: tuple[SymbolScript, ...] = Field(min_length=1)
    replay: ReplayScript = ReplayScript()
    faults: tuple[FaultScript, ...] = ()
    corporate_actions: tuple[CorporateAction, ...] = ()
    """Those that went ex by the start are past: references and holdings already include them."""
    switches: Switches = Switches()
    _recording: Recording = PrivateAttr(default=Recording())

    @model_validator(mode="after")
    def _replays_from_a_place(self) -> "Scenario":
        for number, each in enumerate(self.symbols):
            if each.replay and getattr(self.replay, each.replay) is None:
                text = (
                    f"{each.symbol} is replayed from {each.replay}: name their place under replay"
                )
                raise Misplaced(("symbols", number, "replay"), text)
        return self

    @model_validator(mode="after")
    def _names_things_once(self) -> "Scenario":
        accounts = self.accounts
        for what, place, key, names in (
            ("symbol", "symbols", "symbol", [script.symbol for script in self.symbols]),
            ("account id", "accounts", "id", [script.id for script in accounts]),
            ("extended account id", "accounts", "suffix", [each.extended_id for each in accounts]),
        ):
            for number, name in enumerate(names):
                if name in names[:number]:
                    raise Misplaced((place, number, key), f"{what} {name} appears more than once")
        return self

    @model_validator(mode="after")
    def _holds_what_it_lists(self) -> "Scenario":
        known = {script.symbol for script in self.symbols}
        for number, account in enumerate(self.accounts):
            for symbol in account.holdings:
                if symbol not in known:
                    text = f"holdings of {symbol}, which is not among the symbols"
                    raise Misplaced(("accounts", number, "holdings", symbol), text)
        return self

    @model_validator(mode="after")
    def _lists_underlying_shares(self) -> "Scenario":
        """Check that warrants and corporate actions refer to shares that the scenario lists."""
        shares = {each.symbol for each in self.symbols if each.kind is not InstrumentKind.CW}
        for number, each in enumerate(self.symbols):
            given = {each.underlying is not None, each.ratio is not None}
            is_warrant = each.kind is InstrumentKind.CW
            if given not in ({is_warrant}, {is_warrant and self.fill is None}):
                text = f"{each.symbol}: underlying and ratio belong to kind CW, both"
                raise Misplaced(("symbols", number), text)
        named = [
            ("symbols", number, "underlying", each.underlying)
            for number, each in enumerate(self.symbols)
        ]
        named += [
            ("corporate_actions", number, "symbol", action.symbol)
            for number, action in enumerate(self.corporate_actions)
        ]
        for place, number, key, symbol in named:
            if symbol is not None and symbol not in shares:
                text = f"{symbol} is not among the shares of this scenario"
                raise Misplaced((place, number, key), text)
        return self

    @property
    def recording(self) -> Recording:
        """What the replayed symbols traded; empty until `with_recording`."""
        return self._recording

    def with_recording(self, recording: Recording) -> "Scenario":
        """Return the scenario with the days that its replay reads."""
        replayed = self.model_copy()
        replayed._recording = recording  # noqa: SLF001 - of our own copy
        return replayed

    @property
    def trading_day(self) -> date:
        """The day; a scenario without one must first be given one by `on`."""
        if self.day is None:
            raise ValueError("this scenario names no day: give it one with on()")
        return self.day

    def on(self, at: datetime) -> "Scenario":
        """Return the scenario starting at that instant."""
        local = at.astimezone(EXCHANGE_TZ)
        return self.model_copy(update={"day": local.date(), "start": local.time()})

    def at(self, moment: time) -> datetime:
        """Return a time of the scenario's day as an instant."""
        return datetime.combine(self.trading_day, moment, EXCHANGE_TZ).astimezone(UTC)

    @property
    def starts_at(self) -> datetime:
        return self.at(self.start)

    @property
    def key_text(self) -> str:
        """The API key, made from name and seed unless it was set."""
        if self.api_key is not None:
            return self.api_key.get_secret_value()
        return f"ak_test_{self._made('key')[:24]}"

    @property
    def secret_text(self) -> str:
        """The API secret, made from name and seed unless it was set."""
        return self.api_secret.get_secret_value() if self.api_secret else self._made("secret")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file and the records that it replays, as far as they must not change.

        Secrets are masked in it. A mirrored market may list more symbols at each start.
        """
        text = self.model_dump_json(exclude={"symbols"} if self.fill else set())
        return sha256((text + self._recording.digest).encode()).hexdigest()

    def _made(self, what: str) -> str:
        return sha256(f"{self.name}|{self.seed}|{what}".encode()).hexdigest()
