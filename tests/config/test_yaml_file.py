import os
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.config.yaml_file import BYTES_MAX, NODES_MAX, Span, parse_yaml, read_yaml, snippet_of

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("14:20", "14:20"),
        ("09:15", "09:15"),
        ("NO", "NO"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("0123", "0123"),
        ("0o17", "0o17"),
        ("0x1F", "0x1F"),
        ("20_000_000", 20_000_000),
        ("1_000", 1_000),
        ("20_0000_000", "20_0000_000"),
        ("2000_000", "2000_000"),
        ("1_0", "1_0"),
        ("1__000", "1__000"),
        ("-5", -5),
        ("2.50", 2.5),
        (".5", 0.5),
        ("1e3", "1e3"),
        (".inf", ".inf"),
        ("3%", "3%"),
        ("2026-11-19", "2026-11-19"),
        ("'20'", "20"),
        ("!!str 20", "20"),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("=", "="),
        ("ask +1 tick", "ask +1 tick"),
    ],
)
def test_a_plain_value_is_what_it_looks_like(text: str, value: object) -> None:
    document = parse_yaml(f"key: {text}\n", "x.yaml")

    assert document.data == {"key": value}
    assert type(document.data["key"]) is type(value)


def test_every_part_knows_its_line_and_column() -> None:
    document = parse_yaml("a: 1\nb:\n  c: [x, yy]\n", "x.yaml")

    assert document.values[("b", "c", 1)] == Span(3, 10, 2)
    assert document.keys[("b", "c")] == Span(3, 3, 1)
    assert document.position(("b", "c", 0)) == (3, 7)
    assert document.position(("b", "missing")) == (2, 1)
    assert document.position(("missing",)) == (1, 1)


def test_an_alias_means_what_its_anchor_means() -> None:
    document = parse_yaml("a: &a [1, 2]\nb: *a\n", "x.yaml")

    assert document.data == {"a": [1, 2], "b": [1, 2]}


def test_an_alias_has_the_place_of_its_anchor_and_may_be_a_key() -> None:
    document = parse_yaml("a: &a word\nb: *a\n*a : 1\n", "x.yaml")

    assert document.data == {"a": "word", "b": "word", "word": 1}
    assert document.values[("b",)] == Span(1, 4, 7)


def test_an_anchor_given_twice_means_the_last_one_above() -> None:
    document = parse_yaml("a: &a 1\nb: *a\nc: &a 2\nd: *a\n", "x.yaml")

    assert document.data == {"a": 1, "b": 1, "c": 2, "d": 2}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("".join(f"k{i}: &a{i} 1\n" for i in range(101)), "E-CFG-005"),
        ("a: &a [*a]\n", "E-CFG-005"),
        ("a: " + "[" * 1_000, "E-CFG-007"),
        ("a:\n" + "  - 1\n" * NODES_MAX, "E-CFG-007"),
        ("a: !ruby/object 1\n", "E-CFG-006"),
        ("? [a]\n: 1\n", "E-CFG-002"),
        ("a: 1\n---\nb: 1\n", "E-CFG-002"),
        ("b: *a\na: &a 1\n", "E-CFG-002"),
        ("<<: {a: 1}\n", "E-CFG-005"),
        ("a: \x00\n", "E-CFG-002"),
        ("a: @b\n", "E-CFG-002"),
    ],
)
def test_what_is_hostile_is_refused_before_it_is_built(text: str, code: str) -> None:
    with pytest.raises(OperatorMistake) as raised:
        parse_yaml(text, "x.yaml")

    assert [problem.code for problem in raised.value.problems] == [code]
    assert raised.value.problems[0].line is not None


@pytest.mark.parametrize(
    ("raw", "code", "place"),
    [
        (b"a: " + b"x" * BYTES_MAX, "E-CFG-007", ""),
        (b"a: 1\nb: \xff\n", "E-CFG-010", ":2:1"),
        (b"\xef\xbb\xbfa: b: c\n", "E-CFG-002", ":1:5"),
    ],
)
def test_what_is_no_text_of_a_usual_size_is_refused(
    tmp_path: Path, raw: bytes, code: str, place: str
) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(raw)

    with pytest.raises(OperatorMistake) as raised:
        read_yaml(file)

    problem = raised.value.problems[0]
    assert (problem.code, problem.place) == (code, f"{file}{place}")


def test_all_duplicates_are_told_at_once() -> None:
    with pytest.raises(OperatorMistake) as raised:
        parse_yaml("a: 1\na: 2\nb: {c: 1, c: 2}\n", "x.yaml")

    places = [problem.place for problem in raised.value.problems]
    assert places == ["x.yaml:2:1", "x.yaml:3:11"]


@pytest.mark.parametrize(
    "line",
    [
        f"api_secret: {SECRET}",
        f"  api_key : '{SECRET}'",
        f'broker: {{"token": "{SECRET}", a: b}}',
        f"url: postgresql://bot:{SECRET}@db/bot",
        f"OTP: {SECRET}",
        f"password: {SECRET}  # mine",
    ],
)
def test_a_quoted_line_shows_no_secret(line: str) -> None:
    text = f"{line}\nb: 1\n"

    assert SECRET not in snippet_of(text, Span(1, 1))
    assert SECRET not in snippet_of(text, Span(2, 1))


def test_a_secret_that_begins_on_the_next_line_is_masked_too() -> None:
    text = f"api_secret: |-\n  {SECRET}\nb: 1\n"

    assert SECRET not in snippet_of(text, Span(2, 3)) + snippet_of(text, Span(3, 1))


@pytest.mark.parametrize("kind", ["pipe", "device", "link to a pipe"])
def test_a_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "bot.yaml"
    if kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        os.mkfifo(tmp_path / "pipe")
        file.symlink_to(tmp_path / "pipe")

    for check in (read_yaml, load_settings):
        with pytest.raises(OperatorMistake, match="E-CFG-001 wanted a regular file; found a pipe"):
            check(file)


def test_a_number_that_no_float_holds_stays_a_text() -> None:
    data = parse_yaml("{a: 1.0e999, b: -1.5e400, c: 1.5e300}", "x").data

    assert data == {"a": "1.0e999", "b": "-1.5e400", "c": 1.5e300}
