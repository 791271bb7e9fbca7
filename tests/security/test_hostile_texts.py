"""Whatever a text from outside holds: one line stays one line, and no answer is more than data."""

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest

from bot.cli.command import Invocation
from bot.cli.commands.api import lines_of_payload
from bot.cli.rows import csv_lines
from bot.cli.show import print_json, print_lines, print_table, show_mistake, write_json
from bot.config.problems import OperatorMistake, Problem
from bot.domain.entry import Decision, Note, OrderUpdated, Verdict
from bot.domain.notice import NoticeKind, Volume
from bot.domain.order import OrderState
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.envelope import Answer, open_envelope
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.strict_json import compact
from bot.runtime.health.readings import exposed, labelled
from bot.runtime.notices.policy import Ready
from bot.runtime.notices.wording import Wording
from tests.cli.test_foreground import screen
from tests.journal.facts import EVERY_KIND
from tests.protocol.test_garbage import DECODERS, GOOD
from tests.rows import every_row
from tests.runtime.health.test_process_log import lines_of, made
from tests.security.hostile_texts import ACTING, FOLLOWING, TEXTS

AT = datetime(2026, 11, 19, 2, 16, tzinfo=UTC)
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
REPORT = replace(
    next(each for each in EVERY_KIND if isinstance(each, OrderUpdated)), state=OrderState.REJECTED
)
SKIPPED = replace(
    next(each for each in EVERY_KIND if isinstance(each, Decision)), verdict=Verdict.SKIPPED
)


def require_plain(text: str) -> None:
    acting = {each for each in text if each != "\n" and category(each) in HIDDEN}
    assert not acting, f"{acting!r} got through"


def test_there_are_five_hundred_of_every_kind() -> None:
    assert len(set(TEXTS)) == len(TEXTS) == 500
    assert [sign for sign in ACTING if not any(sign in text for text in TEXTS)] == []
    assert [end for end in FOLLOWING if not any(text.endswith(end) for text in TEXTS)] == []


@every_row("text", TEXTS)
def test_on_the_screen_each_entry_keeps_to_its_own_line(text: str) -> None:
    with screen(Invocation()) as (shows, shown):
        shows.entry(replace(REPORT, reason=text))
        shows.entry(replace(SKIPPED, why=text))
        shows.entry(Note(AT, "ALERT", text, {}))
        shows.trouble(text)

    heads = [line[:8] for line in shown.out.split("\n") if line and not line.startswith(" ")]
    assert len(heads) == 3
    assert shown.err.count("\n") == 1
    require_plain(shown.out + shown.err)


def test_in_the_log_each_event_is_one_line_of_json(tmp_path: Path) -> None:
    log = made(tmp_path / "bot.log", bytes_max=10**8)
    log.begin()
    for text in TEXTS:
        log.entry(Note(AT, "ALERT", text, {"why": text}))
    log.end()

    raw = (tmp_path / "bot.log").read_text("utf-8")
    kept = lines_of(tmp_path / "bot.log")
    assert len(raw.split("\n")) - 1 == len(kept) == len(TEXTS)
    assert {line["event"] for line in kept} == {"alert"}
    require_plain(raw)


@every_row("text", TEXTS)
def test_tables_json_csv_and_mistakes_obey_nothing(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(Invocation(), ("WHY", "QTY"), [(text, 1)])
    table = capsys.readouterr().out
    print_json({"why": text})
    shown = capsys.readouterr().out
    show_mistake(OperatorMistake([Problem("E-NET-001", text)]))
    mistake = capsys.readouterr().err
    rows = [*csv.reader(csv_lines([{"why": text}], ["why"]))]

    assert (table.count("\n"), mistake.count("\n")) == (2, 1)
    assert json.loads(shown) == {"why": text}
    assert len(rows) == 2
    assert not rows[1][0].startswith(("=", "@", "+"))
    for each in (table, shown, mistake, rows[1][0]):
        require_plain(each)


@every_row("text", TEXTS)
def test_a_notice_and_a_metric_have_no_line_that_is_not_theirs(text: str) -> None:
    wording = Wording("en", "mine", "live")
    notice = wording.notice(AT, NoticeKind.REJECTION, text)
    message = wording.message(Ready(AT, NoticeKind.REJECTION, (notice,), 1), Volume.ON)

    page = exposed([labelled("vnbot_alerts", "counter", "Alerts", "code", {text: 1})])

    assert sum(line.startswith("09:16 ") for line in message.body.split("\n")) == 1
    assert [line.split(" ")[0] for line in page.split("\n")[:2]] == ["#", "#"]
    assert len(page.split("\n")) == 4
    require_plain(message.title + message.body + page)


def filled(value: Any, texts: Mapping[str, str], path: str = "") -> Any:
    """The answer with a hostile text in each of its fields that holds a text."""
    if isinstance(value, dict):
        return {name: filled(inner, texts, f"{path}.{name}") for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, texts, path) for inner in value]
    return texts.get(path, value) if isinstance(value, str) else value


def text_paths(value: Any, path: str = "") -> list[str]:
    if isinstance(value, dict):
        return [
            found for name, inner in value.items() for found in text_paths(inner, f"{path}.{name}")
        ]
    if isinstance(value, list):
        return [found for inner in value for found in text_paths(inner, path)]
    return [path] if isinstance(value, str) else []


def refusal_of(endpoint: Endpoint, body: bytes) -> MalformedAnswer | BrokerRefusal | None:
    """Why the answer is not taken; any other exception fails the test."""
    try:
        DECODERS[endpoint.name](open_envelope(endpoint, Answer(200, {}, body)))
    except (MalformedAnswer, BrokerRefusal) as error:
        return error
    return None


@every_row("endpoint", ENDPOINTS.values())
def test_an_answer_full_of_them_is_read_as_data_or_refused_and_shown_as_text(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    good, key = GOOD[endpoint.name], endpoint.payload_key
    paths = sorted(set(text_paths(good)))
    for number, text in enumerate(TEXTS[len(endpoint.name) % 7 :: 53]):
        for chosen in (paths[number % len(paths) :][:1] if paths else [], paths):
            payload = filled(good, dict.fromkeys(chosen, text))
            body = compact({key: payload, "message": text} if key else payload).encode()
            refusal = refusal_of(endpoint, body)
            show_mistake(OperatorMistake.of("E-NET-002", str(refusal or "")))
            assert refusal is None or refusal.call == endpoint.name
            assert capsys.readouterr().err.count("\n") == 1
            print_lines(lines_of_payload([payload], limit=100))
            write_json(body.decode())
            require_plain("".join(capsys.readouterr()))
