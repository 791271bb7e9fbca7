"""`bot pnl` and `bot balance`: money at a glance, from a journal at rest."""

import asyncio
import json
from pathlib import Path

import pytest

from bot.cli.commands.balance import UNTOLD, why_apart
from bot.cli.commands.pnl import RULES
from bot.cli.target import Fields
from bot.config.problems import ExitCode
from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import AccountSeen, Note
from bot.engine.account_status import Balance, Due, HeldShares
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.writing.lease import acquire
from bot.runtime.control.status import balance_fields
from tests.cli.stage import call, make_project
from tests.journal.facts import T0, after

ACCOUNT = "120C900001.1"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("money")
    made = make_project(folder)
    asyncio.run(_see_account(f"sqlite:///{folder / 'journal.db'}"))
    return made


async def _see_account(url: str) -> None:
    lease = acquire(url, Holder(1, "test", T0))
    journal = Journal.open(url, epoch=lease.epoch)
    held = {"FPT": Holding("FPT", 100, 0, 100, 132_000)}
    snapshot = AccountSnapshot(after(1_250), ACCOUNT, 81_372_085, 100_000_000, held)
    await journal.write([Note(after(1_250), "QUOTE", "FPT", {"last": 132_500}, "FPT")])
    await journal.write([AccountSeen(after(1_250), snapshot)])
    await journal.close()
    lease.release()


def test_pnl_shows_what_was_earned_and_what_is_open(config: Path) -> None:
    ran = call("pnl", "--by", "strategy", "-c", str(config))

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert ran.out.splitlines() == [
        "OF        FILLS BOUGHT        FOR SOLD FOR REALISED    FEE TAX     NET",
        "depth-hpg     1    200  5,410,000    0   0        0  8,115   0  -8,115",
        "sma-fpt       1    100 13,200,000    0   0        0 19,800   0 -19,800",
        "total         2    300 18,610,000    0   0        0 27,915   0 -27,915",
        "",
        "STILL OPEN STRATEGY  QTY       COST    LAST AT                       VALUE UNREALISED",
        "HPG        depth-hpg 200  5,410,000       - -                            -          -",
        "FPT        sma-fpt   100 13,200,000 132,500 2026-11-19 09:41:50 13,250,000     50,000",
        "",
        "realised -27,915 VND after fees 27,915 and tax 0, 2 fills",
        "unrealised +50,000 VND in 2 positions still open, no price known for HPG",
        *RULES,
    ]


def test_pnl_says_that_a_part_of_a_day_counts_whole(config: Path) -> None:
    ran = call("pnl", "--since", "2026-11-19T14:00", "-c", str(config))

    assert ran.code is ExitCode.DONE
    assert "realised -27,915 VND after fees 27,915 and tax 0, 2 fills" in ran.out
    assert "\nof whole days, from 2026-11-19 on\n" in ran.out


def test_pnl_is_for_machines_too(config: Path) -> None:
    told = json.loads(call("pnl", "--json", "-c", str(config)).out)
    sheet = call("pnl", "-o", "csv", "-c", str(config)).out.splitlines()

    assert (told["total"]["net"], told["unrealised"]) == (-27_915, 50_000)
    assert [row["of"] for row in told["rows"]] == ["FPT", "HPG"]
    assert sheet[0].startswith("\ufeffof,fills,bought,")
    assert sheet[1] == "FPT,1,100,13200000,0,0,0,19800,0,-19800"


def test_balance_without_a_bot_is_by_the_journal_with_the_age_of_the_numbers(config: Path) -> None:
    ran = call("balance", "-c", str(config))

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert ran.out.splitlines() == [
        "no bot is running: from the journal · 2026-11-19 09:41:50",
        "",
        "account …001.1 · the broker's numbers as of 2026-11-19 09:41:50, now",
        "                 OURS      BROKER DIFFERENCE",
        "cash       81,372,085  81,372,085 +0",
        "net assets 94,622,085 100,000,000 +5,377,915",
        "buying power 73,259,935",
        "",
        "SYM SHARES SELLABLE COMING    LAST AT                       VALUE",
        "FPT    100        0    100 132,500 2026-11-19 09:41:50 13,250,000",
        "shares are worth 13,250,000",
        "net assets differ by +5,377,915, that is",
        "+5,377,915 what the broker counts besides cash (18,627,915), less",
        "  our shares by LAST (13,250,000)",
        UNTOLD,
    ]


def test_balance_is_for_machines_too(config: Path) -> None:
    told = json.loads(call("balance", "--json", "-c", str(config)).out)
    sheet = call("balance", "-o", "csv", "-c", str(config)).out.splitlines()

    (found,) = told["balances"]
    assert told["running"] is False
    assert found["broker"] == {
        "cash": 81_372_085,
        "other": 18_627_915,
        "net_assets": 100_000_000,
    }
    assert found["difference"] == {
        "cash": 0,
        "due": 0,
        "rest": 5_377_915,
        "net_assets": 5_377_915,
    }
    assert found["holdings"][0]["receiving"] == 100
    assert found["account"] == "…001.1"
    assert sheet[:2] == [
        "\ufeffaccount,what,of,amount,at",
        "…001.1,cash,ours,81372085,2026-11-19T02:41:50.102000+00:00",
    ]


def test_a_journal_without_an_account_says_so(tmp_path: Path) -> None:
    ran = call("balance", "-c", str(make_project(tmp_path)))

    assert ran.code == ExitCode.DONE
    assert ran.out.splitlines()[1:] == ["no account has been read yet: run the bot first"]


def balance_of(
    *, cash: tuple[int, int], due: int, net_assets: int, last: int | None, shares: int = 400
) -> Fields:
    """What the running bot answers about an account on whose cash we and the broker agree."""
    made = Balance(
        account=ACCOUNT,
        read_at=T0,
        cash=cash[0],
        broker_cash=cash[1],
        broker_net_assets=net_assets,
        buying_power=0,
        due=(Due(T0, due, ()),) if due else (),
        held=(HeldShares("HPG", shares, 0, shares, last, T0 if last else None),),
    )
    return Fields(json.loads(json.dumps(balance_fields(made, {}))))


def explained(each: Fields) -> list[str]:
    return [line for line in why_apart(each) if not line.startswith("  ")]


def test_each_part_of_a_difference_has_a_line_and_they_sum_to_it() -> None:
    each = balance_of(
        cash=(55_293_040, 55_193_040), due=25_017_300, net_assets=66_083_040, last=27_300
    )

    assert explained(each) == [
        "net assets differ by -25,147,300, that is",
        "-100,000 cash: bot reconcile explains it, or reports it as a break",
        "-25,017,300 sale proceeds still due: the broker's figure leaves them out",
        "-30,000 what the broker counts besides cash (10,890,000), less",
    ]
    parts = each.inner("difference")
    assert sum(parts.whole(name) for name in ("cash", "due", "rest")) == -25_147_300
    assert parts.whole("net_assets") == -25_147_300


def test_a_broker_that_counts_what_is_due_is_not_said_to_leave_it_out() -> None:
    each = balance_of(cash=(1_000, 1_000), due=500, net_assets=12_301_500, last=30_750)

    assert explained(each) == []


def test_where_all_agrees_nothing_is_explained() -> None:
    each = balance_of(cash=(1_000, 1_000), due=0, net_assets=12_301_000, last=30_750)

    assert explained(each) == []


def test_shares_without_a_price_are_why_net_assets_are_not_known() -> None:
    each = balance_of(cash=(1_000, 1_000), due=0, net_assets=12_301_000, last=None)

    assert explained(each) == ["net assets are not known: no price for HPG was ever read"]
