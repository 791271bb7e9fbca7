"""`bot conformance` against the sandbox on a socket: what it prints, and its exit codes."""

import asyncio
import json
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bot.cli.command import Invocation
from bot.cli.commands import conformance
from bot.cli.target import STOPPED
from bot.config.problems import ExitCode
from bot.conformance.finding import ConformanceReport, Finding, Verdict
from bot.conformance.run import ConformancePlan
from tests.cli.stage import Ran, call
from tests.processes import BotProcess

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parents[3]
QUIET = ROOT / "bot/sandbox/scenarios/quiet.yaml"
NOW = "2026-11-19T09:20:00"


class Served:
    """A sandbox in its own process, and a project whose configuration names it."""

    def __init__(self, folder: Path) -> None:
        scenario = folder / "large_quota.yaml"
        scenario.write_text(QUIET.read_text().replace("speed: 1", "speed: 1\nquota: PRO"))
        command = ["paper", "serve", "--port", "0", "--now", NOW, "--scenario", str(scenario)]
        self.process = BotProcess(*command)
        self.given = json.loads(self.process.stdout.readline())
        self.folder = folder

    def call(self, *arguments: str, stdin: str = "", secret: str | None = None) -> Ran:
        """Run the command with this server's key."""
        return call(*arguments, "-c", str(self.config(secret)), stdin=stdin)

    def open_orders(self) -> list[str]:
        """The orders that work at the broker."""
        rows = json.loads(self.call("api", "todays_orders", "--json").out)["payload"]
        return [row["orderid"] for row in rows if row["remainqtty"]]

    def control(self, method: str, fault: object = None) -> None:
        """Add a fault, or end all."""
        headers = {"X-FH-APIKEY": self.given["api_key"]}
        url = f"{self.given['base_url']}/_sandbox/control"
        httpx.request(method, url, headers=headers, json=fault).raise_for_status()

    def config(self, secret: str | None = None) -> Path:
        """Write a configuration with this server's key."""
        secrets = self.folder / "secrets.yaml"
        shown = secret or self.given["api_secret"]
        secrets.write_text(f"api_key: {self.given['api_key']}\napi_secret: {shown}\n")
        secrets.chmod(0o600)
        config = self.folder / "bot.yaml"
        broker = f"{{base_url: '{self.given['base_url']}', account: '.1'}}"
        config.write_text(f"mode: sandbox\nbroker: {broker}\nstate_dir: state\n")
        return config

    def end(self) -> None:
        """Stop serving."""
        self.process.end()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A sandbox that serves."""
    made = Served(tmp_path_factory.mktemp("served"))
    try:
        yield made
    finally:
        made.end()


def test_the_sandbox_conforms_with_orders_and_a_code_from_stdin(served: Served) -> None:
    ran = served.call("conformance", "--otp", "-", stdin=f"{served.given['otp']}\n")

    lines = ran.out.splitlines()
    assert (ran.code, lines[-1].split(" ", 2)[1]) == (ExitCode.DONE, "conforms:")
    assert any(line.startswith("ok      4.2 place taken") for line in lines)
    assert max(len(line) for line in lines if line.startswith("ok")) <= 100


def test_reading_only_is_json_when_wanted(served: Served) -> None:
    ran = served.call("conformance", "--read-only", "--json")

    found = json.loads(ran.out)
    assert (ran.code, found["conforms"], found["counts"]["fail"]) == (ExitCode.DONE, True, 0)
    assert found["executed"] >= 200
    assert set(found["findings"][0]) == {"id", "what", "verdict", "found"}


def test_a_sub_account_that_is_not_there_ends_the_run_and_those_that_are_are_named(
    served: Served,
) -> None:
    ran = served.call("conformance", "--read-only", "--account", ".9")

    assert (ran.code, ran.out) == (ExitCode.CONFIG, "")
    assert "no sub-account matches '.9'" in ran.err
    assert "'.1'" in ran.err


def test_another_reads_of_the_api_without_a_running_bot(served: Served) -> None:
    ran = served.call("api", "stock_quote", "symbol=hpg", "--json")

    assert ran.code == ExitCode.DONE, ran.err
    assert json.loads(ran.out)["payload"]["symbol"] == "HPG"


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (("stock_quote", "symbol=ZZZ"), "E-SYM-001", "the broker knows no 'ZZZ'"),
        (("financial_overview", "symbol=ZZZ"), "E-SYM-001", "the broker knows no 'ZZZ'"),
        (("sector_breadth", "slug=money"), "E-API-006", "the broker knows no 'money'"),
        (("bond_depth", "symbol=VN10Y"), "E-API-006", "the broker has no order book of VN10Y"),
    ],
)
def test_a_name_that_the_broker_does_not_know_is_nothing_to_retry(
    served: Served, asked: tuple[str, ...], code: str, said: str
) -> None:
    ran = served.call("api", *asked)

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert ran.err.splitlines()[-1] == f"{code} {said}"


def test_every_page_of_the_screener(served: Served) -> None:
    ran = served.call("api", "screener", "page_size=2", "--json")

    pages = json.loads(ran.out)["pages"]
    symbols = [item["symbol"] for page in pages for item in page["items"]]
    assert len(pages) == -(-pages[0]["total"] // 2)
    assert len(symbols) == len(set(symbols)) == pages[0]["total"]


def test_a_refused_signature_is_exit_code_4(served: Served) -> None:
    checked = served.call("conformance", "--read-only", secret="00")
    asked = served.call("api", "user", secret="00")

    assert (checked.code, checked.out) == (ExitCode.SECRET, "")
    assert (asked.code, asked.out) == (ExitCode.SECRET, "")


@pytest.mark.long
def test_a_run_that_is_ended_while_its_order_works_cancels_it(served: Served) -> None:
    lately = {
        "match": {"path": "*/accounts/*/order-book/*"},
        "action": {"do": "delay", "seconds": 60},
    }
    served.control("POST", lately)
    run = subprocess.Popen(
        [sys.executable, "-m", "bot", "conformance", "--otp", "-", "-c", served.config()],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert run.stderr is not None
        print(served.given["otp"], file=run.stdin, flush=True)
        while not served.open_orders() and run.poll() is None:
            select.select([run.stderr.fileno()], [], [], 0.3)
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=120)
    finally:
        run.kill()
        served.control("DELETE")

    assert run.returncode == 128 + signal.SIGTERM
    assert said.splitlines()[-1] == "this run left no order behind"
    assert served.open_orders() == []


def test_a_code_is_never_an_argument(served: Served) -> None:
    ran = served.call("conformance", "--otp", "123456")

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "never give a code or token as an argument" in ran.err


def test_without_anybody_to_ask_only_reads_are_made(served: Served) -> None:
    before = served.call("api", "todays_orders", "--json")
    ran = served.call("conformance")

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "use --otp -, or --read-only" in ran.err
    assert before.code == ExitCode.DONE, before.err
    assert served.call("api", "todays_orders", "--json") == before


@pytest.mark.parametrize("verdict", Verdict)
def test_what_was_found_stands_below_what_is_not_ok(
    verdict: Verdict, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = Finding("4.2 place", "is taken", verdict, found="a 500")

    conformance.print_finding(Invocation(), finding, is_colored=False)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [verdict, "4.2", "place", "is", "taken"]
    assert [line.strip() for line in lines[1:]] == (
        [] if verdict is Verdict.OK else ["found: a 500"]
    )


def test_a_server_that_is_not_there_is_unreachable(served: Served) -> None:
    ran = served.call("conformance", "--read-only", "--base-url", "http://127.0.0.1:1")

    assert (ran.code, ran.out) == (ExitCode.UNREACHABLE, "")
    assert "Traceback" not in ran.err


def test_an_unsafe_address_is_refused(served: Served) -> None:
    ran = served.call("conformance", "--read-only", "--base-url", "http://broker.example")

    assert ran.code == ExitCode.USAGE
    assert "http:// is only for this machine" in ran.err


def test_a_bot_that_plays_its_broker_has_none_to_check_and_says_so(tmp_path: Path) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text("mode: sandbox\nstate_dir: s\n")

    ran = call("conformance", "--read-only", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.CONFIG, "")
    assert "no broker to ask: broker.base_url is not set" in ran.err


def test_a_live_bot_places_nothing_either_whatever_its_key_is_called(tmp_path: Path) -> None:
    secrets, config = tmp_path / "secrets.yaml", tmp_path / "bot.yaml"
    secrets.write_text("api_key: of-another-form\napi_secret: '00'\nhost: 127.0.0.1\n")
    secrets.chmod(0o600)
    config.write_text(
        "mode: live\nbroker: {base_url: 'https://127.0.0.1:1', device_id: here}\nstate_dir: s\n"
        "legal: {automation_allowed_by_broker: '2026-11-02, by letter'}\n"
    )

    ran = call("conformance", "--otp", "-", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "E-CNF-002 this is real money (a live key, or mode: live)" in ran.err


def test_a_live_key_places_nothing_unless_that_is_meant(tmp_path: Path) -> None:
    secrets, config = tmp_path / "secrets.yaml", tmp_path / "bot.yaml"
    secrets.write_text("api_key: ak_live_0001\napi_secret: '00'\n")
    secrets.chmod(0o600)
    config.write_text("mode: sandbox\nbroker: {base_url: 'http://127.0.0.1:1'}\nstate_dir: s\n")

    ran = call("conformance", "--otp", "-", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "real money" in ran.err


@pytest.mark.parametrize("mistaken", [["--otp", "-"], ["--real-orders"]])
def test_asking_about_nonces_reads_only_and_says_so(tmp_path: Path, mistaken: list[str]) -> None:
    ran = call("conformance", "nonce", *mistaken)

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "nonce only reads" in ran.err


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[ConformancePlan]:
    """What would have been run; a signal ends it at once."""
    plans = list[ConformancePlan]()

    async def none(plan: ConformancePlan, **_: object) -> ConformanceReport:
        plans.append(plan)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(1)
        return ConformanceReport(())

    monkeypatch.setattr("bot.conformance.run.conform", none)
    return plans


def reading(folder: Path, *arguments: str, quota: str = "") -> Ran:
    """Only read, at a configuration with a quota or without one."""
    secrets, config = folder / "secrets.yaml", folder / "bot.yaml"
    secrets.write_text("api_key: ak_test_0001\napi_secret: '00'\n")
    secrets.chmod(0o600)
    broker = f"{{base_url: 'http://127.0.0.1:1'{quota}}}"
    config.write_text(f"mode: sandbox\nbroker: {broker}\nstate_dir: s\n")
    return call("conformance", *arguments, "-c", str(config))


@pytest.mark.parametrize(
    ("quota", "per_minute", "minutes"),
    [("", 500, 5), (", requests_per_minute: 100", 100, 15), (", requests_per_minute: 900", 500, 5)],
)
def test_a_quota_of_the_configuration_is_kept(
    tmp_path: Path, planned: list[ConformancePlan], quota: str, per_minute: int, minutes: int
) -> None:
    ran = reading(tmp_path, "nonce", quota=quota)

    assert [plan.per_minute for plan in planned] == [per_minute]
    assert f"about {minutes} minutes at {per_minute} requests a minute" in ran.err
    assert "a bot runs" not in ran.err


def test_a_bot_that_shares_the_quota_is_named(
    tmp_path: Path, planned: list[ConformancePlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance, "find_bot", lambda *_: STOPPED)

    ran = reading(tmp_path, "--read-only")

    assert planned
    assert "a bot runs on this configuration" in ran.err


@pytest.mark.parametrize("address", [[], ["--base-url", "http://127.0.0.1:1/"]])
def test_beside_a_bot_no_order_is_placed(
    tmp_path: Path,
    planned: list[ConformancePlan],
    monkeypatch: pytest.MonkeyPatch,
    address: list[str],
) -> None:
    monkeypatch.setattr(conformance, "find_bot", lambda *_: STOPPED)

    ran = reading(tmp_path, "--otp", "-", "--real-orders", *address)

    assert (ran.code, planned) == (ExitCode.USAGE, [])
    assert "E-CNF-003 a bot runs on this configuration" in ran.err


def test_a_bot_at_another_server_is_no_hindrance(
    tmp_path: Path, planned: list[ConformancePlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance, "find_bot", lambda *_: STOPPED)

    ran = reading(tmp_path, "--otp", "-", "--base-url", "http://127.0.0.1:2")

    assert [plan.base_url for plan in planned] == ["http://127.0.0.1:2"]
    assert "a bot runs" not in ran.err


@pytest.mark.parametrize("what", ["nonce", "--read-only"])
def test_a_run_that_only_reads_has_nothing_to_cancel(
    tmp_path: Path, planned: list[ConformancePlan], what: str
) -> None:
    ran = reading(tmp_path, what)

    assert planned
    assert ran.code == 128 + signal.SIGTERM
    assert "SIGTERM: ended; this run places no orders" in ran.err
    assert "cancelling" not in ran.err
