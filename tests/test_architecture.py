"""The pages for whoever inherits the house agree with it: picture, files, words."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from bot import __version__
from scripts.architecture import PICTURE, floors, imports, picture

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md"]
PATH = re.compile(r"`((?:bot|tests|scripts|strategies|config|migrations|bench|docs)/[\w/.-]*)`")
WORD = re.compile(r"^\| ([^|]+?) \| ", re.MULTILINE)
CLASS = re.compile(r"`([A-Z]\w+)`")
TYPE = re.compile(r"_?[A-Z]\w*[a-z]\w*")
METAPHORS = {"Seat", "Runner", "Desk", "Wish", "Staff", "World", "Heard", "Lives", "Glance"}
"""What the field has no word for: none may come back in the name of a class, whole or in part."""
ALONE = {"Place", "Places", "Hand", "Floor", "Company", "Track"}
"""As good in a compound as `PlaceOrder` or `CompanyEvent` is, but no name of a class or a type by
itself.
"""


@cache
def classes() -> dict[str, list[str]]:
    """Every class of the product by its name, with the room of each."""
    found: dict[str, list[str]] = {}
    for path in (ROOT / "bot").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(path.parent.relative_to(ROOT).as_posix())
    return found


@cache
def aliases() -> set[str]:
    """Every name that a module of the product gives to a type: `Told = Callable[[str], str]`."""
    found: set[str] = set()
    for path in (ROOT / "bot").rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(ast.Name(id=name)):
                    found.add(name)
    return {name for name in found if TYPE.fullmatch(name)}


def test_the_picture_is_that_of_the_imports() -> None:
    assert PICTURE.read_text("utf-8") == picture(), "draw it again: python scripts/architecture.py"


def test_an_import_upwards_changes_the_picture() -> None:
    edges = imports()

    assert floors({**edges, "journal": edges["journal"] | {"broker"}}) != floors(edges)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    named = PATH.findall((ROOT / page).read_text("utf-8"))

    assert named or page == "docs/glossary.md"
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_program_that_the_page_runs_is_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"\b((?:tests|bench)(?:\.[a-z0-9_]+)+)\b", page))

    assert "tests.crash.kills" in named
    assert [name for name in named if not (ROOT / f"{name.replace('.', '/')}.py").exists()] == []


def test_the_type_of_an_answer_that_the_page_shows_is_there() -> None:
    shown = re.findall(r'`"\*?(\w+)\.(\w+)"`', (ROOT / "CONTRIBUTING.md").read_text("utf-8"))

    assert shown
    for module, name in shown:
        assert f"class {name}" in (ROOT / f"bot/protocol/values/{module}.py").read_text("utf-8")


def test_the_six_files_are_named_in_their_order() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    section = page.partition("## Six files to read first")[2].partition("\n## ")[0]

    assert re.findall(r"^\d\. `bot/([\w/.]+)`", section, re.MULTILINE) == [
        "domain/message.py",
        "engine/engine.py",
        "runtime/live.py",
        "runtime/order_manager.py",
        "journal/journal.py",
        "sandbox/exchange/book.py",
    ]


def test_every_part_has_its_row() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    rows = set(re.findall(r"^\| `bot/(\w+)", page, re.MULTILINE))

    assert set(imports()) - {"clock"} <= rows


def words_of_the_glossary() -> list[str]:
    page = (ROOT / "docs/glossary.md").read_text("utf-8")
    return [word for row in WORD.findall(page) for word in row.split(", ") if row != "word"]


def test_a_word_of_the_glossary_has_one_meaning() -> None:
    words = words_of_the_glossary()

    assert sorted(words) == sorted(set(words))
    assert len(words) > 60


def test_a_class_that_bears_a_word_of_the_glossary_is_defined_once() -> None:
    named = set(CLASS.findall((ROOT / "docs/glossary.md").read_text("utf-8")))
    named |= {"".join(map(str.capitalize, word.split())) for word in words_of_the_glossary()}

    assert len(named & set(classes())) > 30
    assert {name: classes()[name] for name in named & set(classes()) if classes()[name][1:]} == {}


def test_the_classes_of_the_glossary_are_there_and_no_type_is_a_metaphor() -> None:
    known = classes()
    named = CLASS.findall((ROOT / "docs/glossary.md").read_text("utf-8"))

    assert [name for name in named if name not in known] == []
    assert "Told" in aliases()
    types = {*known, *aliases()}
    in_parts = {name: set(re.findall("[A-Z][a-z]+", name)) for name in types}
    assert [name for name, parts in in_parts.items() if parts & METAPHORS] == []
    assert ALONE & types == set()


def test_a_book_is_price_levels_and_nothing_else() -> None:
    books = {name: rooms for name, rooms in classes().items() if name.endswith("Book")}

    assert books.pop("Book") == ["bot/sandbox/exchange"]
    assert set(books) == {"DayOrderBook"}


@pytest.mark.parametrize("room", sorted((ROOT / "bot").rglob("__init__.py")))
def test_a_room_says_what_belongs_in_it_and_what_does_not(room: Path) -> None:
    text = ast.get_docstring(ast.parse(room.read_text("utf-8"))) or ""

    if room.parent != ROOT / "bot":
        assert text.count("\n\n") == 1, f"{room}: one line on what belongs there, one on what not"


def test_a_release_has_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["version"] == __version__
