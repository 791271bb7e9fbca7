"""The page of a backtest, opened in a real browser from a file."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.cli.report.page import write_page
from bot.runtime.history.backtest.figures import Benchmarks, figures_of
from tests.backtest_results import WavyBars, busy_result

NOTHING = Benchmarks(None, None)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine"),
]
COLORS_IN = """(place) => {
    const found = new Set();
    for (const canvas of document.querySelectorAll(place + " canvas")) {
        const size = [canvas.width, canvas.height];
        if (!size[0] || !size[1]) continue;
        const copy = new OffscreenCanvas(...size).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const pixels = copy.getImageData(0, 0, ...size).data;
        for (let at = 0; at < pixels.length; at += 4) {
            if (pixels[at + 3] === 255) {
                found.add(`${pixels[at]},${pixels[at + 1]},${pixels[at + 2]}`);
            }
        }
    }
    return [...found];
}"""
LOOKS_MAX = 200
UP = {"light": "6,118,71", "dark": "60,203,139"}
SOLD = {"light": "180,35,24", "dark": "255,123,110"}


@dataclass
class Opened:
    """A page in the browser, with everything that it requested and complained about."""

    page: "Page"
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = busy_result()
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_page(path, result, figures_of(result, NOTHING), WavyBars(("FPT", "HPG")))
    return path


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


def open_page(browser: "Browser", file: Path, scheme: str, width: int) -> Opened:
    """Open the file with a color scheme and a width, and wait until its charts are there."""
    size = {"width": width, "height": 844}
    opened = Opened(browser.new_page(viewport=size, color_scheme=scheme))  # type: ignore[arg-type]
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.on("console", lambda message: opened.complaints.append(message.text))
    opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.page.on("dialog", lambda dialog: opened.complaints.append(dialog.message))
    opened.page.goto(file.as_uri())
    # The page's policy forbids what `wait_for_function` does between its looks: eval.
    for _ in range(LOOKS_MAX):
        if UP[scheme] in opened.page.evaluate(COLORS_IN, "#candles"):
            break
        opened.page.wait_for_timeout(50)
    return opened


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_drawn_and_nothing_is_asked_of_the_network(
    browser: "Browser", file: Path, scheme: str
) -> None:
    opened = open_page(browser, file, scheme, 1_200)

    drawn = opened.page.evaluate(COLORS_IN, "#candles")
    account = opened.page.evaluate(COLORS_IN, "#equity")

    assert SOLD[scheme] in drawn
    assert len(account) > 20, "the account's curve and its shade"
    assert opened.complaints == []
    assert opened.requests == [file.as_uri()]
    opened.page.close()


def test_every_trade_has_its_row_with_its_reasons_as_text(browser: "Browser", file: Path) -> None:
    opened = open_page(browser, file, "light", 1_200)

    rows = opened.page.locator("#trades tbody tr")
    last = rows.last.inner_text().split("\t")

    assert rows.count() == 12
    assert last[:10] == [
        *("1", "FPT", "2026-03-03 09:30", "2026-03-05 09:30", "100", "10,035,030"),
        *("10,200,000", "25,500", "+139,470", "+1.39"),
    ]
    assert last[10].splitlines() == [
        "bought: SMA5 100,300 crossed above SMA20 100,100",
        "sold: <script>alert('why')</script> & \\u202eback",
    ]
    opened.page.close()


def test_a_telephone_shows_it_without_scrolling_sideways(browser: "Browser", file: Path) -> None:
    opened = open_page(browser, file, "light", 390)

    wide = opened.page.evaluate("document.documentElement.scrollWidth")

    assert wide == 390
    opened.page.close()


def test_a_click_on_a_trade_shows_its_bars(browser: "Browser", file: Path) -> None:
    opened = open_page(browser, file, "light", 1_200)
    before = opened.page.locator("#candles").screenshot()

    opened.page.locator("#trades tbody tr").last.click()
    opened.page.wait_for_timeout(300)

    note = opened.page.locator("#candles-note").inner_text()
    assert note.startswith("FPT: the bars around the purchase and the sale of trade 1.")
    assert opened.page.locator("#candles").screenshot() != before
    opened.page.get_by_role("button", name="FPT").click()
    whole = opened.page.locator("#candles-note").inner_text()
    assert whole.startswith("FPT: candles of 5m")
    assert opened.complaints == []
    opened.page.close()
