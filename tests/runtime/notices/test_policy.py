"""What goes out, and when: the first at once, the rest counted, and quiet hours."""

from datetime import datetime, time, timedelta

from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.notice import Notice, NoticeKind, Severity
from bot.runtime.notices.policy import GROUPS_MAX, LISTED_MAX, Policy, Ready
from tests.rows import every_row

NOON = datetime(2026, 11, 19, 12, tzinfo=EXCHANGE_TZ)
MINUTE = timedelta(minutes=1)
NIGHT = (time(22), time(7))


def policy(**hours: tuple[time, time]) -> Policy:
    quiet = {Severity[name.upper()]: span for name, span in hours.items()}
    return Policy(group=MINUTE, quiet_hours=quiet)


def notice(
    at: datetime, kind: NoticeKind = NoticeKind.REJECTION, text: str = "no", group: str = ""
) -> Notice:
    return Notice(at, kind, group or kind, text)


def test_fifty_rejections_in_a_minute_are_one_notice_and_one_summary() -> None:
    tested = policy()
    sent = list[Ready]()

    for number in range(50):
        sent += tested.take(notice(NOON + timedelta(seconds=number), text=f"no {number}"))
    at_once = list(sent)
    sent += tested.due(NOON + timedelta(seconds=59))
    sent += tested.due(NOON + MINUTE)

    assert [(each.count, each.notices[0].text) for each in at_once] == [(1, "no 0")]
    assert [each.count for each in sent] == [1, 49]
    assert [each.text for each in sent[1].notices] == [f"no {n}" for n in range(45, 50)]


def test_a_storm_that_lasts_is_told_of_less_and_less_often() -> None:
    tested = policy()
    sent = 0

    for second in range(8 * 3_600):
        sent += len(tested.take(notice(NOON + timedelta(seconds=second))))

    assert sent == 1 + 6 + 6  # after 1, 2, 4, 8, 16, 32 more minutes, then every hour


def test_one_after_the_summary_and_a_quiet_time_goes_out_at_once_again() -> None:
    tested = policy()
    tested.take(notice(NOON))
    assert tested.due(NOON + MINUTE) == []

    [again] = tested.take(notice(NOON + 2 * MINUTE))

    assert again.count == 1


def test_two_groups_do_not_wait_for_each_other() -> None:
    tested = policy()

    assert len(tested.take(notice(NOON))) == 1
    assert len(tested.take(notice(NOON, NoticeKind.FILL))) == 1


def test_what_quiet_hours_hold_is_told_once_when_they_end() -> None:
    tested = policy(info=NIGHT)
    evening = NOON.replace(hour=23)

    held = [tested.take(notice(evening, NoticeKind.FILL, f"{n}", f"g{n}")) for n in range(7)]
    before = tested.due(NOON.replace(day=20, hour=6, minute=59))
    [told] = tested.due(NOON.replace(day=20, hour=7))

    assert (held, before) == ([[]] * 7, [])
    assert (told.count, told.is_late, len(told.notices)) == (7, True, LISTED_MAX)
    assert tested.due(NOON.replace(day=20, hour=8)) == []


@every_row("kind", [NoticeKind.TWO_FACTOR, NoticeKind.HALTED, NoticeKind.UNKNOWN_ORDER])
def test_a_critical_notice_pierces_quiet_hours_and_a_mute(kind: NoticeKind) -> None:
    tested = policy(info=NIGHT, warning=NIGHT)
    night = NOON.replace(hour=23)
    tested.mute(night + timedelta(hours=1))

    assert len(tested.take(notice(night, kind))) == 1


def test_a_mute_ends_by_itself_and_what_it_kept_is_told() -> None:
    tested = policy()
    tested.mute(NOON + timedelta(hours=1))

    kept = tested.take(notice(NOON))
    [told] = tested.due(NOON + timedelta(hours=1))

    assert (kept, told.is_late) == ([], True)


def test_however_many_groups_there_are_few_are_remembered_and_none_is_lost() -> None:
    tested = policy()
    sent = list[Ready]()

    for number in range(10_000):
        group = f"g{number}"
        sent += tested.take(notice(NOON, group=group))
        sent += tested.take(notice(NOON, group=group))
    sent += tested.all_left(NOON)

    assert len(tested._groups) == 0
    assert sum(each.count for each in sent) == 20_000
    assert GROUPS_MAX < 10_000
