"""Which environment a configuration means. What plays a broker is imported where one is played."""

from collections.abc import Callable

from bot.runtime.worlds.environment import Environment, EnvironmentSpec, access_of
from bot.runtime.worlds.system import ServedEnvironment, SystemEnvironment

MakeEnvironment = Callable[[EnvironmentSpec], Environment]


def make_environment(spec: EnvironmentSpec) -> Environment:
    """Return the environment of the configured mode."""
    settings = spec.loaded.settings
    match settings.mode:
        case "sandbox" if settings.broker.base_url is None:
            from bot.runtime.worlds.sandbox import embedded

            return embedded(spec)
        case "sandbox":
            return ServedEnvironment(access_of(spec.loaded))
        case "paper":
            from bot.runtime.worlds.paper import PaperEnvironment

            return PaperEnvironment(spec, access_of(spec.loaded))
        case "live":
            return SystemEnvironment(access_of(spec.loaded))
