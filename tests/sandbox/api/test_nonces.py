"""Nonce memory: 300 seconds, by key and nonce."""

from datetime import UTC, datetime, timedelta

from bot.sandbox.api.nonces import NonceMemory

START = datetime(2026, 11, 19, 2, 15, tzinfo=UTC)


def test_a_nonce_is_used_for_300_seconds_and_only_by_its_key() -> None:
    memory = NonceMemory()

    memory.use("key", "n1", START)

    assert memory.is_used("key", "n1", START + timedelta(seconds=299.999))
    assert not memory.is_used("other", "n1", START)
    assert not memory.is_used("key", "n2", START)
    assert not memory.is_used("key", "n1", START + timedelta(seconds=300))


def test_of_many_nonces_each_is_forgotten_at_its_own_time() -> None:
    memory = NonceMemory()
    for second in range(10):
        memory.use("key", f"n{second}", START + timedelta(seconds=second))

    later = START + timedelta(seconds=304)

    used = [memory.is_used("key", f"n{second}", later) for second in range(10)]
    assert used == [False] * 5 + [True] * 5
