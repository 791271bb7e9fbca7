"""Reads the worked auctions and continuous matches."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

_FILE = Path(__file__).parents[1] / "vectors.yaml"
_ALL: dict[str, list[dict[str, Any]]] = YAML(typ="safe").load(_FILE.read_text("utf-8"))

AUCTIONS = {case["name"]: case for case in _ALL["auctions"]}
CONTINUOUS = {case["name"]: case for case in _ALL["continuous"]}
