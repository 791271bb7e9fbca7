"""Windows that slide: the request quota of 60 seconds, nonces of 300."""

from datetime import UTC, datetime, timedelta

from bot.sandbox.api.gatekeeper import NonceMemory, QuotaWindow

START = datetime(2026, 11, 19, 2, 15, 0, 250_000, UTC)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_a_full_window_refuses_until_its_oldest_request_leaves() -> None:
    window = QuotaWindow(2)

    taken = [window.take(after(s)) for s in (0, 30, 59.9, 60, 61)]

    assert taken == [True, True, False, True, False]


def test_the_reset_is_the_second_in_which_the_oldest_leaves_rounded_up() -> None:
    window = QuotaWindow(1)
    window.take(START)

    assert window.reset_s(after(10)) == int(START.timestamp()) + 61


def test_a_refused_request_counts_only_where_the_switch_says_so() -> None:
    window = QuotaWindow(1)
    window.take(START)
    window.count_refused(after(30))

    assert not window.take(after(60))
    assert window.take(after(90))


def test_a_nonce_is_used_for_300_seconds() -> None:
    memory = NonceMemory()

    memory.use("n1", START)

    assert memory.is_used("n1", START + timedelta(seconds=299.999))
    assert not memory.is_used("n2", START)
    assert not memory.is_used("n1", START + timedelta(seconds=300))


def test_of_many_nonces_each_is_forgotten_at_its_own_time() -> None:
    memory = NonceMemory()
    for second in range(10):
        memory.use(f"n{second}", START + timedelta(seconds=second))

    later = START + timedelta(seconds=304)

    used = [memory.is_used(f"n{second}", later) for second in range(10)]
    assert used == [False] * 5 + [True] * 5
