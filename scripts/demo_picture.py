"""Draws docs/demo.svg: what the demo shows of its first orders, as a terminal shows it.

    .venv/bin/python scripts/demo_picture.py

Left out are the lines of waiting, quotes and pulses. A test compares the file with a demo's lines.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "demo.svg"
LINES = 32
LEFT_OUT = re.compile(r"\S+ (?:\x1b\[\d+m)?(?:SKIP|QUOTE|PULSE|MORNING)")
COLOUR = re.compile(r"\x1b\[(\d+)m(.*?)\x1b\[0m")
LATENCY = re.compile(r"\(\d+ ms\)")
COLOURS = {"31": "#f47067", "32": "#6bc46d", "33": "#daaa3f", "36": "#39c5cf", "90": "#768390"}
NO_BREAK = "\N{NO-BREAK SPACE}"
"""What a viewer of SVG never folds, whatever it makes of white-space."""
TEXT, GROUND = "#cdd9e5", "#1c2128"
STEP, EDGE, WIDTH = 17, 16, 790


def shown(out: str) -> list[str]:
    """Return the lines of a demo that are drawn, with their colours, each wait told as 4 ms."""
    kept, is_left_out = list[str](), True
    for line in out.splitlines():
        if not line.startswith(" "):
            is_left_out = LEFT_OUT.match(line) is not None
        if not is_left_out:
            kept.append(LATENCY.sub("(4 ms)", line))
    return kept[:LINES]


def picture(lines: Iterable[str]) -> str:
    """Return the SVG of lines in a terminal's colours."""
    rows = ["$ make demo", *lines]
    height = 2 * EDGE + STEP * len(rows)
    drawn = [
        f'<text x="{EDGE}" y="{EDGE + 12 + STEP * number}">{_coloured(row)}</text>'
        for number, row in enumerate(rows)
    ]
    head = f'viewBox="0 0 {WIDTH} {height}" font-family="ui-monospace, monospace" font-size="12.5"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {head} fill="{TEXT}">',
            "<title>The first orders of the demo</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{GROUND}"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def _coloured(row: str) -> str:
    """Return a row as SVG. Nothing in it may end the colour that a word begins."""
    return COLOUR.sub(
        lambda found: f'<tspan fill="{COLOURS[found[1]]}">{found[2]}</tspan>',
        escape(row, quote=False).replace(" ", NO_BREAK),
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo = subprocess.run(  # noqa: S603 - our own demo
            [sys.executable, "-m", "bot", "demo", "--for", "30s", "--state-dir", folder],
            cwd=ROOT,
            env={**os.environ, "BOT_SANDBOX__PORT": "0", "FORCE_COLOR": "1", "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    PICTURE.write_text(picture(shown(demo.stdout)), "utf-8")


if __name__ == "__main__":
    main()
