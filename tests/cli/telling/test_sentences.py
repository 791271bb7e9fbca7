"""What the bot itself says of its troubles and its state, in Vietnamese."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from string import Formatter
from typing import Final

from ruamel.yaml import YAML

import bot
from bot.cli import messages
from bot.cli.commands.status import lines_of
from bot.cli.show import _told_in
from bot.cli.telling.languages import catalogue, phrases
from bot.cli.telling.narrator import Narrator
from bot.cli.telling.states import LEAVE_HALT
from bot.config.problems import Problem
from bot.domain.entry import RunState, StateChanged, StrategySwitched
from bot.runtime.supervisor import NO_MORE_FILES
from tests.rows import every_row

AT: Final = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
HERE: Final = Path(__file__).with_name("sentences.yaml")
TABLE: Final = YAML(typ="safe").load(HERE.read_text("utf-8"))
SENTENCES: Final = YAML(typ="safe").load(
    (Path(bot.__file__).parent / "cli/telling/vi.yaml").read_text("utf-8")
)["sentences"]
LITERAL_MIN: Final = 9
"""A sentence that leaves more open than this could be anybody's."""
_SAY: Final = {
    "begin": 0, "lose": 0, "_trouble": 0, "trouble": 0, "_warn": 0, "close": 2, "lift": 2,
    "degrade": 2, "JournalHealthChanged": 2, "BrokerHealthChanged": 2, "switch": 3,
    "halt_scope": 2, "let_only_sell": 2, "halt_symbol": 1,
    "_halt_for_order": 2,
}  # fmt: skip
"""What is called with such a sentence, and at which place it stands."""
_HANDED_ON: Final = {
    "<hook>: <fault.error>": "a plug-in's own exception",
    "BrokerHealthChanged str(error)": "its reasons are in the table",
    "JournalHealthChanged why": "from lose",
    "close each.text": "what differs in the account, with its numbers",
    "close event.reason": "typed by a person",
    "close recovery.run_state_reason": "as stored by the run before",
    "close troubles[shown]": "from degrade",
    "degrade clock_words(offset)": "in the table",
    "degrade event.detail": "from the runtime",
    "halt_scope event.reason": "typed by a person",
    "halt_scope text": "from _halt of the orders' answers: in the table",
    "halt_symbol explanation(state, account, symbol, each.amount)": "named by its break",
    "halt_symbol why": "from _halt_for_order",
    "lift detail": "from degrade",
    "lift event.reason": "typed by a person",
    "lose why": "from whoever renews the lease",
    "switch event.reason": "typed by a person",
    "switch why": "from who disables it, of a fault",
    "trouble text": "from whoever tells the onlookers",
}
"""What is not worded where it is said, and where it comes from."""
_OF_ROWS: Final = {
    "<found_one.break_id>: <each.text>",
    "<row.order_id>: <wrong>",
}
"""Why a symbol is halted by what a row or the account shows: the alert says it, by its code."""


def _texts(call: ast.expr, known: Mapping[str, list[ast.expr]], depth: int = 4) -> Iterator[str]:
    """Yield what an expression can say; what differs each time as `<code>`."""
    match call:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            found = [""]
            for value in values:
                ends = list(_texts(value, known, depth))
                found = [text + end for text in found for end in ends]
            yield from found
        case ast.FormattedValue(value=value):
            yield from _texts(value, known, depth)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _texts(body, known, depth)
            yield from _texts(orelse, known, depth)
        case ast.Name(id=name) if depth and name in known:
            for value in known[name]:
                yield from _texts(value, known, depth - 1)
        case ast.BinOp() | ast.NamedExpr() | _:
            yield f"<{ast.unparse(call)}>"


def _said(folder: str) -> Iterator[str]:
    for path in sorted((Path(bot.__file__).parent / folder).rglob("*.py")):
        module = ast.parse(path.read_text("utf-8"))
        whole = _constants(path)
        for function in ast.walk(module):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            known = {**whole, **_assigned(ast.walk(function))}
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and (said := _sentence_in(call)) is not None:
                    yield from _of_call(call, said, known)


def _constants(path: Path) -> dict[str, list[ast.expr]]:
    """Return the texts that a module knows by name."""
    parts = path.relative_to(Path(bot.__file__).parent.parent).with_suffix("").parts
    known = vars(import_module(".".join(parts)))
    return {name: [ast.Constant(it)] for name, it in known.items() if isinstance(it, str)}


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    found = dict[str, list[ast.expr]]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for each, value in zip(names, values, strict=False):
                    found.setdefault(ast.unparse(each), []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, []).append(value)
    return found


def _sentence_in(call: ast.Call) -> ast.expr | None:
    of = call.func
    name = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
    if name not in _SAY or len(call.args) <= _SAY[name]:
        return None
    if name == "begin" and "trouble" not in ast.unparse(of):
        return None
    return call.args[_SAY[name]]


def _of_call(call: ast.Call, said: ast.expr, known: Mapping[str, list[ast.expr]]) -> Iterator[str]:
    of = call.func
    name = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
    for text in _texts(said, known):
        bare = re.fullmatch(r"<([^<>]*)>", text)
        yield f"{name} {bare[1]}" if bare else text


SAID: Final = {*_said("engine"), *_said("runtime")} - {""}


@every_row("text", sorted(SAID - {*_HANDED_ON, *_OF_ROWS}))
def test_every_sentence_that_the_program_says_is_in_the_table(text: str) -> None:
    assert catalogue("vi").sentence(text) != text


def test_what_is_not_worded_where_it_is_said_is_listed_and_none_is_left_over() -> None:
    assert {*_HANDED_ON, *_OF_ROWS} - SAID == set()


@every_row(
    "text",
    [
        NO_MORE_FILES,
        messages.NO_BOT,
        messages.NO_BOT_HALTED,
        messages.NOT_HERE,
        messages.RUNS_BESIDE,
        messages.HALT_LATER,
    ],
)
def test_so_is_what_is_said_by_its_name(text: str) -> None:
    assert catalogue("vi").sentence(text) != text


@every_row(("en", "vi"), [(each["en"], each["vi"]) for each in TABLE])
def test_a_sentence_is_whole_in_vietnamese(en: str, vi: str) -> None:
    assert phrases("vi")(en) == vi
    assert phrases("en")(en) == en


@every_row(("english", "vietnamese"), sorted(SENTENCES.items()))
def test_a_sentence_keeps_its_facts_and_leaves_little_open(english: str, vietnamese: str) -> None:
    facts = [name for _, name, _, _ in Formatter().parse(english) if name]

    assert sorted({name for _, name, _, _ in Formatter().parse(vietnamese) if name}) == sorted(
        set(facts)
    )
    assert len(facts) == len(set(facts))
    assert len(re.sub(r"\{\w+\}", "", english)) >= LITERAL_MIN
    assert " " in english


def test_the_run_says_it_in_the_language_of_the_settings() -> None:
    running, degraded = RunState.RUNNING, RunState.DEGRADED
    lost = "the journal can't be written: disk I/O error"
    entries = (
        StateChanged(AT, running, degraded, lost, "database"),
        StateChanged(AT, degraded, running, "the journal answers again after 20 s", "database"),
        StateChanged(AT, running, degraded, "quote: HTTP 503", "broker"),
        StateChanged(AT, degraded, running, "reads work again", "broker"),
        StateChanged(AT, running, RunState.PAUSED, "reads work again", "operator"),
        StateChanged(AT, RunState.PAUSED, RunState.HALTED, "engine fault", "journal"),
        StrategySwitched(
            AT, "sma", "paused", "only sells until tomorrow (day loss 6 VND of 5)", ""
        ),
    )
    narrator = Narrator("vi")

    assert [line for entry in entries for line in narrator.lines_of(entry)] == [
        "09:30:00 PAUSED  không ghi được nhật ký: disk I/O error",
        "09:30:00 RESUMED nhật ký trả lời lại sau 20 giây",
        "09:30:00 PAUSED  không đọc được gì từ công ty chứng khoán: quote: HTTP 503",
        "09:30:00 RESUMED đọc lại được · đã ngưng 0s",
        "09:30:00 PAUSED  do bạn: reads work again",
        "09:30:00 HALTED  như trước khi khởi động lại: lỗi của bot",
        f"{'':17}{phrases('vi')(LEAVE_HALT)}",
        "09:30:00 PAUSED  sma        chỉ bán đến ngày mai (lỗ trong ngày 6 VND, giới hạn 5)",
    ]


def test_so_does_the_status() -> None:
    lost = "the journal has not answered for 5 s"
    text = f"{lost}. Nothing leaves here until the journal answers"
    cause = {"state": "DEGRADED", "by": "database", "reason": lost, "since": None}
    status = {
        "language": "vi",
        "state": "DEGRADED",
        "at": AT.isoformat(),
        "trouble": {"text": text, "since": AT.isoformat()},
        "causes": [cause],
    }

    assert [line.rstrip() for line in lines_of(status, "bot")] == [
        f"SỰ CỐ       từ 09:30: {phrases('vi')(text)}",
        "DEGRADED (hoạt động hạn chế)  bot",
        "lý do       nhật ký không trả lời đã 5 giây",
    ]


def test_a_refused_command_is_told_in_one_language() -> None:
    message = messages.NO_BOT.format(state_dir="/var/bot")

    told = _told_in("vi", Problem("E-RUN-001", message))

    assert told.message == "không có bot nào chạy ở /var/bot. Khởi động: bot run (hoặc bot demo)"


def test_words_of_a_person_or_a_name_are_no_sentence() -> None:
    known = catalogue("vi")

    for text in ("orders", "HPG", "lunch", "the day is over", "x" * 5_000):
        assert known.sentence(text) == text
