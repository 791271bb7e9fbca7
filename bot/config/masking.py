"""Masks passwords in addresses and lines before they are shown.

Masking too much is better than too little: an address is typed by hand, so its password may contain
an unencoded `@`, `/`, `?` or `&`, be in the query, or continue on the next line.
"""

import re
from typing import Final
from urllib.parse import unquote

MASK: Final = "***"
LINE_MAX: Final = 1_000
"""A longer line is not shown at all: searching one takes time quadratic in its length."""
_SHOWN_SCHEMES: Final = re.compile(
    r"https?|(postgres(ql)?|mysql|mariadb|oracle|mssql|sqlite)(\+\w+)?"
)
_NAMES: Final = re.compile(r"((\[[^\]@]*\]|[^:/?#@\[]*)@)*(\[[^\]@]*\]|[^:/?#@\[]*)")
_PORT: Final = re.compile(r":\d{0,5}(?=$|[/?,\s'\"}\])])")
_SHOWN_PARAMETERS: Final = frozenset(
    {
        *("application_name", "connect_timeout", "dbname", "gssencmode", "host", "hostaddr"),
        *("options", "passfile", "port", "service", "sslcert", "sslcrl", "sslkey", "sslmode"),
        *("sslrootcert", "target_session_attrs", "user"),
    }
)
_HIDDEN_PARAMETERS: Final = ("password", "sslpassword")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")
_SECRET_VALUE: Final = re.compile(
    r"(?i)((?:key|secret|token|password|otp|code)\w*['\"]?\s*:\s*|pass(?!file)\w*\s*=\s*)\S.*"
)
_SAID_PASSWORD: Final = re.compile(r"(?is)(pass(?!file)\w*\s*=\s*)\S.*")
"""A parameter outside its usual place, or an address in libpq's form: `host=db password=…`."""
_SECRET_BEGUN: Final = re.compile(
    r"(?i)(?:key|secret|token|password|otp|code)\w*['\"]?\s*:\s*[|>]?[-+]?\s*(#.*)?$"
)


def masked_url(url: str) -> str:
    """Return an address without its password; for an unknown scheme, only the scheme."""
    return _SAID_PASSWORD.sub(rf"\1{MASK}", _without_password(url))


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite":
        return url
    if not separator:
        name, colon, rest = url.partition(":")
        return f"{name}:{MASK}@{rest.rpartition('@')[2]}" if colon and "@" in rest else url
    if not _SHOWN_SCHEMES.fullmatch(scheme):
        return f"{scheme}://{MASK}"
    names = _NAMES.match(rest)
    assert names is not None, "it matches nothing too"
    shown, rest = names[0], rest[names.end() :]
    if rest.startswith(":") and "@" in rest:
        shown, rest = f"{shown}:{MASK}@", rest.rpartition("@")[2]
    elif rest.startswith(":") and not _PORT.match(rest):
        return f"{scheme}://{shown}:{MASK}"
    path, question, query = rest.partition("?")
    path, hash_, _ = path.partition("#")
    if hash_:
        return f"{scheme}://{shown}{path}#{MASK}"
    return f"{scheme}://{shown}{path}{question}{_masked_query(query)}"


def _masked_query(query: str) -> str:
    """Keep parameters up to the first that may be secret: its value may contain any character."""
    shown = list[str]()
    for part in query.split("&") if query else ():
        name, _, value = part.partition("=")
        if unquote(name).lower() not in _SHOWN_PARAMETERS:
            is_known = unquote(name).lower() in _HIDDEN_PARAMETERS
            return "&".join([*shown, f"{name}={MASK}" if is_known else MASK])
        shown.append(f"{name}={value}")
    return "&".join(shown)


def masked_line(line: str, before: str = "") -> str:
    """Return a line of a file with possible secrets masked, including one begun on the previous
    line.

    An `@` without an address ends an address begun on the line above, unless it is a decorator.
    """
    if max(len(line), len(before)) > LINE_MAX or _SECRET_BEGUN.search(before):
        return MASK
    scheme = _SCHEME.search(line)
    if scheme is not None:
        line = line[: scheme.start()] + masked_url(line[scheme.start() :])
    elif "@" in line.lstrip()[1:]:
        indent = line[: len(line) - len(line.lstrip())]
        line = f"{indent}{MASK}@{line.rpartition('@')[2]}"
    return _SECRET_VALUE.sub(rf"\1{MASK}", line)
