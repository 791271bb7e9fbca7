"""What `bot order ID --timeline` shows of every kind of order, whole: the sandbox plays each.

The kinds and their lines are in `timelines.yaml`.
"""

import asyncio
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from tests.by_hand import Ask, tell_by_hand
from tests.cli.stage import call
from tests.staging import QUIET
from tests.story import lay_journal, once, write_project

KINDS: Final[Mapping[str, Mapping[str, Any]]] = YAML(typ="safe").load(
    Path(__file__).with_name("timelines.yaml").read_text("utf-8")
)["kinds"]
_TOOK: Final = re.compile(r"\(\d+ ms\)")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KINDS)
async def test_the_whole_story_of_an_order_is_told(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    config = write_project(
        tmp_path,
        scenario={**QUIET, "name": "story", **kind.get("scenario", {})},
        strategies=[once(**kind.get("strategy", {}))],
        risk={"allow_amend": True},
    )
    asks = [Ask(timedelta(seconds=one["after_s"]), one["asks"]) for one in kind.get("asks", ())]
    answer_otp_after = timedelta(seconds=kind.get("otp_after_s", 5))

    await tell_by_hand(
        config, *asks, minutes=kind.get("minutes", 1), answer_otp_after=answer_otp_after
    )
    if kind.get("is_forgotten"):
        forget(tmp_path)
        await tell_by_hand(config, minutes=kind["minutes"] + 1)

    command = ("order", kind.get("order", "L-0001"), "--timeline", "-c", str(config))
    shown = await asyncio.to_thread(call, *command)
    lines = _TOOK.sub("(N ms)", shown.out).splitlines()
    assert lines == [
        *kind["shows"].splitlines(),
        "every step, request and answer: --raw · as JSON: --json",
    ]


def forget(folder: Path) -> None:
    """Run another bot on the same account: an empty journal, and a strategy that does nothing."""
    for file in (folder / "state").glob("*journal*"):
        file.unlink()
    lay_journal(folder / "state" / "journal.db")
    plan = folder / "strategies" / "once.yaml"
    plan.write_text(
        plan.read_text().replace("mode: trade", "").replace("HPG", "SHS") + "mode: watch\n"
    )
