"""Which world a configuration means. What plays a broker is imported where one is played."""

from collections.abc import Callable, Mapping
from typing import Final

from bot.runtime.worlds.environment import (
    Environment,
    EnvironmentSpec,
    ServedEnvironment,
    SystemEnvironment,
    access_of,
)

MakeEnvironment = Callable[[EnvironmentSpec], Environment]


def make_environment(spec: EnvironmentSpec) -> Environment:
    """Return the world of the configured mode."""
    return _ENVIRONMENTS[spec.loaded.settings.mode](spec)


def _of_sandbox(spec: EnvironmentSpec) -> Environment:
    settings = spec.loaded.settings
    if settings.broker.base_url is not None:
        return ServedEnvironment(access_of(spec.loaded))
    from bot.runtime.worlds.sandbox import embedded

    return embedded(spec)


def _of_live(spec: EnvironmentSpec) -> Environment:
    return SystemEnvironment(access_of(spec.loaded))


def _of_paper(spec: EnvironmentSpec) -> Environment:
    from bot.runtime.worlds.paper.environment import PaperEnvironment

    return PaperEnvironment(
        spec.loaded,
        access_of(spec.loaded),
        rulebook=spec.rulebook,
        symbols=spec.symbols,
        activity=spec.activity,
        on_bug=spec.on_bug,
    )


_ENVIRONMENTS: Final[Mapping[str, MakeEnvironment]] = {
    "sandbox": _of_sandbox,
    "paper": _of_paper,
    "live": _of_live,
}
