"""The search for secrets finds what is planted, whatever it was packed in, and only that."""

import sqlite3
import subprocess
import sys
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest

from tests.canaries import (
    CANARIES,
    CODE,
    LONGEST,
    PAGE_BYTES,
    WHAT_TO_DO,
    canaries_of,
    forms,
    leaks_in,
    require_clean,
)
from tests.rows import every_row

ROOT = Path(__file__).resolve().parents[2]
KEY = CANARIES["API key"]
PACKED: dict[str, Callable[[str], bytes]] = {
    "plain": lambda text: f"log: key={text}".encode(),
    "base64": lambda text: b64encode(f"x{text}yz".encode()),
    "base64url": lambda text: urlsafe_b64encode(f"xy{text}yz".encode()),
    "hex": lambda text: f"{{{text}}}".encode().hex().encode(),
    "HEX": lambda text: f"{{{text}}}".encode().hex().upper().encode(),
    "percent": lambda text: "".join(f"%{each:02x}" for each in text.encode()).encode(),
    "JSON escapes": lambda text: "".join(f"\\u{ord(each):04x}" for each in text).encode(),
    "UTF-16": lambda text: f" {text}.".encode("utf-16"),
    "reversed": lambda text: f" {text} "[::-1].encode(),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One whose files are gone when the search over the whole run comes by."""
    return tmp_path


def leaks(folder: Path) -> set[str]:
    """What is found, by its form; the files are removed, for the run's own search follows."""
    found = {line.rpartition(": ")[2] for line in leaks_in(folder)}
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    return found


def test_there_are_eight_forms_beside_the_plain_one() -> None:
    assert set(forms(KEY)) == {*PACKED}
    assert len(PACKED) == 9


@every_row("name", [*CANARIES])
def test_each_canary_is_found_in_each_form(folder: Path, name: str) -> None:
    for form, packed in PACKED.items():
        (folder / f"{form}.log").write_bytes(packed(CANARIES[name]))

    found = [line.rpartition("/")[2] for line in leaks_in(folder)]
    leaks(folder)

    missing = [form for form in PACKED if not any(f"{form}.log: {name}" in line for line in found)]
    assert missing == (["reversed"] if name == "one-time code" else [])


def test_a_url_and_json_say_it_as_it_is() -> None:
    assert quote(KEY) == KEY


def test_it_is_found_on_the_border_of_two_pages_and_in_a_journal(folder: Path) -> None:
    (folder / "big.log").write_bytes(b"." * (PAGE_BYTES - 9) + KEY.encode())
    (folder / "again.log").write_bytes(b"." * PAGE_BYTES)
    with closing(sqlite3.connect(folder / "journal.db")) as journal:
        journal.execute("create table t (x)")
        journal.execute("insert into t values (?)", (f"why {CANARIES['2FA token']}",))
        journal.commit()

    assert leaks(folder) == {"API key (plain)", "2FA token (plain)"}


def test_a_recording_is_unpacked(folder: Path) -> None:
    run = folder / "run=0001"
    run.mkdir()
    with closing(sqlite3.connect(run / "part-0001.db")) as part:
        part.execute("create table blocks (first, crc, data)")
        packed = zlib.compress(f"a row with {KEY}".encode())
        part.execute("insert into blocks values (1, 1, ?)", (packed,))
        part.commit()

    assert leaks(folder) == {"API key (plain)"}


def test_parquet_is_unpacked(folder: Path) -> None:
    run = folder / "run=0001"
    run.mkdir()
    texts = [*map(str, range(1_000)), f"500 and {KEY}"]
    columns = {"kind": pl.Series(texts, dtype=pl.Categorical), "event": texts}
    pl.DataFrame(columns).write_parquet(run / "part-0001-0a1b.parquet")
    (run / "part-0002-0a1b.parquet").write_bytes(b"PAR1 and then cut off")
    (run / "part-0003-0a1b.parquet").write_bytes(b"PAR1 damaged PAR1")
    plain = KEY.encode() in (run / "part-0001-0a1b.parquet").read_bytes()

    assert (plain, leaks(folder)) == (False, {"API key (plain)"})


NUMBER, TOKEN = "account number", "2FA token"


@every_row(
    ("file", "name", "verdict"),
    [
        ("two-factor.json", TOKEN, "belongs"),
        (".two-factor.json.4242.new", TOKEN, "belongs"),
        ("two-factor.json.partly", "API key", "leak"),
        ("secrets.yaml", "API secret", "belongs"),
        (".secrets.yaml.4242.new", "API secret", "belongs"),
        (".bot.yaml.4242.new", "API secret", "leak"),
        ("emergency.jsonl", NUMBER, "belongs"),
        ("emergency.jsonl", "API key", "leak"),
        ("emergency.spare", NUMBER, "leak"),
        ("journal.db", NUMBER, "belongs"),
        ("journal.db-wal", NUMBER, "belongs"),
        ("journal.db-journal", NUMBER, "belongs"),
        ("journal.1.db", NUMBER, "belongs"),
        ("backup.db.partly", NUMBER, "belongs"),
        ("backup.db.partly-wal", NUMBER, "belongs"),
        ("backup.db.partly", TOKEN, "leak"),
        ("journal.db.lease", NUMBER, "leak"),
        ("sandbox.jsonl.checkpoint.new", "account id", "belongs"),
        (".paper.json.4242.new", NUMBER, "belongs"),
        ("run=1/head.json.new", NUMBER, "belongs"),
        ("run=1/part-0001.db-wal", NUMBER, "belongs"),
        ("run=1/part-0001.new", NUMBER, "belongs"),
        ("run=1/part-0001.new", TOKEN, "leak"),
        ("run=1/part-0001-0a1b.parquet", NUMBER, "belongs"),
        ("heads.jsonl", NUMBER, "leak"),
        ("bot.log", NUMBER, "leak"),
        ("bot.log.1", NUMBER, "leak"),
        ("fault-20261119T021600.000Z-42.txt", NUMBER, "leak"),
        ("core", "API key", "leak"),
        ("core.4242", TOKEN, "leak"),
        (".orders.csv.4242.new", NUMBER, "leak"),
        (".orders.csv.4242", "API key", "leak"),
    ],
)
def test_what_a_killed_bot_leaves_is_judged_by_what_it_was_to_become(
    folder: Path, file: str, name: str, verdict: str
) -> None:
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(f"begun {CANARIES[name]} and")

    lines = leaks_in(folder)
    leaks(folder)

    assert lines == ([f"{file}: {name} (plain)"] if verdict == "leak" else [])


def test_a_secret_is_found_whatever_pages_were_seen_before(folder: Path) -> None:
    begin, end = KEY[:20].rjust(PAGE_BYTES, "."), KEY[20:].ljust(PAGE_BYTES, ".")
    for name, text in (("a", end), ("b", begin), ("c", begin + end)):
        (folder / name).mkdir()
        (folder / name / "bot.log").write_text(text)

    assert leaks(folder) == {"API key (plain)"}


def test_where_a_page_is_cut_no_secret_comes_about_that_no_file_holds(folder: Path) -> None:
    """Each page is looked at with its surroundings, so pieces begin and end within other pages."""
    code, key = CANARIES[CODE], CANARIES["API key"]
    longer = list(" " * 3 * PAGE_BYTES)
    begin, end = PAGE_BYTES - LONGEST, PAGE_BYTES + LONGEST
    longer[begin - 1 : begin + len(code)] = f"1{code}"
    seam = list("." * 3 * PAGE_BYTES)
    seam[end - 9 : end], seam[begin : begin + len(key) - 9] = key[:9], key[9:]
    (folder / "prices.csv").write_text("".join(longer))
    (folder / "bot.log").write_text("".join(seam))

    assert leaks(folder) == set()


def test_a_file_that_goes_away_while_it_is_looked_for_is_no_failure(folder: Path) -> None:
    (folder / "gone.log").symlink_to(folder / "nowhere")
    (folder / "bot.log").write_text(KEY)

    assert list(canaries_of(folder / "ended.log", set())) == []
    assert leaks(folder) == {"API key (plain)"}


def test_numbers_of_a_price_list_are_no_code(folder: Path) -> None:
    (folder / "prices.csv").write_text("1424242,42.424242,0x424242")

    assert leaks(folder) == set()


def test_what_a_command_says_is_looked_at() -> None:
    with pytest.raises(AssertionError, match="API key"):
        require_clean(f"token={KEY}")
    require_clean("the code is 424242", CODE)


PLANTED = """
def test_that_leaks(tmp_path):
    (tmp_path / "bot.log").write_text("signed with {key}")
"""


@pytest.mark.process
def test_a_planted_leak_fails_the_run_of_tests_and_says_where_and_what_to_do(
    tmp_path: Path,
) -> None:
    """Outside the project, where no other test finds the file while this one runs."""
    file, inner = tmp_path / "test_planted.py", tmp_path / "inner"
    file.write_text(PLANTED.format(key=KEY[:8] + "{}" + KEY[8:]).replace("{}", '" + "'))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.conftest",
    ]
    command += ["-c", str(ROOT / "pyproject.toml"), f"--basetemp={inner}", str(file)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        (inner / "test_that_leaks0" / "bot.log").unlink(missing_ok=True)

    assert done.returncode == 1
    assert "1 passed, 1 error" in done.stdout
    assert f"a secret is where it does not belong, in {inner}:" in done.stdout
    assert "test_that_leaks0/bot.log: API key (plain)" in done.stdout
    assert WHAT_TO_DO.splitlines()[0] in done.stdout
