"""Breaks one place of the code that orders are safe by, and asks whether a test notices.

    python -m tests.mutants 100 [SEED]

Of all places in the modules below where a comparison, a condition, a number or a call can be
broken, so many are drawn. Each is broken in a copy of the repository: first the tests of engine and
protocol run, then, of what they let pass, stories. What no test notices is printed, line by line.
"""

import ast
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

ROOT: Final = Path(__file__).parents[1]
_ORDERS: Final = (
    *("amends", "asks", "cancel_requests", "cancels", "doubts", "matching", "orders", "recover"),
    *("reports", "sends", "unknown"),
)
MODULES: Final = (
    *(f"bot/engine/orders/{name}.py" for name in _ORDERS),
    *("bot/engine/risk/breaks.py", "bot/engine/risk/ledgers.py", "bot/protocol/classify.py"),
)
COPIED: Final = ("bot", "tests", "strategies", "config", "migrations", "pyproject.toml")
FIRST: Final = ("tests/engine/orders", "tests/engine", "tests/protocol")
THEN: Final = ("tests/scenarios", "tests/faults", "tests/runtime/test_order_manager.py")
FIRST_S, THEN_S = 240, 900
OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True)
class Mutant:
    """One broken place: what stands there, and what instead."""

    module: str
    line: int
    start: int
    end: int
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.was} -> {self.now}"


def mutants_of(module: str) -> Iterator[Mutant]:
    """Yield every way in which a module is broken; places are counted in bytes."""
    text = (ROOT / module).read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(text)):
        if (broken := _broken(node)) is None or not isinstance(node, ast.expr | ast.stmt):
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        was = " ".join(text[start:end].decode().split())
        yield Mutant(module, node.lineno, start, end, was, broken)


def _broken(node: ast.AST) -> str | None:
    match node:
        case ast.Compare(ops=[one]) if type(one) in OPPOSITES:
            swapped = ast.Compare(node.left, [OPPOSITES[type(one)]()], node.comparators)
            return f"({ast.unparse(swapped)})"
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            return f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            return f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool() as value):
            return str(not value)
        case ast.Constant(value=int() as value):
            return str(value + 1)
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            return "pass"
    return None


def is_noticed(copy: Path, tests: tuple[str, ...], within_s: float) -> bool:
    """Whether any of these tests fails, or does not end."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


@click.command()
@click.argument("count", type=int)
@click.argument("seed", type=int, default=1)
def main(count: int, seed: int) -> None:
    """Break so many places, one at a time; exit 1 where under 90 of 100 are noticed."""
    every = [each for module in MODULES for each in mutants_of(module)]
    drawn = random.Random(seed).sample(every, min(count, len(every)))  # no secret
    survivors = []
    with TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        if is_noticed(copy, FIRST, FIRST_S):
            raise click.ClickException("the tests fail with nothing broken")
        for number, mutant in enumerate(drawn, 1):
            file, text = copy / mutant.module, (ROOT / mutant.module).read_bytes()
            file.write_bytes(text[: mutant.start] + mutant.now.encode() + text[mutant.end :])
            if not (is_noticed(copy, FIRST, FIRST_S) or is_noticed(copy, THEN, THEN_S)):
                survivors.append(mutant)
                click.echo(f"nobody noticed {mutant}")
            file.write_bytes(text)
            if sys.stderr.isatty():
                click.echo(f"\r{number} of {len(drawn)}, {len(survivors)} unnoticed", err=True)
    noticed = len(drawn) - len(survivors)
    click.echo(f"{noticed} of {len(drawn)} of {len(every):,} places noticed, seed {seed}")
    if noticed < 0.9 * len(drawn):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
