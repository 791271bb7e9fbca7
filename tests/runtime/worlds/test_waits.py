"""What is told of a wait for the request quota."""

from datetime import datetime, timedelta

from bot.domain.entry import Note
from bot.domain.message import Event, Noted
from bot.protocol.secret import Secret
from bot.runtime.assemble import tell_waits
from bot.runtime.worlds.environment import Access, ServedEnvironment


def test_a_wait_at_sixty_times_the_speed_is_told_as_long_as_the_market_is_held() -> None:
    told: list[Event] = []
    environment = ServedEnvironment(Access("http://127.0.0.1:1", Secret("key"), Secret("secret")))
    environment.quota_speed = 60.0

    tell = tell_waits(environment, told.append, lambda: False)
    tell(environment.waiter.now() + timedelta(seconds=10), 3, "stock_quote")

    [noted] = told
    assert isinstance(noted, Noted)
    assert isinstance(noted.entry, Note)
    until = datetime.fromisoformat(str(noted.entry.numbers["until"]))
    assert 599 < (until - noted.at).total_seconds() <= 600
