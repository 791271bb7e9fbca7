"""`bot journal verify` and `bot journal head`, compared with heads that were kept."""

import json
import shutil
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from bot.journal.database import tables
from bot.journal.upkeep.verify import heads_now
from tests.cli.stage import call
from tests.journal.facts import T0
from tests.journal.forging import Row, forge, without_guards


@pytest.fixture
def own(config: Path, tmp_path: Path) -> Path:
    """A project of the test's own."""
    return shutil.copytree(config.parent, tmp_path / "own") / config.name


def url_of(config: Path) -> str:
    return f"sqlite:///{config.parent / 'journal.db'}"


def keep_heads(config: Path) -> Path:
    """Write down where the chains end, as a run does."""
    file = config.parent / "state" / "heads.jsonl"
    file.parent.mkdir(exist_ok=True)
    file.write_text(heads_now(url_of(config), T0).line + "\n")
    return file


def cut_off_decisions(config: Path) -> None:
    def without_end(rows: list[Row]) -> list[Row]:
        return rows[:-2]

    with without_guards(url_of(config)) as connection:
        forge(connection, tables.decisions, without_end)


def test_the_heads_that_were_kept_are_named(own: Path) -> None:
    file = keep_heads(own)
    ran = call("journal", "verify", "-c", str(own))

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert ran.out.splitlines()[1:] == [
        f"compared with the heads in {file}: 1 line since 2026-11-19 09:21:00"
    ]


def test_a_cut_off_end_that_fits_again_is_found_with_what_to_do(own: Path) -> None:
    file = keep_heads(own)
    cut_off_decisions(own)
    ran = call("journal", "verify", "-c", str(own))

    assert ran.code == ExitCode.DIFFERS
    assert "E-JNL-002 decisions 44 is not there, the last of 8 rows in the heads of" in ran.err
    assert f"Leave {file} in place, so that the next start holds its orders" in ran.err
    assert "then: bot reconcile --accept JOURNAL --reason TEXT" in ran.err


def test_who_put_an_older_copy_back_is_told_each_file_that_speaks_against_it(own: Path) -> None:
    file = keep_heads(own)
    older = shutil.copy(file, file.with_name("heads.older.jsonl"))
    cut_off_decisions(own)
    ran = call("journal", "verify", "-c", str(own))
    file.unlink()
    older_alone = call("journal", "verify", "-c", str(own))

    assert f"Leave {older} and {file} in place" in ran.err
    assert f"Leave {older} in place" in older_alone.err


def test_a_head_that_was_printed_is_compared_with(own: Path) -> None:
    printed = call("journal", "head", "-c", str(own))
    before = call("journal", "verify", "--head", "-", "-c", str(own), stdin=printed.out)
    cut_off_decisions(own)
    after = call("journal", "verify", "--head", printed.out, "-c", str(own))
    alone = call("journal", "verify", "-c", str(own))

    assert len(printed.out.splitlines()) == 1
    assert json.loads(printed.out)["run"] == 1
    assert (before.code, before.out.splitlines()[-1]) == (0, "compared with the head you gave")
    assert (after.code, alone.code) == (ExitCode.DIFFERS, ExitCode.DONE)
    assert "Did you restore" not in after.err, "no file of heads holds the next start"


@pytest.mark.parametrize("given", ["", "abc", '{"at": 1}', "[]"])
def test_what_is_no_head_is_a_wrong_command_line(own: Path, given: str) -> None:
    ran = call("journal", "verify", "--head", "-", "-c", str(own), stdin=given)

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "bot journal head" in ran.err


def test_heads_that_were_kept_and_are_gone_are_missed(own: Path) -> None:
    with without_guards(url_of(own)) as connection:
        forge(connection, tables.runs, lambda rows: [{**row, "heads": "{}"} for row in rows])
    missing = call("journal", "verify", "-c", str(own))
    file = keep_heads(own)
    file.write_text(file.read_text().replace('"journal.db"', '"other.db"'))
    foreign = call("journal", "verify", "-c", str(own))

    assert (missing.code, foreign.code) == (ExitCode.DIFFERS, ExitCode.DIFFERS)
    assert missing.err.startswith(f"E-JNL-003 {file} is missing, although ")
    assert foreign.err.startswith(f"E-JNL-003 {file} is only about other journals, although ")
    assert "If you moved the journal, bring that file along." in missing.err
