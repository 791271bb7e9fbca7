"""P4: a second bot waits for the journal and takes over; the one that it relieves sends nothing."""

import asyncio
import signal
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.journal.database.engines import one_transaction
from bot.journal.writing.lease import GRACE_S
from tests.faults.hanging import RESTING, trading
from tests.faults.standbys import (
    busy,
    posts,
    rows,
    sends,
    standby_of,
    waits,
    wanted_by,
    wanting,
)
from tests.journal.breaking_proxy import breaking_proxy

pytestmark = [
    pytest.mark.wire,
    pytest.mark.process,
    pytest.mark.postgres,
    pytest.mark.timeout(300),
]
LEASE_S = 20.0
TAKES_OVER_S = 60.0
END_ALL = sa.text(
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where datname = current_database() and pid != pg_backend_pid()"
)
"""What a server does when it is restarted."""
OF_THE_FIRST = [("L-0001", 1, 1), ("L-0002", 1, 1)]


@pytest.mark.long
async def test_a_standby_goes_on_with_the_orders_of_a_bot_that_was_killed(
    tmp_path: Path, own_postgres_url: str
) -> None:
    url = own_postgres_url
    async with trading(tmp_path, url) as first, standby_of(first, url) as second:
        waiting = await second.status()
        killed = time.monotonic()
        await first.kill()
        await second.until(sends)
        took_s = time.monotonic() - killed
        await second.sign_in()
        code, out, err, _ = await second.end()

    assert waiting["reason"].startswith("standby: ")
    assert f"pid {first.bot.pid} holds the journal since " in waiting["reason"]
    assert took_s < TAKES_OVER_S
    assert (code, "Traceback" in out + err) == (0, False)
    assert "it no longer held the journal" in err
    assert posts(own_postgres_url) == OF_THE_FIRST
    assert len(first.orders()) == 2
    assert rows(own_postgres_url, "select count(distinct epoch) from runs") == [(2,)]


@pytest.mark.long
async def test_a_bot_that_was_stopped_sends_nothing_once_another_has_its_journal(
    tmp_path: Path, own_postgres_url: str
) -> None:
    url = own_postgres_url
    async with trading(tmp_path, url, strategies=busy(tmp_path), is_signed_in=False) as first:
        await first.give_token()
        async with standby_of(first, url) as second:
            await first.until(lambda _: len(posts(url)) > 3)
            stopped = time.monotonic()
            first.bot.send_signal(signal.SIGSTOP)
            await second.until(sends)
            took_s = time.monotonic() - stopped
            before = len(posts(url))
            await second.give_token()
            await second.until(lambda _: len(posts(url)) > before + 3)
            first.bot.send_signal(signal.SIGCONT)
            _, told = await asyncio.to_thread(first.bot.communicate)
            after = len(posts(url))
            await second.until(lambda _: len(posts(url)) > after)
            code, out, err, _ = await second.end()

    assert took_s < TAKES_OVER_S
    assert first.bot.returncode == 10
    assert "another bot has taken this journal over (lease 2, ours was 1)" in told
    assert f"pid {second.bot.pid} on " in told
    assert (code, "Traceback" in out + err + told) == (0, False)
    assert "it gave no heartbeat for 2" in err
    ours = posts(url)
    assert {count for _, count, _ in ours} == {1}
    epochs = [epoch for _, _, epoch in ours]
    assert epochs == sorted(epochs)
    assert len(first.orders()) == len(rows(url, "select distinct order_id from orders"))


@pytest.mark.long
async def test_a_bot_cut_off_from_its_journal_sends_nothing_that_a_standby_may_have(
    tmp_path: Path, own_postgres_url: str
) -> None:
    strategies = [*RESTING, wanting(tmp_path)]
    with breaking_proxy(own_postgres_url) as (proxy, url):
        direct = own_postgres_url
        async with (
            trading(
                tmp_path, url, strategies=strategies, risk={"allow_amend": True}, write_timeout_s=3
            ) as first,
            standby_of(first, direct) as second,
        ):
            await first.until(lambda it: it["trouble"] is None)
            await asyncio.sleep(3)
            cut = time.monotonic()
            proxy.flows.clear()
            wanted_by(first).touch()  # without a journal it looks at no quotes any more
            degraded = await first.until(lambda it: it["state"] == "DEGRADED")
            await second.until(sends)
            took_s = time.monotonic() - cut
            await first.until(lambda it: "standby" in (it["trouble"] or {}).get("text", ""))
            for order in first.orders():
                await first.ask("modify", order_id=order, quantity=200)
                await first.ask("cancel", order_id=order)
            await first.ask("halt", reason="wrong prices")
            await asyncio.sleep(2)
            still_open = dict(first.orders())
            await second.sign_in()
            proxy.flows.set()
            _, told = await asyncio.to_thread(first.bot.communicate)
            code, out, err, _ = await second.end()

    assert took_s < TAKES_OVER_S
    assert wanted_by(first).read_text() == "once more "
    assert degraded["sending"] == ["L-0003"]
    assert list(still_open.values()) == ["SENT", "SENT"]
    assert (first.bot.returncode, code, "Traceback" in out + err + told) == (10, 0, False)
    assert "another bot has taken this journal over" in told
    assert posts(own_postgres_url) == OF_THE_FIRST
    assert first.orders() == still_open
    assert rows(own_postgres_url, "select verb from attempts where verb != 'POST'") == []


@pytest.mark.long
async def test_a_halt_given_while_cut_off_is_said_to_be_unknown_to_the_standby(
    tmp_path: Path, own_postgres_url: str
) -> None:
    with breaking_proxy(own_postgres_url) as (proxy, url):
        async with (
            trading(tmp_path, url, write_timeout_s=3) as first,
            standby_of(first, own_postgres_url) as second,
        ):
            await asyncio.sleep(3)  # by then a heartbeat has seen the second
            proxy.flows.clear()
            degraded = await first.until(lambda it: it["state"] == "DEGRADED")
            paused, _ = await first.call("pause", "--reason", "wrong prices")
            halted, _ = await first.call("halt", "--yes", "--reason", "wrong prices")
            await second.until(sends)
            await first.until(lambda it: "Halt and cancel" in (it["trouble"] or {})["text"])
            proxy.flows.set()
            _, told = await asyncio.to_thread(first.bot.communicate)
            state = (await second.status())["state"]

    unknown = "a standby waiting that will not know of a halt or pause given here"
    assert unknown in degraded["trouble"]["text"]
    assert [unknown in each for each in (degraded["alerts"][0], paused, halted)] == [True] * 3
    assert first.bot.returncode == 10
    assert "It does not know of the halt of " in told
    assert state == "NEEDS_2FA"


@pytest.mark.long
async def test_of_two_bots_at_a_database_that_hung_one_has_the_journal_afterwards(
    tmp_path: Path, own_postgres_url: str
) -> None:
    with breaking_proxy(own_postgres_url) as (proxy, url):
        async with trading(tmp_path, url) as first, standby_of(first, url) as second:
            proxy.flows.clear()
            await first.until(lambda it: it["state"] == "DEGRADED")
            hung = time.monotonic()
            said = await second.until(lambda it: "does not answer" in it["reason"])
            await asyncio.sleep(max(LEASE_S + 2 - (time.monotonic() - hung), 0))
            meanwhile = (await second.status(), len(first.orders()))
            proxy.flows.set()
            await first.until(lambda it: it["trouble"] is None)
            await second.until(waits)
            await asyncio.sleep(3)
            both = ((await first.status())["state"], (await second.status())["state"])
            ends = [await second.end(), await first.end()]

    assert said["reason"].startswith("standby: since ")
    assert (meanwhile[0]["state"], meanwhile[1]) == ("STARTING", 2)
    assert both == ("RUNNING", "STARTING")
    assert [code for code, *_ in ends] == [0, 0]
    assert not any("Traceback" in out + err for _, out, err, _ in ends)
    assert posts(own_postgres_url) == OF_THE_FIRST
    assert rows(own_postgres_url, "select epoch from lease") == [(1,)]


@pytest.mark.long
async def test_a_restart_of_the_database_leaves_the_journal_to_the_bot_that_had_it(
    tmp_path: Path, own_postgres_url: str
) -> None:
    url = own_postgres_url
    with breaking_proxy(url) as (proxy, through):
        async with trading(tmp_path, through) as first, standby_of(first, url) as second:
            proxy.flows.clear()  # the first hears of it 3 s later: the standby always sees it first
            with one_transaction(url) as connection:
                connection.execute(END_ALL)
            await second.until(lambda it: "does not answer" in it["reason"])
            await asyncio.sleep(3)
            proxy.flows.set()
            await first.until(lambda it: it["trouble"] is None)
            await second.until(waits)
            await asyncio.sleep(GRACE_S + 1)
            both = ((await first.status())["state"], (await second.status())["state"])
            ends = [await second.end(), await first.end()]

    assert both == ("RUNNING", "STARTING")
    assert [code for code, *_ in ends] == [0, 0]
    assert "the bot that held the journal has 6 s to hold it again" in ends[0][2]
    assert not any("Traceback" in out + err for _, out, err, _ in ends)
    assert rows(url, "select epoch from lease") == [(1,)]
