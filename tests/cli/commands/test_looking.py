"""What the reading commands print about a day, and that reading changes nothing."""

import asyncio
import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from bot.cli.command import Invocation
from bot.cli.commands.journal import verdict_of
from bot.cli.commands.orders import ended_words, find_order
from bot.cli.last_run import open_orders
from bot.cli.rows import Plain, csv_lines
from bot.cli.show import ROWS_AT_ONCE, UNCUT, aligned, print_json, print_json_rows, print_table
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.order import SendState
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.reading.reader import JournalReader
from bot.journal.upkeep.verify import VerifyReport
from bot.journal.writing.lease import acquire
from tests.cli.stage import call, make_project
from tests.journal.facts import T0, Story, but

ORDERS = """\
TIME     ID          STRATEGY  SIDE SYM QTY   PRICE FILLED     AVG STATUS        WHY / REASON
09:41:00 L-0008      depth-hpg BUY  HPG 300  27,000      0       - UNKNOWN       the broker said so
09:16:00 ORD10000001 sma-fpt   BUY  FPT 100 132,000    100 132,000 MATCHED_ALL   bids 4.6x asks
09:21:00 ORD10000003 depth-hpg BUY  HPG 500  27,050    200  27,050 PARTLY FILLED rest cancelled …
09:27:00 ORD10000004 sma-fpt   BUY  VNM 100  79,900      0       - REJECTED      price outside the …
09:31:00 L-0005      sma-fpt   BUY  VNM 900  71,900      -       - BLOCKED       order 64.7M of …
5 orders: 1 unknown, 1 filled, 1 partly filled, 1 rejected, 1 blocked · bot order ID --timeline
"""
PARTLY = """\
ORD10000003  L-0003  BUY 500 HPG LIMIT 27,050  depth-hpg  account …001.1
why  bids 4.6x asks
+0.000   09:21:00.102  decided   BUY 500 HPG LIMIT 27,050: bids 4.6x asks
+0.000   09:21:00.102  checked   2 checks ok
+0.003   09:21:00.105  sent      the order to the broker
+0.044   09:21:00.146  answered  accepted as ORD10000003 (41 ms)
+90.1    09:22:30.202  filled    200 @ 27,050 · 200 of 500 · fee 8,115 · position HPG 200
+181.2   09:24:01.302  ended     expire 3m: 200 filled, 300 cancelled
every step, request and answer: --raw · as JSON: --json
"""
BLOCKED = """\
L-0005  BUY 900 VNM LIMIT 71,900  sma-fpt  account …001.1
why  bids 4.6x asks
+0.000   09:31:00.102  decided   BUY 900 VNM LIMIT 71,900: SMA crossed
+0.000   09:31:00.102  checked   refused by MAX_ORDER_VALUE: order 64.7M of 50M
every step, request and answer: --raw · as JSON: --json
"""
WHY_NOT = """\
TIME        STRATEGY SYM TIMES WHAT  WHY
09:31       sma-fpt  VNM 1x    BLOCK order 64.7M of 50M · SMA crossed
09:22-09:23 sma-fpt  FPT 2x    SKIP  no cross (gap 0.05 to 0.40%)
09:41       sma-fpt  FPT 1x    BLOCK SMA crossed
4 decisions
"""
GOLDEN = {
    "orders": ORDERS,
    "order ORD10000003 --timeline": PARTLY,
    "order L-0005 --timeline": BLOCKED,
    "decisions --why-not": WHY_NOT,
}
READING = (
    "orders",
    "orders --open",
    "orders --since 1h",
    "order last",
    "order last --timeline",
    "fills",
    "positions",
    "decisions",
    "decisions --missed",
    "journal verify",
    "db check",
)


@pytest.mark.parametrize("command", GOLDEN)
def test_a_command_prints_the_day_like_this(command: str, config: Path) -> None:
    ran = call(*command.split(), "-c", str(config))

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert ran.out == GOLDEN[command]


def test_a_journal_whose_heads_nobody_kept_is_compared_with_itself(config: Path) -> None:
    ran = call("journal", "verify", "-c", str(config))

    file = config.parent / "state" / "heads.jsonl"
    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert ran.out.splitlines() == [
        "45 events, chain whole, 3 orders balance with 2 fills",
        f"compared only with itself: no heads in {file}",
    ]


@pytest.mark.parametrize(
    ("orders", "told"), [(1, "1 order balances with 1 fill"), (2, "2 orders balance with 1 fill")]
)
def test_a_verdict_is_a_sentence(orders: int, told: str) -> None:
    verdict = verdict_of(VerifyReport(events=9, orders=orders, fills=1, problems=()))

    assert verdict == f"9 events, chain whole, {told}"


@pytest.mark.parametrize("command", READING)
def test_json_is_exactly_one_value(command: str, config: Path) -> None:
    ran = call("--json", *command.split(), "-c", str(config))

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    bot = {"name": config.parent.name, "mode": "sandbox", "config": str(config)}
    assert json.loads(ran.out)["bot"] == bot


def test_json_may_be_asked_for_before_and_after_the_command(config: Path) -> None:
    before = call("--json", "-c", str(config), "orders")
    after = call("orders", "-c", str(config), "--json")

    assert before == after


def test_an_order_as_json_has_these_keys(config: Path) -> None:
    ran = call("orders", "--status", "rejected", "--json", "-c", str(config))
    [row] = json.loads(ran.out)["orders"]

    assert " ".join(row) == (
        "seq id local_id order_id at trading_date strategy account side symbol exchange quantity "
        "order_type price executed_quantity executed_amount average_price cancelled_quantity "
        "status state send_state fee tax code reason why note is_open outcome"
    )


def test_csv_holds_one_row_for_each_order(config: Path) -> None:
    ran = call("orders", "-o", "csv", "-c", str(config))

    rows = list(csv.DictReader(io.StringIO(ran.out.removeprefix("\ufeff"))))
    assert ran.out.startswith("\ufeffseq,"), "a spreadsheet takes it for UTF-8 by its first mark"
    assert [row["id"] for row in rows][:2] == ["L-0008", "ORD10000001"]
    assert rows[3]["reason"] == "Giá nằm ngoài biên độ"


def test_a_status_that_no_order_has_names_those_that_there_are(config: Path) -> None:
    ran = call("orders", "--status", "MATCHD", "-c", str(config))

    assert ran.code == ExitCode.DONE
    assert ran.err == (
        "no order has status 'MATCHD'; found: BLOCKED, MATCHED_ALL, REJECTED, SENT, UNKNOWN, "
        "blocked, filled, partly, rejected, unknown\n"
    )


@pytest.mark.parametrize("form", ["csv", "jsonl", "wide"])
def test_json_and_another_form_contradict_each_other(form: str, config: Path) -> None:
    ran = call("orders", "--json", "-o", form, "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert f"--json and -o {form} contradict each other" in ran.err


def test_a_strategy_that_nobody_has_is_no_empty_list(config: Path) -> None:
    ran = call("orders", "--strategy", "sma_fpt", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "no strategy is called 'sma_fpt'. Did you mean sma-fpt? Known: depth-hpg," in ran.err


def test_a_configured_strategy_without_an_order_is_an_empty_list(tmp_path: Path) -> None:
    config = make_project(tmp_path)
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "x.yaml").write_text("name: new-one\nuse: sma\n")
    (tmp_path / "strategies" / "unnamed.yaml").write_text("use: sma\n")

    for name in ("new-one", "unnamed"):
        ran = call("orders", "--strategy", name, "-c", str(config))
        assert (ran.code, ran.err) == (ExitCode.DONE, "")


def test_a_partly_filled_order_says_what_became_of_its_rest(config: Path) -> None:
    lines = call("order", "ORD10000003", "-c", str(config)).out.splitlines()

    assert "status     PARTLY FILLED, rest cancelled" in lines
    assert "reason     rest cancelled (expire 3m: 200 filled, 300 cancelled)" in lines


def test_an_order_is_found_by_the_word_that_the_screen_has_for_it(config: Path) -> None:
    found = call("orders", "--status", "partly filled", "-c", str(config)).out

    assert "1 order: 1 partly filled" in found


def test_the_state_machines_are_shown_with_raw_alone(config: Path) -> None:
    told = call("order", "ORD10000003", "--timeline", "-c", str(config)).out
    raw = call("order", "ORD10000003", "--raw", "-c", str(config)).out

    for word in ("PASSED ok", "READY → SENDING", "SUBMITTED → ACCEPTED", "POST /trading"):
        assert word in raw
        assert word not in told


def test_all_and_a_name_contradict_each_other(config: Path) -> None:
    ran = call("cancel", "--all", "L-1", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "--all and L-1 contradict each other: use one of them" in ran.err


def test_an_order_that_a_check_refused_has_the_figures_that_decided(config: Path) -> None:
    ran = call("order", "L-0005", "-c", str(config))

    assert "reason     order 64.7M of 50M (MAX_ORDER_VALUE)\n" in ran.out


def test_csv_hands_a_spreadsheet_no_formula() -> None:
    row = {"why": "=1+1", "name": "@x", "realised": -5, "text": "-900017", "note": "-x"}

    assert [*csv_lines([row], tuple(row))][1] == "'=1+1,'@x,-5,-900017,'-x"


@pytest.mark.parametrize("command", ["orders", "fills", "decisions", "decisions --why-not"])
def test_csv_without_a_row_still_has_its_heads(command: str, config: Path) -> None:
    rows = call(*command.split(), "-o", "csv", "-c", str(config))
    none = call(*command.split(), "--symbol", "ABC", "-o", "csv", "-c", str(config))

    assert none.out == rows.out.splitlines(keepends=True)[0]


def test_fills_keep_the_position_on_a_usual_screen(config: Path) -> None:
    heads, first = call("fills", "-c", str(config)).out.splitlines()[:2]

    assert (heads.split()[-1], first.split()[-1]) == ("POSITION", "100")
    assert "AMOUNT" in call("fills", "-o", "wide", "-c", str(config)).out


def test_a_narrow_screen_leaves_columns_out_and_keeps_the_status(config: Path) -> None:
    ran = call("orders", "-c", str(config), columns=60)

    assert ran.out.splitlines()[1:3] == [
        "09:41:00 L-0008      BUY  HPG 300      0 UNKNOWN",
        "09:16:00 ORD10000001 BUY  FPT 100    100 MATCHED_ALL",
    ]


def test_lines_of_json_are_one_value_each(config: Path) -> None:
    ran = call("fills", "-o", "jsonl", "-c", str(config))

    assert [json.loads(line)["fill_id"] for line in ran.out.splitlines()] == ["F-0001", "F-0003"]


def test_a_span_counts_back_from_the_last_moment_of_a_sandbox_journal(config: Path) -> None:
    ran = call("orders", "--since", "15m", "--json", "-c", str(config))

    ids = [row["id"] for row in json.loads(ran.out)["orders"]]
    assert ids == ["L-0008", "ORD10000004", "L-0005"]


def test_a_bad_span_is_a_wrong_command_line(config: Path) -> None:
    ran = call("orders", "--since", "yesterday", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "1d, 2h or 30m" in ran.err


def test_missed_signals_are_those_that_2fa_blocked(config: Path) -> None:
    ran = call("decisions", "--missed", "-c", str(config))

    assert ran.out.splitlines()[1:] == [
        "09:41 sma-fpt  FPT 1x    BLOCK SMA crossed",
        "1 decision",
    ]


@pytest.mark.parametrize("kind", [[], ["--why-not"]])
def test_a_reason_that_is_cut_says_how_to_see_the_whole(kind: list[str], config: Path) -> None:
    narrow = call("decisions", *kind, "-c", str(config), columns=60).out.splitlines()
    wide = call("decisions", *kind, "-o", "wide", "-c", str(config), columns=60).out.splitlines()

    assert any(line.endswith("…") for line in narrow[1:-1])
    assert narrow[-1].endswith(" · cut to the screen, whole with -o wide")
    assert not any("…" in line for line in wide)


def test_the_newest_decisions_are_listed_and_the_earlier_ones_counted(config: Path) -> None:
    everyone = call("decisions", "--all", "-c", str(config)).out.splitlines()

    ran = call("decisions", "--limit", "2", "-c", str(config))

    *rows, total = everyone[1:]
    *newest, shown = ran.out.splitlines()[1:]
    assert [row.split() for row in newest] == [row.split() for row in rows[-2:]]
    assert total == f"{len(rows)} decisions"
    assert shown == f"2 decisions · … {len(rows) - 2} earlier: --limit N, or --all"


@pytest.mark.parametrize("kind", [(), ("--why-not",)])
def test_a_program_hears_of_earlier_decisions_too(kind: tuple[str, ...], config: Path) -> None:
    ran = call("decisions", *kind, "--limit", "1", "--json", "-c", str(config))

    found = json.loads(ran.out)
    assert len(found["decisions"]) == 1
    assert found["earlier"] > 1
    assert ran.err == f"… {found['earlier']} earlier: --limit N, or --all\n"


def test_all_and_a_limit_contradict_each_other(config: Path) -> None:
    ran = call("decisions", "--all", "--limit", "1", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")


def test_a_table_of_any_length_keeps_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    count = 2 * ROWS_AT_ONCE + 5
    rows = [(f"L-{number:04}", number % 900, "x" * (number % 7)) for number in range(count)]

    print_table(Invocation(), ("NAME", "QTY", "WHY"), iter(rows))

    lines = capsys.readouterr().out.splitlines()
    assert lines == aligned(("NAME", "QTY", "WHY"), rows, limit=UNCUT)


def test_json_row_by_row_is_the_json_of_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[Plain] = [{"a": 1, "why": "Giá"}, {"a": 2, "why": '"rows": []'}]

    for some in (rows, rows[:1], []):
        print_json_rows("rows", iter(some), {"earlier": 7})
        shown = capsys.readouterr().out
        print_json({"rows": some, "earlier": 7})

        assert shown == capsys.readouterr().out


def test_part_of_an_id_that_several_orders_have_lists_them(config: Path) -> None:
    ran = call("order", "ORD", "-c", str(config))

    assert ran.code == ExitCode.USAGE
    assert ran.err == (
        "E-ORD-002 'ORD' could be ORD10000004, ORD10000003, ORD10000001: type more of it\n"
    )


def test_an_order_that_ended_is_told_in_our_word_not_in_the_brokers(config: Path) -> None:
    with JournalReader(f"sqlite:///{config.parent / 'journal.db'}") as reader:
        cut, lost = reader.order("ORD10000003"), reader.order("L-0008")

    assert (cut.state, cut.status) == ("CANCELLED", "SENT")
    assert ended_words(cut) == "ORD10000003 CANCELLED: 200 filled, 300 cancelled"
    assert ended_words(lost) == "L-0008 UNKNOWN: nothing filled"


def test_an_id_of_nothing_is_no_part_of_every_id(config: Path) -> None:
    with (
        JournalReader(f"sqlite:///{config.parent / 'journal.db'}") as reader,
        pytest.raises(OperatorMistake, match=r"^E-ORD-001 no order has the id ''"),
    ):
        find_order(reader, "")


def test_the_last_order_of_a_journal_without_orders_is_none_yet(tmp_path: Path) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text("state_dir: state\n")
    assert call("db", "migrate", "-c", str(config)).code == ExitCode.DONE

    assert call("order", "last", "-c", str(config)).err == (
        "E-ORD-001 no order was made yet. To list all: bot orders\n"
    )


def test_an_unknown_order_says_where_all_of_them_are(config: Path) -> None:
    ran = call("order", "nope", "-c", str(config))

    assert (ran.code, ran.err) == (
        ExitCode.USAGE,
        "E-ORD-001 no order has the id 'nope'. To list all: bot orders\n",
    )


def test_raw_shows_what_was_sent_and_answered(config: Path) -> None:
    ran = call("order", "ORD10000003", "--raw", "-c", str(config))

    assert '         "symbol": "HPG"' in ran.out.splitlines()
    assert '         "error_code": "0"' in ran.out.splitlines()


def test_export_writes_files_that_only_their_owner_reads(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "november"
    ran = call("journal", "export", "-o", str(folder), "-c", str(config))

    assert ran.code == ExitCode.DONE
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.txt", "decisions.csv", "events.csv", "fills.csv", "orders.csv", "sha256sums"
    ]  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_several_kinds_can_not_be_exported_to_one_stream(config: Path) -> None:
    ran = call("journal", "export", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")


def test_a_read_changes_no_file(config: Path) -> None:
    before = _fingerprints(config.parent)
    for command in READING:
        assert call(*command.split(), "-c", str(config)).code == ExitCode.DONE

    assert _fingerprints(config.parent) == before


def test_a_read_makes_no_journal(tmp_path: Path) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text('journal: {url: "sqlite:///journal.db"}\n')
    for command in READING:
        ran = call(*command.split(), "-c", str(config))
        assert ran.code == ExitCode.DATABASE
        assert ran.out == ""
        assert ran.err.startswith("E-DB-001 ")

    assert [path.name for path in tmp_path.iterdir()] == ["bot.yaml"]


def _fingerprints(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in files}


ACCOUNT = re.compile(r"\d{3}C\d{6}")


@pytest.mark.parametrize(
    "words",
    [
        "orders --json", "orders -o csv", "orders -o jsonl", "orders -o wide", "fills --json",
        "fills -o csv", "order last --raw", "order last --json", "journal export --what orders",
        "journal export --what fills --format jsonl",
    ],
)  # fmt: skip
def test_an_account_is_shown_and_exported_by_its_last_characters(words: str, config: Path) -> None:
    with closing(sqlite3.connect(config.parent / "journal.db")) as connection:
        kept = connection.execute("select account from orders").fetchone()

    ran = call(*words.split(), "-c", str(config))

    assert ACCOUNT.search(kept[0]), "the journal knows whose an order is"
    assert ran.code == 0
    assert not ACCOUNT.search(ran.out)


def test_what_waits_for_a_token_is_listed_as_open_but_not_as_left_at_the_broker(
    tmp_path: Path,
) -> None:
    config, held = make_project(tmp_path), Story(9, "depth-hpg", "HPG", quantity=300, price=27_000)
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    asyncio.run(_hold(url, held))

    ran = call("orders", "--open", "-c", str(config))

    assert ran.code is ExitCode.DONE
    [row] = [line for line in ran.out.splitlines() if "L-0009" in line]
    assert "HELD" in row
    with JournalReader(url) as reader:
        assert not [line for line in open_orders(reader) if "L-0009" in line]


async def _hold(url: str, story: Story) -> None:
    lease = acquire(url, Holder(1, "test", T0))
    journal = Journal.open(url, epoch=lease.epoch)
    refused = but(story.finished, outcome="REFUSED", http_status=403, code="OTP_SESSION_EXPIRED")
    await journal.write([story.decision, story.recorded])
    await journal.write(story.sending)
    await journal.write([refused, story.moved(SendState.SENDING, SendState.HELD)])
    await journal.close()
    lease.release()
