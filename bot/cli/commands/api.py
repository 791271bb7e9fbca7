"""`bot api`: any read of the broker's API by name, as a table, as its payload, or as it came.

The running bot is asked, so that its request budget counts the read; without one the broker of the
configuration. Nothing here changes anything: order writes are not among the calls.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import click

from bot.cli.command import command
from bot.cli.fields import Fields, text, words
from bot.cli.invocation import Invocation
from bot.cli.payload_view import lines_of_payload
from bot.cli.places import find_bot, load, refusal
from bot.cli.show import UNCUT, cut, print_json, print_lines, print_table, say, width, write_json
from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime import api
from bot.runtime.api import Asked

_PAGE: Final = "page"
LIST: Final = "list"
HEADS: Final = ("NAME", "TIER", "PATH", "PARAMETERS")
_EXIT_CODES: Final = {"E-API-005": ExitCode.SECRET, "E-API-006": ExitCode.USAGE}

Reply = Mapping[str, object]


@command("api", example="bot api stock_history symbol=FPT from=2026-11-01 to=2026-11-19")
@click.argument("name", metavar="NAME|list")
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--raw", is_flag=True, help="The bodies as the broker sent them.")
@click.option("--wide", is_flag=True, help="Lines of any length.")
@click.pass_obj
def api_call(
    invocation: Invocation,
    name: str,
    pairs: tuple[str, ...],
    raw: bool,
    wide: bool,
) -> None:
    """Make any read of the broker's API: bot api list shows which there are.

    Names of path and query parameters are the API's own. `user_id` and `sub_account_id` may be left
    out; where the API wants Unix seconds, a day or an instant will do. A list that comes in pages
    is read to its end; page=N reads that page alone. A name that the broker does not know is exit
    code 2, for asking again would not help; a broker that does not answer is 6.
    """
    if name == LIST:
        _print_list(invocation, pairs, limit=UNCUT if wide else width())
        return
    given = _words(pairs)
    asked = api.asked_for(name, given)
    if assumed := asked.assumed():
        shown = " ".join(f"{key}={value}" for key, value in assumed.items())
        say(invocation, cut(f"(by default: {shown})", width()))
    everything = asked.is_paged and _PAGE not in given
    replies = asyncio.run(_replies(invocation, asked, everything=everything))
    if invocation.json and not raw:
        payloads = _payloads(invocation, replies)
        print_json({"pages": payloads} if everything else {"payload": payloads[0]})
    else:
        _print(invocation, replies, is_raw=raw, limit=UNCUT if wide else width())
    if text(replies[-1], "next_page") and not everything:
        say(invocation, f"(there are more pages; without {_PAGE}= all are read)")


def _words(pairs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r}: wanted key=value", param_hint="KEY=VALUE")
        if key in found:
            raise click.BadParameter(f"{key} is given twice", param_hint="KEY=VALUE")
        found[key] = value
    return found


# ------------------------------------------------------------------------------------- the asking


async def _replies(invocation: Invocation, asked: Asked, *, everything: bool) -> list[Reply]:
    """Ask for the page, or for all of them: the running bot, else the configured broker."""
    first = _ask_running(invocation, asked)
    if first is not None:

        async def by_bot(page: Asked) -> Reply:
            return _good(invocation, _ask_running(invocation, page) if page is not asked else first)

        return await _collected(by_bot, asked, everything=everything)
    loaded = load(invocation)
    if loaded.settings.broker.base_url is None:
        told = f"no bot is running on {loaded.state_dir}, and broker.base_url names no broker"
        raise OperatorMistake.of("E-RUN-001", f"{told}. Start one: bot run", ExitCode.NOT_RUNNING)
    async with api.own_broker(loaded) as broker:

        async def by_us(page: Asked) -> Reply:
            return _good(
                invocation, await api.answer(broker.client, page, loaded.settings.broker.account)
            )

        return await _collected(by_us, asked, everything=everything)


def _ask_running(invocation: Invocation, asked: Asked) -> Reply | None:
    said = {**asked.path, **asked.query}
    return find_bot(invocation, "api", name=asked.endpoint.name, words=said)


async def _collected(
    ask: Callable[[Asked], Awaitable[Reply]], asked: Asked, *, everything: bool
) -> list[Reply]:
    if not everything:
        return [await ask(asked)]
    return [reply async for reply in api.follow(ask, asked)]


def _good(invocation: Invocation, reply: Reply | None) -> Reply:
    if reply is None:
        raise OperatorMistake.of("E-RUN-001", "the bot has stopped", ExitCode.NOT_RUNNING)
    if reply.get("ok"):
        return reply
    code = str(reply.get("code"))
    if code not in _EXIT_CODES:
        raise refusal(invocation, reply)
    raise OperatorMistake.of(code, text(reply, "message"), _EXIT_CODES[code])


# ----------------------------------------------------------------------------------- the printing


def _print(invocation: Invocation, replies: Sequence[Reply], *, is_raw: bool, limit: int) -> None:
    payloads = _payloads(invocation, replies)
    if is_raw:
        for reply in replies:
            write_json(text(reply, "raw"))
    else:
        print_lines(lines_of_payload(payloads, limit=limit))


def _payloads(invocation: Invocation, replies: Sequence[Reply]) -> list[object]:
    """What came, page by page; drift is said on the way."""
    for drifted in dict.fromkeys(name for reply in replies for name in words(reply, "drift")):
        say(invocation, f"drift: {drifted}")
    return [json.loads(text(reply, "payload")) for reply in replies]


def _print_list(invocation: Invocation, like: Sequence[str], *, limit: int) -> None:
    rows = [row for row in api.listed() if all(_is_like(row, word) for word in like)]
    if invocation.json:
        print_json({"calls": rows})
        return
    shown = [(text(r, "name"), text(r, "tier"), text(r, "path"), _parameters(r)) for r in rows]
    print_table(invocation, HEADS, shown, limit=limit)


def _is_like(row: Fields, word: str) -> bool:
    return word.lower() in f"{row['name']} {row['path']}".lower()


def _parameters(row: Fields) -> str:
    found = row.get("parameters")
    parameters = found if isinstance(found, list) else []
    return " ".join(_parameter(one) for one in parameters)


def _parameter(one: Fields) -> str:
    default = f"={one['default']}" if one["default"] else ""
    name = f"{one['name']}{default}"
    return f"{name}*" if one["required"] else f"[{name}]"
