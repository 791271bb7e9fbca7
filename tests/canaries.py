"""Secrets given to every test's bot, and the search for them in everything that the tests leave.

A bot of a story signs with the key and secret that the sandbox makes of a scenario's name and seed,
types its one-time code, holds a token of it and trades in its account. None of the five may be in
anything that a run writes or prints, except in the few files meant for it (`ALLOWED`). After the
last test each pytest worker searches everything in its folder: journals and their WAL, the
emergency journal, logs, recordings (unpacked), reports of faults, exports. A secret is searched for
as it is and in eight other forms, so that one level of encoding does not hide it.

Some tests kill bots, so files may be half done: a temporary file is judged by the name it would
have got. The verdict on a file does not depend on what was searched before it, or on whether an
ending process removes files meanwhile.
"""

import os
import re
import sqlite3
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from bot.broker.link import AsgiApp
from bot.sandbox.scenario import Scenario

_PLAYED: Final = Scenario.model_validate(
    {"symbols": [{"symbol": "HPG", "exchange": "HOSE", "reference": 27_000}]}
)
CANARIES: Final[Mapping[str, str]] = {
    "API key": _PLAYED.key_text,
    "API secret": _PLAYED.secret_text,
    "2FA token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
    "account number": _PLAYED.accounts[0].depository_number,
    "account id": _PLAYED.accounts[0].id,
    "one-time code": _PLAYED.otp_code.get_secret_value(),
}
"""Of the token the prefix shared by all of the sandbox's; a plain code counts only if it stands
alone.
"""
CODE: Final = "one-time code"
_OF_THE_BROKER: Final = (
    r"sandbox(\.\d+)?\.jsonl.*|paper\.jsonl.*|ledger(\.jsonl)?.*|.*\.yaml|.*\.json"
)
_OF_THE_JOURNAL: Final = (
    r".*\.db(-wal|-shm|-journal)?|emergency\.jsonl.*|part-\d+(-[0-9a-f]+\.parquet)?"
)
_UNFINISHED: Final = re.compile(r"\.?(.+?)(?:\.\d+)?\.(?:new|partly)((?:-wal|-shm|-journal)?)")
"""The name of a temporary file that the bot would rename into place."""
ALLOWED: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "API key": r"secrets\.yaml|.*scenario.*\.(yaml|json)",
        "API secret": r"secrets\.yaml|.*scenario.*\.(yaml|json)",
        "2FA token": r"two-factor\.json",
        "account number": rf"{_OF_THE_BROKER}|{_OF_THE_JOURNAL}",
        "account id": _OF_THE_BROKER,
        "one-time code": r".*\.yaml|.*scenario.*\.json",
    }.items()
}
"""Names of files that may hold one: the secret's own, the simulated broker's ledger, what a test
wrote for them. The journal must have the account's extended id; the emergency journal and
recordings are parts of it.
"""
WHAT_TO_DO: Final = (
    "Find out who writes the file (the folder has the test's name) and keep the secret out of it:\n"
    "bot/protocol/secret.py, bot/runtime/hush.py. Is the file there to hold it? Then add its name\n"
    "to ALLOWED in tests/canaries.py and say why, with a row in tests/security/test_canaries.py."
)
_SOURCES: Final = {".py", ".pyc"}
"""A copy of our own program, made by some tests, contains the sandbox's account names."""
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
PAGE_BYTES: Final = 4096
_PARQUET: Final = b"PAR1"
_BLOCK_BYTES_MAX: Final = 16 * 1024 * 1024


def forms(secret: str) -> Mapping[str, tuple[bytes, ...]]:
    """Return what to look for: the secret as it is, and in eight other forms.

    In base64 there are three encodings of a text, depending on its offset; the first and last
    characters of each depend on the neighbours and are left out.
    """
    raw = secret.encode()
    packed = tuple(
        b64encode(bytes(shift) + raw)[(shift * 4 + 2) // 3 : (shift + len(raw)) * 4 // 3]
        for shift in range(3)
    )
    return {
        "plain": (raw,),
        "base64": packed,
        "base64url": tuple(each.translate(bytes.maketrans(b"+/", b"-_")) for each in packed),
        "hex": (raw.hex().encode(),),
        "HEX": (raw.hex().upper().encode(),),
        "percent": ("".join(f"%{each:02x}" for each in raw).encode(),),
        "JSON escapes": ("".join(f"\\u{each:04x}" for each in raw).encode(),),
        "UTF-16": (secret.encode("utf-16-le"),),
        "reversed": (raw[::-1],),
    }


_NEEDLES: Final = {
    needle: (name, form)
    for name, secret in CANARIES.items()
    for form, needles in forms(secret).items()
    for needle in needles
    if (name, form) != (CODE, "reversed")  # six digits could be any number
}
_CODE_PLAIN: Final = CANARIES[CODE].encode()
LONGEST: Final = max(map(len, _NEEDLES))


def found_in(data: bytes, part: bytes | None = None) -> Iterator[tuple[str, str]]:
    """Yield the name and the form of each canary in some bytes.

    `part` holds the pieces to search; matches across their seams do not count.
    """
    for needle, found in _NEEDLES.items():
        if (
            (part is None or needle in part)
            and needle in data
            and (needle != _CODE_PLAIN or _stands_alone(needle, data))
        ):
            yield found


def _stands_alone(needle: bytes, data: bytes) -> bool:
    """Return whether a code is not part of a longer number or word: six digits often are."""
    alone = rb"(?<![\w.,%\\])" + re.escape(needle) + rb"(?![\w.,%])"
    return re.search(alone, data) is not None


def require_clean(text: str, *but: str) -> None:
    """Assert that a bot's output contains no canary, `but` those that it was asked to show."""
    found = {each for each in found_in(text.encode("utf-8", "replace")) if each[0] not in but}
    assert not found, f"a secret was said: {sorted(found)}"


HEADERS: Final = {b"x-fh-apikey": "API key", b"x-fh-2fa-token": "2FA token"}
"""The one place of each on the wire."""
_IN_A_BODY: Final = {"account number", "account id"}
"""What the body of an order contains; the body of the 2FA exchange also has its own."""


class WireWatch:
    """Checks each request to a simulated broker for secrets in the wrong place."""

    def __init__(self) -> None:
        self.leaks: list[str] = []

    def watched(self, app: AsgiApp) -> AsgiApp:
        """Wrap an application so that its requests are checked."""

        async def watching(scope: Any, receive: Any, send: Any) -> None:
            where = f"{scope['method']} {scope['path']}"
            others = []
            for name, value in scope["headers"]:
                if allowed := HEADERS.get(name.lower()):
                    self._look(f"{where} {name}", value, {allowed})
                else:
                    others.append(name + b": " + value)
            self._look(f"{where}: its headers", b"\n".join(others), set())  # one search, not seven
            self._look(where, scope["raw_path"] + b"?" + scope["query_string"], _IN_A_BODY)

            async def looked_at() -> Any:
                message = await receive()
                is_exchange = "2fa" in scope["path"] or "otp" in scope["path"].lower()
                both = {"2FA token", "one-time code"} if is_exchange else set()
                self._look(where, message.get("body", b""), _IN_A_BODY | both)
                return message

            await app(scope, looked_at, send)

        return watching

    def _look(self, where: str, data: bytes, allowed: set[str]) -> None:
        found = (each for each in found_in(data) if each[0] not in allowed) if data else ()
        self.leaks += [f"{where}: {name} ({form})" for name, form in found]


def leaks_in(folder: Path) -> list[str]:
    """Return a line for each canary in a file that may not hold it: where, which, in which form."""
    seen = set[int]()
    paths = sorted(Path(root, name) for root, _, names in os.walk(folder) for name in names)
    return [
        f"{path.relative_to(folder)}: {name} ({form})"
        for path in paths
        if path.suffix not in _SOURCES and path.is_file() and not path.is_symlink()
        for name, form in canaries_of(path, seen)
        if not ALLOWED[name].fullmatch(home_of(path.name))
    ]


def home_of(name: str) -> str:
    """Return the final name of a temporary file: a kill may have come before the rename."""
    found = _UNFINISHED.fullmatch(name)
    return name if found is None else found[1] + found[2]


def canaries_of(path: Path, seen: set[int]) -> Iterator[tuple[str, str]]:
    """Yield the name and the form of each canary in a file; `seen` has what others contained."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX)
    except FileNotFoundError:
        return  # removed by a process that was told to end
    yield from found_in(data, _unseen(data, path.name, seen))
    if path.parent.name.startswith("run="):
        for block in _blocks(path) if path.suffix == ".db" else _columns(data):
            yield from found_in(block)


def _unseen(data: bytes, name: str, seen: set[int]) -> bytes:
    """Return the pages that no earlier file of that name had, each with its surroundings: most of a
    journal is the same in all tests.
    """
    parts = list[bytes]()
    for start in range(0, len(data), PAGE_BYTES):
        part = data[max(start - LONGEST, 0) : start + PAGE_BYTES + LONGEST]
        known = hash((name, part))
        if known not in seen:
            seen.add(known)
            parts.append(part)
    return b"".join(parts)


def _columns(data: bytes) -> Iterator[bytes]:
    """Yield what the texts of a Parquet file hold, unpacked."""
    if data[:4] != _PARQUET or data[-4:] != _PARQUET:
        return  # truncated by a kill
    import polars as pl  # slow to import, and most workers find none

    try:
        frame = pl.read_parquet(BytesIO(data))
    except pl.exceptions.PolarsError:
        return  # damaged by a test
    for column in frame.select(pl.col(pl.String, pl.Categorical)):
        yield "\n".join(map(str, column.drop_nulls())).encode()


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield what the blocks of a recording hold, unpacked."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
            for (packed,) in connection.execute("select data from blocks").fetchall():
                yield zlib.decompressobj().decompress(packed, _BLOCK_BYTES_MAX)
    except (sqlite3.Error, zlib.error):
        return  # damaged by a test
