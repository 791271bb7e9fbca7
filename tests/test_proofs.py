"""Every long proof can fail: its exit code is what `main` found, and having done nothing fails."""

import ast
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.proofs import undone

ROOT: Final = Path(__file__).resolve().parents[1]
NO_PROOFS: Final = frozenset(
    {
        *("tests/config/test_bad_files.py", "tests/conformance/coverage.py"),  # they write files
        *("tests/faults/flood_reader.py", "tests/nursery.py"),  # children of tests
        "tests/mutants.py",  # a click command, which ends by itself
    }
)
NOTHING: Final = {
    "tests.crash.kills": "0",
    "tests.crash.stops": "0",
    "tests.engine.orders.test_old_rows": "0",
    "tests.engine.risk.limit_streams": "0",
    "tests.engine.test_rulebook_agreement": "0",
    "tests.faults.halts": "0 0",
    "tests.faults.named": "no-such-fault",
    "tests.faults.test_s17_lagging_node": "1 0",
    "tests.runtime.history.backtest.gears": "0",
    "tests.sandbox.exchange.test_long_run": "0",
    "tests.security.yaml_fuzz": "0",
    "tests.simulation.ambiguous": "0",
    "tests.simulation.expiries": "0",
    "tests.simulation.recorded_days": "0",
    "tests.simulation.simulate": "0",
    "tests.simulation.whole_demo": "0",
}
"""What asks each proof to do nothing. The others always do something: `tests.model.explore` counts
its states, those of `tests.crash` that are not here name what they never met.
"""


GUARD: Final = "__name__ == '__main__'"


def _proofs() -> Iterator[tuple[str, ast.Module, ast.If]]:
    """Give each proof with its tree, and what it does as a command."""
    for file in sorted((ROOT / "tests").rglob("*.py")):
        name, text = str(file.relative_to(ROOT)), file.read_text("utf-8")
        if name not in NO_PROOFS and "__main__" in text:
            tree = ast.parse(text)
            for each in tree.body:
                if isinstance(each, ast.If) and ast.unparse(each.test) == GUARD:
                    yield name, tree, each


def test_what_every_proof_found_is_its_exit_code() -> None:
    proofs = list(_proofs())
    assert len(proofs) >= len(NOTHING)
    for name, tree, guard in proofs:
        functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
        [main] = (each for each in functions if each.name == "main")
        returns = ast.unparse(main.returns) if main.returns else "nothing"
        assert returns == "int", f"main of {name} returns {returns}, no exit code"
        assert ast.unparse(guard.body[0]).startswith("sys.exit(main("), (
            f"{name} drops the exit code"
        )


@pytest.mark.process
@pytest.mark.parametrize("module", NOTHING)
def test_a_proof_that_has_done_nothing_fails(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module, *NOTHING[module].split()])

    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / f"{module.replace('.', '/')}.py"), run_name="__main__")

    assert ended.value.code not in {None, 0}, capsys.readouterr().out


def test_what_was_not_done_is_named() -> None:
    assert undone(kills=0, orders_left=0, starts=3) == [
        "NOTHING SHOWN: no kills",
        "NOTHING SHOWN: no orders left",
    ]
