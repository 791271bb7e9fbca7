"""Throws broken YAML at the reader of every file that a person writes: nothing runs, nothing hangs.

`python -m tests.security.yaml_fuzz 50000` prints what came of so many texts (five minutes).
"""

import sys
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

from bot.config.problems import OperatorMistake
from bot.config.yaml_file import parse_yaml
from tests.proofs import undone

ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 1.0
OWN_BYTES_MAX = 1_200
HOSTILE = (
    "!!python/object/apply:os.system ['touch {0}']",
    "!!python/object/new:os.system [touch {0}]",
    "!!python/name:os.system",
    "!!python/module:os",
    "!<tag:yaml.org,2002:python/object/apply:subprocess.check_output> [[touch, {0}]]",
    "&a [*a, *a]",
    "&a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]",
    "{{<<: *x}}",
    "? [a, b]\n: c",
    "%YAML 1.1\n---\n",
    "%TAG ! tag:yaml.org,2002:python/\n---\na: !object/apply:os.system [touch {0}]",
    "9" * 5_000,
    "0x" + "f" * 5_000,
    "1e999999",
    "'" * 99,
    "[" * 200,
    "{{" * 200,
    "- " * 200,
    "\t\t",
    "\x00\x07\x1b",
    "\ud800",
    "\u2028\u2029\x85",
    "|\n  a\n |+9\n",
)


def texts(random: Random, count: int, trace: Path) -> "list[str]":
    """Our own files with pieces changed, doubled, moved, and hostile ones put in."""
    files = sorted((ROOT / "config").rglob("*.yaml"))
    own = [path.read_text("utf-8") for path in files if path.stat().st_size < OWN_BYTES_MAX]
    found = []
    for _ in range(count):
        text = random.choice(own)
        for _ in range(random.randint(1, 4)):
            at, end = sorted(random.choices(range(len(text) + 1), k=2))
            piece = random.choice([*HOSTILE, text[at:end][:400], "\n", ": ", "  ", "- "])
            text = text[:at] + piece.replace("{0}", str(trace)) + text[random.choice([at, end]) :]
        found.append(text)
    return found


def outcome(text: str) -> str:
    """Read one; return the code it was refused with, or `read`."""
    began = process_time()
    try:
        parse_yaml(text, "x.yaml")
        found = "read"
    except OperatorMistake as mistake:
        found = mistake.problems[0].code
    assert process_time() - began < LONGEST_S, f"{text[:200]!r} took too long"
    return found


def read_all(count: int, folder: Path) -> Counter[str]:
    """Read so many; assert that none of them has left its trace."""
    trace = folder / "it-ran"
    found = Counter(map(outcome, texts(Random(count), count, trace)))
    assert not trace.exists(), "a file that was read has run a command"
    return found


def main(count: int = 2_000) -> int:
    """Read so many; 0 when some were read and some refused, and nothing else came of any."""
    with TemporaryDirectory() as kept:
        found = read_all(count, Path(kept))
    nothing = undone(file_read=found["read"], file_refused=found.total() - found["read"])
    sys.stdout.write("\n".join((f"yaml: {dict(found)}", *nothing, "")))
    return 1 if nothing else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
