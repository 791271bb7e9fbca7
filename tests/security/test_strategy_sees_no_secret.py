"""From a strategy that runs, no way of references leads to a secret, a client or a database."""

import json
from pathlib import Path

from bot.domain.entry import Decision
from tests.staging import QUIET
from tests.story import once, tell, write_project

WALKS = """
import gc, json, types
from bot import Strategy

NOT_ITS_OWN = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType,
               types.MethodType, types.FrameType, types.CodeType)
STEPS_MAX = 200_000


def walk(start):
    seen, waiting, kinds = {id(start)}, [start], set()
    while waiting and len(seen) < STEPS_MAX:
        here = waiting.pop()
        kinds.add(f"{type(here).__module__}.{type(here).__qualname__}")
        for each in gc.get_referents(here):
            if id(each) not in seen and not isinstance(each, NOT_ITS_OWN):
                seen.add(id(each))
                waiting.append(each)
    return sorted(kinds), len(seen)


class Once(Strategy):
    price: int

    def on_quote(self, quote):
        self.skip(json.dumps(walk(self)))
"""
FORBIDDEN = (
    *("secret", "bot.broker", "bot.journal", "sqlite3", "sqlalchemy", "socket", "httpx", "ssl"),
    *("bot.runtime.daemon", "bot.runtime.worlds", "bot.config.settings", "asyncio"),
)


async def test_a_walk_over_references_finds_neither_secret_nor_client_nor_database(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    (tmp_path / "strategies" / "once.py").write_text(WALKS)

    story = await tell(config, minutes=0.2)

    kinds, seen = json.loads(story.shown.all(Decision)[0].why)
    assert seen > 10
    assert [kind for kind in kinds if any(word in kind.lower() for word in FORBIDDEN)] == []
