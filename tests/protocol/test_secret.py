"""Nothing that identifies or authorises anybody is left in a text that was redacted."""

import copy
import json
import pickle
import random
from dataclasses import dataclass
from time import process_time

import pytest

from bot.protocol import secret as module
from bot.protocol.errors import MalformedAnswer
from bot.protocol.secret import HIDDEN, KEPT_BYTES_MAX, LOOKED_AT_MAX, Secret, redact
from tests.rows import every_row

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl-_x"
HEX = "3f9a1c7e5b2d8064af13c95e70b8d246e1f0a39c5d7b28464c6e8a0f2b4d6e80"

SECRETS = [
    (json.dumps({"session_token": "canary"}), "canary"),
    ('{"session_token": "canary', "canary"),
    ('{"session_token":"can\\"ary","a":1}', "ary"),
    ('{"otp_code":"123456"}', "123456"),
    ('{"otp_code" : 123456}', "123456"),
    ('{"api_secret":"canary","x":[]}', "canary"),
    (f'{{"anything":"{JWT}"}}', JWT[25:]),
    (f"token {JWT[:30]}", JWT[10:30]),
    (f"signature {HEX} end", HEX[:10]),
    (f"X-FH-SIGNATURE: {HEX}", HEX[:10]),
    ("x-fh-2fa-token: canary", "canary"),
    ("('X-FH-APIKEY', 'canary')", "canary"),
    ("key ak_live_abcDEF123 was refused", "abcDEF123"),
    ('{"sub_account":"120C000008.1"}', "120C000008"),
    ('{"account_id":"120C000008.1"}', "120C000008"),
    ("account 120C000008.1 unknown", "120C000008"),
    ('{"afacctno":"0001234567"}', "0001234567"),
    ('{"id":"0001234567","type":"Normal"}', "0001234567"),
    ('{"custid":1234500001}', "1234500001"),
    ("/trading/oa/sub-accounts/0001234567/orders", "0001234567"),
    ("/trading/accounts/0001234567", "0001234567"),
    (json.dumps({"said": '{"session_token":"canary","a":1}'}), "canary"),
    (json.dumps({"said": '{"session_token": "canary'}), "canary"),
    (json.dumps({"said": json.dumps({"said": '{"otp_code": "123456"}'})}), "123456"),
    (json.dumps({"said": '{"afacctno":"0001234567"}'}), "0001234567"),
    (json.dumps({"said": '{"session_token":"ab\\/canary"}'}), "canary"),
    (json.dumps({"said": json.dumps({"said": '{"otp_code":"a\\"canary","b":1}'})}), "canary"),
    (json.dumps({"said": '{"session_token":"a\\u002bcanary'}), "canary"),
    ('{"bankacct_no":"19031234567011"}', "19031234567011"),
]


@every_row(("text", "secret"), SECRETS)
def test_a_secret_or_an_account_number_is_gone(text, secret):
    assert secret not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"order_id":"ORD700001","symbol":"HPG","limit_price":25500,"code":"-400116"}',
        '{"rejected_reason":"Vượt quá sức mua","txtime":"09:20:11"}',
        '{"execamt":2550000000,"expires_at_epoch":1787331599}',
        "<html><body>502 Bad Gateway</body></html>",
        "",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


def test_two_accounts_can_be_told_apart():
    assert redact('{"sub_account":"120C000008.1"}') == '{"sub_account":"…08.1"}'
    assert redact("/sub-accounts/0001234567/orders") == "/sub-accounts/…4567/orders"


def test_a_redacted_json_is_still_json():
    text = json.dumps({"sub_account": "120C000008.1", "session_token": "x", "custid": 1234500001})

    assert json.loads(redact(text)).keys() == json.loads(text).keys()


def test_a_json_redacted_inside_a_json_is_still_both():
    inner = json.dumps({"session_token": "canary", "afacctno": "0001234567", "a": 1})

    said = json.loads(redact(json.dumps({"said": inner})))["said"]

    assert json.loads(said) == {"session_token": "***", "afacctno": "…4567", "a": 1}


def test_redacting_twice_changes_nothing_more():
    for text, _ in SECRETS:
        assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("text", ["x" * 100_000, "đ" * 100_000, f'"{JWT}" ' * 5_000])
def test_at_most_16_kb_are_kept(text):
    assert len(redact(text).encode()) <= KEPT_BYTES_MAX


def test_a_secret_on_the_edge_of_the_cut_does_not_slip_through():
    for shift in range(60):
        kept = redact("x " * (KEPT_BYTES_MAX // 2 - 40) + "y" * shift + " " + HEX)

        assert HEX[:12] not in kept


def test_what_a_database_cannot_store_is_replaced():
    assert redact("a\x00b\ud800c") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"


@pytest.mark.parametrize(
    "text", ['"' * 300_000, '"token":' * 40_000, "eyJ" * 100_000, "a" * 300_000, "\\" * 300_000]
)
def test_hostile_text_is_redacted_in_linear_time(text):
    started = process_time()

    redact(text)

    assert process_time() - started < 2


def test_an_error_keeps_what_was_received_redacted_and_can_be_pickled():
    error = MalformedAnswer("user", "no", f'{{"session_token":"{JWT}"}}'.encode() + b"\xff")

    copy = pickle.loads(pickle.dumps(error))  # noqa: S301

    assert (copy.call, copy.reason, copy.raw) == (error.call, error.reason, error.raw)
    assert JWT[25:] not in error.raw


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("name", ["afacctno", "id", "otp_code"])
def test_single_quotes_hide_as_double_ones_do(quote, name):
    text = f"{{{quote}{name}{quote}: {quote}0001234567{quote}}}"

    assert "0001234567" not in redact(text)


def test_sixteen_bit_text_is_read_before_it_is_redacted():
    raw = '{"id":"0001234567"}'.encode("utf-16")

    assert MalformedAnswer("user", "why", raw).raw == '{"id":"…4567"}'


def test_a_secret_at_the_edge_of_what_is_looked_at_is_not_kept():
    hidden = '"session_token":"' + "s" * 2_000 + '",'
    for shift in range(12):
        padding = hidden * 40
        text = padding[: LOOKED_AT_MAX - 12 + shift] + '"0001234567"' + "x" * 10

        assert "0001" not in redact(text)


@pytest.mark.parametrize("unit", [b"x", b'"', b"[", b'{"symbol":"HPG","afacctno":"0001234567"},'])
def test_of_megabytes_only_the_beginning_is_looked_at(unit):
    body = unit * (16 * 2**20 // len(unit))

    error = MalformedAnswer("todays_orders", "why", body)

    assert error.raw == MalformedAnswer("todays_orders", "why", body[: 2**20]).raw
    assert len(error.raw.encode()) <= KEPT_BYTES_MAX


EITHER = "[\"']"
PIECES = [text for text, _ in SECRETS] + [
    "'", '"', "/", "?", ":", "\\", " ", "\x00", "\ud800", "ữ", "0001234567", "٠١٢٣٤٥٦٧٨٩",
    "٠١٢C٠١٢٣٤٥", '"\u017fecret":"abc"', '"to\u212aen":"abcdef"', "X-Fh-Nonce: abc", "a" * 30,
    "F" * 39, "f" * 40, "ak_", "ak_test_x", "eyJ", '"username":', '"sub_account_ext":"', "3A123456",
]  # fmt: skip


def redacted_by_every_rule(text: str) -> str:
    """What `redact` returns for a short text, without skipping the rules that can't apply."""
    clean = module._UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    clean = module._SECRET_MEMBER[EITHER].sub(module._hidden_member, clean)
    clean = module._HEADER.sub(rf"\1{HIDDEN}", clean)
    clean = module._JWT.sub(HIDDEN, clean)
    clean = module._LONG_HEX.sub(HIDDEN, clean)
    clean = module._API_KEY.sub(rf"\1{HIDDEN}", clean)
    clean = module._ACCOUNT_MEMBER[EITHER].sub(module._masked_member, clean)
    clean = module._EXTENDED_ID.sub(module._masked, clean)
    return module._TEN_DIGITS.sub(module._masked, clean)


def test_a_rule_is_spared_only_where_it_would_change_nothing():
    chance = random.Random(7)

    for _ in range(10_000):
        text = "".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 6)))
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(PIECES) + text[at + chance.randrange(4) :]
        assert redact(text) == redacted_by_every_rule(text), text


@pytest.mark.parametrize("name", module.HIDDEN_NAMES.split("|"))
def test_a_member_of_every_hidden_name_is_hidden(name):
    for written in (name, name.upper()):
        assert redact(f'{{"{written}":"canary"}}') == f'{{"{written}":"{HIDDEN}"}}'


CANARY = "canary-7c1e"


@dataclass(frozen=True)
class Holder:
    secret: Secret


SHOWN = [
    str,
    repr,
    "{}".format,
    "{:>20}".format,
    lambda secret: f"{secret}",
    lambda secret: repr(Holder(secret)),
    lambda secret: repr([secret]),
    lambda secret: json.dumps(secret, default=str),
    lambda secret: repr(pickle.dumps(secret)),
    lambda secret: repr(pickle.loads(pickle.dumps(secret)).reveal()),  # noqa: S301
]


@every_row("show", SHOWN)
def test_no_way_of_showing_a_secret_shows_it(show):
    shown = show(Secret(CANARY))

    assert CANARY not in shown
    assert "***" in shown


def test_a_secret_comes_out_where_it_is_revealed():
    assert Secret(CANARY).reveal() == CANARY


def test_a_copy_is_the_secret_itself():
    secret = Secret(CANARY)

    assert copy.copy(secret) is copy.deepcopy(secret) is secret


def test_secrets_are_compared_by_their_text():
    assert Secret(CANARY) == Secret(CANARY)
    assert Secret(CANARY) != Secret("other")
    assert Secret(CANARY) != CANARY


def test_a_secret_cannot_be_changed_or_hashed():
    secret = Secret(CANARY)

    with pytest.raises(AttributeError):
        secret.text = "x"
    with pytest.raises(TypeError):
        hash(secret)


def test_an_empty_secret_is_false():
    assert not Secret("")
    assert Secret(CANARY)
