"""The pages of health of a real bot: what they say while it is well, paused, stuck; and to whom."""

import asyncio
import contextlib
import re
import socket
import time
from pathlib import Path

import pytest

from bot.runtime.health.listening import Listening, Taken, holder_of
from bot.runtime.health.readings import counter, exposed, labelled
from tests.faults.hanging import RESTING, Hanging, locked
from tests.ports import free_port
from tests.processes import ROOT, BotProcess
from tests.staging import QUIET
from tests.story import write_project

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

SAMPLE = re.compile(r'[a-z_0-9]+(\{([a-z]+="[^"]*",?)+\})? [-+0-9.e]+')


async def get(port: int, path: str, host: str = "127.0.0.1", verb: str = "GET") -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{verb} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    writer.write(head.encode())
    answer = (await asyncio.wait_for(reader.read(), 60)).decode()
    writer.close()
    return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]


async def until(port: int, path: str, code: int, word: str) -> str:
    give_up = time.monotonic() + 90
    found = (0, "")
    while time.monotonic() < give_up:
        with contextlib.suppress(ConnectionRefusedError):
            found = await get(port, path)
        if found[0] == code and word in found[1]:
            return found[1]
        await asyncio.sleep(0.1)
    raise AssertionError(found)


@pytest.mark.long
async def test_a_monitor_sees_a_bot_that_is_well_then_paused_then_without_its_journal(
    tmp_path: Path,
) -> None:
    port = free_port()
    config = write_project(
        tmp_path,
        scenario=QUIET,
        strategies=RESTING,
        sandbox={"scenario": "story.yaml", "speed": 5, "port": 0},
        health={"port": port},
    )
    bot = BotProcess("run", "-c", str(config), BOT_JOURNAL__WRITE_TIMEOUT_S="1")
    hanging = Hanging(tmp_path, config, tmp_path / "ledger", {}, "", bot)
    try:
        await until(port, "/readyz", 200, "ok")
        alive = await get(port, "/healthz")
        page = await until(port, "/metrics", 200, "vnbot_open_orders{state=")
        await hanging.ask("pause", reason="lunch", by="operator")
        paused = await until(port, "/readyz", 503, "PAUSED")
        strange = await get(port, "/metrics", host="evil.example")
        changed = await get(port, "/metrics", verb="POST")
        with locked(hanging.state_dir / "journal.db"):
            await hanging.ask("pause", reason="again", by="operator")
            await until(port, "/readyz", 503, "journal")
    finally:
        bot.end()

    assert alive == (200, "ok\n")
    assert "lunch" in paused
    assert (strange[0], changed[0]) == (421, 405)
    samples = [line for line in page.splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples), samples
    assert 'vnbot_state{state="RUNNING"} 1' in samples
    assert any(line.startswith('vnbot_decisions_total{verdict="PASSED"') for line in samples)
    assert any(line.startswith("vnbot_open_orders{state=") for line in samples)
    assert not re.search(r"\d{3}[A-Z]\d{6}", page), "no account number"


async def test_a_port_that_is_taken_is_said_with_who_has_it() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = int(other.getsockname()[1])

        with pytest.raises(Taken, match=f"127.0.0.1:{port} is taken by .*process"):
            Listening(port).begin()

        assert "process" in holder_of(port)


async def test_before_there_is_a_bot_to_read_it_is_alive_and_not_ready() -> None:
    listening = Listening(0)
    listening.begin()
    try:
        found = [await get(listening.port, path) for path in ("/healthz", "/readyz", "/metrics")]
        lost = await get(listening.port, "/")
    finally:
        listening.end()

    assert found == [(200, "ok\n"), (503, "starting\n"), (503, "starting\n")]
    assert lost == (404, "/healthz /readyz /metrics\n")


def test_a_label_is_escaped() -> None:
    metrics = [
        labelled("a", "gauge", "Of a.", "why", {'say "no"\n\\': 1}),
        counter("b_total", "Of b.", 12_345_678),
    ]

    assert exposed(metrics).splitlines() == [
        "# HELP a Of a.",
        "# TYPE a gauge",
        r'a{why="say \"no\"\\x0a\\"} 1',
        "# HELP b_total Of b.",
        "# TYPE b_total counter",
        "b_total 12345678",
    ]


def test_a_bot_without_a_port_loads_no_web_server_for_it() -> None:
    text = (ROOT / "bot/runtime/health/onlookers.py").read_text()

    assert "import uvicorn" not in text


async def test_readiness_says_which_route_is_dead_and_for_how_long(tmp_path: Path) -> None:
    port, gone = free_port(), {"do": "status", "status": 503}
    quote = {"verb": "GET", "path": "*quote*SHS*", "at": "09:20:10", "until": "15:00:00"}
    book = {"verb": "GET", "path": "*/order-book", "at": "09:21:00", "until": "15:00:00"}
    faults = [{"match": quote, "action": gone}, {"match": book, "action": gone}]
    config = write_project(
        tmp_path,
        scenario={**QUIET, "faults": faults},
        strategies=RESTING,
        sandbox={"scenario": "story.yaml", "speed": 20, "port": 0},
        health={"port": port},
    )
    bot = BotProcess("run", "-c", str(config))
    try:
        ready = await until(port, "/readyz", 200, "the quote of SHS")
        dead = await until(port, "/readyz", 503, "the day order book fails for ")
        page = await until(port, "/metrics", 200, 'read_failing_seconds{read="day order book"')
    finally:
        bot.end()

    assert re.match(r"ok; .*the quote of SHS fails for \d+ s \(.*503.*\)\n", ready), ready
    assert re.search(r"the day order book fails for \d+ s \(", dead), dead
    ages = dict(
        re.findall(r'^vnbot_read_age_seconds\{read="([a-z ]+)"\} ([\d.]+)', page, re.MULTILINE)
    )
    assert {"quote", "account", "day order book"} <= set(ages)
    assert 'vnbot_read_failing_seconds{read="quote",about="SHS"} ' in page
