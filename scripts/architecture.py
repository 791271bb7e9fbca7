"""Draws docs/architecture.svg from the imports of the code: parts as boxes, imports as arrows.

    .venv/bin/python scripts/architecture.py

A part stands below all that import it. An arrow that follows from others is left out, and so are
those to the lowest floor, which any part may know. A test compares the file with what this draws.
"""

import ast
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
NOT_DRAWN = {"__init__", "__main__", "testing"}
WIDTH, BOX, GAP, FLOOR = 900, 260, 30, 124
LINE, HEIGHT = 16, 90
FONT = "system-ui, sans-serif"

Edges = Mapping[str, set[str]]


@cache
def imports() -> dict[str, set[str]]:
    """Return by part of `bot` the parts that its modules import, wherever the import stands."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "bot").rglob("*.py")):
        part = path.relative_to(ROOT / "bot").parts[0].removesuffix(".py")
        if part not in NOT_DRAWN:
            found.setdefault(part, set()).update(_parts_in(path.read_text("utf-8")) - {part})
    return {part: known & found.keys() for part, known in found.items()}


def _parts_in(text: str) -> set[str]:
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("bot.")}


def floors(edges: Edges) -> dict[str, int]:
    """Return how far below the top a part stands: just below the lowest part that imports it.

    Parts that import no other share the lowest floor.
    """
    depths: dict[str, int] = {}

    def depth(part: str) -> int:
        if part not in depths:
            above = [other for other in edges if part in edges[other]]
            depths[part] = 1 + max(map(depth, above), default=-1)
        return depths[part]

    lowest = max(depth(part) for part in edges)
    return {part: depth(part) if edges[part] else lowest for part in edges}


def job(part: str) -> str:
    """Return the first sentence that a part says of itself."""
    path = ROOT / "bot" / part
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = " ".join((ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").split())
    return text.split(". ")[0].rstrip(".").replace("`", "")


def picture() -> str:
    """Return the picture as SVG."""
    edges = imports()
    floor_of = floors(edges)
    lowest = max(floor_of.values())
    places: dict[str, tuple[int, int]] = {}

    def middle(part: str) -> float:
        above = [places[other][0] for other in places if part in edges[other]]
        return sum(above) / max(1, len(above))

    for floor in range(lowest + 1):
        row = sorted(part for part in edges if floor_of[part] == floor)
        row.sort(key=lambda part: (middle(part), "protocol" not in edges[part]))
        left = (WIDTH - len(row) * BOX - (len(row) - 1) * GAP) // 2
        for index, part in enumerate(row):
            places[part] = (left + index * (BOX + GAP), 24 + floor * FLOOR)
    base = {part for part, floor in floor_of.items() if floor == lowest}
    arrows = [
        _arrow(places[part], places[known])
        for part in sorted(edges)
        for known in sorted(edges[part] - base)
        if not any(known in _below(edges, other) for other in edges[part] - {known})
    ]
    total = 24 + lowest * FLOOR + HEIGHT + 24
    head = f'viewBox="0 0 {WIDTH} {total}" font-family="{FONT}"'
    tip = '<path d="M0 0 8 4 0 8z" fill="#667"/>'
    size = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {head}>',
        f'<defs><marker id="tip" {size} orient="auto">{tip}</marker></defs>',
        f'<rect width="{WIDTH}" height="{total}" fill="#fff"/>',
        *arrows,
        *(_box(part, place) for part, place in sorted(places.items())),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _below(edges: Edges, part: str) -> set[str]:
    return edges[part].union(*(_below(edges, known) for known in edges[part]))


def _box(part: str, place: tuple[int, int]) -> str:
    x, y = place
    name = f"{part}/" if (ROOT / "bot" / part).is_dir() else f"{part}.py"
    lines = [
        f'<text x="{x + 14}" y="{y + 44 + LINE * number}" font-size="13" fill="#445">'
        f"{escape(text)}</text>"
        for number, text in enumerate(wrap(job(part), 33)[:3])
    ]
    return (
        f'<rect x="{x}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="6" fill="#eef3f8" '
        f'stroke="#667"/><text x="{x + 14}" y="{y + 24}" font-size="16" font-weight="600" '
        f'fill="#123">{escape(name)}</text>{"".join(lines)}'
    )


def _arrow(above: tuple[int, int], below: tuple[int, int]) -> str:
    start, end = (above[0] + BOX // 2, above[1] + HEIGHT), (below[0] + BOX // 2, below[1] - 2)
    bend = (start[1] + end[1]) // 2
    return (
        f'<path d="M{start[0]} {start[1]} C{start[0]} {bend} {end[0]} {bend} {end[0]} {end[1]}" '
        'fill="none" stroke="#667" marker-end="url(#tip)"/>'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
