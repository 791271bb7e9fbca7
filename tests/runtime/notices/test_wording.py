"""What is picked as a notice, and that each alert has a kind of notice."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

import bot
from bot.cli.telling.languages import told as in_language
from bot.domain.entry import DAY_NOTE, Note, StateChanged
from bot.domain.message import BrokerHealthChanged, Event, JournalHealthChanged
from bot.domain.notice import SEVERITIES, NoticeKind, Severity, Volume
from bot.domain.operations import Action, OperatorActed
from bot.runtime.notices.policy import Ready
from bot.runtime.notices.wording import KINDS, Picker, Wording, texts
from tests.engine.risk.test_gone_shares import holding
from tests.engine.stage import PLAN, Stage
from tests.rows import every_row

CATALOGUE: Final = Path(bot.__file__).parent / "cli" / "telling" / "vi.yaml"
STANDBY = ("standby_blind", "standby_sees", "start_blind", "start_sees")
OTHERS: Final = (
    *("order_held", "symbol_halted", "nonce_broken", "flatten", "ENTRIES_PAUSED", "REDUCING"),
    *("ENTRIES_STOPPED", "STRATEGY_REPEATS", "STRATEGY_REFUSED"),
)
JOURNAL: Final = ("journal_away", "nothing_kept", "maybe_taken", "journal_back")
"""Groups with a title of their own."""
CLOSED = datetime(2026, 11, 19, 8, 15, tzinfo=UTC)


def test_every_alert_has_a_kind_and_no_kind_is_of_an_alert_that_is_gone() -> None:
    alerts = YAML(typ="safe").load(CATALOGUE.read_text("utf-8"))["alerts"]

    assert set(KINDS) == set(alerts)


def test_every_kind_has_a_severity_and_a_title_in_both_languages() -> None:
    assert set(SEVERITIES) == set(NoticeKind)
    for language in ("en", "vi"):
        assert set(texts(language)["titles"]) == {*NoticeKind, *JOURNAL, *STANDBY, *OTHERS}


def test_both_languages_say_the_same_things() -> None:
    english, vietnamese = texts("en"), texts("vi")

    for part in ("titles", "money", "do", "said"):
        assert set(english[part]) == set(vietnamese[part]), part


def test_the_sum_of_a_day_is_a_notice_and_a_plain_note_is_none() -> None:
    picker = Picker(Wording("en", "mine", "live"), lambda _, text, *__: text)

    [summary] = picker.pick(Note(CLOSED, DAY_NOTE, "2 orders: 2 filled · nothing open"))

    assert (summary.kind, summary.text) == (NoticeKind.SUMMARY, "2 orders: 2 filled · nothing open")
    assert picker.pick(Note(CLOSED, "PULSE", "2 on")) == []


_HALTED: Final = "No new order goes out; positions stay, unless a flatten sells them."
_HALTED_VI: Final = "Không gửi lệnh mới; vị thế giữ nguyên, trừ khi đang bán hết."
_WRONG: Final = "What the bot believes it owns may be wrong"
_MEANS: Final = {
    _HALTED: (
        "ORDERS_HALTED LOSS_HALT API_CHANGED ORDER_REDIRECTED ENGINE_FAULT INVARIANT_BROKEN "
        "JOURNAL_LOST JOURNAL_DAMAGED CRASH_LOOP"
    ),
    "": (
        "SYMBOL_HALTED NONCE_BROKEN NONCES_NOT_TRUSTED TWO_FACTOR_ENDING TOKEN_FILE_REFUSED "
        "NEVER_ARRIVED ORDER_ABSENT REFUSED_AND_REACHED GHOST_ORDER TWIN_ORDER OTHER_ID "
        "ENTRIES_STOPPED REDUCING ENTRIES_PAUSED STRATEGY_REPEATS STRATEGY_REFUSED"
    ),
    "Nothing can be placed, changed or cancelled until then; open orders go on at the exchange.": (
        "CANCEL_NEEDS_TOKEN TWO_FACTOR_NEEDED"
    ),
    "It may be at the exchange, so its money or shares stay reserved; it is not sent again.": (
        "UNKNOWN_OPEN ABSENCE_UNPROVED ORDER_REACHED ORDER_AMBIGUOUS ACCEPTED_NOT_LISTED"
    ),
    "No new position in it; positions stay.": "HELD_DATA",
    f"{_WRONG}.": (
        "BREAK_NOT_ACCEPTED DAY_NOT_COMPARED DAY_UNSETTLED ROW_CONTRADICTS ROW_CORRECTED "
        "ORDER_LIVES ORDER_REOPENED HISTORY_UNREAD ACCOUNT_OLD ACCOUNT_IN_DOUBT SHARES_GONE "
        "FILLS_UNSHOWN ENDED_SHOWN_OPEN START_HELD"
    ),
    f"{_WRONG}; it starts no new day until that is settled.": "BREAK",
}
_MONEY: Final = {code: means for means, codes in _MEANS.items() for code in codes.split()}
"""The line of what each alert means for the money; those of a plain trouble have none."""


def test_what_an_alert_means_for_the_money_is_true_of_it() -> None:
    wording = Wording("en", "mine", "live")
    picker = Picker(wording, lambda _, text, *__: text)

    found = {}
    for code in _MONEY:
        [notice] = picker.pick(Note(CLOSED, "ALERT", "a text", {"alert": code, "asked": 2}))
        found[code] = notice.money

    assert set(_MONEY) == {code for code, kind in KINDS.items() if kind is not NoticeKind.TROUBLE}
    assert found == _MONEY
    taken = wording.notice(CLOSED, NoticeKind.HALTED, "a text", group="maybe_taken")
    assert taken.money == ""


@every_row(
    ("language", "code", "title"),
    [
        ("en", "SYMBOL_HALTED", "LIVE mine: a symbol is halted"),
        ("vi", "SYMBOL_HALTED", "LIVE mine: một mã bị dừng"),
        ("en", "NONCE_BROKEN", "LIVE mine: nonces not trusted"),
        ("vi", "NONCE_BROKEN", "LIVE mine: nonce không đáng tin"),
        ("en", "ORDERS_HALTED", "LIVE mine: HALTED"),
    ],
)
def test_a_halted_symbol_is_not_titled_as_a_halted_bot(
    language: str, code: str, title: str
) -> None:
    assert _title(language, code) == (title, Severity.CRITICAL)


@every_row(
    ("language", "code", "title"),
    [
        ("en", "ENTRIES_PAUSED", "LIVE mine: nothing is bought"),
        ("vi", "ENTRIES_PAUSED", "LIVE mine: không mua"),
        ("en", "REDUCING", "LIVE mine: nothing is bought"),
        ("en", "ENTRIES_STOPPED", "LIVE mine: nothing is bought"),
        ("en", "STRATEGY_REPEATS", "LIVE mine: a strategy is disabled"),
        ("vi", "STRATEGY_REPEATS", "LIVE mine: một chiến lược bị tắt"),
        ("en", "STRATEGY_REFUSED", "LIVE mine: a strategy is paused"),
        ("vi", "STRATEGY_REFUSED", "LIVE mine: một chiến lược tạm dừng"),
    ],
)
def test_a_stop_of_buys_or_of_a_strategy_is_not_titled_as_near_a_limit(
    language: str, code: str, title: str
) -> None:
    assert _title(language, code) == (title, Severity.WARNING)


def _title(language: str, code: str) -> tuple[str, Severity]:
    wording = Wording(language, "mine", "live")
    [notice] = Picker(wording, lambda _, text, *__: text).pick(
        Note(CLOSED, "ALERT", "a text", {"alert": code})
    )

    message = wording.message(Ready(CLOSED, notice.kind, (notice,), 1), Volume.ON)

    return message.title, message.severity


@every_row(
    ("language", "told"),
    [
        ("en", "Flatten: sells what the strategies hold, asked for by operator: get out"),
        (
            "vi",
            "Bán hết: bot bán những gì các chiến lược đang giữ, theo yêu cầu của operator: get out",
        ),
    ],
)
def test_a_flatten_is_told_as_a_halt_that_sells(language: str, told: str) -> None:
    stage = holding(300).stage
    stage.news()
    halt = OperatorActed(stage.now, Action.HALT, "get out", "operator")
    stage.handle(halt)
    stage.handle(replace(halt, flatten=True))

    picker = Picker(Wording(language, "mine", "live"), in_language)
    found = [notice for entry in stage.news() for notice in picker.pick(entry)]

    assert [(each.text, each.money) for each in found if each.group == "flatten"] == [(told, "")]


@every_row(
    ("language", "means", "title"),
    [
        ("en", _HALTED, "LIVE mine: flatten"),
        ("vi", _HALTED_VI, "LIVE mine: bán hết"),
    ],
)
def test_a_halt_that_sells_does_not_say_that_positions_stay_nor_its_end_that_it_is_halted(
    language: str, means: str, title: str
) -> None:
    stage = holding(300).stage
    halt = OperatorActed(stage.now, Action.HALT, "get out", "operator", flatten=True)
    stage.handle(halt)
    begins = stage.news()
    stage.handle(replace(halt, action=Action.RESUME, flatten=False))

    wording = Wording(language, "mine", "live")
    picker = Picker(wording, in_language)
    halted, _ = [notice for entry in begins for notice in picker.pick(entry)]
    ended, _ = [notice for entry in stage.news() for notice in picker.pick(entry)]

    assert halted.money == means
    assert wording.message(Ready(CLOSED, ended.kind, (ended,), 1), Volume.ON).title == title


JOURNAL_CUT: Final = JournalHealthChanged(CLOSED, is_healthy=False, detail="journal cut")
JOURNAL_BACK: Final = JournalHealthChanged(CLOSED, is_healthy=True, detail="journal back")
NO_ROUTE: Final = BrokerHealthChanged(CLOSED, is_healthy=False, detail="no route")
ROUTE: Final = BrokerHealthChanged(CLOSED, is_healthy=True, detail="reads work again")


@every_row(
    "troubles, told",
    [
        ((JOURNAL_CUT, JOURNAL_BACK), []),
        ((NO_ROUTE, ROUTE), ["DEGRADED: no route", "RUNNING: reads work again"]),
        ((JOURNAL_CUT, NO_ROUTE, JOURNAL_BACK), ["nothing can be read from"]),
        (
            (JOURNAL_CUT, NO_ROUTE, JOURNAL_BACK, ROUTE),
            ["nothing can be read from", "RUNNING: reads work again"],
        ),
        (
            (JOURNAL_CUT, NO_ROUTE, ROUTE, JOURNAL_BACK),
            ["nothing can be read from", "RUNNING: journal back"],
        ),
        (
            (NO_ROUTE, JOURNAL_CUT, ROUTE, JOURNAL_BACK),
            ["DEGRADED: no route", "RUNNING: journal back"],
        ),
    ],
)
def test_a_dead_broker_is_told_and_so_is_its_end_whenever_the_journal_is_away(
    troubles: tuple[Event, ...], told: list[str]
) -> None:
    stage, picker = Stage(), Picker(Wording("en", "mine", "live"), lambda _, text, *__: text)
    texts_told = []
    for each in troubles:
        stage.after(5).handle(replace(each, at=stage.now))
        found = [entry for entry in stage.news() if isinstance(entry, (Note, StateChanged))]
        texts_told += [notice.text for entry in found for notice in picker.pick(entry)]

    assert len(texts_told) == len(told)
    assert all(text.startswith(part) for text, part in zip(texts_told, told, strict=True))


def _held(stage: Stage) -> None:
    stage.block_for_token(stage.buy(100, 27_000))


def _released(stage: Stage) -> None:
    _held(stage)
    stage.after(60).quote()
    stage.account()
    stage.token()


def _denied(stage: Stage) -> None:
    _held(stage)
    stage.cash = 1_000_000
    stage.account()
    stage.after(60).quote()
    stage.account()
    stage.token()


def _given_up(stage: Stage) -> None:
    _held(stage)
    stage.pass_time(121)


_BUY: Final = "L-0001 BUY 100 HPG 27,000"
_AND: Final = "is checked again and goes out by itself: don't place it by hand"
_VI: Final = "bot kiểm tra lại rồi tự gửi: đừng tự đặt lệnh này"
_GONE: Final = f"{_BUY} was held for a 2FA token and is not sent any more"
_NOTHING: Final = "Nothing was bought or sold by it"


@every_row(
    ("language", "happens", "told"),
    [
        (
            "en",
            _held,
            f"{_BUY} is held for a 2FA token until 09:32. With one (bot otp) it {_AND}",
        ),
        (
            "vi",
            _held,
            f"L-0001 MUA 100 HPG 27,000 chờ mã 2FA đến 09:32. Khi có mã (bot otp), {_VI}",
        ),
        ("en", _released, f"{_BUY} goes out as L-0002: there is a 2FA token"),
        (
            "en",
            _denied,
            f"{_GONE}: needs 2,704,050 VND with the fee, and 1,000,000 are free. {_NOTHING}",
        ),
        ("en", _given_up, f"{_GONE}: no 2FA within 2 min. {_NOTHING}"),
    ],
)
def test_an_order_that_waits_for_a_token_is_not_told_as_one_that_was_rejected(
    language: str, happens: Callable[[Stage], None], told: str
) -> None:
    stage = Stage(replace(PLAN, hold_2fa=timedelta(seconds=120)))
    wording = Wording(language, "mine", "live")
    picker = Picker(wording, lambda _, text, *__: text)

    happens(stage)

    notices = [notice for entry in stage.entries for notice in picker.pick(entry)]  # type: ignore[arg-type]
    found = [each for each in notices if each.kind is NoticeKind.REJECTION]
    assert found[-1].text == told
    assert {(each.money, each.do) for each in found} == {("", "")}
    ready = Ready(found[0].at, found[0].kind, (found[0],), 1)
    title = {"en": "order held for a 2FA token", "vi": "lệnh chờ mã 2FA"}[language]
    assert wording.message(ready, Volume.ON).title == f"LIVE mine: {title}"
    assert len(found) == (1 if happens is _held else 2)
