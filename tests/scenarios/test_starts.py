"""Stories of a start that an operator's mistake keeps from being one."""

from pathlib import Path

import pytest

from bot.config.problems import ExitCode, OperatorMistake
from tests.staging import QUIET
from tests.story import once, tell, write_project


async def test_symbols_that_the_broker_does_not_know_are_all_named_with_their_places(
    tmp_path: Path,
) -> None:
    strategies = [
        once(symbols=["ZZZ", "HPG", "YYY"]),
        once("twice", symbols=["HPG", "YYY"]),
        once("sound"),
    ]
    config = write_project(tmp_path, scenario=QUIET, strategies=strategies)
    (tmp_path / "strategies" / "once.yaml").write_text(
        "name: once\nuse: once\nsymbols: [ZZZ, HPG, YYY]\nparams: {price: 1}\n"
        "wake: {quote: 5s}\norder: {size: {shares: 100}}\n"
    )

    with pytest.raises(OperatorMistake) as mistake:
        await tell(config, minutes=1)

    problems = mistake.value.problems
    assert mistake.value.exit_code == ExitCode.CONFIG
    assert [(each.file, each.line, each.column) for each in problems[:2]] == [
        (f"{tmp_path}/strategies/once.yaml", 3, 11),
        (f"{tmp_path}/strategies/once.yaml", 3, 21),
    ]
    assert [(each.code, Path(each.file or "").name) for each in problems] == [
        ("E-SYM-001", "once.yaml"),
        ("E-SYM-001", "once.yaml"),
        ("E-SYM-001", "twice.yaml"),
    ]
    assert problems[0].message == "the broker knows no ZZZ: correct the symbol, or take it out"
