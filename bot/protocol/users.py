"""The owner of the key and their sub-accounts.

Source: broker open API 0.2.0-preview.3, bootstrap.
"""

from collections.abc import Sequence

from bot.domain.account import SubAccount
from bot.protocol.envelope import Payload
from bot.protocol.fields import Named, Text, Wire, elements
from bot.protocol.shaped import decoded, encoded
from bot.protocol.values.border import User


class _SubAccount(Wire):
    """`id` is a text: as a number it would have lost its leading zeros."""

    id: Named
    sub_account_ext: Named
    type: Named
    name: Text = ""


def decode_user(payload: Payload) -> User:
    return decoded(User, payload)


def encode_user(user: User) -> dict[str, object]:
    """Return the `data` of users/me."""
    written: dict[str, object] = encoded(User, user)
    return written


def decode_sub_accounts(payload: Payload) -> tuple[SubAccount, ...]:
    """Return the sub-accounts in the broker's order. Two may share a `type`: never index by it."""
    return tuple(
        SubAccount(entry.id, entry.sub_account_ext, entry.type, entry.name)
        for entry in (decoded(_SubAccount, element) for element in elements(payload))
    )


def encode_sub_accounts(
    accounts: Sequence[SubAccount], *, customer_id: str = ""
) -> list[dict[str, object]]:
    """Return the `result` of the sub-account list."""
    split = ((account, account.extended_id.rpartition(".")) for account in accounts)
    return [
        {
            "id": account.id,
            "cust_id": customer_id,
            "name": account.name,
            "depository_number": depository_number,
            "product_type_name": dot + product,
            "sub_account_ext": account.extended_id,
            "type": account.type,
        }
        for account, (depository_number, dot, product) in split
    ]
