"""The settings that an environment holds, found by pydantic-settings: as texts, not checked yet."""

from collections.abc import Mapping

from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from bot.config.settings.model import NESTING, PREFIX, Settings


class _InEnvironment(Settings, BaseSettings):
    """The settings as pydantic-settings looks for them in an environment."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=NESTING, enable_decoding=False
    )


class _Environment(EnvSettingsSource):
    """An environment that is handed in."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {name.lower(): value for name, value in environment.items()}
        super().__init__(_InEnvironment)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._environment


def settings_in(environment: Mapping[str, str]) -> dict[str, object]:
    """Return the tree of settings that variables like BOT_BROKER__DEVICE_ID set, in any case."""
    return dict(_Environment(environment)())
