"""The bot's end of the control socket."""

import asyncio
from pathlib import Path
from typing import Any

from bot.runtime.control import Reply, Request, socket_path
from bot.runtime.control_server import ControlServer


async def test_a_stop_in_the_midst_of_an_answer_is_no_bug(tmp_path: Path) -> None:
    loop, asked, troubles = asyncio.get_running_loop(), asyncio.Event(), []

    def trouble(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        troubles.append(context["message"])

    async def forever(_: Request) -> Reply:
        asked.set()
        await asyncio.Event().wait()
        return {"ok": True}

    loop.set_exception_handler(trouble)
    before = asyncio.all_tasks()
    server = ControlServer(tmp_path, {"quote": forever}, {})
    await server.start()
    reader, writer = await asyncio.open_unix_connection(socket_path(tmp_path))
    writer.write(b'{"do": "quote"}\n')
    await asked.wait()

    await server.stop()
    for task in asyncio.all_tasks() - before:
        task.cancel()

    assert await reader.read() == b""
    assert troubles == []
    writer.close()
