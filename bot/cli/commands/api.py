"""`bot api`: any read of the broker's API by name, as a table, as its payload, or as it arrived.

The running bot makes the read, so that its request budget counts it; without one, the configured
broker is asked directly. Nothing here changes anything: order writes are not among the calls.

A payload is shown as its fields, and a table for each list of objects. Pages of one call are shown
as one list. Nested values are named by their path, a list in a cell is JSON. Numbers get thousands
separators, unless they are identifiers; Unix seconds are shown as local time.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.show import (
    UNCUT,
    aligned,
    cut,
    print_json,
    print_lines,
    print_table,
    say,
    width,
    write_json,
)
from bot.cli.target import Fields, find_bot, load, refusal
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.instrument import EXCHANGE_TZ
from bot.runtime.control.socket import Reply

if TYPE_CHECKING:
    from bot.runtime.api import Asked, AskPage

LIST: Final = "list"
HEADS: Final = ("NAME", "TIER", "PATH", "PARAMETERS")
NESTED_CHARACTERS_MAX: Final = 60
ORDER_OF_LISTS: Final = (
    "items",
    "results",
    "data",
    "series",
    "portfolio",
    "entries",
    "nav_histories",
    "bank_interest_rates",
    "major_shareholders",
)
"""Names under which an object holds its main list, likeliest first."""
UNGROUPED: Final = re.compile(r"(.*_)?(id|year|quarter)")
"""Names of numbers without thousands separators, as they count nothing."""
UNIX_SECONDS: Final = frozenset({"t"})
UNIX_SECONDS_MAX: Final = 32_503_680_000
"""The year 3000: larger numbers are shown unchanged."""
_PAGE: Final = "page"
_EXIT_CODES: Final = {"E-API-005": ExitCode.SECRET, "E-API-006": ExitCode.USAGE}


@define_command("api", example="bot api stock_history symbol=FPT from=2026-11-01 to=2026-11-19")
@click.argument("name", metavar="NAME|list")
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--raw", is_flag=True, help="The bodies as the broker sent them.")
@click.option("--wide", is_flag=True, help="Lines of any length.")
@click.pass_obj
def command(
    invocation: Invocation, name: str, pairs: tuple[str, ...], raw: bool, wide: bool
) -> None:
    """Make any read of the broker's API: bot api list shows them all.

    Path and query parameters have the API's own names. `user_id` and `sub_account_id` may be left
    out; where the API wants Unix seconds, a day or an instant will do. A list that comes in pages
    is read to its end; page=N reads only that page. A name unknown to the broker is exit code 2,
    since asking again would not help; a broker that does not answer is 6.
    """
    # Here and below: all calls of the broker's API are slow to import, and help pages do not need
    # them.
    from bot.runtime import api

    limit = UNCUT if wide else width()
    if name == LIST:
        _print_list(invocation, pairs, limit=limit)
        return
    given: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r}: wanted key=value", param_hint="KEY=VALUE")
        if key in given:
            raise click.BadParameter(f"{key} is given twice", param_hint="KEY=VALUE")
        given[key] = value
    asked = api.asked_for(name, given)
    if assumed := asked.assumed():
        shown = " ".join(f"{key}={value}" for key, value in assumed.items())
        say(invocation, cut(f"(by default: {shown})", width()))
    everything = asked.is_paged and _PAGE not in given
    answers = asyncio.run(_replies(invocation, asked, everything=everything))
    replies = [Fields(answer) for answer in answers]
    for drifted in dict.fromkeys(name for reply in replies for name in reply.words("drift")):
        say(invocation, f"drift: {drifted}")
    if raw:
        for reply in replies:
            write_json(reply.text("raw"))
    else:
        payloads = [json.loads(reply.text("payload")) for reply in replies]
        if invocation.json:
            print_json({"pages": payloads} if everything else {"payload": payloads[0]})
        else:
            print_lines(lines_of_payload(payloads, limit=limit))
    if replies[-1].text("next_page") and not everything:
        say(invocation, f"(this is one page of several; leave out {_PAGE}= to read all)")


def _print_list(invocation: Invocation, like: Sequence[str], *, limit: int) -> None:
    from bot.runtime import api

    rows = [
        row
        for row in map(Fields, api.listed())
        if all(word.lower() in f"{row['name']} {row['path']}".lower() for word in like)
    ]
    if invocation.json:
        print_json({"calls": rows})
        return
    cells = []
    for row in rows:
        parameters = []
        for one in row.each("parameters"):
            named = f"{one['name']}={one['default']}" if one["default"] else str(one["name"])
            parameters.append(f"{named}*" if one["required"] else f"[{named}]")
        shown = (row.text("name"), row.text("tier"), row.text("path"), " ".join(parameters))
        cells.append(shown)
    print_table(invocation, HEADS, cells, limit=limit)


async def _replies(invocation: Invocation, asked: "Asked", *, everything: bool) -> list[Reply]:
    """Request the page, or all pages: from the running bot, else from the configured broker."""
    from bot.runtime import api

    async def collected(ask: "AskPage") -> list[Reply]:
        if not everything:
            return [await ask(asked)]
        return [reply async for reply in api.follow(ask, asked)]

    def ask_running(page: "Asked") -> Fields | None:
        given = {**page.path, **page.query}
        return find_bot(invocation, "api", name=page.endpoint.name, words=given)

    first = ask_running(asked)
    if first is not None:

        async def by_bot(page: "Asked") -> Fields:
            reply = first if page is asked else ask_running(page)
            if reply is None:
                raise OperatorMistake.of("E-RUN-001", "the bot has stopped", ExitCode.NOT_RUNNING)
            return _good(invocation, reply)

        return await collected(by_bot)
    loaded = load(invocation)
    if loaded.settings.broker.base_url is None:
        message = f"no bot is running on {loaded.state_dir}, and broker.base_url is not set"
        start = f"{message}. Start one: bot run"
        raise OperatorMistake.of("E-RUN-001", start, ExitCode.NOT_RUNNING)
    async with api.own_broker(loaded) as broker:

        async def by_us(page: "Asked") -> Fields:
            account = loaded.settings.broker.account
            return _good(invocation, Fields(await api.answer(broker.client, page, account)))

        return await collected(by_us)


def _good(invocation: Invocation, reply: Fields) -> Fields:
    if reply.get("ok"):
        return reply
    code = str(reply.get("code"))
    if code not in _EXIT_CODES:
        raise refusal(invocation, reply)
    raise OperatorMistake.of(code, reply.text("message"), _EXIT_CODES[code])


def lines_of_payload(payloads: Sequence[object], *, limit: int) -> Iterator[str]:
    """Return the lines of one call's pages, none longer than `limit`."""
    first = payloads[0]
    if isinstance(first, list):
        yield from _list([row for page in payloads for row in _rows(page)], limit)
    elif not isinstance(first, dict):
        yield cut(_cell("", first), limit)
    else:
        # the lists of objects, the likeliest first; an empty one only where it is the answer
        lists = {name: rows for name, rows in first.items() if isinstance(rows, list)}
        listed = [name for name in lists if all(isinstance(row, dict) for row in lists[name])]
        known = [name for name in ORDER_OF_LISTS if name in listed]
        others = [*known[1:], *(name for name in listed if name not in known)]
        tables = [*known[:1], *(name for name in others if first[name])]
        rest = {name: value for name, value in first.items() if name not in tables}
        fields = [(name, _cell(name, value)) for name, value in _leaves("", rest)]
        wide = max((len(name) for name, _ in fields), default=0)
        yield from (cut(f"{name:<{wide}} {shown}", limit) for name, shown in fields)
        for name in tables:
            yield ""
            if len(tables) > 1:
                yield f"{name}:"
            pages = [page for page in payloads if isinstance(page, dict)]
            yield from _list([row for page in pages for row in _rows(page.get(name))], limit)


def _rows(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _list(rows: Sequence[object], limit: int) -> Iterator[str]:
    """A table for objects, numbers right-aligned; anything else is one line each."""
    flat = [dict(_leaves("", row)) for row in rows if isinstance(row, dict)]
    if not rows:
        yield "(nothing)"
        return
    if len(flat) < len(rows):
        yield from (cut(_cell("", row), limit) for row in rows)
        return
    columns = []
    for name in dict.fromkeys(name for row in flat for name in row):
        values = [row.get(name) for row in flat]
        cells = [name.upper(), *(_cell(name, value) for value in values)]
        if all(isinstance(v, int | float | None) and not isinstance(v, bool) for v in values):
            wide = max(map(len, cells))
            cells = [cell.rjust(wide) for cell in cells]
        columns.append(cells)
    heads, *lines = zip(*columns, strict=True)
    yield from aligned(heads, lines, limit=limit)


def _leaves(path: str, value: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the values in an object and its nested objects, with their paths."""
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _leaves(f"{path}{name}.", inner)
        else:
            yield f"{path}{name}", inner


def _cell(path: str, value: object) -> str:
    name = path.rpartition(".")[2]
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name in UNIX_SECONDS and 0 <= value < UNIX_SECONDS_MAX:
            return f"{datetime.fromtimestamp(value, EXCHANGE_TZ):%Y-%m-%d %H:%M}"
        return str(value) if UNGROUPED.fullmatch(name) else f"{value:,}"
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict | list):
        return cut(json.dumps(value, ensure_ascii=False), NESTED_CHARACTERS_MAX)
    return "-" if value is None else json.dumps(value)
