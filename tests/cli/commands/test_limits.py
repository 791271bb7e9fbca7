"""`bot limits` from the journal, and as a running bot answers it."""

import asyncio
import json
from dataclasses import astuple
from pathlib import Path

from bot.config.problems import ExitCode
from bot.domain.plan import AccountLimits
from bot.engine.settings import EngineSettings
from bot.journal.writing.heads import FILE, label_of
from bot.runtime.control.server import ControlServer, handlers_of
from bot.runtime.control.status import limit_fields
from tests.cli.stage import call, make_project
from tests.engine.stage import Stage, limited

STRATEGY = """\
name: sma-fpt
use: sma_cross
symbols: [FPT]
wake: {bar: 1m}
order: {size: {shares: 100}, price: ask}
limits: {max_orders_per_day: 20}
"""


def test_without_a_bot_it_says_so_and_shows_the_limits_of_its_next_start(tmp_path: Path) -> None:
    config = make_project(tmp_path)
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "sma-fpt.yaml").write_text(STRATEGY)

    shown = call("limits", "-c", str(config))
    told = json.loads(call("limits", "--json", "-c", str(config)).out)

    first, head, *rows = shown.out.splitlines()
    assert first == "no bot is running: what its next start begins with, according to the journal"
    assert head.split() == ["OF", "LIMIT", "USED", "ALLOWED", "LEFT"]
    cells = [row.split() for row in rows]
    assert [
        "strategy",
        "sma-fpt",
        "max_orders_per_day",
        "2",
        "orders",
        "20",
        "orders",
        "18",
    ] in cells
    assert ["symbol", "FPT", "max_flips_per_symbol", "0", "changes", "3", "changes", "3"] in cells
    assert ["account", cells[0][1], "max_unknown", "1", "order", "1", "order", "0"] in cells
    assert ["account", cells[0][1], "max_quote_age_s", "per", "order", "10", "s"] in cells
    refused = ["strategy", "sma-fpt", "refused_in_a_row", "1", "order", "3", "orders", "2"]
    assert refused in cells
    assert told["running"] is False
    found = {(row["scope"], row["key"]): (row["used"], row["allowed"]) for row in told["limits"]}
    assert found["account", "max_order_value"] == (None, 20_000_000)
    assert found["strategy", "max_repeats"] == (1, 10)
    # A stopped sandbox goes on with its own day; neither its account nor its prices are known.
    assert found["account", "max_orders_per_day"] == (4, 60)
    for key in ("max_gross_of_nav", "min_cash", "max_loss_per_day"):
        assert found["account", key][0] is None
    assert found["symbol", "max_position_value"][0] is None
    assert found["strategy", "max_loss_per_day"][0] is None


def test_before_the_first_run_the_limits_are_shown_and_nothing_is_made(tmp_path: Path) -> None:
    config = make_project(tmp_path)
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "sma-fpt.yaml").write_text(STRATEGY)
    (tmp_path / "journal.db").unlink()
    files = sorted(path.name for path in tmp_path.rglob("*"))

    shown = call("limits", "-c", str(config))

    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0] == "no bot has run here yet: none of its limits is used"
    assert ["account", "max_gross_of_nav", "?", "80%"] in [line.split() for line in lines]
    assert sorted(path.name for path in tmp_path.rglob("*")) == files


def test_a_journal_that_is_missing_is_not_taken_for_a_bot_that_never_ran(tmp_path: Path) -> None:
    config = make_project(tmp_path)
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "sma-fpt.yaml").write_text(STRATEGY)
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    heads = {"journal": label_of(url), "at": "2026-11-19T02:20:10+00:00", "run": 1, "epoch": 1}
    heads |= {"heads": {"fills": [1, 1, "a"]}, "last": True}
    (tmp_path / "state").mkdir(exist_ok=True)
    (tmp_path / "state" / FILE).write_text(json.dumps(heads) + "\n")
    (tmp_path / "journal.db").unlink()

    shown = call("limits", "-c", str(config))

    first = shown.out.splitlines()[0]
    assert "the journal is missing, although a bot has run here (heads of 2026-11-19 09:20" in first
    assert "put it back" in first


def test_a_running_bot_says_what_is_used_and_shows_no_account_in_full() -> None:
    settings = EngineSettings(
        account_limits=AccountLimits(max_orders_per_day=60, min_cash=1, max_gross_nav_ppm=500_000)
    )
    stage = Stage(limited(max_orders_per_day=5), settings=settings)
    stage.working(100, 27_000)

    used = {
        (row["scope"], row["key"]): (row["used"], row["allowed"], row["unit"])
        for row in limit_fields(stage.engine.limits())
    }

    assert used["account", "max_orders_per_day"] == (1, 60, "orders")
    assert used["strategy", "max_orders_per_day"] == (1, 5, "orders")
    assert used["account", "max_gross_of_nav"] == (2_700_000, 50_000_000, "VND")
    assert used["account", "min_cash"] == (97_295_950, 1, "VND")
    assert used["symbol", "max_open_orders_per_symbol"] == (1, None, "orders")
    assert used["account", "max_order_value"] == (None, None, "VND")
    assert "120C900001.1" not in json.dumps(limit_fields(stage.engine.limits()))
    assert astuple(stage.engine.limits()[0])[:2] == ("account", "120C900001.1")


async def test_a_bot_that_is_still_starting_is_not_said_to_have_a_quota_of_nothing(
    config: Path,
) -> None:
    bot = {"name": "mybot", "mode": "live", "config": str(config)}
    server = ControlServer(config.parent / "state", handlers_of({}), {"bot": bot})
    await server.start()

    told = await asyncio.to_thread(call, "limits", "-c", str(config))

    await server.stop()
    assert (told.code, told.out) == (ExitCode.REFUSED, "")
    assert "E-CTL-005 mybot (live): the bot is still starting and has no limits yet" in told.err
