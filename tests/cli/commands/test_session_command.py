"""`bot session`: the phases, a symbol explained, the rulebook of a day."""

import asyncio
import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from bot.cli.commands.session import LISTED, day_strip
from bot.cli.show import UNCUT
from bot.config.rulebook import load_rulebook, load_symbols
from bot.config.scenario_file import load_scenario
from bot.config.shipped import scenario_names
from bot.runtime.control.server import ControlServer
from bot.runtime.control.socket import Reply, Request, refused
from tests.cli.json_keys import differences
from tests.cli.stage import Ran, call, make_project

AT = ("--at", "2026-11-19T14:31")


def called(*arguments: str) -> tuple[int, str, str]:
    ran = call("session", *arguments)
    return ran.code, ran.out, ran.err


def test_without_a_symbol_it_shows_each_exchange():
    code, out, _ = called(*AT)

    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[2:5]] == [
        ["HOSE", "closing"],
        ["HNX", "closing"],
        ["UPCOM", "continuous"],
    ]


def test_with_a_symbol_it_says_what_may_be_done_and_by_which_rule():
    code, out, _ = called("hpg", *AT)

    assert code == 0
    assert out.splitlines()[0] == "HPG at 2026-11-19 14:31:00 by the exchange's rules"
    cancel = next(line for line in out.splitlines() if line.startswith("cancel"))
    assert cancel.split()[:3] == ["cancel", "high", "no:"]


def test_a_symbol_is_explained_where_it_traded_then():
    _, out, _ = called("BSR", "--at", "2026-11-19T14:31", "--json")

    found = json.loads(out)
    assert found["explained"][0]["says"] == "HOSE STOCK, status not known"
    assert found["explained"][2]["source"]


def test_the_rulebook_of_a_day_has_a_source_for_each_rule():
    code, out, _ = called("--rules", "--json", *AT)

    rules = json.loads(out)["rules"]
    assert code == 0
    assert len(rules) > 60
    assert all(rule["source"] and rule["confidence"] and rule["since"] for rule in rules)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("NOPE", *AT), "the shipped table of symbols has no 'NOPE' on 2026-11-19"),
        (("--at", "2025-05-04T10:00"), "2025-05-04 is too early: the rules known here"),
        (("--at", "noon"), "wanted a date and time like"),
    ],
)
def test_what_is_not_known_is_a_wrong_command_line(arguments, words):
    code, out, err = called(*arguments)

    assert (code, out) == (2, "")
    assert words in err


def test_into_a_pipe_no_column_and_no_word_is_left_out():
    out = call("session", "FPT", "--at", "2026-11-20T10:00", columns=UNCUT).out

    head, *rows = out.splitlines()[1:]
    assert head.split() == ["WHAT", "CONFIDENCE", "SAYS", "RULE", "SINCE", "SOURCE"]
    assert "…" not in out
    doubt = next(row for row in rows if row.startswith("or "))
    assert "calendar.unconfirmed_closures" in doubt
    assert "UNCONFIRMED" in doubt


def test_on_a_narrow_screen_it_still_says_how_sure_a_line_is():
    out = call("session", "FPT", "--at", "2026-11-20T10:00", columns=80).out

    rows = {line.split()[0]: line.split()[1] for line in out.splitlines()[1:]}
    assert (rows["settlement"], rows["band"], rows["or"]) == ("low", "high", "UNCONFIRMED")


def test_a_settlement_over_a_day_in_doubt_is_not_high():
    _, out, _ = called("FPT", "--at", "2026-11-20T10:00", "--json")

    rows = {row["what"]: row for row in json.loads(out)["explained"]}
    assert rows["settlement"]["says"].endswith("2026-11-25 13:00, or 2026-11-26 13:00")
    assert rows["settlement"]["confidence"] == "low"


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2026-11-23T10:00", "Mon 2026-11-23, a trading day unless it is closed: Proposed swap"),
        ("2026-11-24T10:00", "Tue 2026-11-24, closed: Vietnam Culture Day (EXPECTED: "),
    ],
)
def test_a_day_in_doubt_or_closed_is_named_without_a_symbol_too(at, words):
    _, out, _ = called("--at", at)
    _, told, _ = called("--at", at, "--json")

    assert any(line.startswith(words) for line in out.splitlines())
    assert json.loads(told)["day"].startswith(words)


def test_a_day_before_the_known_rules_is_refused_known_reason():
    code, _, err = called("BSR", "--at", "2025-01-17T09:05")

    assert code == 2
    assert "2025-01-17 is too early: the rules known here took effect on 2025-05-05" in err
    assert "0 of 1" not in err


def test_every_symbol_of_a_shipped_scenario_is_in_the_symbol_table():
    table = load_symbols()
    for name in scenario_names():
        scenario = load_scenario(name, Path())
        for script in scenario.symbols:
            listed = table.instrument(script.symbol, scenario.day or date(2026, 11, 20))
            assert listed is not None, script.symbol
            assert listed.exchange is script.exchange, script.symbol


STRIP = """\
         9           10          11          12          13          14          15
HOSE     OOO===========================..................==================CCC---
HNX      ==============================..................==================CCCPPP
UPCOM    ==============================..................========================
                                                                           ^ now
O opening auction  = continuous  . lunch break  C closing auction  P post-close"""


def test_a_day_is_a_strip_with_a_mark_at_now() -> None:
    at = datetime(2026, 11, 19, 7, 31, tzinfo=UTC)

    lines = day_strip(load_rulebook(on=at.date()), LISTED, at)

    assert "\n".join(lines) == f"{STRIP}  - negotiated only"


def test_a_day_without_trading_is_said() -> None:
    at = datetime(2026, 11, 22, 3, tzinfo=UTC)

    assert day_strip(load_rulebook(on=at.date()), LISTED, at) == ["Sun 2026-11-22, closed: weekend"]


def test_a_day_that_ends_early_says_so_and_shows_it(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(
        'early_closes: [{date: 2026-11-19, at: "10:00", name: system down}]\n', "utf-8"
    )
    config = make_project(tmp_path)
    config.write_text(config.read_text("utf-8") + "market_rules: rules.yaml\n", "utf-8")

    lines = call("session", "--at", "2026-11-19T09:30", "-c", str(config)).out.splitlines()

    assert "Thu 2026-11-19, a trading day that ends at 10:00: system down" in lines
    hose = next(line for line in lines if line.startswith("HOSE ") and "==" in line)
    assert hose == "HOSE     OOO========="


async def _session_of(config: Path, at: str | None, *arguments: str) -> Ran:
    """Call `bot session` beside a bot whose broker can't be reached, at a market time if it has
    one.
    """

    async def phases(_: Request) -> Reply:
        return refused("E-NET-002", "the broker can't be reached")

    async def status(_: Request) -> Reply:
        return {"ok": True, "status": {"state": "DEGRADED", "at": at}}

    bot = {"name": "mybot", "mode": "sandbox", "config": str(config)}
    handlers = {"phases": phases, "status": status}
    server = ControlServer(config.parent / "state", handlers, {"bot": bot})
    await server.start()
    try:
        return await asyncio.to_thread(call, "session", *arguments, "-c", str(config))
    finally:
        await server.stop()


async def test_phases_that_the_broker_does_not_tell_are_not_said_to_be_its_own(
    config: Path,
) -> None:
    at, why = "2026-11-19T07:31:00+00:00", "the broker's phases are not known: the broker can't be"

    told = await _session_of(config, at)
    found = json.loads((await _session_of(config, at, "--json")).out)
    symbol = await _session_of(config, at, "HPG")

    head, reason, *_ = told.out.splitlines()
    assert head == "2026-11-19 14:31:00 by the exchanges' rules"
    assert reason.startswith(why)
    assert (found["source"], found["why"].startswith(why)) == ("rules", True)
    assert differences("bot session", json.dumps(found)) == []
    assert symbol.out.startswith("HPG at 2026-11-19 14:31:00 by the exchange's rules\n")
    assert symbol.err.startswith(why)


async def test_the_time_of_a_bot_that_has_none_yet_is_said_to_be_this_machines(
    config: Path,
) -> None:
    told = await _session_of(config, None)

    assert "by the exchanges' rules\n" in told.out
    assert told.out.splitlines()[1].endswith(". The time is this machine's")
