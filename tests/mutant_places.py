"""The places that tests/mutants.py breaks, the verdicts on them, and what is judged of them."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

ROOT: Final = Path(__file__).parents[1]
MODULES: Final = (
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "bot/engine/orders").glob("[!_]*.py")),
    *(f"bot/engine/{name}.py" for name in ("chain", "chains", "day")),
    *(
        f"bot/engine/risk/{name}.py"
        for name in ("breaks", "expected", "ledgers", "rights", "under_way")
    ),
    "bot/protocol/classify.py",
    "bot/runtime/fence.py",
)
JUDGED: Final = ROOT / "tests/mutants.yaml"
NOTICED: Final = "noticed"
ENDLESS: Final = "endless"
LET_PASS: Final = "let pass"
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
    """One broken place: what stands there, and what instead.

    `code` is the text of its line; `nth` counts equal places of equal lines.
    """

    module: str
    line: int
    start: int
    end: int
    was: str
    now: str
    code: str
    nth: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.change}"

    @property
    def change(self) -> str:
        """What stands there, and what instead, in words."""
        return f"{self.was} -> {self.now}"

    @property
    def key(self) -> str:
        """Its name in a file of results, the same after lines before it have come or gone."""
        return "\t".join((self.module, self.change, self.code, str(self.nth)))

    @property
    def text(self) -> bytes:
        """The module with this place broken."""
        text = (ROOT / self.module).read_bytes()
        return text[: self.start] + self.now.encode() + text[self.end :]


def mutants_of(module: str) -> Iterator[Mutant]:
    """Yield every way in which a module is broken; places are counted in bytes."""
    text = (ROOT / module).read_bytes()
    lines, starts = text.splitlines(keepends=True), [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    equal = Counter[tuple[str, str, str]]()
    for node in ast.walk(ast.parse(text)):
        if (broken := _broken(node)) is None or not isinstance(node, ast.expr | ast.stmt):
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        was = " ".join(text[start:end].decode().split())
        code = lines[node.lineno - 1].decode().strip()
        equal[was, broken, code] += 1
        yield Mutant(module, node.lineno, start, end, was, broken, code, equal[was, broken, code])


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


# ------------------------------------------------------------------------------------ the results


def judged(every: Iterable[Mutant]) -> tuple[dict[Mutant, tuple[str, str]], list[object]]:
    """Return what mutants.yaml says of places, and its entries that fit none.

    An entry names the module, the `place` as a run prints it and, where that is not enough, a part
    of its `line`. `same` says why nothing differs; `left` what differs, and why no test holds it.
    """
    found: dict[Mutant, tuple[str, str]] = {}
    unused: list[object] = []
    for entry in YAML(typ="safe").load(JUDGED):
        [kind] = {"same", "left"} & set(entry)
        places = [
            each
            for each in every
            if (each.module, each.change) == (entry["module"], entry["place"])
            and entry.get("line", "") in each.code
        ]
        unused += [] if places else [entry]
        found |= dict.fromkeys(places, (kind, entry[kind]))
    return found, unused


def read_results(file: Path, every: Iterable[Mutant]) -> dict[Mutant, str]:
    """Return the last verdict on each place that is still in the code."""
    keys = {each.key: each for each in every}
    found: dict[Mutant, str] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        verdict, _, rest = line.partition("\t")
        if (place := keys.get(rest.rpartition("\t")[0])) is not None:
            found[place] = verdict
    return found


def unjudged(results: Mapping[Mutant, str], every: Iterable[Mutant]) -> list[Mutant]:
    """Return the places that were let pass and of which mutants.yaml says nothing."""
    reasons, _ = judged(every)
    return [each for each in results if results[each] == LET_PASS and each not in reasons]


def table(results: Mapping[Mutant, str], every: Sequence[Mutant]) -> Iterator[str]:
    """Yield a line a module, then the places that were let pass: `same` and `left` as judged."""
    reasons, _ = judged(every)
    yield f"{'':38}{'places':>8}{'tried':>8}{'noticed':>9}{'same':>6}{'left':>6}{'not judged':>12}"
    for module in (*MODULES, "all"):
        places = [each for each in every if module in {each.module, "all"}]
        tried = [each for each in places if each in results]
        passed = [each for each in tried if results[each] == LET_PASS]
        kinds = Counter(reasons.get(each, ("",))[0] for each in passed)
        counts = f"{len(places):>8,}{len(tried):>8,}{len(tried) - len(passed):>9,}"
        yield f"{module:38}{counts}{kinds['same']:>6,}{kinds['left']:>6,}{kinds['']:>12,}"
    for each in sorted(results, key=lambda one: (one.module, one.start)):
        if results[each] == LET_PASS:
            kind, reason = reasons.get(each, ("not judged", each.code))
            yield f"{results[each]}: {each}\n    {kind}: {reason}"
