"""Writes other parameters into a strategy file and leaves the rest unchanged, including comments.

The result is parsed again before anything is written: it must be the same plan with only the
parameters changed.
"""

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

from bot.config.problems import OperatorMistake, shown_path
from bot.config.strategies.check import Market
from bot.config.strategies.load import check_file
from bot.config.yaml_file import read_text
from bot.domain.plan import ParameterValue

LINE_MAX: Final = 4_096
"""No line of a strategy file is folded."""


def text_with(path: Path, parameters: Mapping[str, ParameterValue]) -> str:
    """Return the text of a strategy file with these parameters added or changed."""
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, LINE_MAX
    yaml.indent(mapping=2, sequence=4, offset=2)
    document = yaml.load(read_text(path))
    params = document.setdefault("params", {})
    for name, value in parameters.items():
        params[name] = value
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def write_with(
    path: Path, target: Path, parameters: Mapping[str, ParameterValue], market: Market
) -> None:
    """Write the strategy of a file with other parameters to `target`, completely or not at all.

    `target` must be where the plug-in can be found too, usually beside `path`. Raises
    OperatorMistake if the file cannot be rewritten without changing more than that.
    """
    old = check_file(path, market=market).plan
    beside = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        beside.write_text(text_with(path, parameters), encoding="utf-8")
        # The plug-in is looked up from the old file's folder.
        new = check_file(beside, base_dir=path.absolute().parent, market=market).plan
        wanted = {**old.parameters, **parameters}
        kept = replace(new, source=old.source, source_sha256=old.source_sha256)
        if kept != replace(old, parameters=wanted):
            text = f"{shown_path(path)} can't be rewritten with its comments. Enter these by hand:"
            shown = ", ".join(f"{name}: {value}" for name, value in parameters.items())
            raise OperatorMistake.of("E-OPT-008", f"{text} {shown}")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
