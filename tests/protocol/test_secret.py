import copy
import json
import pickle
from dataclasses import dataclass

import pytest

from bot.protocol.secret import Secret
from tests.rows import every_row

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
