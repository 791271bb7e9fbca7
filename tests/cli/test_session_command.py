"""`bot session`: the phases, a symbol explained, the rulebook of a day."""

import json

import pytest

from tests.cli.stage import call

AT = ("--at", "2026-11-19T14:31")


def called(*arguments: str) -> tuple[int, str, str]:
    ran = call("session", *arguments)
    return ran.code, ran.out, ran.err


def test_without_a_symbol_it_shows_each_exchange():
    code, out, _ = called(*AT)

    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[2:5]] == [
        ["HOSE", "closing"],
        ["HNX", "closing"],
        ["UPCOM", "continuous"],
    ]


def test_with_a_symbol_it_says_what_may_be_done_and_by_which_rule():
    code, out, _ = called("hpg", *AT)

    assert code == 0
    assert out.splitlines()[0] == "HPG at 2026-11-19 14:31:00 by the rules of exchange"
    cancel = next(line for line in out.splitlines() if line.startswith("cancel"))
    assert cancel.startswith("cancel     no: closing auction (ATC)")


def test_a_symbol_is_explained_where_it_traded_then():
    _, out, _ = called("BSR", "--at", "2026-11-19T14:31", "--json")

    found = json.loads(out)
    assert found["explained"][0]["says"] == "HOSE STOCK, status NRM"
    assert found["explained"][2]["source"]


def test_the_rulebook_of_a_day_has_a_source_for_each_rule():
    code, out, _ = called("--rules", "--json", *AT)

    rules = json.loads(out)["rules"]
    assert code == 0
    assert len(rules) > 60
    assert all(rule["source"] and rule["confidence"] and rule["since"] for rule in rules)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("NOPE", *AT), "config/symbols.csv has no 'NOPE' on 2026-11-19"),
        (("--at", "2025-05-04T10:00"), "no rules are known of 2025-05-04"),
        (("--at", "noon"), "wanted an instant like"),
    ],
)
def test_what_is_not_known_is_a_wrong_command_line(arguments, words):
    code, out, err = called(*arguments)

    assert (code, out) == (2, "")
    assert words in err
