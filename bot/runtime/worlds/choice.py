"""Which world a configuration means. What plays a broker is imported where one is played."""

from collections.abc import Callable, Mapping
from typing import Final

from bot.runtime.worlds.environment import Place, ServedSandboxWorld, SystemWorld, World, access_of

MakeWorld = Callable[[Place], World]


def make_world(place: Place) -> World:
    """Return the world of the configured mode."""
    return _WORLDS[place.loaded.settings.mode](place)


def _sandbox_world(place: Place) -> World:
    settings = place.loaded.settings
    if settings.broker.base_url is not None:
        return ServedSandboxWorld(access_of(place.loaded))
    from bot.runtime.worlds.sandbox import embedded

    return embedded(place)


def _system_world(place: Place) -> World:
    return SystemWorld(access_of(place.loaded))


def _paper_world(place: Place) -> World:
    from bot.runtime.worlds.paper.environment import PaperWorld

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
