"""Secrets, and the redaction of wire text before it is kept: tokens, signatures, keys, account
numbers.

`redact` works on any text from the wire: complete or truncated JSON, headers, a request target,
HTML. All secrets of this API can be recognised by their form or by the name before them. Every
order is stored with its wire texts, so speed matters: before a rare pattern is run, the text is
searched for something that each match must contain, such as its first letters or a run of digits.
"""

import hmac
import re
from hashlib import sha256
from string import ascii_uppercase, digits, hexdigits
from typing import Final, NoReturn

MARK_DIGITS: Final = 8
"""So many of a digest are kept: enough to see that a secret is another, too few to find it by."""
KEPT_BYTES_MAX: Final = 16 * 1024
HIDDEN: Final = "***"
_TAIL: Final = 4
"""Characters of an account number that are kept, so that two accounts can be told apart."""
LOOKED_AT_MAX: Final = 32 * 1024
"""Characters of a text that are processed: megabytes of garbage must not hold everything up."""
_EDGE: Final = 1024
"""Characters dropped before the end of the processed part: a secret may be cut off there."""

HIDDEN_NAMES: Final = (
    "session_token|two_factor_token|access_token|refresh_token|token|jwt|otp_code|otp|code_2fa"
    "|api_secret|secret|api_key|apikey|signature|password"
)
HIDDEN_WORDS: Final = ("token", "jwt", "otp", "2fa", "secret", "key", "signature", "password")
"""No name of a secret is without one of these."""
_ACCOUNT_NAMES: Final = (
    "sub_account|sub_account_id|sub_account_ext|sub-account-id|account_id|accountId|afacctno"
    "|afacctno_ext|custodycd|custid|cust_id|depository_number|depositoryNumber|bankacct_no"
    "|username|tlname|fullName"
)
_ESCAPED: Final = (
    r"""(?P<escape>\\++)["'](?:[^"'\\]++|\\++(?!["'])|(?P=escape)\\++["'])*(?:\\++["'])?"""
)
"""Ends at a quote with as many backslashes as the first; quotes with more are inside the value. The
group is not possessive: CPython 3.11.2 then reads on behind that quote.
"""
_VALUE: Final = rf"""({_ESCAPED}|"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|[^\s,}}\]"']++)"""


def _members(names: str, quote: str, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern that finds a member, also in JSON nested as a text, with
    escaped quotes.
    """
    return re.compile(rf"""({quote}(?:{names})\\*+{quote}\s*+:\s*+){_VALUE}""", flags)


# Without text in single quotes, a pattern that begins with the double quote is found far sooner.
_SECRET_MEMBER: Final = {
    quote: _members(HIDDEN_NAMES, quote, re.IGNORECASE) for quote in ('"', "[\"']")
}
_ACCOUNT_MEMBER: Final = {quote: _members(_ACCOUNT_NAMES, quote) for quote in ('"', "[\"']")}
_HEADER: Final = re.compile(
    r"(x-fh-(?:signature|2fa-token|apikey|nonce)[\"']?\s*+[:=,]\s*+[\"']?)[^\s\"',]++",
    re.IGNORECASE,
)
_JWT: Final = re.compile(r"\beyJ[\w-]++(?:\.[\w-]*+)*+")
_LONG_HEX: Final = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{40,}+")
_API_KEY: Final = re.compile(r"\b(ak_(?:test|live)_)\w++")
_EXTENDED_ID: Final = re.compile(r"\b\d{3}[A-Z]\d{6}(?:\.\d{1,2})?\b")
_TEN_DIGITS: Final = re.compile(r"(?<=[\"'/])\d{10}(?:\.\d{1,2})?(?=[\"'/?\s]|$)")
_HEX_MIN: Final = 40
_ACCOUNT_MIN: Final = 10
"""Shortest text that can match one of those patterns."""
_SHORT: Final = KEPT_BYTES_MAX // 16
"""A text this short stays within the limit whatever is redacted in it."""
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")

_AS_HEX: Final = bytes(ord("0") if chr(one) in hexdigits else ord(".") for one in range(256))
_AS_DIGITS: Final = bytes(
    ord("0" if chr(one) in digits or one > 127 else "A" if chr(one) in ascii_uppercase else ".")
    for one in range(256)
)
"""Non-ASCII bytes count as digits: the pattern accepts digits of other scripts too."""


def redact(text: str) -> str:
    """Return `text` without secrets and account numbers, cut to 16 kB of UTF-8.

    A secret becomes `***`; of an account number its last four characters stay. Characters that a
    database cannot store (NUL, lone surrogates) become `\N{REPLACEMENT CHARACTER}`.
    """
    clean = text[:LOOKED_AT_MAX]
    if not clean.isascii() or "\x00" in clean:
        clean = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", clean)
    quote = "[\"']" if "'" in clean else '"' if '"' in clean else ""
    lower = clean.lower()
    # The pattern takes some letters beyond ASCII for those of a name; `lower` leaves them alone.
    if quote and (any(map(lower.__contains__, HIDDEN_WORDS)) or not clean.isascii()):
        clean = _SECRET_MEMBER[quote].sub(_hidden_member, clean)
    if "x-fh-" in lower:
        clean = _HEADER.sub(rf"\1{HIDDEN}", clean)
    if "eyJ" in clean:
        clean = _JWT.sub(HIDDEN, clean)
    if len(clean) >= _HEX_MIN and b"0" * _HEX_MIN in clean.encode().translate(_AS_HEX):
        clean = _LONG_HEX.sub(HIDDEN, clean)
    if "ak_" in clean:
        clean = _API_KEY.sub(rf"\1{HIDDEN}", clean)
    if quote:
        clean = _ACCOUNT_MEMBER[quote].sub(_masked_member, clean)
    runs = clean.encode().translate(_AS_DIGITS) if len(clean) >= _ACCOUNT_MIN else b""
    if b"000A000000" in runs:
        clean = _EXTENDED_ID.sub(_masked, clean)
    if b"0" * 10 in runs:
        clean = _TEN_DIGITS.sub(_masked, clean)
    if len(text) <= _SHORT:
        return clean
    encoded = (clean[:-_EDGE] if len(text) > LOOKED_AT_MAX else clean).encode()
    return encoded[:KEPT_BYTES_MAX].decode(errors="ignore")


def _masked(match: re.Match[str]) -> str:
    return f"…{match[0][-_TAIL:]}"


def _hidden_member(match: re.Match[str]) -> str:
    escape = _escape_of(match[2])
    return f'{match[1]}{escape}"{HIDDEN}{escape}"'


def _masked_member(match: re.Match[str]) -> str:
    escape = _escape_of(match[2])
    value = match[2].strip("\"'" + escape)
    if len(value) <= _TAIL:
        return match[0]
    return f'{match[1]}{escape}"…{value[-_TAIL:]}{escape}"'


def _escape_of(value: str) -> str:
    """Return the backslashes before the opening quote of a value."""
    bare = value.lstrip("\\")
    return value[: len(value) - len(bare)] if bare[:1] in {'"', "'"} else ""


class Secret:
    """A key's secret, a 2FA token or a one-time code.

    Printing, formatting and pickling give `***`, so an unpickled secret has the text `***`. Copying
    returns the same, immutable object. Two secrets are compared in constant time.
    """

    __slots__ = ("__tell",)

    def __init__(self, text: str) -> None:
        # Code that lists an object's attributes finds a function here and no text.
        object.__setattr__(self, "_Secret__tell", lambda: text)

    def reveal(self) -> str:
        """Return the text itself, only for putting it on the wire."""
        return self.__tell()  # type: ignore[no-any-return,attr-defined,unused-ignore]

    def mark(self, salt: str) -> str:
        """Return a few digits of its digest, by which to see later whether it is another one."""
        return sha256(f"{salt} {self.reveal()}".encode()).hexdigest()[:MARK_DIGITS]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a secret cannot be changed")

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __reduce__(self) -> tuple[type["Secret"], tuple[str]]:
        return Secret, (HIDDEN,)

    def __getstate__(self) -> str:
        return HIDDEN

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.reveal())
