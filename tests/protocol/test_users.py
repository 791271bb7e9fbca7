import pytest

from bot.domain.account import SubAccount
from bot.protocol.errors import MalformedAnswer
from bot.protocol.users import decode_sub_accounts, decode_user, encode_sub_accounts
from bot.protocol.values.border import User
from tests.protocol.samples import ACCOUNT, payload


def test_the_user_is_read_from_a_number_or_a_numeric_text():
    assert decode_user(payload({"user_id": 7, "more": [1]})) == User(7)
    assert decode_user(payload({"user_id": "7"})) == User(7)


@pytest.mark.parametrize("user_id", [None, True, 1.5, "x", [], {}, -1])
def test_a_user_id_of_another_kind_is_malformed(user_id):
    with pytest.raises(MalformedAnswer, match=r"some_call: .*user_id"):
        decode_user(payload({"user_id": user_id}))


def test_a_sub_account_has_every_field_of_the_document():
    assert encode_sub_accounts([ACCOUNT], customer_id="0001234500") == [
        {
            "id": "0001234567",
            "cust_id": "0001234500",
            "name": "NGUYEN VAN A",
            "depository_number": "120C000008",
            "product_type_name": ".1",
            "sub_account_ext": "120C000008.1",
            "type": "Normal",
        }
    ]


def test_two_sub_accounts_of_one_type_are_both_kept():
    entries = [
        {"id": "0001", "sub_account_ext": "120C000001.1", "type": "Normal", "name": None},
        {"id": "0002", "sub_account_ext": "120C000001.4", "type": "normal"},
    ]

    assert decode_sub_accounts(payload(entries)) == (
        SubAccount("0001", "120C000001.1", "Normal"),
        SubAccount("0002", "120C000001.4", "normal"),
    )


@pytest.mark.parametrize("missing", ["id", "sub_account_ext", "type"])
def test_a_required_field_is_required(missing):
    entry = {"id": "0001", "sub_account_ext": "120C000001.1", "type": "Normal"}

    with pytest.raises(MalformedAnswer, match=missing):
        decode_sub_accounts(payload([{**entry, missing: None}]))


def test_an_id_that_lost_its_leading_zeros_is_malformed():
    entry = {"id": 1234567, "sub_account_ext": "120C000001.1", "type": "Normal"}

    with pytest.raises(MalformedAnswer, match=r"id: .*not a text"):
        decode_sub_accounts(payload([entry]))
