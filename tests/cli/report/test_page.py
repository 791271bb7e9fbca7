"""The page of a backtest as text: whole, small, and safe to open."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bot.cli.report.html import write_whole
from bot.cli.report.page import TRADES_MAX, page_of
from bot.domain.order import Side
from bot.runtime.history.backtest.figures import Benchmarks, figures_of
from tests.backtest_results import FIRST, WavyBars, blocked, busy_result, fill, trading_days

NOTHING = Benchmarks(None, None)

STATIC = Path(__file__).parents[3] / "bot" / "cli" / "report" / "static"


def test_the_vendored_library_is_what_was_copied() -> None:
    listed = dict(
        line.split("  ")[::-1] for line in (STATIC / "SHA256SUMS").read_text().splitlines()
    )

    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in STATIC.iterdir()
        if path.name != "SHA256SUMS"
    }

    assert found == listed
    assert set(found) == {"lightweight-charts.js", "lightweight-charts.LICENSE", "NOTICE"}


def test_the_page_names_nothing_that_a_browser_would_fetch() -> None:
    result = busy_result()

    page = page_of(result, figures_of(result, NOTHING), WavyBars())

    assert re.findall(r"<(?:script|img|link|iframe)[^>]*\b(?:src|href)=", page) == []
    assert "default-src 'none'; script-src 'sha256-" in page
    assert "'unsafe-eval'" not in page
    assert len(page) < 400_000


def test_data_cannot_end_the_element_it_stands_in() -> None:
    result = busy_result()
    evil = replace(result.plans[0], name="</script><b>", symbols=("</script><i>",))

    page = page_of(
        replace(result, plans=(evil,)), figures_of(result, NOTHING), WavyBars(evil.symbols)
    )

    assert page.count("</script>") == 3
    assert "<i>" not in page
    assert "&lt;/script&gt;&lt;b&gt;" in page


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'id="data">(.*?)</script>', page)
    assert found is not None
    read = json.loads(found[1])
    assert isinstance(read, dict)
    return read


def test_a_long_run_stays_small_and_says_what_was_left_out() -> None:
    days = trading_days(250)
    fills = tuple(
        fill(1, side, 100, 1_000, at=fill(1, side, 1, 1).at, order_id=f"O-{number}-{side}")
        for number in range(TRADES_MAX + 5)
        for side in (Side.BUY, Side.SELL)
    )
    result = replace(busy_result(250), last=days[-1], fills=fills, bars=250 * 240)

    page = page_of(result, figures_of(result, NOTHING), WavyBars(("FPT",), minutes=240))

    symbol = data_of(page)["symbols"]["FPT"]  # type: ignore[index]
    assert symbol["seconds"] == 1_800
    assert len(symbol["rows"]) <= 4_000
    assert "candles of 30m, combined from 60,000 bars of 1m" in symbol["note"]
    assert f"the last {TRADES_MAX:,} of {TRADES_MAX + 5:,}" in page
    assert len(page) < 2_000_000


def test_orders_of_a_candle_are_one_mark_with_their_number() -> None:
    refused = tuple(blocked(1, "CASH", "") for _ in range(3))
    result = replace(busy_result(5), decisions=refused, fills=(), orders=())

    page = page_of(result, figures_of(result, NOTHING), WavyBars())

    markers = data_of(page)["symbols"]["FPT"]["markers"]  # type: ignore[index]
    nine_twenty_nine = (FIRST.toordinal() - 719_163) * 86_400 + 9 * 3_600 + 29 * 60
    assert markers == [[nine_twenty_nine, "R", 3]]


def test_what_happens_after_a_candle_is_marked_at_it() -> None:
    result = replace(busy_result(5), decisions=(blocked(1, "CASH", ""),), fills=(), orders=())

    page = page_of(result, figures_of(result, NOTHING), WavyBars(minutes=10))

    markers = data_of(page)["symbols"]["FPT"]["markers"]  # type: ignore[index]
    last_of_ten = (FIRST.toordinal() - 719_163) * 86_400 + 9 * 3_600 + 24 * 60
    assert markers == [[last_of_ten, "R", 1]]


def test_a_page_that_fails_leaves_the_old_one_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "half of it \ud800")

    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [(path.name, "old")]
