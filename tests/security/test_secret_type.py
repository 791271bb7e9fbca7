"""No way of showing, storing or sending an object gives away the text of a Secret in it."""

import copy
import csv
import dataclasses
import inspect
import io
import json
import logging
import marshal
import pickle
import pprint
import reprlib
import shelve
import string
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest
from ruamel.yaml import YAML

from bot.broker.signer import Credentials
from bot.config.settings.model import BrokerSettings
from bot.protocol.secret import Secret
from bot.runtime.worlds.environment import Access
from tests.canaries import forms
from tests.rows import every_row

ROOT = Path(__file__).resolve().parents[2]
CANARY = "canary-7c1e-of-the-type"


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    secret: Secret


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    secret: Secret


def _printed(secret: Secret) -> str:
    print(secret, file=(text := io.StringIO()))
    return text.getvalue()


def _csv(secret: Secret) -> str:
    csv.writer(text := io.StringIO()).writerow([secret])
    return text.getvalue()


def _yaml(secret: Secret) -> str:
    YAML(typ="safe").dump({"x": str(secret)}, text := io.StringIO())
    return text.getvalue()


def _raised(secret: Secret) -> str:
    try:
        raise ValueError("bad", secret)
    except ValueError as error:
        return "".join(
            traceback.TracebackException.from_exception(error, capture_locals=True).format()
        )


def _logged(secret: Secret) -> str:
    record = logging.LogRecord("x", 10, "x.py", 1, "%s %r %(a)s", ({"a": secret},), None)
    record.msg, record.args = "%s %r", (secret, secret)
    return logging.Formatter("%(message)s %(args)s").format(record)


def _shelved(secret: Secret) -> str:
    rows: dict[bytes, bytes] = {}
    shelve.Shelf[Secret](rows)["x"] = secret
    return repr(rows)


BROKER = BrokerSettings()
SERIALISERS: dict[str, Callable[[Secret], object]] = {
    "str": str,
    "repr": repr,
    "ascii": ascii,
    "format": format,
    "format with width": "{:>40}".format,
    "f-string": lambda secret: f"{secret}{secret!s}{secret!r}{secret!a}",
    "percent": lambda secret: "%s %r %a" % (secret, secret, secret),  # noqa: UP031
    "template": lambda secret: string.Template("$x").substitute(x=secret),
    "print": _printed,
    "list": lambda secret: str([secret, (secret,), {"x": secret}]),
    "join": lambda secret: ",".join(map(str, [secret])),
    "pprint": lambda secret: pprint.pformat({"x": [secret]}),
    "reprlib": reprlib.repr,
    "json default": lambda secret: json.dumps({"x": secret}, default=str),
    "json vars": lambda secret: json.dumps([secret], default=lambda each: dir(each) and repr(each)),
    "pickle": pickle.dumps,
    "pickle 0": lambda secret: pickle.dumps(secret, protocol=0),
    "unpickled": lambda secret: pickle.loads(pickle.dumps(secret)).reveal(),  # noqa: S301
    "reduce": lambda secret: secret.__reduce__(),
    "reduce_ex": lambda secret: [secret.__reduce_ex__(number) for number in range(5)],
    "getstate": lambda secret: secret.__getstate__(),
    "members": inspect.getmembers,
    "slots": lambda secret: [getattr(secret, name, "") for name in Secret.__slots__],
    "dir": dir,
    "copy": copy.copy,
    "deepcopy": lambda secret: str(copy.deepcopy({"x": secret})),
    "dataclass": lambda secret: repr(Holder(secret)),
    "asdict": lambda secret: dataclasses.asdict(Holder(secret)),
    "astuple": lambda secret: dataclasses.astuple(Holder(secret)),
    "tuple": lambda secret: repr((secret, [secret])),
    "namespace": lambda secret: repr(SimpleNamespace(x=secret)),
    "pydantic repr": lambda secret: repr(Model(secret=secret)),
    "pydantic dump": lambda secret: str(Model(secret=secret).model_dump()),
    "settings": lambda secret: repr(BROKER.model_copy(update={"api_key": secret})),
    "settings dump": lambda secret: BROKER.model_copy(update={"api_key": secret}).model_dump_json(),
    "credentials": lambda secret: repr(dataclasses.asdict(Credentials(secret, secret, "d"))),
    "access": lambda secret: repr(Access("https://x", secret, secret)),
    "csv": _csv,
    "yaml": _yaml,
    "traceback with variables": _raised,
    "log record": _logged,
    "shelf": _shelved,
    "mark": lambda secret: secret.mark("2026-11-19T09:20:00+07:00"),
    "bytes of its text": lambda secret: str(secret).encode(),
    "exception": lambda secret: repr(ValueError(secret)),
}


def test_there_are_thirty_ways_and_more() -> None:
    assert len(SERIALISERS) >= 30


@every_row("way", SERIALISERS.items())
def test_no_way_gives_it_away_in_any_form(way: tuple[str, Callable[[Secret], object]]) -> None:
    shown = way[1](Secret(CANARY))

    data = shown if isinstance(shown, bytes) else repr(shown).encode()
    assert [form for form, texts in forms(CANARY).items() if any(t in data for t in texts)] == []


@pytest.mark.parametrize(
    "refused",
    [json.dumps, marshal.dumps, lambda secret: Model(secret=secret).model_dump_json(), bytes, hash],
)
def test_what_cannot_show_it_refuses_without_showing_it(refused: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        refused(Secret(CANARY))

    assert CANARY not in str(raised.value)


READERS = {
    "bot/broker/signer.py",
    "bot/broker/two_factor.py",
    "bot/broker/writes.py",
    "bot/cli/commands/conformance.py",
    "bot/config/settings/notify.py",
    "bot/conformance/raw_client.py",
    "bot/conformance/two_factor.py",
    "bot/protocol/secret.py",
    "bot/protocol/two_factor.py",
    "bot/runtime/hush.py",
    "bot/runtime/notices/channels.py",
    "bot/runtime/second_factor.py",
    "bot/runtime/state_dir.py",
    "bot/sandbox/api/writes.py",
}


def test_a_secret_is_read_where_it_is_signed_sent_or_kept_and_nowhere_else() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "bot").rglob("*.py")
        if ".reveal" in path.read_text("utf-8")
    }

    assert found == READERS
