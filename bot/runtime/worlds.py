"""Which world a configuration means. What plays a broker is imported where one is played."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded
from bot.domain.rulebook import Rulebook
from bot.runtime.activity import Activity
from bot.runtime.world import Access, ServedSandboxWorld, SystemWorld, World

LEDGER: Final = "sandbox.jsonl"
"""The embedded broker's own memory, beside the journal. The bot never reads it."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a world is made of besides its settings. `symbols` are what the strategies trade."""

    loaded: Loaded
    rulebook: Rulebook
    activity: Activity
    symbols: frozenset[str]
    on_bug: Callable[[BaseException], None]


MakeWorld = Callable[[Place], World]


def make_world(place: Place) -> World:
    """Return the world of the configured mode."""
    return _WORLDS[place.loaded.settings.mode](place)


def _sandbox_world(place: Place) -> World:
    settings = place.loaded.settings
    if settings.broker.base_url is not None:
        return ServedSandboxWorld(access_of(place.loaded))
    from bot.runtime.sandbox_world import embedded

    return embedded(place)


def ledger_path(state_dir: Path) -> Path:
    """Where the embedded sandbox keeps its ledger."""
    return state_dir / LEDGER


def _system_world(place: Place) -> World:
    return SystemWorld(access_of(place.loaded))


def access_of(loaded: Loaded) -> Access:
    """Return the configured broker. Raises OperatorMistake without an address, key or secret."""
    broker = loaded.settings.broker
    if broker.base_url is None:
        text = (
            "there is no broker to ask: broker.base_url is not set, and the one of mode sandbox is "
            "there only while the bot runs. Set it in bot.yaml, or start one: bot paper serve"
        )
        raise OperatorMistake.of("E-CFG-043", text, ExitCode.CONFIG)
    if broker.api_key is None or broker.api_secret is None:
        raise OperatorMistake.of(
            "E-SEC-001",
            "no API key or secret. Put them in BOT_BROKER__API_KEY and BOT_BROKER__API_SECRET, in "
            "a 0600 file, or in systemd credentials. Without an account: bot demo",
            ExitCode.SECRET,
        )
    return Access(broker.base_url, broker.api_key, broker.api_secret)


def _paper_world(place: Place) -> World:
    from bot.runtime.paper.world import PaperWorld

    return PaperWorld(
        place.loaded,
        access_of(place.loaded),
        rulebook=place.rulebook,
        symbols=place.symbols,
        activity=place.activity,
        on_bug=place.on_bug,
    )


_WORLDS: Final[Mapping[str, MakeWorld]] = {
    "sandbox": _sandbox_world,
    "paper": _paper_world,
    "live": _system_world,
}
