"""A journal in a database on another machine: verified lines only, and a narrow role."""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import load_settings, unverified_host
from bot.runtime.health.doctor_here import Verdict, of_journal_line
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.start.strategies import show_config, strategies_to_run
from tests.cli.stage import call
from tests.postgres_database import administer
from tests.rows import every_row
from tests.staging import QUIET
from tests.story import Shown, in_process, once, write_project

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = "postgresql+psycopg://bot@db.example/bot"
LIVE = """\
mode: live
broker: {{base_url: https://broker.example}}
legal: {{automation_allowed_by_broker: "2026-11-02, letter of the broker"}}
journal: {{url: "{url}"}}
"""
OF_NO_HOST = "postgresql:///bot"


@every_row(
    ("url", "environment", "host"),
    [
        (ELSEWHERE, {}, "db.example"),
        ("postgresql://10.0.0.5:5432/bot", {}, "10.0.0.5"),
        ("postgresql://bot@[2001:db8::1]:5432/bot", {}, "2001:db8::1"),
        ("postgresql://localhost.evil.example/bot", {}, "localhost.evil.example"),
        ("postgresql://127.0.0.1.evil.example/bot", {}, "127.0.0.1.evil.example"),
        ("postgresql://127.0.0.1:5432,db.example:5433/bot", {}, "db.example"),
        ("postgresql://localhost/bot?host=db.example", {}, "db.example"),
        ("postgresql:///bot?host=/tmp&host=db.example", {}, "db.example"),
        ("postgresql://localhost/bot?hostaddr=10.0.0.5", {}, "10.0.0.5"),
        ("postgresql:///bot?service=prod", {}, "prod"),
        (OF_NO_HOST, {"PGHOST": "db.example"}, "db.example"),
        (OF_NO_HOST, {"PGSERVICE": "prod"}, "prod"),
        ("postgresql://localhost/bot", {"PGHOSTADDR": "10.0.0.5"}, "10.0.0.5"),
        *((f"{ELSEWHERE}?sslmode={mode}", {}, "db.example") for mode in ("require", "verify-ca")),
        (f"{ELSEWHERE}?sslmode=verify-full&sslmode=disable", {}, "db.example"),
        (f"{ELSEWHERE}?application_name=sslmode%3Dverify-full", {}, "db.example"),
        (ELSEWHERE, {"PGSSLMODE": "verify-full"}, "db.example"),
        (f"{ELSEWHERE}?sslmode=verify-full", {}, ""),
        ("postgresql://localhost/bot", {"PGHOST": "db.example"}, ""),
        ("postgresql://bot@127.0.0.1:5432/bot", {}, ""),
        ("postgresql://[::1]/bot", {}, ""),
        ("postgresql:///bot?host=/var/run/postgresql", {}, ""),
        (OF_NO_HOST, {}, ""),
        ("sqlite:///journal.db", {"PGHOST": "db.example"}, ""),
    ],
)
def test_which_machine_is_asked_without_proof(
    url: str, environment: Mapping[str, str], host: str
) -> None:
    assert unverified_host(url, environment) == host


def test_with_real_money_it_is_a_mistake_at_its_place(tmp_path: Path) -> None:
    file = tmp_path / "bot.yaml"
    file.write_text(LIVE.format(url=ELSEWHERE))

    with pytest.raises(OperatorMistake) as raised:
        load_settings(file, environment={})

    [problem] = raised.value.problems
    assert (problem.code, problem.line, problem.column) == ("E-CFG-053", 4, 16)
    assert "?sslmode=verify-full&sslrootcert=FILE" in problem.message


def test_without_real_money_a_start_a_check_and_a_look_warn(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()], journal_url=ELSEWHERE)
    loaded, shown = load_settings(config, environment={}), Shown()

    show_config(loaded, strategies_to_run(loaded, ()), shown.row, shown.trouble)
    checked = call("config", "check", "-c", str(config))

    assert len(shown.troubles) == 1
    assert "warning: " in shown.troubles[0]
    assert (
        "E-CFG-053 'journal.url': the database is on another machine (db.example)"
        in (shown.troubles[0])
    )
    assert checked.code == ExitCode.DONE
    assert "E-CFG-053" in checked.err
    assert of_journal_line(loaded).verdict is Verdict.WARN


def test_a_copy_over_such_a_line_warns_and_with_real_money_is_refused(
    config: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    live = tmp_path / "bot.yaml"
    live.write_text(LIVE.format(url=f"sqlite:///{config.parent / 'journal.db'}"))
    for name in ("api-key", "api-secret"):
        assert call("secret", "set", name, "-", "-c", str(live), stdin="a-word\n").code == 0
    to = ("db", "copy", "--to", "postgresql:///bot?service=no-such-service", "-c")

    refused, warned = call(*to, str(live)), call(*to, str(config))

    assert refused.code == ExitCode.USAGE
    assert "no-such-service" in refused.err
    assert "verify-full" in refused.err
    assert warned.code == ExitCode.DATABASE
    assert "warning: --to: the database is on another machine (no-such-service)" in warned.err


@pytest.fixture
def narrow_url(own_postgres_url: str, pg_server: str) -> Iterator[str]:
    """A journal for the role that the docs tell an operator to make, by their own statements."""
    name, url = f"narrow_{os.getpid()}", own_postgres_url.replace("+psycopg", "", 1)
    said = (ROOT / "docs" / "security.md").read_text("utf-8")
    [told] = re.findall(r"```sql\n(.*?)```", said, re.DOTALL)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(told.replace("vnbot_bot", name).encode())
        yield sa.make_url(own_postgres_url).set(username=name).render_as_string()
        connection.execute(f"drop owned by {name}".encode())
    administer(pg_server, f"drop role {name}")


@pytest.mark.postgres
async def test_a_role_that_may_change_no_table_is_enough_for_a_run(
    narrow_url: str, tmp_path: Path
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()], journal_url=narrow_url)
    shown = Shown()

    await run_bot(
        load_settings(config, environment={}),
        RunOptions(run_for=timedelta(minutes=1)),
        shown,
        make=in_process,
    )

    assert shown.troubles == []
    assert ("journal", f"{narrow_url} (kept)") in shown.rows
    for forbidden in (b"alter table runs add column spy text", b"delete from transitions"):
        with (
            psycopg.connect(narrow_url.replace("+psycopg", "", 1)) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(forbidden)
