"""Commands see every order and every order not placed, with the reasons, and change nothing."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from bot.domain.entry import Decision, Entry, Verdict
from bot.domain.order import OrderState, SendState, Side
from bot.journal.database.engines import reading
from bot.journal.database.tables import v_timeline
from bot.journal.errors import AmbiguousOrder, NeedsMigration, UnknownOrder, Unreachable
from bot.journal.journal import Journal
from bot.journal.reading.folding import group
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.values import DecisionGroup, DecisionRow, PositionRow, ReasonRow
from tests.journal.facts import DAY, EVERY_KIND, Story, after, but
from tests.journal.stored import url_of, written_once

FILLED = Story(1, "sma-fpt", "FPT", quantity=100, price=132_000, start=-300)
PARTLY = Story(3)
REJECTED = Story(4, "sma-fpt", "VNM", quantity=100, price=79_900, start=360)
BLOCKED = Story(5, "sma-fpt", "VNM", quantity=900, price=71_900, start=600)
HELD = Story(7, "sma-fpt", "FPT", quantity=100, price=131_900, start=1_080)
LOST = Story(8, "depth-hpg", "HPG", quantity=300, price=27_000, start=1_200)
_SEND = SendState


def skip(minute: int, gap: float) -> Decision:
    return Decision(
        at=after(minute * 60),
        strategy="sma-fpt",
        symbol="FPT",
        verdict=Verdict.SKIPPED,
        code="skip",
        why=f"no cross (gap {gap:.2f}%)",
        numbers={"gap": gap, "is_long": False},
    )


def a_day() -> list[list[Entry]]:
    """Filled, partly filled then cut, rejected in a 200, blocked by a limit, held by 2FA, lost."""
    rejected = but(
        REJECTED.accepted,
        state=OrderState.REJECTED,
        broker_status="REJECTED",
        code="-900017",
        reason="Giá nằm ngoài biên độ",
    )
    blocked = but(
        BLOCKED.decision,
        verdict=Verdict.BLOCKED,
        code="max_order_value",
        why="64.7M > 50.0M",
    )
    refused = but(
        HELD.finished, outcome="REFUSED", http_status=403, code="OTP_SESSION_EXPIRED", reason=""
    )
    cut = but(
        PARTLY.filled(200, position=200)[1],
        at=PARTLY.at(181.2),
        state=OrderState.CANCELLED,
        cancelled_quantity=300,
        note="expire 3m",
    )
    return [
        *FILLED.placed(),
        FILLED.filled(100, position=100),
        *PARTLY.placed(),
        [PARTLY.result(1, '{"status":"SENT"}'), *PARTLY.filled(200, position=200)],
        [cut, PARTLY.transition(OrderState.PARTIALLY_FILLED, OrderState.CANCELLED, 181.2)],
        [REJECTED.decision, REJECTED.recorded],
        REJECTED.sending,
        [
            but(REJECTED.finished, outcome="REFUSED", code="-900017"),
            REJECTED.moved(_SEND.SENDING, _SEND.REFUSED),
            rejected,
        ],
        [blocked],
        [HELD.decision, HELD.recorded],
        HELD.sending,
        [refused, HELD.moved(_SEND.SENDING, _SEND.HELD)],
        [LOST.decision, LOST.recorded],
        LOST.sending,
        [LOST.moved(_SEND.SENDING, _SEND.UNKNOWN)],
        [skip(minute, 0.05 + minute / 100) for minute in range(31)],
    ]


async def write_day(url: str) -> None:
    journal = Journal.open(url)
    for entries in a_day():
        await journal.write(entries)
    await journal.close()


@pytest.fixture(scope="module")
def day(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_once(sqlite_template, tmp_path_factory.mktemp("day"), write_day)


@pytest.fixture
def reader(day: Path) -> Iterator[JournalReader]:
    """On SQLite alone: one test below holds that PostgreSQL shows the very same."""
    with JournalReader(url_of(day)) as opened:
        yield opened


def test_every_order_and_every_order_not_placed_is_listed(reader: JournalReader) -> None:
    listed = [(row.id, row.status, row.outcome, row.code) for row in reader.orders()]

    assert listed == [
        ("L-0008", "UNKNOWN", "unknown", None),
        ("ORD10000001", "MATCHED_ALL", "filled", None),
        ("ORD10000003", "SENT", "partly", None),
        ("ORD10000004", "REJECTED", "rejected", "-900017"),
        ("L-0005", "BLOCKED", "blocked", "max_order_value"),
        ("L-0007", "BLOCKED", "held", "OTP_SESSION_EXPIRED"),
    ]


@pytest.mark.parametrize("when", ["before its commit", "before its first byte", "waiting for 2FA"])
async def test_a_signal_that_became_too_old_is_expired_whenever_that_was(
    when: str, db_url: str
) -> None:
    ways: dict[str, list[list[Entry]]] = {
        "before its commit": [[LOST.moved(_SEND.READY, _SEND.EXPIRED_LOCAL)]],
        "before its first byte": [LOST.sending, [LOST.moved(_SEND.SENDING, _SEND.NOT_SENT)]],
        "waiting for 2FA": [
            LOST.sending,
            [but(LOST.finished, outcome="REFUSED", code="OTP_SESSION_EXPIRED", reason="a 403")],
            [LOST.moved(_SEND.SENDING, _SEND.HELD)],
            [LOST.moved(_SEND.HELD, _SEND.EXPIRED_LOCAL)],
        ],
    }
    journal = Journal.open(db_url)
    recorded: list[Entry] = [LOST.decision, LOST.recorded]
    for entries in (recorded, *ways[when]):
        await journal.write(entries)
    await journal.close()

    with JournalReader(db_url) as opened:
        [row] = opened.orders()

    assert (row.status, row.outcome, row.reason) == ("EXPIRED", "expired", "the broker said so")
    assert not row.was_sent
    assert not row.is_open


async def test_a_refused_verdict_or_cancel_is_not_the_code_of_its_order(db_url: str) -> None:
    asked = but(LOST.decision, verdict=Verdict.BLOCKED, request_id=LOST.local_id)
    held = but(HELD.decision, verdict=Verdict.HELD, code="TWO_FACTOR", request_id=HELD.local_id)
    written: list[list[Entry]] = [
        [LOST.decision, LOST.recorded],
        LOST.sending,
        [LOST.moved(_SEND.SENDING, _SEND.UNKNOWN)],
        [but(asked, code="VERDICT_ROW")],
        [but(asked, code="OPEN_ORDER")],
        [HELD.decision, HELD.recorded],
        [held],
        [but(asked, code="VERDICT_OPEN", request_id=HELD.local_id)],
    ]
    journal = Journal.open(db_url)
    for entries in written:
        await journal.write(entries)
    await journal.close()

    with JournalReader(db_url) as opened:
        listed = {row.id: row.code for row in opened.orders()}
        codes = listed, opened.order(LOST.local_id).code, opened.order("last").code

    assert codes == ({LOST.local_id: None, HELD.local_id: "TWO_FACTOR"}, None, "TWO_FACTOR")


def test_a_row_says_all_of_an_order(reader: JournalReader) -> None:
    row = reader.order("ORD10000003")

    assert (row.at, row.trading_date, row.local_id) == (PARTLY.at(0.001), DAY, "L-0003")
    assert (row.strategy, row.side, row.symbol, row.quantity) == ("depth-hpg", "BUY", "HPG", 500)
    assert (row.executed_quantity, row.average_price, row.cancelled_quantity) == (200, 27_050, 300)
    assert (row.why, row.note, row.is_open) == ("bids 4.6x asks", "expire 3m", False)


def test_orders_are_filtered(reader: JournalReader) -> None:
    def ids(**filters: object) -> list[str]:
        return [row.id for row in reader.orders(**filters)]  # type: ignore[arg-type]

    assert ids(open_only=True) == ["L-0008", "L-0007"]
    assert ids(symbol="VNM") == ["ORD10000004", "L-0005"]
    assert ids(strategy="depth-hpg") == ["L-0008", "ORD10000003"]
    assert ids(status="blocked") == ["L-0005", "L-0007"]
    assert ids(status="matched_all") == ids(status="FILLED") == ["ORD10000001"]
    assert ids(since=after(900)) == ["L-0008", "L-0007"]


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("ORD10000001", "ORD10000001"),
        ("L-0001", "ORD10000001"),
        ("l-0005", "L-0005"),
        ("0003", "ORD10000003"),
        ("last", "L-0008"),
    ],
)
def test_an_order_is_found_by_id_part_or_last(
    reader: JournalReader, reference: str, found: str
) -> None:
    assert reader.order(reference).id == found


def test_a_part_of_several_lists_the_candidates(reader: JournalReader) -> None:
    with pytest.raises(AmbiguousOrder) as caught:
        reader.order("ORD1")

    assert caught.value.candidates == ("ORD10000004", "ORD10000003", "ORD10000001")


@pytest.mark.parametrize("reference", ["ORD999", "%", "_", "' OR 1=1 --", ""])
def test_what_names_no_order_is_refused(reader: JournalReader, reference: str) -> None:
    with pytest.raises(UnknownOrder):
        reader.order(reference)


def test_a_timeline_tells_an_order_from_wish_to_fill(reader: JournalReader) -> None:
    told = [(row.kind, row.text) for row in reader.timeline("ORD10000003")]

    assert told == [
        ("decided", "PASSED ok · BUY 500 HPG LO 27,050 · bids 4.6x asks"),
        ("checked", "2 of 2 checks ok"),
        ("recorded", "BUY 500 HPG LO 27,050"),
        (
            "sent",
            "POST /trading/v1/accounts/***/orders · nonce 5f0c0003… · body sha256 9a319a31…",
        ),
        ("sending", "READY → SENDING · the broker said so"),
        ("answered", "ACCEPTED · HTTP 200 · 41 ms"),
        ("result", "place"),
        ("sending", "SENDING → ACKED · the broker said so"),
        ("moved", "SUBMITTED → ACCEPTED · SENT"),
        ("polled", "book"),
        ("moved", "ACCEPTED → PARTIALLY_FILLED · SENT"),
        ("filled", "200 @ 27,050 · 200 of 500 · fee 8,115 · position HPG 200"),
        ("moved", "PARTIALLY_FILLED → CANCELLED · SENT"),
    ]


def test_a_timeline_counts_from_its_first_row(reader: JournalReader) -> None:
    rows = reader.timeline("L-0003")

    assert (rows[0].at, rows[0].offset_s, rows[-1].offset_s) == (PARTLY.at(0), 0.0, 181.2)
    assert rows[1].detail is not None
    assert '"max_order_value"' in rows[1].detail
    assert [row.detail for row in rows if row.kind == "polled"] == ['{"status":"SENT"}']


async def test_an_id_that_the_broker_uses_again_has_a_timeline_for_each_day(db_url: str) -> None:
    first = Story(1, symbol="HPG")
    again = Story(2, symbol="FPT", start=86_400.0, trading_date=DAY + timedelta(days=1))
    journal = Journal.open(db_url)
    for story in (first, again):
        await journal.write([but(story.accepted, order_id="ORD7", intent_id=None)])
        moved = story.transition(OrderState.SUBMITTED, OrderState.ACCEPTED, 1)
        await journal.write([but(moved, order_id="ORD7", intent_id=None, note=story.symbol)])
    await journal.close()

    with JournalReader(db_url) as reader:
        told = [reader.timeline_of(row) for row in reader.orders()]
        newest = reader.timeline("ORD7")

    assert [[row.at for row in rows] for rows in told] == [[first.at(1)], [again.at(1)]]
    assert newest == told[1]


def test_a_blocked_request_has_a_timeline(reader: JournalReader) -> None:
    told = [(row.kind, row.text) for row in reader.timeline("L-0005")]

    assert told == [
        ("decided", "BLOCKED max_order_value · BUY 900 VNM LO 71,900 · 64.7M > 50.0M"),
        ("checked", "refused by max_order_value, check 2"),
    ]


def test_fills_are_read_as_written(reader: JournalReader) -> None:
    rows = reader.fills(symbol="HPG")

    assert [(row.fill_id, row.quantity, row.amount, row.trading_date) for row in rows] == [
        ("F-0003", 200, 5_410_000, DAY)
    ]


async def test_positions_are_what_is_left_of_fills(sqlite_url: str) -> None:
    await write_day(sqlite_url)
    journal = Journal.open(sqlite_url)
    sale = Story(9, "sma-fpt", "FPT", Side.SELL, 100, 133_000, start=2_000)
    for entries in (*sale.placed(), sale.filled(100, position=0, realised=100_000)):
        await journal.write(entries)

    with JournalReader(sqlite_url) as reader:
        assert reader.positions() == [
            PositionRow("depth-hpg", "HPG", 200, 5_410_000, 27_050, 0, 8_115, 0)
        ]
        assert [(row.symbol, row.net) for row in reader.profits(day=DAY)] == [
            ("HPG", -8_115),
            ("FPT", 100_000 - 19_800 - 19_950 - 13_300),
        ]
    await journal.close()


def test_why_not_lists_what_became_no_order(reader: JournalReader) -> None:
    with reader.decisions(DecisionRow, why_not=True, symbol="VNM") as page:
        rows = list(page.rows)

    assert [(row.verdict, row.code, row.local_id) for row in rows] == [
        ("BLOCKED", "max_order_value", "L-0005")
    ]
    assert [check.code for check in rows[0].checks] == ["lot", "max_order_value"]
    assert rows[0].saw == {"bid": 27_000, "ask": 27_050}


def test_of_many_decisions_the_newest_are_read_and_the_others_counted(
    reader: JournalReader,
) -> None:
    _, _, everyone = decided(reader)
    skips = [row for row in everyone if row.symbol == "FPT"]

    assert decided(reader, newest=3) == (3, len(everyone) - 3, everyone[-3:])
    assert decided(reader, newest=1, symbol="FPT") == (1, len(skips) - 1, skips[-1:])
    assert decided(reader, newest=len(skips), symbol="FPT") == (len(skips), 0, skips)
    assert decided(reader, newest=99, symbol="NONE") == (0, 0, [])


def test_the_last_decision_has_a_time(reader: JournalReader) -> None:
    _, _, everyone = decided(reader)

    assert reader.last_decision_at() == max(row.at for row in everyone)


def test_reasons_that_differ_in_figures_are_told_together(reader: JournalReader) -> None:
    with reader.decisions(ReasonRow, why_not=True, symbol="FPT") as page:
        groups = group(page.rows)

    assert len(groups) == 1
    told = groups[0]
    assert (told.count, told.code, told.why) == (31, "skip", "no cross (gap 0.05 to 0.35%)")
    assert told.last_at - told.first_at == timedelta(minutes=30)
    assert {name: (round(a, 2), round(b, 2)) for name, (a, b) in told.ranges.items()} == {
        "gap": (0.05, 0.35)
    }


def test_a_day_is_summed_up(reader: JournalReader) -> None:
    summary = reader.summary(DAY)

    outcomes = {"filled": 1, "partly": 1, "rejected": 1, "blocked": 1, "held": 1, "unknown": 1}
    assert summary.outcomes == outcomes
    assert (summary.orders, summary.fills, summary.net) == (6, 2, -19_800 - 8_115)
    assert summary.decisions == {"PASSED": 5, "BLOCKED": 1, "SKIPPED": 31}


async def test_the_rest_is_read_too(sqlite_url: str) -> None:
    journal = Journal.open(sqlite_url)
    await journal.write(EVERY_KIND)
    await journal.start_run(at=after(0), mode="sandbox", version="0.1.0", config_sha256="")

    with JournalReader(sqlite_url) as reader:
        assert [row.code for row in reader.auth_events()] == ["OTP_SESSION_EXPIRED"]
        assert [(row.run_id, row.ended_at) for row in reader.runs()] == [(1, None)]
    with reading(sqlite_url) as connection:
        kinds = set(connection.execute(sa.select(v_timeline.c.kind)).scalars())
    assert kinds >= {"2fa", "state", "note", "account"}
    await journal.close()


async def test_what_is_not_known_of_a_wish_is_left_out(db_url: str) -> None:
    journal = Journal.open(db_url)
    whole = but(Story(1).decision, order_type="ATO", price=None)
    without = but(whole, request_id=None, quantity=None, order_type=None)
    await journal.write([whole])
    await journal.write([without])
    await journal.close()

    with reading(db_url) as connection:
        rows = connection.execute(sa.select(v_timeline.c.kind, v_timeline.c.text)).all()

    told = [text.split(" · ")[1] for kind, text in rows if kind == "decided"]
    assert told == ["BUY 500 HPG ATO", "BUY HPG"]


@pytest.mark.postgres
async def test_both_databases_show_the_same(sqlite_url: str, postgres_url: str) -> None:
    shown = []
    for url in (sqlite_url, postgres_url):
        journal = Journal.open(url)
        for entries in (*a_day(), *([entry] for entry in EVERY_KIND[-5:])):
            await journal.write(entries)
        await journal.start_run(at=after(0), mode="sandbox", version="0.1.0", config_sha256="")
        await journal.close()
        with JournalReader(url) as reader:
            shown.append(everything(reader))

    assert shown[0] == shown[1]


def decided(reader: JournalReader, **asked: Any) -> tuple[int, int, list[DecisionRow]]:
    with reader.decisions(DecisionRow, **asked) as page:
        return page.count, page.earlier, list(page.rows)


def grouped(reader: JournalReader) -> list[DecisionGroup]:
    with reader.decisions(ReasonRow, why_not=True) as page:
        return group(page.rows)


def everything(reader: JournalReader) -> list[object]:
    """What every method of the reader answers."""
    since = after(900)
    return [
        *(reader.orders(), reader.orders(since=since), reader.orders(open_only=True)),
        *(reader.orders(status="blocked"), reader.orders(symbol="VNM", strategy="sma-fpt")),
        *(reader.order("l-0005"), reader.order("0003"), reader.order("last")),
        *(reader.timeline("ORD10000003"), reader.timeline("L-0005")),
        *(reader.fills(symbol="HPG"), reader.positions(), reader.profits(day=DAY)),
        *(decided(reader, why_not=True), decided(reader, missed=True, since=since)),
        *(decided(reader, newest=3), reader.last_decision_at()),
        *(grouped(reader), reader.summary(DAY), reader.accounts()),
        reader.prices(["FPT", "HPG", "VNM"]),
        *(reader.auth_events(), reader.runs()),
        *(candidates(reader, "ORD1"), candidates(reader, "L-000")),
    ]


def candidates(reader: JournalReader, reference: str) -> tuple[str, ...]:
    with pytest.raises(AmbiguousOrder) as caught:
        reader.order(reference)
    return caught.value.candidates


def snapshot(directory: Path) -> dict[str, tuple[int, str]]:
    return {
        path.name: (path.stat().st_mtime_ns, sha256(path.read_bytes()).hexdigest())
        for path in sorted(directory.iterdir())
    }


async def test_reading_a_journal_at_rest_changes_and_makes_no_file(
    sqlite_url: str, tmp_path: Path
) -> None:
    journal = Journal.open(sqlite_url)
    await journal.write(EVERY_KIND)
    await journal.close()
    before = snapshot(tmp_path)

    with JournalReader(sqlite_url) as reader:
        assert reader.orders()
        assert snapshot(tmp_path) == before

    assert snapshot(tmp_path) == before
    assert list(before) == ["journal.db"]


async def test_reading_beside_a_writer_sees_what_is_committed(
    sqlite_url: str, tmp_path: Path
) -> None:
    journal = Journal.open(sqlite_url)
    await journal.write([Story(1).recorded])
    before = snapshot(tmp_path)

    with JournalReader(sqlite_url) as reader:
        assert [row.id for row in reader.orders()] == ["L-0001"]
        assert snapshot(tmp_path) | {"journal.db-shm": ()} == before | {"journal.db-shm": ()}
        await journal.write([Story(2, price=27_100).recorded])
        assert [row.id for row in reader.orders()] == ["L-0001", "L-0002"]
    await journal.close()


async def test_a_journal_left_by_a_kill_is_read_whole_and_left_as_it_is(
    sqlite_url: str, tmp_path: Path
) -> None:
    journal = Journal.open(sqlite_url)
    await journal.write(EVERY_KIND)
    left = tmp_path / "left"
    shutil.copytree(tmp_path, left)
    await journal.close()
    before = snapshot(left)["journal.db"]

    with JournalReader(f"sqlite:///{left / 'journal.db'}") as reader:
        assert [row.id for row in reader.orders()] == ["ORD10000003"]

    assert snapshot(left)["journal.db"] == before
    assert set(snapshot(left)) == {"journal.db", "journal.db-shm", "journal.db-wal"}


def test_a_journal_put_in_the_place_of_another_is_read_as_it_is(
    day: Path, sqlite_url: str, tmp_path: Path
) -> None:
    with JournalReader(sqlite_url) as reader:
        assert reader.orders() == []

    shutil.move(shutil.copy(day, tmp_path / "other.db"), tmp_path / "journal.db")

    with JournalReader(sqlite_url) as reader:
        assert reader.order("last").id == "L-0008"


def test_a_missing_journal_is_said_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no such file"):
        JournalReader(f"sqlite:///{tmp_path / 'journal.db'}")

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_journal_is_said(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()

    with pytest.raises(NeedsMigration):
        JournalReader(f"sqlite:///{tmp_path / 'journal.db'}")
