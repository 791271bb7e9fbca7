"""A start from a checkpoint is a start from the whole ledger, whatever became of its writing."""

import io
import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.message import NewOrder
from bot.sandbox.house.ledger import Mark, read_ledger, resumed_at
from bot.sandbox.markets.replay.data import RecordedBar, RecordedDay, Recording
from bot.sandbox.scenario import Scenario
from tests.sandbox.client import (
    ACCOUNT,
    EXTENDED,
    RULEBOOK,
    Bench,
    bench,
    order_body,
    orders_path,
    ready,
    scenario,
)

EVERY = 40
HPG: dict[str, Any] = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000}
SHS = {"symbol": "SHS", "exchange": "HNX", "reference": 21_500}
STORIES: dict[str, dict[str, Any]] = {
    "crowds": {"symbols": [HPG, SHS]},
    "flow": {"symbols": [{**HPG, "flow": {}}, {**SHS, "flow": {}}]},
    "record": {
        "symbols": [{**HPG, "replay": "minutes"}, SHS],
        "replay": {"minutes": "minutes"},
    },
    "faults": {
        "symbols": [HPG, SHS],
        "faults": [
            {"match": {"verb": "POST", "path": "*/orders", "nth": 2}, "action": {"do": "reject"}},
            {
                "match": {"path": "*/orders", "prob": 0.2},
                "action": {"do": "hide_row", "seconds": 5},
            },
            {"match": {"at": "14:40"}, "action": {"do": "drop_2fa"}},
        ],
    },
    "switches": {
        "symbols": [{**HPG, "halts": [{"at": "14:12", "until": "14:20"}]}, SHS],
        "switches": {"modify_id": "new", "matching": "before_answer"},
        "corporate_actions": [
            {
                "do": "cash_dividend",
                "symbol": "HPG",
                "ex_date": "2026-11-20",
                "pays_on": "2026-11-23",
                "vnd_per_share": 500,
            }
        ],
    },
}
READS = (
    f"/trading/v1/accounts/{ACCOUNT}/order-book",
    f"/trading/v2/sub-accounts/{ACCOUNT}/portfolio",
    f"/trading/accounts/{ACCOUNT}/summary",
    "/market/quotes/stocks/HPG",
    "/market/quotes/stocks/HPG/order-book",
    "/market/quotes/stocks/SHS/order-book",
    "/market/quotes/indices/VNINDEX",
    "/market/quotes/indices/VNINDEX/history?resolution=1D&from=1795000000&to=1795500000",
)


def story(name: str, **keys: Any) -> Scenario:
    played = scenario(**STORIES[name], start="14:10:00", **keys)
    seconds = (33_600, 33_660, 34_200, 51_060, 51_120, 51_300, 53_100)
    bars = tuple(RecordedBar(each, 27_000, 27_100, 26_900, 27_050, 900) for each in seconds)
    days = {date(2026, 11, day): RecordedDay(27_000, bars) for day in (19, 20)}
    return played.with_recording(Recording({"HPG": days}, "made")) if name == "record" else played


@dataclass
class Day:
    """What one random day left: its ledger with checkpoints, and how to go on from it."""

    played: Scenario
    path: Path
    last: Bench

    def resumed(self, path: Path | None = None, **keys: Any) -> Bench:
        found = bench(self.played, path or self.path, checkpoint_every=10**9, **keys)
        found.token, found.numbers = self.last.token, self.last.numbers + 1_000
        found.wire.advance_to(self.last.wire.now())
        return found

    def copied(self, folder: Path) -> Path:
        shutil.copytree(self.path.parent, folder)
        return folder / self.path.name


async def some_hours(b: Bench, random: Random, steps: int, night: int | None = None) -> None:
    """Trade, change and cancel at random; after step `night` a night passes."""
    for step in range(steps):
        symbol, price = random.choice((("HPG", 27_000), ("SHS", 21_500)))
        body = order_body(
            symbol=symbol,
            side=random.choice(("BUY", "SELL")),
            limit_price=price + 100 * random.randrange(-4, 5),
        )
        answer = (await b.call("POST", orders_path(), body)).json()
        placed = answer.get("result", [{"order_id": "none"}])[0]["order_id"]
        if random.random() < 0.3:
            await b.call("DELETE", orders_path(placed), {"sub_account": EXTENDED})
        elif random.random() < 0.3:
            await b.call("PUT", orders_path(placed), {"price": price})
        b.pass_time(random.choice((0.5, 7, 90)))
        if step == night:
            b.pass_time(19 * 3_600)
            await b.log_in()


async def random_day(
    folder: Path, name: str = "crowds", seed: int = 1, *, steps: int = 24, night: int | None = None
) -> Day:
    path, played = folder / "sandbox.jsonl", story(name, seed=seed)
    b = bench(played, path, checkpoint_every=EVERY)
    await b.log_in()
    await some_hours(b, Random(seed), steps, night)
    b.sandbox.close()
    return Day(played, path, b)


async def all_reads(b: Bench) -> list[str]:
    return [(await b.call("GET", target)).text for target in READS]


def kept_files(path: Path) -> dict[str, Path]:
    return {kind: path.with_name(path.name + kind) for kind in (".checkpoint", ".checkpoint.old")}


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", STORIES)
async def test_a_start_from_a_checkpoint_goes_on_as_one_from_the_whole_ledger(
    tmp_path: Path, name: str, seed: int
) -> None:
    day = await random_day(tmp_path / "quick", name, seed, night=12)
    slow_path = day.copied(tmp_path / "slow")
    for file in kept_files(slow_path).values():
        file.unlink()

    quick, slow = day.resumed(), day.resumed(slow_path)
    at_once = [await all_reads(b) for b in (quick, slow)]
    for b in (quick, slow):
        await some_hours(b, Random(seed), 12)

    assert at_once[0] == at_once[1]
    assert await all_reads(quick) == await all_reads(slow)
    assert day.path.read_bytes() == slow_path.read_bytes()


async def test_wherever_the_writing_is_killed_the_start_is_the_same(tmp_path: Path) -> None:
    day = await random_day(tmp_path / "day")
    wanted = await all_reads(day.resumed(day.copied(tmp_path / "wanted")))
    newest, older = (file.read_bytes() for file in kept_files(day.path).values())
    parts = [newest[:size] for size in range(0, len(newest), len(newest) // 6)]
    moments = [{".checkpoint": older, ".checkpoint.new": part} for part in (*parts, newest)]
    moments += [{".checkpoint.old": older, ".checkpoint.new": newest}]
    moments += [{".checkpoint": part, ".checkpoint.old": older} for part in parts]
    moments += [{".checkpoint": part, ".checkpoint.old": part} for part in parts]

    for number, moment in enumerate(moments):
        path = tmp_path / str(number) / day.path.name
        path.parent.mkdir()
        shutil.copy(day.path, path)
        for kind, content in moment.items():
            path.with_name(path.name + kind).write_bytes(content)

        assert await all_reads(day.resumed(path)) == wanted, sorted(moment)


async def test_what_the_checkpoint_counts_is_not_replayed_again(tmp_path: Path) -> None:
    day = await random_day(tmp_path)
    head = kept_files(day.path)[".checkpoint"].read_bytes().split(b"\n")[1]
    said = json.loads(head)
    mark = Mark(said["lines"], said["size"], said["sha256"])

    rest = read_ledger(day.path, mark)

    assert 0 < len(rest) <= len(read_ledger(day.path)) // 4
    assert rest == read_ledger(day.path)[mark.lines :]


@pytest.mark.parametrize("place", [40, 200, -40, -1])
async def test_a_damaged_checkpoint_is_named_and_the_older_one_counts(
    tmp_path: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    day = await random_day(tmp_path)
    wanted = await all_reads(day.resumed(day.copied(tmp_path / "whole")))
    newest = kept_files(day.path)[".checkpoint"]
    content = bytearray(newest.read_bytes())
    content[place] ^= 1
    newest.write_bytes(content)

    found = await all_reads(day.resumed())

    assert found == wanted
    assert "checkpoint_ignored file=sandbox.jsonl.checkpoint why=torn or damaged" in caplog.text
    assert ".old" not in caplog.text


async def test_a_checkpoint_of_another_ledger_or_rulebook_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    day = await random_day(tmp_path / "day")
    other = day.copied(tmp_path / "other")
    other.write_bytes(day.path.read_bytes().replace(b'"nonce-3"', b'"nonce-x"'))
    closed = RULEBOOK.with_override({"closed": [{"date": "2026-12-08", "name": "made up"}]})

    others, rules = day.resumed(other), day.resumed(rulebook=closed)

    assert others.sandbox.now == rules.sandbox.now == resumed_at(day.path)
    assert caplog.text.count("why=of another ledger") == 2
    assert caplog.text.count("why=of another scenario, rulebook or program") == 2


@pytest.mark.parametrize("maker", [os.mkdir, io.FileIO, partial])
async def test_a_checkpoint_calls_nothing_that_is_not_a_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, maker: Callable[..., Any]
) -> None:
    day = await random_day(tmp_path)
    newest = kept_files(day.path)[".checkpoint"]
    magic, head, _ = newest.read_bytes().split(b"\n", 2)
    made = tmp_path / "made"
    asked: dict[object, tuple[object, ...]] = {
        os.mkdir: (str(made), 0o700),
        io.FileIO: (str(made), "w"),
        partial: (os.mkdir, str(made)),
    }

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return maker, asked[maker]

    body = magic + b"\n" + head + b"\n" + pickle.dumps(Trap())
    newest.write_bytes(body + sha256(body).digest())

    resumed = day.resumed()

    assert resumed.sandbox.now == resumed_at(day.path)
    assert not made.exists()
    assert "has no place in a checkpoint" in caplog.text


def by_attribute(made: Path) -> str:
    """A pickle that walks from what one of our modules imports to `os`."""

    def of(name: str, owner: str) -> str:
        return f"cbot.protocol.quotes\nattrgetter\n(V{name}\ntR({owner}tR"

    ours = "cbot.sandbox.house.checkpoint\n_zone\n"
    found = of("get", of("__globals__", ours)) + "(Vos\ntR"
    return f"{of('mkdir', found)}(V{made}\ntR."


def by_inheritance(_made: Path) -> str:
    """A pickle that calls what a class of ours has from pydantic: it reads other pickles."""
    named = "cbot.sandbox.house.checkpoint\n_named\n(Vscenario\ntR"
    return f"cbot.sandbox.house.checkpoint\n_method\n({named}Vparse_raw\ntR."


def by_ledger(_made: Path) -> str:
    """A pickle that makes what writes to any file."""
    return "cbot.sandbox.house.ledger\nLedger\n(NtR."


@pytest.mark.parametrize("trap", [by_attribute, by_inheritance, by_ledger])
async def test_a_checkpoint_finds_no_way_round_by_our_own_modules(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, trap: Callable[[Path], str]
) -> None:
    day = await random_day(tmp_path)
    newest, made = kept_files(day.path)[".checkpoint"], tmp_path / "made"
    magic, head, _ = newest.read_bytes().split(b"\n", 2)
    body = magic + b"\n" + head + b"\n" + trap(made).encode()
    newest.write_bytes(body + sha256(body).digest())

    resumed = day.resumed()

    assert resumed.sandbox.now == resumed_at(day.path)
    assert not made.exists()
    assert "has no place in a checkpoint" in caplog.text or "no method of ours" in caplog.text


@pytest.mark.parametrize("state", [b"(lp0\n0.", b"cbot.sandbox.nowhere\nNothing\n."])
async def test_a_checkpoint_that_cannot_be_read_at_all_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, state: bytes
) -> None:
    day = await random_day(tmp_path)
    newest, older = kept_files(day.path).values()
    magic, head, _ = newest.read_bytes().split(b"\n", 2)
    body = magic + b"\n" + head + b"\n" + state
    newest.write_bytes(body + sha256(body).digest())
    older.unlink()
    older.mkdir()

    resumed = day.resumed()

    assert resumed.sandbox.now == resumed_at(day.path)
    assert caplog.text.count("checkpoint_ignored") == 2


async def test_a_sandbox_goes_on_where_no_checkpoint_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sandbox.jsonl"
    bench(scenario(), path).sandbox.close()
    (tmp_path / "sandbox.jsonl.checkpoint.new").mkdir()
    second = bench(scenario(), path, checkpoint_every=1)

    second.pass_time(1)

    assert "checkpoint_not_written why=Is a directory" in caplog.text
    assert names_in(tmp_path) == ["sandbox.jsonl", "sandbox.jsonl.checkpoint.new"]
    assert resumed_at(path) == second.sandbox.now


async def test_a_nonce_from_before_the_checkpoint_is_still_used_up(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    first = await ready(scenario(), path)
    await first.place()
    first.sandbox.close()
    second = bench(scenario(), path, checkpoint_every=1)
    second.pass_time(1)

    third = bench(scenario(), path)
    third.token = first.token
    reused = await third.call("GET", READS[0], headers={"X-FH-NONCE": "nonce-2"})

    assert names_in(tmp_path) == ["sandbox.jsonl", "sandbox.jsonl.checkpoint"]
    assert reused.json()["error_code"] == "AUTH_NONCE_REUSED"


async def test_a_checkpoint_holds_no_secret_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    day = await random_day(tmp_path)
    given, newest = day.last.sandbox.credentials, kept_files(day.path)[".checkpoint"]

    content = newest.read_bytes()

    for secret in (given.api_key, given.api_secret, given.otp_code, day.last.token):
        assert secret.encode() not in content
    assert newest.stat().st_mode & 0o777 == 0o600


async def test_two_checkpoints_are_kept_and_a_new_ledger_begins_without_them(
    tmp_path: Path,
) -> None:
    day = await random_day(tmp_path)
    kept = names_in(tmp_path)
    day.path.unlink()

    begun = day.resumed()

    assert kept == ["sandbox.jsonl", "sandbox.jsonl.checkpoint", "sandbox.jsonl.checkpoint.old"]
    assert names_in(tmp_path) == ["sandbox.jsonl"]
    assert begun.sandbox.now == day.played.starts_at


async def test_a_queue_of_any_length_can_be_stored(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.jsonl"
    first = bench(scenario(), path, checkpoint_every=EVERY)
    venue, at = first.sandbox._house.venue, first.sandbox.now
    for number in range(5_000):
        order = NewOrder(f"X-{number}", "", "HPG", Side.BUY, 100, OrderType.LO, 26_500)
        venue.submit(order, at)
    for _ in range(EVERY):
        first.pass_time(1)

    second = bench(scenario(), path)

    assert [order.order_id for order in second.sandbox._house.venue.open_orders()] == [
        order.order_id for order in venue.open_orders()
    ]
    level = second.sandbox._house.venue._market("HPG").even.buys.levels[26_500]
    assert [order.order_id for order in level] == [f"X-{number}" for number in range(5_000)]
    assert level.tail is not None
    assert level.tail.ahead is not None
    assert level.tail.ahead.order_id == "X-4998"
