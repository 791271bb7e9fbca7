"""Commands to a running bot: a real process with its embedded broker, over its control socket.

Each test leaves the bot RUNNING for the next one.
"""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from bot.config.shipped import DEMO, shipped
from bot.runtime.brake import FLAG
from tests.cli.json_keys import RUNNING, differences
from tests.cli.stage import Ran, call
from tests.processes import BotProcess

pytestmark = pytest.mark.process
WHICH = "demo (sandbox, account …001.1)"
CODE, WRONG_CODE = "424242", "135790"
START_S_MAX, STOP_S_MAX = 120, 60
UNHURRIED = "6"
"""Market seconds in a second: what is proven here is what it answers, not how it trades."""
CONFIG = str(shipped(DEMO))


class RunningBot:
    """A bot in a process of its own, and the command line pointed at it."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.process = BotProcess(
            "run", *self._where(), BOT_SANDBOX__PORT="0", BOT_SANDBOX__SPEED=UNHURRIED
        )

    def call(self, *arguments: str, stdin: str = "") -> Ran:
        return call(*arguments, *self._where(), stdin=stdin)

    def state(self) -> str:
        state: str = json.loads(self.call("status", "--json").out)["state"]
        return state

    def wait_for_market(self) -> None:
        """Wait for 09:15, when HOSE trades continuously: five market seconds after the start."""
        give_up = time.monotonic() + START_S_MAX
        while json.loads(self.call("status", "--json").out)["phases"]["HOSE"] != "PROGRESS":
            assert time.monotonic() < give_up
            time.sleep(0.05)

    def end(self) -> None:
        self.process.end()

    def _where(self) -> list[str]:
        return ["-c", CONFIG, "--state-dir", str(self.state_dir)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBot]:
    """A bot that runs."""
    bot = RunningBot(tmp_path_factory.mktemp("state"))
    try:
        waited = bot.call("status", "--wait", "RUNNING", "--timeout", str(START_S_MAX))
        assert waited.code == ExitCode.DONE, waited.err
        bot.wait_for_market()
        yield bot
    finally:
        bot.end()


def test_status_says_how_it_is(running: RunningBot) -> None:
    ran = running.call("status")

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert ran.out.startswith(f"RUNNING  {WHICH}  since ")
    assert running.call().out.startswith(f"RUNNING  {WHICH}  since ")


def test_a_quote_comes_from_the_broker(running: RunningBot) -> None:
    found = json.loads(running.call("quote", "fpt", "--json").out)

    assert (found["symbol"], found["exchange"]) == ("FPT", "HOSE")
    assert len(found["depth"]["bids"]) == 3
    assert "bid " in running.call("quote", "FPT", "--depth").out


def test_an_unknown_symbol_is_said_to_be_unknown(running: RunningBot) -> None:
    ran = running.call("quote", "XXXX")

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert ran.err == "E-SYM-001 the broker knows no 'XXXX'\n"


def test_any_read_of_the_api_by_name(running: RunningBot) -> None:
    found = json.loads(running.call("api", "stock_depth", "symbol=fpt", "--json").out)["payload"]
    raw = json.loads(running.call("api", "stock_depth", "symbol=FPT", "--raw").out)
    shares = running.call("api", "portfolio")

    assert (found["symbol"], len(found["bids"])) == ("FPT", 3)
    assert (raw["error_code"], list(raw)[-1]) == ("0", "data")
    assert "SYMBOL" in shares.out
    assert "(by default: cache-control=NOCACHE)" in shares.err


def test_the_status_tells_rate_and_drift(running: RunningBot) -> None:
    found = json.loads(running.call("status", "--json").out)

    assert found["drift"] == []
    assert found["trouble"] is None
    said = {"used", "per_minute", "waiting", "is_degraded", "starved", "polls"}
    assert set(found["rate"]) == said
    polls = found["rate"]["polls"]
    assert polls["asked"] == polls["made"] <= polls["room"]
    assert polls["slower"] == 1


def test_a_time_of_day_is_one_of_the_day_that_the_bot_trades(running: RunningBot) -> None:
    found = running.call("session", "HPG", "--at", "14:31")

    assert found.out.splitlines()[0] == "HPG at 2026-11-19 14:31:00 by the exchange's rules"


def test_the_phases_are_the_broker_s_word(running: RunningBot) -> None:
    found = json.loads(running.call("session", "--json").out)

    assert found["source"] == "broker"
    assert found["exchanges"][0]["phase"] == "PROGRESS"


def test_pause_and_resume(running: RunningBot) -> None:
    paused = running.call("pause", "--reason", "earnings")
    assert (paused.code, paused.out.splitlines()[0]) == (ExitCode.DONE, f"PAUSED {WHICH}: earnings")

    running.call("resume")
    assert running.state() == "RUNNING"


def test_a_pause_of_entries_makes_it_reducing_until_resumed(running: RunningBot) -> None:
    reducing = running.call("pause", "--entries", "--reason", "earnings")
    assert reducing.out.splitlines()[0] == f"REDUCING {WHICH}: earnings"
    assert "why         REDUCING by you: earnings" in running.call("status").out.splitlines()
    assert running.call("pause", "--entries", "--strategy", "sma-fpt").code == ExitCode.USAGE

    running.call("resume")
    assert running.state() == "RUNNING"


def test_one_strategy_pauses_alone(running: RunningBot) -> None:
    paused = running.call("pause", "--strategy", "sma-fpt", "--reason", "earnings")
    assert "sma-fpt paused: earnings" in paused.out.splitlines()
    assert running.state() == "RUNNING"

    resumed = running.call("resume", "--strategy", "sma-fpt")
    lines = resumed.out.splitlines()[1:]
    assert [line for line in lines if " still open: " not in line] == ["sma-fpt on"]  # the other's


def test_a_symbol_is_resumed_alone_and_with_a_reason(running: RunningBot) -> None:
    assert running.call("resume", "HPG").code == ExitCode.REFUSED
    both = running.call("resume", "HPG", "--strategy", "sma-fpt", "--reason", "seen")
    assert both.code == ExitCode.USAGE


@pytest.mark.parametrize("command", sorted(RUNNING))
def test_a_running_bot_s_answers_have_the_keys_that_the_page_tells(
    running: RunningBot, command: str
) -> None:
    ran = running.call(*command.split()[1:], "--json")

    assert list(differences(command, ran.out)) == []
    assert ran.code in {ExitCode.DONE, ExitCode.DIFFERS}, ran.out  # a fill may be on its way


def test_a_symbol_that_nothing_holds_is_not_resumed(running: RunningBot) -> None:
    free = running.call("resume", "hpg", "--reason", "seen in the app")
    unknown = running.call("resume", "HGP", "--reason", "seen in the app")

    assert (free.code, unknown.code) == (ExitCode.REFUSED, ExitCode.REFUSED)
    assert "no order of it is in question; nothing was changed" in free.err
    assert "no strategy trades 'HGP' (they trade FPT, HPG, VNM)" in unknown.err


def test_an_unknown_strategy_is_a_wrong_command_line(running: RunningBot) -> None:
    ran = running.call("pause", "--strategy", "nope")

    assert ran.code == ExitCode.USAGE
    assert "depth-hpg" in ran.err


def test_the_list_of_strategies_names_one_that_is_off(running: RunningBot) -> None:
    assert running.call("strategy", "disable", "depth-hpg", "--reason", "odd").code == ExitCode.DONE

    told = running.call("strategy", "list").out

    assert "depth-hpg is disabled: odd. To let it trade: bot strategy enable depth-hpg\n" in told
    running.call("strategy", "enable", "depth-hpg")
    assert "depth-hpg is" not in running.call("strategy", "list").out


def test_a_token_is_forgotten_and_a_code_brings_a_new_one(running: RunningBot) -> None:
    assert running.call("otp").out == f"{WHICH}: 2FA ok until 23:59\n"
    spared = running.call("otp", "token", "-", stdin="hello-there-word\n")
    assert (spared.code, spared.out) == (ExitCode.USAGE, "")
    assert "the bot holds one until 23:59: nothing was replaced" in spared.err
    assert running.call("otp").out == f"{WHICH}: 2FA ok until 23:59\n"
    replaced = running.call("otp", "token", "-", "--yes", stdin="hello-there-word\n")
    assert replaced.code == ExitCode.DONE, replaced.err
    revoked = running.call("otp", "revoke")
    assert "the broker has ended the token's session: the bot holds none now\n" in revoked.err
    taken = running.call("otp", "token", "-", stdin="hello-there-word\n")
    assert taken.code == ExitCode.DONE, "there was none to spare"
    forgotten = running.call("otp", "forget")
    assert forgotten.code == ExitCode.NEEDS_2FA
    assert "the token is dropped: the bot holds none now\n" in forgotten.err
    assert running.call("status", "--wait", "NEEDS_2FA").code == ExitCode.DONE

    paused = running.call("pause", "--reason", "lunch").out.splitlines()
    assert paused[-1] == "pause accepted; the bot stays NEEDS_2FA until that cause clears"
    running.call("resume")

    assert running.call("otp", "request").code == ExitCode.DONE
    refused = running.call("otp", "submit", "-", stdin=WRONG_CODE + "\n")
    assert refused.code == ExitCode.NEEDS_2FA
    assert WRONG_CODE not in refused.err
    told = f"{WHICH}: wrong code; type the code just mailed (2 tries left)"
    assert refused.err == f"E-2FA-003 {told}\n"

    given = running.call("otp", "submit", "-", stdin=CODE + "\n")
    assert given.code == ExitCode.DONE
    assert given.out == f"{WHICH}: 2FA ok until 23:59 · unproven until the first order\n"
    assert running.call("status", "--wait", "RUNNING").code == ExitCode.DONE


def test_leaving_a_halt_needs_a_reason(running: RunningBot) -> None:
    assert running.call("halt", "--yes", "--reason", "wrong prices").code == ExitCode.DONE
    assert running.state() == "HALTED"
    assert (running.state_dir / FLAG).read_text() == "wrong prices\n"
    assert running.call("resume").code == ExitCode.REFUSED
    assert running.call("resume", "--reason", "  ").code == ExitCode.REFUSED
    assert running.state() == "HALTED"

    running.call("resume", "--reason", "prices were right")
    assert running.state() == "RUNNING"
    assert not (running.state_dir / FLAG).exists()


@pytest.mark.parametrize("how", ["file", "signal"])
def test_a_touched_file_or_a_signal_halts_until_a_person_resumes(
    running: RunningBot, how: str
) -> None:
    if how == "file":
        (running.state_dir / FLAG).touch()
    else:
        running.process.send_signal(signal.SIGUSR1)

    assert running.call("status", "--wait", "HALTED", "--timeout", "5").code == ExitCode.DONE
    give_up = time.monotonic() + START_S_MAX  # a signal halts first, and then leaves the file
    while not (running.state_dir / FLAG).exists():
        assert time.monotonic() < give_up
        time.sleep(0.01)
    running.call("resume", "--reason", "seen")
    assert running.state() == "RUNNING"
    assert not (running.state_dir / FLAG).exists()


def test_a_second_bot_on_the_journal_is_refused(running: RunningBot) -> None:
    for second in ("run", "demo"):
        ran = running.call(second)
        assert (ran.code, ran.out) == (ExitCode.NOT_RUNNING, "")
    assert running.state() == "RUNNING"


def test_stop_waits_until_it_is_gone_and_it_ends_well(running: RunningBot) -> None:
    stopped = running.call("stop")

    assert (stopped.code, stopped.out) == (ExitCode.DONE, f"STOPPED {WHICH}\n")
    out, err = running.process.communicate(timeout=STOP_S_MAX)
    assert running.process.returncode == ExitCode.DONE
    assert CODE not in out + err
    assert running.call("journal", "verify").code == ExitCode.DONE
