"""What a start with real money asks: the values of limits that allow more than in the last run."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.cli.commands.service import NO_RESTART
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import load_settings
from bot.domain.entry import LIMITS_NOTE, Note
from bot.engine.limit_changes import SETTINGS
from bot.journal.errors import Holder
from bot.journal.upkeep.verify import last_note
from bot.journal.writing.lease import acquire
from bot.runtime.start.raised import raised_limits, require_typed
from bot.runtime.start.strategies import strategies_to_run
from tests.live_project import ACCOUNT, EVERY, OWN, contacts, project, run
from tests.rows import every_row
from tests.staging import START

ORDER = "risk.account.max_order_value"


async def refused(config: Path, **options: Any) -> list[str]:
    with pytest.raises(OperatorMistake) as mistake:
        await contacts(config, **options)
    return [problem.message for problem in mistake.value.problems]


def with_account(**limits: object) -> Mapping[str, Any]:
    return {"account": {**ACCOUNT, **limits}}


async def test_a_first_start_asks_nothing(tmp_path: Path) -> None:
    assert await contacts(project(tmp_path))


async def test_a_restart_with_the_same_limits_asks_nothing_whatever_the_last_end(
    tmp_path: Path,
) -> None:
    config = project(tmp_path)
    await run(config)

    assert await contacts(config)  # ended before it had written anything
    assert await contacts(config)
    await run(config)
    assert await contacts(config, typed={ORDER: "left over from the last raise"})


async def test_stricter_limits_ask_nothing(tmp_path: Path) -> None:
    await run(project(tmp_path))

    stricter = {name: most // 2 for name, most in ACCOUNT.items() if isinstance(most, int)}
    more = {
        "min_cash": 6_000_000,
        "last_entry_s": 90,
        "symbols": ["HPG"],
        "max_orders_per_second": 1,
    }
    config = project(tmp_path, {**ACCOUNT, **stricter, **more}, own={**OWN, "capital": 5_000_000})

    assert await contacts(config)


async def test_a_typed_limit_starts_is_told_with_who_and_asked_for_no_more(tmp_path: Path) -> None:
    await run(project(tmp_path))
    config = project(tmp_path, **with_account(max_order_value=50_000_000))

    [said, advice] = await refused(config)
    shown = await run(config, typed={ORDER: "50_000_000"})
    again = await contacts(config)

    assert re.fullmatch(f"{ORDER} is 50,000,000 .*bot.yaml:[0-9]+. and was 20,000,000 .*", said)
    assert f"bot run -c {config} --raised {ORDER}=VALUE" in advice
    [told] = [one for one in shown.all(Note) if one.numbers.get("alert") == "LIMITS_CHANGED"]
    assert told.numbers["changes"] == "account.max_order_value 20,000,000 -> 50,000,000"
    assert told.numbers["by"]
    kept = last_note(load_settings(config).journal_url, LIMITS_NOTE)
    assert (kept["account.max_order_value"], again) == (50_000_000, True)


@every_row("typed", ["50_000_000", "50,000,000", " 50000000 ", "50 000 000"])
async def test_separators_do_not_matter(typed: str, tmp_path: Path) -> None:
    config = project(tmp_path)
    await run(config)

    config = project(tmp_path, **with_account(max_order_value=50_000_000))

    assert await contacts(config, typed={ORDER: typed})


@every_row(
    "key, wide, shown",
    [
        ("risk.max_quote_age_s", {"max_quote_age_s": 3_600}, "3,600"),
        ("risk.max_source_age_s.quote", {"max_source_age_s": {"quote": 36_000}}, "36,000"),
        ("risk.signal_ttl_s", {"signal_ttl_s": 600}, "600"),
        ("risk.max_unknown", {"max_unknown": 10}, "10"),
        ("risk.duplicate_window_s", {"duplicate_window_s": 0}, "0"),
        ("risk.exit_on_held_data", {"exit_on_held_data": True}, "true"),
    ],
)
async def test_a_setting_that_allows_more_is_typed_like_a_limit(
    key: str, wide: Mapping[str, object], shown: str, tmp_path: Path
) -> None:
    await run(project(tmp_path))
    config = project(tmp_path, risk=wide)

    [said, _] = await refused(config)

    assert said.startswith(f"{key} is {shown} (")
    assert await contacts(config, typed={key: shown})


async def test_the_command_that_asks_names_a_state_directory_that_another_terminal_lacks(
    tmp_path: Path,
) -> None:
    config = project(tmp_path)
    await run(config)
    of_first = load_settings(config).journal_url
    ours = {"BOT_STATE_DIR": str(tmp_path / "two"), "BOT_JOURNAL__URL": of_first}
    config = project(tmp_path, **with_account(max_order_value=50_000_000))
    loaded = load_settings(config, environment=ours)

    with pytest.raises(OperatorMistake) as mistake:
        await require_typed(loaded, strategies_to_run(loaded, ()).strategies, {})

    asks = f"bot run -c {config} --state-dir {tmp_path / 'two'}"
    assert f"{asks}, on a terminal, asks for it; " in str(mistake.value)
    assert f"{asks} --raised {ORDER}=VALUE, " in str(mistake.value)


async def test_what_an_earlier_program_did_not_keep_is_not_asked_for(tmp_path: Path) -> None:
    await run(project(tmp_path))
    loaded = load_settings(project(tmp_path, risk={"max_quote_age_s": 3_600}))
    found = strategies_to_run(loaded, ()).strategies
    kept = last_note(loaded.journal_url, LIMITS_NOTE)
    earlier = {name: value for name, value in kept.items() if name not in SETTINGS}

    assert [each.key for each in raised_limits(loaded, found, kept)] == ["risk.max_quote_age_s"]
    assert raised_limits(loaded, found, earlier) == ()


async def test_a_limit_for_every_strategy_is_typed_once(tmp_path: Path) -> None:
    names = ("one", "two")
    await run(project(tmp_path, names=names))
    config = project(tmp_path, names=names, every={**EVERY, "capital": 90_000_000})

    [said, _] = await refused(config)

    assert said.startswith("risk.limits.capital is 90,000,000 (")
    assert said.endswith(", for one, two) and was 50,000,000 in the last run")
    assert await contacts(config, typed={"risk.limits.capital": "90000000"})


async def test_a_default_that_holds_again_is_named(tmp_path: Path) -> None:
    await run(project(tmp_path, **with_account(min_cash=9_000_000)))
    account = {name: value for name, value in ACCOUNT.items() if name != "min_cash"}

    [said, _] = await refused(project(tmp_path, account))

    assert said.startswith("risk.account.min_cash is 5,000,000 (the default: ")


async def test_a_strategy_that_was_left_out_comes_back_with_its_limits(tmp_path: Path) -> None:
    names = ("one", "two")
    await run(project(tmp_path, names=names))
    await run(project(tmp_path, names=names), only=("one",))
    config = project(tmp_path, names=names, own={**OWN, "max_position": 90_000})

    [first, second, _] = await refused(config)

    assert (first[:16], second[:16]) == ("one.max_position", "two.max_position")


async def test_without_real_money_nothing_is_asked(tmp_path: Path) -> None:
    played: Mapping[str, Any] = {"mode": "sandbox", "broker": {"account": ".1"}}
    await run(project(tmp_path, **played))

    raised = {**played, **with_account(max_order_value=50_000_000)}

    assert await contacts(project(tmp_path, **raised))


@pytest.mark.postgres
async def test_a_standby_is_refused_before_it_waits(tmp_path: Path, own_postgres_url: str) -> None:
    at: Mapping[str, Any] = {"journal_url": own_postgres_url}
    await run(project(tmp_path, **at))
    lease = acquire(own_postgres_url, Holder(1, "another", START))
    config = project(tmp_path, **at, **with_account(max_order_value=50_000_000))

    try:
        with pytest.raises(OperatorMistake) as mistake:
            await contacts(config, is_standby=True)
    finally:
        lease.release()

    # one that has waited and taken over ends with REFUSED
    assert mistake.value.exit_code == ExitCode.CONFIG
    assert mistake.value.problems[0].message.startswith(ORDER)


async def test_what_was_raised_while_a_standby_waited_ends_it_with_a_code_that_is_restarted(
    tmp_path: Path,
) -> None:
    await run(project(tmp_path))
    loaded = load_settings(project(tmp_path, **with_account(max_order_value=50_000_000)))
    found = strategies_to_run(loaded, ()).strategies

    with pytest.raises(OperatorMistake) as mistake:
        await require_typed(loaded, found, {}, ExitCode.REFUSED)

    assert str(int(mistake.value.exit_code)) not in NO_RESTART.split()
