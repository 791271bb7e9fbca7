"""A limit that is another one than in the last run is journalled and told, with who began this."""

from dataclasses import replace
from datetime import timedelta

from bot.domain.entry import LIMITS_NOTE, Note
from bot.domain.plan import AccountLimits, Limits
from bot.domain.recovery import Recovery
from bot.engine.engine import EngineSettings
from tests.engine.stage import DAY, PLAN, Stage

SHARED = AccountLimits(
    max_order_value=20_000_000, last_entry=timedelta(seconds=60), symbols=frozenset({"HPG", "FPT"})
)
OF_A_RUN = {
    "account.max_order_value": 20_000_000,
    "account.last_entry": 60,
    "account.symbols": "FPT HPG",
    "test.capital": 50_000_000,
}


def started(by="an", before=None, shared=SHARED, capital=50_000_000):
    return Stage(
        replace(PLAN, limits=Limits(capital=capital)),
        settings=EngineSettings(account_limits=shared),
        recovery=Recovery(DAY, limits=before or {}, started_by=by),
        is_open=False,
    )


def told(stage):
    return [one.text for one in stage.all(Note) if one.kind == "ALERT"]


def kept(stage):
    return [one.numbers for one in stage.all(Note) if one.kind == LIMITS_NOTE]


def test_the_first_run_keeps_its_limits_and_tells_nothing():
    stage = started()

    assert (kept(stage), told(stage)) == ([OF_A_RUN], [])


def test_a_run_with_the_same_limits_writes_nothing():
    stage = started(before=OF_A_RUN)

    assert (kept(stage), told(stage)) == ([], [])


def test_a_changed_limit_is_told_with_both_values_and_by_whom():
    shared = replace(SHARED, max_order_value=50_000_000, last_entry=None, max_orders_per_day=60)

    stage = started(before=OF_A_RUN, shared=shared, capital=20_000_000)

    [text] = told(stage)
    assert text.startswith(
        "limits have changed since the last run: account.last_entry 60 -> none, "
        "account.max_order_value 20,000,000 -> 50,000,000, account.max_orders_per_day none -> 60, "
        "test.capital 50,000,000 -> 20,000,000. They hold from now on, an has started this run."
    )
    assert kept(stage)[0]["account.max_order_value"] == 50_000_000


def test_who_only_looks_writes_nothing():
    assert kept(started(by="")) == []
