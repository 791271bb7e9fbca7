"""`bot modify` and `bot cancel` with a running bot: a real process, one resting order."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click import BadParameter

from bot.cli.options import whole_from
from bot.config.problems import ExitCode
from tests.cli.stage import Ran, call
from tests.processes import BotProcess
from tests.staging import QUIET
from tests.story import once, write_project

CODE = "424242"
START_S_MAX = 120.0


class HandBot:
    """A bot in a process of its own whose one order, 500 HPG at 26,000, rests below the market.

    Its broker takes a higher fee than the bot assumes, and there is cash for little more.
    """

    def __init__(self, folder: Path) -> None:
        self._config = write_project(
            folder,
            scenario={
                **QUIET,
                "fee_ppm": 4_500,
                "accounts": [{"id": "0009000011", "cash": 15_650_000}],
            },
            strategies=[once(params={"price": 26_000, "shares": 500})],
            risk={"allow_amend": True},
            sandbox={"scenario": "story.yaml", "speed": 20, "port": 0},
        )
        self._process = BotProcess("run", "-c", str(self._config), BOT_SANDBOX__PORT="0")

    def call(self, *arguments: str, stdin: str = "") -> Ran:
        return call(*arguments, "-c", str(self._config), stdin=stdin)

    def wait_for_order(self) -> None:
        """Wait until it is open, and then until the journal, where commands look it up, has it."""
        self.wait_for('"ORD', "status", "--json")
        self.wait_for('"ORD', "orders", "--json")

    def wait_for(self, word: str, *arguments: str) -> None:
        give_up = time.monotonic() + START_S_MAX
        while word not in self.call(*arguments).out:
            assert time.monotonic() < give_up, self._process.poll()
            time.sleep(0.1)

    def lose_token(self) -> None:
        if self.call("otp").code == ExitCode.NEEDS_2FA:
            return
        self.call("otp", "forget")
        self.call("status", "--wait", "NEEDS_2FA")

    def end(self) -> None:
        self._process.end()


@pytest.fixture(scope="module")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandBot]:
    """A bot that runs with one open order; the tests below change it in turn, and each first brings
    it to where it begins: another worker may have taken those before.
    """
    bot = HandBot(tmp_path_factory.mktemp("hand"))
    try:
        bot.wait_for_order()
        yield bot
    finally:
        bot.end()


@pytest.mark.process
def test_a_changed_price_is_exit_code_0(hand: HandBot) -> None:
    ran = hand.call("modify", "L-0001", "--limit", "26100")

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert ran.out.endswith("price 26,000 to 26,100: done\n")
    hand.wait_for('"price": 26100', "orders", "--json")  # which the bot knows a moment sooner
    [row] = json.loads(hand.call("orders", "--json").out)["orders"]
    assert row["price"] == 26_100


@pytest.mark.process
@pytest.mark.parametrize("wrong", ["26100", "26110", "99000"])
def test_what_a_check_refuses_is_exit_code_8(hand: HandBot, wrong: str) -> None:
    hand.call("modify", "last", "--limit", "26100")

    ran = hand.call("modify", "last", "--limit", wrong)

    assert (ran.code, ran.out) == (ExitCode.REFUSED, "")
    assert "; nothing was changed" in ran.err


@pytest.mark.parametrize(
    ("written", "read"),
    [("27050", 27_050), ("27,050", 27_050), ("27_050", 27_050), ("1,027,050", 1_027_050)],
)
def test_a_price_may_be_typed_as_tables_print_it(written: str, read: int) -> None:
    assert whole_from("whole VND")(written) == read


@pytest.mark.parametrize(
    "written",
    ["0", "-1", "27.05", "27.050", "27,05", "270,50", "1e5", "", "٣", "27 050", "1000000000001"],
)
def test_a_price_that_could_be_meant_otherwise_is_refused_in_plain_words(written: str) -> None:
    with pytest.raises(BadParameter, match="wanted whole VND, like 27050 or 27,050"):
        whole_from("whole VND")(written)


@pytest.mark.process
def test_what_the_broker_refuses_is_exit_code_9(hand: HandBot) -> None:
    ran = hand.call("modify", "last", "--qty", "595", "--json")
    assert ran.code == ExitCode.REFUSED, "no whole lots"

    ran = hand.call("modify", "last", "--limit", "26000")
    ran = hand.call("modify", "last", "--qty", "600", "--json")

    found = json.loads(ran.out)
    assert ran.code == ExitCode.REJECTED
    assert (found["verdict"], found["old"], found["new"]) == ("REFUSED", 500, 600)
    assert found["code"].startswith("-400116 ")


@pytest.mark.process
def test_without_a_token_it_is_exit_code_5(hand: HandBot) -> None:
    hand.lose_token()

    assert hand.call("modify", "last", "--limit", "26200").code == ExitCode.NEEDS_2FA
    cancelled = hand.call("cancel", "last")
    assert cancelled.code == ExitCode.NEEDS_2FA
    assert "is waiting for a 2FA token" in cancelled.err


@pytest.mark.process
def test_a_halt_names_what_it_could_not_cancel(hand: HandBot) -> None:
    hand.lose_token()

    halted = hand.call("halt", "--yes")
    [row] = json.loads(hand.call("orders", "--json").out)["orders"]

    assert halted.code == ExitCode.TIMED_OUT  # an own order is still open
    why = "there is no 2FA token; the cancel goes out when there is one: bot otp"
    assert f"{row['id']} STILL OPEN: {why}\n" in halted.out


@pytest.mark.process
def test_with_the_token_the_cancel_that_waited_goes(hand: HandBot) -> None:
    hand.lose_token()
    hand.call("halt", "--yes")

    hand.call("otp", "request")
    hand.call("otp", "submit", "-", stdin=CODE + "\n")

    hand.wait_for('"CANCELLED"', "orders", "--json")

    [row] = json.loads(hand.call("orders", "--json").out)["orders"]
    assert (row["quantity"], row["status"]) == (500, "CANCELLED")


@pytest.mark.process
def test_an_ended_order_is_not_cancelled_again(hand: HandBot) -> None:
    hand.call("cancel", "last")
    hand.wait_for('"CANCELLED"', "orders", "--json")

    again = hand.call("cancel", "last")
    assert again.code == ExitCode.REFUSED
    assert "OPEN_ORDER" in again.err
    assert again.err.endswith("0 of 1 order cancelled\n")

    everything = hand.call("cancel", "--all", "--json")
    assert (everything.code, json.loads(everything.out)["orders"]) == (ExitCode.DONE, [])
    assert hand.call("cancel", "--all").err == "the bot has no open orders\n"


WRONG = [
    ("modify", "last"),
    ("modify", "last", "--limit", "26100", "--qty", "100"),
    ("modify", "last", "--limit", "0"),
    ("modify", "nothing-like-it", "--limit", "26100"),
    ("cancel",),
    ("cancel", "last", "--all"),
    ("cancel", "last", "nothing-like-it"),
]


@pytest.mark.process
@pytest.mark.parametrize("wrong", WRONG, ids=" ".join)
def test_a_wrong_command_line_asks_nothing(hand: HandBot, wrong: tuple[str, ...]) -> None:
    ran = hand.call(*wrong)

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")


@pytest.mark.parametrize("command", [("modify", "last", "--limit", "26100"), ("cancel", "--all")])
def test_without_a_running_bot_it_is_exit_code_10(config: Path, command: tuple[str, ...]) -> None:
    ran = call(*command, "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.NOT_RUNNING, "")
    assert "no bot is running" in ran.err
