"""`bot errors`: every code that the program uses is explained, in both languages."""

import json
import re
from pathlib import Path

import bot
from bot.cli.explaining import entries
from bot.cli.telling.languages import catalogue
from bot.config.problems import ExitCode
from bot.engine.gate import DENIED_JOURNAL, REFUSAL_CODES
from bot.engine.risk.checks import HABIT_FROM
from bot.engine.risk.codes import ASK_CODES, CODES
from bot.protocol.status import STATUSES
from tests.cli.stage import call

SOURCE = Path(bot.__file__).parent
KNOWN = {name for each in entries() for name in (each.code, *each.also)}
ORDER_CODES = (
    "-400116 QMAX_EXCEED -900017 -10011 INVALID_PRICE_LOT -700106 -700104 -700105 -700114 -300025"
    " -100113 INVALID_ORDER_TYPE_FOR_THIS_SESSION -400099 -700069"
    " CAN_NOT_PLACE_ORDER_ON_HALTED_SYMBOL -701111 MUST_PUBLISH_TRADE_INFO FAILED"
)
"""The broker's order-level codes, by its document."""
HTTP_CODES = (
    "400 401 403 404 429 500 INVALID_PARAMETER AUTH_SIGNATURE_INVALID AUTH_NONCE_REUSED"
    " ORDER_BOOK_NOT_SUPPORTED RATE_LIMIT_EXCEEDED OTP_SESSION_REQUIRED OTP_SESSION_INVALID"
    " OTP_SESSION_EXPIRED OTP_SESSION_REVOKED OTP_INVALID OTP_LOCKED OTP_RATE_LIMIT_EXCEEDED"
    " OTP_CONTACT_UNAVAILABLE"
)
_SKIPS = re.compile(r"note_skip\(state, strategy, (?:instance\.)?symbol, \"([A-Z_]+)\"")
_REASONS = re.compile(r"return \"([A-Z]+_[A-Z_]+)\", ")


def test_every_code_of_a_decision_is_explained() -> None:
    engine = [path.read_text("utf-8") for path in (SOURCE / "engine").rglob("*.py")]
    skips = {code for text in engine for code in _SKIPS.findall(text)}
    reasons = set(_REASONS.findall((SOURCE / "engine" / "requests.py").read_text("utf-8")))
    gates = {*REFUSAL_CODES.values(), DENIED_JOURNAL}

    assert {"WARMING", "NOT_SETTLED"} <= skips | reasons
    assert {*CODES, *ASK_CODES, *skips, *reasons, *gates} - KNOWN == set()


def test_every_status_and_code_of_the_broker_is_explained() -> None:
    assert {*STATUSES, *ORDER_CODES.split(), *HTTP_CODES.split()} - KNOWN == set()


def test_every_alert_and_every_mistake_of_the_source_is_explained() -> None:
    source = "".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py"))
    mistakes = set(re.findall(r"\bE-[A-Z]+-[0-9]{3}\b", source))

    assert {"E-CFG-001", "E-RUN-003"} <= mistakes
    assert {*catalogue("vi").alerts, *mistakes} - KNOWN == set()


def test_every_control_has_a_code_by_which_it_is_found() -> None:
    controls = {f"R{number:02}" for number in range(1, 29)}

    assert controls - {each.risk for each in entries()} == set()


def test_no_code_is_explained_twice_and_all_have_both_languages() -> None:
    codes = [name for each in entries() for name in (each.code, *each.also)]

    assert sorted(set(codes)) == sorted(codes)
    assert [one.code for one in entries() if not (one.en and one.vi) or one.en == one.vi] == []


def test_every_mistake_has_one_step_to_take_in_both_languages() -> None:
    text = (SOURCE / "cli" / "next_steps.yaml").read_text("utf-8")
    heads = "".join(re.findall(r"^[E?].*$", text, re.MULTILINE))
    mistakes = [each for each in entries() if each.code.startswith("E-")]

    listed = re.findall(r"E-[A-Z0-9]+-[0-9]{3}", heads)
    assert sorted(listed) == sorted(each.code for each in mistakes)
    assert [one.code for one in mistakes if not one.do_en or one.do_en == one.do_vi] == []


def test_a_code_is_told_in_both_languages_whatever_its_case() -> None:
    ran = call("errors", "qmax_exceed")

    assert ran.out.splitlines() == [
        "-400116 (also QMAX_EXCEED): code of the broker",
        "  More than your buying or selling power.",
        "  Vượt sức mua hoặc số được bán.",
    ]


def test_what_to_do_is_a_line_of_its_own() -> None:
    meaning, step = call("errors", "E-CFG-036", "--lang", "en").out.splitlines()[1:]

    assert meaning == "  two strategy files with the same name."
    assert step.startswith("  Rename one of the two.")


def test_a_code_with_a_minus_is_no_option() -> None:
    assert call("errors", "-700114").out.startswith("-700114: code of the broker")


def test_the_number_of_a_control_finds_its_codes() -> None:
    found = json.loads(call("errors", "R10", "--json").out)["errors"]

    assert [each["code"] for each in found] == ["POSITION_VALUE"]


def test_a_code_that_nobody_knows_is_named_with_the_nearest_one() -> None:
    ran = call("errors", "MAX_LOST")

    assert ran.code == ExitCode.USAGE
    text = "'MAX_LOST' is not a known code. Did you mean: bot errors MAX_LOSS\n"
    assert ran.err.endswith(text)
    assert "To list all: bot errors\n" in call("errors", "ZZZZZZ").err


def test_the_language_asked_for_is_the_one_that_is_shown() -> None:
    english = (
        "  something is halted: resuming needs a reason.",
        "  See why it was halted (bot status), then: bot resume --reason TEXT.",
    )
    vietnamese = (
        "  đang bị dừng khẩn cấp: cho chạy lại cần lý do.",
        "  Xem vì sao bị dừng (bot status), rồi: bot resume --reason NỘI_DUNG.",
    )

    shown = {
        words: call("errors", "E-RUN-003", *words).out.splitlines()[1:]
        for words in ((), ("--lang", "en"), ("--lang", "vi"))
    }

    assert shown == {
        (): [*english, *vietnamese],
        ("--lang", "en"): [*english],
        ("--lang", "vi"): [*vietnamese],
    }


def test_a_mistake_says_first_what_it_means_in_the_language_asked_for(tmp_path: Path) -> None:
    where = f"{tmp_path}/none.yaml: E-CFG-001"
    found = "cannot read this file: no such file or directory"

    told = call("--lang", "vi", "config", "check", "-c", f"{tmp_path}/none.yaml")

    assert (told.code, told.err.splitlines()[0]) == (
        ExitCode.CONFIG,
        f"{where} không tìm thấy hoặc không đọc được tệp: {found}",
    )


def test_the_language_of_the_settings_holds_and_the_flag_outranks_it(tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text("mode: sandbox\nlanguage: vi\nstrategies: none/*.yaml\n")
    command = "run", "-c", f"{tmp_path}/bot.yaml"

    by_file, by_flag = call(*command), call(*command, "--lang", "en")

    assert "E-CFG-037 không tìm thấy tệp chiến lược: no strategy file" in by_file.err
    assert "E-CFG-037 no strategy file" in by_flag.err


def test_a_paused_strategy_is_not_told_to_go_on_by_a_resume_of_the_bot() -> None:
    [english, vietnamese] = [call("--lang", each, "errors", "PAUSED").out for each in ("en", "vi")]

    assert "only the strategy is paused: bot strategy enable NAME" in " ".join(english.split())
    assert "bot strategy enable TÊN" in " ".join(vietnamese.split())


def test_the_buy_from_which_the_usual_size_counts_is_the_one_after_the_habit() -> None:
    words = " ".join(call("errors", "FAT_FINGER").out.split())

    assert HABIT_FROM == 5
    assert "Checked from its sixth buy on" in words
