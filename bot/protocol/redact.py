"""Text of the wire made fit to be kept: no token, signature, key or account number, at most 16 kB.

Works on whatever the wire brought: whole JSON, a JSON cut short, headers, a request target, HTML.
What it cannot recognise by form or by the name before it is no secret of this API.
"""

import re
from collections.abc import Callable
from typing import Final

KEPT_BYTES_MAX: Final = 16 * 1024
HIDDEN: Final = "***"
_TAIL: Final = 4
"""Characters of an account number that stay, so that two accounts can be told apart."""
LOOKED_AT_MAX: Final = 32 * 1024
"""Characters of a text that are looked at: megabytes of garbage must not hold everything up."""
_EDGE: Final = 1024
"""Characters before the end of what is looked at that are not kept: a secret may be cut there."""

_HIDDEN_NAMES: Final = (
    "session_token|two_factor_token|access_token|refresh_token|token|jwt|otp_code|otp|code_2fa"
    "|api_secret|secret|api_key|apikey|signature|password"
)
_ACCOUNT_NAMES: Final = (
    "sub_account|sub_account_id|sub_account_ext|sub-account-id|account_id|accountId|afacctno"
    "|afacctno_ext|custodycd|custid|cust_id|depository_number|depositoryNumber|bankacct_no"
    "|username|tlname|fullName"
)
_VALUE: Final = r"""("(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|[^\s,}\]"']++)"""

_SECRET_MEMBER: Final = re.compile(
    rf"""(["'](?:{_HIDDEN_NAMES})["']\s*+:\s*+){_VALUE}""", re.IGNORECASE
)
_ACCOUNT_MEMBER: Final = re.compile(rf"""(["'](?:{_ACCOUNT_NAMES})["']\s*+:\s*+){_VALUE}""")
_HEADER: Final = re.compile(
    r"(x-fh-(?:signature|2fa-token|apikey|nonce)[\"']?\s*+[:=,]\s*+[\"']?)[^\s\"',]++",
    re.IGNORECASE,
)
_JWT: Final = re.compile(r"\beyJ[\w-]++(?:\.[\w-]*+)*+")
_LONG_HEX: Final = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{40,}+")
_API_KEY: Final = re.compile(r"\b(ak_(?:test|live)_)\w++")
_EXTENDED_ID: Final = re.compile(r"\b\d{3}[A-Z]\d{6}(?:\.\d{1,2})?\b")
_TEN_DIGITS: Final = re.compile(r"(?<=[\"'/])\d{10}(?:\.\d{1,2})?(?=[\"'/?\s]|$)")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def redact(text: str) -> str:
    """Return `text` without secrets and account numbers, cut to 16 kB of UTF-8.

    A secret becomes `***`; of an account number its last four characters stay. Characters that a
    database cannot store (NUL, lone surrogates) become `\N{REPLACEMENT CHARACTER}`.
    """
    clean = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text[:LOOKED_AT_MAX])
    for pattern, replacement in _RULES:
        clean = pattern.sub(replacement, clean)
    encoded = (clean[:-_EDGE] if len(text) > LOOKED_AT_MAX else clean).encode()
    return encoded[:KEPT_BYTES_MAX].decode(errors="ignore")


def _masked(match: re.Match[str]) -> str:
    return f"…{match[0][-_TAIL:]}"


def _masked_member(match: re.Match[str]) -> str:
    value = match[2].strip("\"'")
    return match[1] + (f'"…{value[-_TAIL:]}"' if len(value) > _TAIL else match[2])


_RULES: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (_SECRET_MEMBER, rf'\1"{HIDDEN}"'),
    (_HEADER, rf"\1{HIDDEN}"),
    (_JWT, HIDDEN),
    (_LONG_HEX, HIDDEN),
    (_API_KEY, rf"\1{HIDDEN}"),
    (_ACCOUNT_MEMBER, _masked_member),
    (_EXTENDED_ID, _masked),
    (_TEN_DIGITS, _masked),
)
