"""The settings in the engine's terms. A module of its own: most commands read settings and need no
engine.
"""

from datetime import timedelta

from bot.config.settings.model import Settings
from bot.engine.settings import EngineSettings


def engine_settings_of(settings: Settings) -> EngineSettings:
    """Return the settings in the engine's own terms."""
    risk = settings.risk
    return EngineSettings(
        limits=risk.all_strategies,
        account_limits=risk.whole_account,
        at_default=risk.at_default,
        max_quote_age=timedelta(seconds=risk.max_quote_age_s),
        max_quote_source_age=timedelta(seconds=risk.max_source_age_s.quote),
        max_depth_source_age=timedelta(seconds=risk.max_source_age_s.depth),
        exit_on_held_data=risk.exit_on_held_data,
        signal_ttl=timedelta(seconds=risk.signal_ttl_s),
        duplicate_window=timedelta(seconds=risk.duplicate_window_s),
        max_unknown_per_account=risk.max_unknown,
        amend_enabled=risk.allow_amend,
        pause_on_cash_difference=risk.pause_on_cash_difference_vnd,
        clock_max_offset=timedelta(seconds=settings.clock.max_offset_s),
    )
