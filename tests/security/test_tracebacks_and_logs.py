"""What is raised while secrets are in hand is reported without them, whoever reports it."""

import io
import logging
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from bot.config.problems import ExitCode
from bot.config.settings.load import load_settings
from bot.domain.entry import Note
from bot.protocol.secret import Secret
from bot.runtime.hush import LOUD, Hiding, hiding
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from tests.canaries import CANARIES, require_clean
from tests.faults.hanging import trading
from tests.staging import QUIET
from tests.story import Shown, in_process, once, write_project

ROOT = Path(__file__).resolve().parents[2]
PLAIN_KEY = "correct-horse-battery"
"""Of no form that could be known."""


@contextmanager
def logged(level: int = logging.DEBUG) -> Iterator[io.StringIO]:
    """All that is logged, by a handler as a plug-in may set it up."""
    told, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(told)
    before = root.level
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield told
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


@pytest.mark.parametrize(
    "form", [str, lambda text: quote(text, safe=""), lambda text: b64encode(text.encode()).decode()]
)
def test_a_known_secret_is_taken_out_of_a_record_and_its_traceback(form) -> None:
    log = logging.getLogger("somebody.else")
    with logged() as told, hiding(lambda: (Secret(PLAIN_KEY), None)):
        log.warning("sent %s with %r", form(PLAIN_KEY), {"key": form(PLAIN_KEY)})
        try:
            raise ValueError(f"bad key {form(PLAIN_KEY)}")
        except ValueError:
            log.exception("it failed with %s", form(PLAIN_KEY))

    text = told.getvalue()
    assert (PLAIN_KEY in text, form(PLAIN_KEY) in text) == (False, False)
    assert "sent *** with {'key': '***'}" in text
    assert "ValueError: bad key ***" in text


def test_a_record_whose_values_do_not_fit_raises_nothing_and_is_written_without_secrets() -> None:
    log = logging.getLogger("somebody.else")
    with logged() as told, hiding(lambda: (Secret(PLAIN_KEY),)):
        log.warning("price %d", PLAIN_KEY)
        log.warning("price %(last)d", {"first": 1})

    assert told.getvalue() == "price %d ('***',)\nprice %(last)d {'first': 1}\n"


def test_when_it_is_over_records_are_as_they_were() -> None:
    with logged() as told:
        with hiding(lambda: (Secret(PLAIN_KEY),)):
            pass
        logging.getLogger("x").warning("says %s", "this")

    assert told.getvalue() == "says this\n"


def test_a_secret_of_three_signs_is_not_looked_for() -> None:
    assert Hiding(lambda: (Secret("the"), None)).text("the cat") == "the cat"


RAISES = """
from bot import Strategy


class Once(Strategy):
    price: int

    def on_quote(self, quote):
        import gc, logging
        logging.getLogger("plugin").debug("%s", [each for each in gc.get_objects()
                                          if type(each).__name__ in {"Credentials", "Access"}])
        raise ValueError(f"bad {quote}")
"""


async def test_a_plug_in_that_raises_at_debug_tells_no_secret(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    (tmp_path / "strategies" / "once.py").write_text(RAISES)
    shown = Shown()

    with logged() as told:
        await run_bot(
            load_settings(config), RunOptions(run_for=timedelta(minutes=1)), shown, make=in_process
        )

    assert "Access(" in told.getvalue(), "the plug-in looked at what holds secrets"
    require_clean(told.getvalue() + repr(shown.entries).replace(CANARIES["account number"], ""))
    assert any(isinstance(each, Note) or "ValueError" in repr(each) for each in shown.entries)


ENDS_IT = """
import base64
import os
from bot import Strategy
from bot.runtime.run import Run

KEY = base64.b64encode(os.environ["BOT_BROKER__API_KEY"].encode()).decode()  # of no known form


async def fails(*_):
    raise ValueError(f"bad key [{KEY}]")


class Ends(Strategy):
    Run._write_end = fails
"""


def _taken(report: Path) -> str:
    """Read it and remove it: a run keeps it where no test's own folder is."""
    text = report.read_text("utf-8")
    report.unlink()
    return text


@pytest.mark.wire
@pytest.mark.process
async def test_a_bug_that_ends_a_run_is_told_without_its_secrets_on_the_screen_and_in_its_report(
    tmp_path: Path,
) -> None:
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "ends.py").write_text(ENDS_IT)
    ends = once("ends", use="ends", params={})
    async with trading(tmp_path, strategies=[ends], is_signed_in=False) as hanging:
        await hanging.until(lambda it: it["state"] == "NEEDS_2FA")
        code, out, err, _ = await hanging.end()
        key = b64encode(hanging.secrets["BOT_BROKER__API_KEY"].encode()).decode()

    found = re.search(r"the report is in (\S+);", err)
    assert (code, "bad key [***]" in err) == (ExitCode.BUG, True), err
    assert found is not None
    report = _taken(Path(found[1]))
    assert "ValueError: bad key [***]" in report
    assert key not in out + err + report


UNCAUGHT = """
import asyncio, gc, logging, sys, threading
from bot.cli.main import main
try:
    main(["version"])
except SystemExit:
    pass
TOKEN = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9" + ".eyJzdWIiOiIxIn0.x"
def fail():
    secret = TOKEN
    raise ValueError(f"X-FH-2FA-TOKEN: {secret}")
class Dies:
    def __del__(self):
        fail()
async def lost():
    asyncio.get_running_loop().call_soon(fail)
    await asyncio.sleep(0.01)
thread = threading.Thread(target=fail)
thread.start()
thread.join()
Dies()
asyncio.run(lost())
fail()
"""


@pytest.mark.process
def test_uncaught_exceptions_of_every_kind_tell_no_token_and_no_variables() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNCAUGHT], cwd=ROOT, capture_output=True, text=True, check=False
    )

    require_clean(done.stdout + done.stderr)
    assert done.returncode == 1
    assert done.stderr.count("ValueError: X-FH-2FA-TOKEN: ***") == 4


@pytest.mark.process
def test_libraries_that_tell_requests_are_capped_whatever_the_root_says() -> None:
    levels = "import logging; from bot.runtime.hush import LOUD, tell_without_secrets\n"
    levels += "logging.basicConfig(level=logging.DEBUG); tell_without_secrets(print)\n"
    levels += "print([n for n in LOUD if logging.getLogger(n).isEnabledFor(logging.INFO)])"
    done = subprocess.run(
        [sys.executable, "-c", levels], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
    assert {"httpx", "httpcore", "sqlalchemy.engine"} <= {*LOUD}
