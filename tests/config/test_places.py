"""Where a bot's state lies is seen at a glance, or left to the settings: never seen wrongly."""

import hashlib
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings import places
from bot.config.settings.load import load_settings
from bot.config.settings.places import (
    KNOWN,
    demo_at_sight,
    last_journal,
    last_run,
    remember_run,
    state_dir_at_sight,
)
from bot.config.shipped import DEMO, shipped
from tests.syncs import kept_by_syncs

AT_SIGHT = (
    "mode: sandbox\n",
    "# state_dir: elsewhere\nmode: sandbox\n",
    "state_dir: var\n",
    "mode: sandbox\nstate_dir: ../var                # journal, token and socket\nrisk: {}\n",
    "state_dir: /srv/bots/one_1.d\n\nmode: sandbox\n",
    "state_dir: ~/bots\n",
    "state_dir: var\n# state_dir: other\n",
)
TO_BE_READ = (
    "state_dir: 'var'\n",
    'state_dir: "var"\n',
    "state_dir: var\n  more\n",
    "{state_dir: var}\n",
    '"state\\x5fdir": var\n',
    '"state_dir": var\n',
    "journal: {url: sqlite:///state_dir/j.db}\n",
    "state_dir: var # one\nstate_dir: other\n",
)
"""Written so that the settings may find another place than a glance, or none."""
NO_PLACE = ("state_dir: null\n", "state_dir: 12\n", "state_dir: ~\n", "state_dir: True\n")


def written(folder: Path, text: str) -> Path:
    path = folder / "bot.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", AT_SIGHT)
def test_what_is_seen_at_a_glance_is_what_the_settings_say(text: str, tmp_path: Path) -> None:
    path, environment = written(tmp_path, text), {"HOME": str(tmp_path)}

    seen = state_dir_at_sight(path, environment)

    assert seen == load_settings(path, environment=environment).state_dir


@pytest.mark.parametrize("text", [*TO_BE_READ, *NO_PLACE])
def test_anything_out_of_the_ordinary_is_left_to_the_settings(text: str, tmp_path: Path) -> None:
    assert state_dir_at_sight(written(tmp_path, text), {"HOME": str(tmp_path)}) is None


def test_a_place_that_the_environment_sets_is_left_to_the_settings(tmp_path: Path) -> None:
    path = written(tmp_path, "state_dir: var\n")

    assert state_dir_at_sight(path, {"Bot_State_Dir": "/elsewhere"}) is None


def test_what_is_no_file_to_be_read_is_left_to_the_settings(tmp_path: Path) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"state_dir: v\xff\n")
    (tmp_path / "long.yaml").write_bytes(b"#" * 200_001)

    for path in (tmp_path, tmp_path / "none.yaml", tmp_path / "bytes.yaml", tmp_path / "long.yaml"):
        assert state_dir_at_sight(path, {}) is None


@pytest.fixture
def spelled(tmp_path: Path) -> tuple[Path, Path, Path]:
    """One bot.yaml under three paths: plain, with `..`, through a linked folder."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    plain = written(tmp_path / "real", "mode: sandbox\n")
    return plain, tmp_path / "real" / ".." / "real" / "bot.yaml", tmp_path / "link" / "bot.yaml"


def named_after(path: Path, states: Path) -> Path:
    """The state folder of a path as it is written."""
    name = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    return states / "vnbot" / f"{path.parent.name}-{name}"


def test_one_file_is_one_bot_however_its_path_is_written(
    spelled: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "states")}

    loaded = [load_settings(path, environment=environment) for path in spelled]

    assert {each.state_dir for each in loaded} == {named_after(spelled[0], tmp_path / "states")}
    assert {each.name for each in loaded} == {"real"}
    assert {state_dir_at_sight(path, environment) for path in spelled} == {loaded[0].state_dir}


def test_a_file_that_is_a_link_is_a_bot_of_its_own_as_its_strategies_lie_beside_it(
    spelled: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    own = tmp_path / "bot.yaml"
    own.symlink_to(spelled[0])

    seen = state_dir_at_sight(own, {"XDG_STATE_HOME": str(tmp_path)})

    assert seen == named_after(own, tmp_path)


def test_a_journal_of_before_under_a_linked_path_is_kept(
    spelled: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "states")}
    for path in spelled[1:]:
        earlier = named_after(path, tmp_path / "states")
        earlier.mkdir(parents=True)

        assert load_settings(path, environment=environment).state_dir == earlier
        assert state_dir_at_sight(path, environment) == earlier


def test_two_journals_of_one_file_are_a_mistake_that_a_person_ends(
    spelled: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "states")}
    plain, _, link = spelled
    for path in (plain, link):
        named_after(path, tmp_path / "states").mkdir(parents=True)

    with pytest.raises(OperatorMistake, match="E-CFG-059 this file has two state folders") as found:
        load_settings(link, environment=environment)

    assert str(named_after(link, tmp_path / "states")) in str(found.value)
    assert load_settings(plain, environment=environment).state_dir.is_dir()
    plain.write_text(f"state_dir: {named_after(link, tmp_path / 'states')}\n")
    assert load_settings(link, environment=environment).state_dir.is_dir()


def test_the_demos_place_is_seen_at_a_glance(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}

    seen = state_dir_at_sight(shipped(DEMO), environment)

    assert seen == tmp_path / "vnbot" / "demo"


def test_the_demo_is_known_at_a_glance_as_it_is_when_loaded() -> None:
    demo = load_settings(shipped(DEMO))

    assert demo_at_sight(shipped(DEMO), {}) == (demo.bot, demo.settings.language)
    assert demo_at_sight(shipped(DEMO), {"BOT_MODE": "paper"}) is None


@pytest.mark.parametrize("change", [("sandbox", "paper"), ("mode", "language: vi\nmode")])
def test_a_demo_that_was_changed_in_a_checkout_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]
) -> None:
    own = tmp_path / "bot.yaml"
    monkeypatch.setattr(places, "shipped", lambda _: own)
    own.write_text(shipped(DEMO).read_text())
    assert demo_at_sight(own, {}) is not None
    assert demo_at_sight(shipped(DEMO), {}) is None

    own.write_text(own.read_text().replace(*change))

    assert demo_at_sight(own, {}) is None


RUN_IN = {"HOME": "/", "BOT_CONFIG": "x", "BOT_BROKER__API_KEY": "k" * 32}
BOT = {"name": "mine", "mode": "paper", "config": "/somewhere/bot.yaml"}


@pytest.fixture
def has_run(tmp_path: Path) -> Path:
    """A configuration whose bot has run, with its state beside it."""
    config = tmp_path / "bot.yaml"
    config.write_text("mode: paper\n")
    remember_run(tmp_path, config, RUN_IN, BOT, "vi")
    return config


def test_who_ran_last_is_known_without_loading_the_configuration(has_run: Path) -> None:
    assert last_run(has_run.parent, has_run, RUN_IN) == (BOT, "vi")
    assert "kkk" not in (has_run.parent / KNOWN).read_text()
    assert (has_run.parent / KNOWN).stat().st_mode & 0o077 == 0


def test_the_journal_of_the_last_run_is_known_whatever_has_changed_since(has_run: Path) -> None:
    folder, url = has_run.parent, "sqlite:////somewhere/journal.db"
    assert (last_journal(folder), last_journal(folder / "no")) == ("", None)

    remember_run(folder, has_run, RUN_IN, BOT, "vi", url)
    has_run.write_text("mode: papre\n")

    assert last_journal(folder) == url


def test_what_was_changed_since_is_loaded(has_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = has_run.parent
    assert last_run(folder, has_run, RUN_IN | {"bot_mode": "live"}) is None
    assert last_run(folder, has_run, {"BOT_CONFIG": "x"}) is None
    assert last_run(folder, has_run, RUN_IN | {"BOT_BROKER__API_KEY": ""}) is None
    assert last_run(folder / "no", has_run, RUN_IN) is None
    other = folder / "other.yaml"
    other.write_text(has_run.read_text())
    assert last_run(folder, other, RUN_IN) is None
    with monkeypatch.context() as later:
        later.setattr(places, "__version__", "9.9")
        assert last_run(folder, has_run, RUN_IN) is None
    has_run.write_text("mode: papre\n")
    assert last_run(folder, has_run, RUN_IN) is None


@pytest.mark.parametrize("kept", ["", "[]", "{}", '{"made_by": 1}', '{"bot": []}', "\x00"])
def test_a_damaged_note_of_the_last_run_is_no_note(has_run: Path, kept: str) -> None:
    (has_run.parent / KNOWN).write_text(kept)

    assert last_run(has_run.parent, has_run, RUN_IN) is None
    assert last_journal(has_run.parent) == ""


def test_the_note_of_a_run_survives_a_cut_of_the_power(
    has_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = has_run.parent
    kept = kept_by_syncs(monkeypatch, folder)

    remember_run(folder, has_run, RUN_IN, BOT, "en")

    names = sorted(each.name for each in folder.iterdir())
    assert kept == [(folder / KNOWN).read_text(), " ".join(names)]


def test_a_note_without_a_name_is_no_note(has_run: Path) -> None:
    remember_run(has_run.parent, has_run, RUN_IN, {"mode": "paper"}, "en")

    assert last_run(has_run.parent, has_run, RUN_IN) is None


def test_a_path_that_no_file_can_have_is_told_with_its_line_also_at_a_glance(
    tmp_path: Path,
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    path = written(tmp_path, "mode: sandbox\nstate_dir: loop/state\n")

    seen = state_dir_at_sight(path, {"HOME": str(tmp_path)})
    with pytest.raises(OperatorMistake) as caught:
        load_settings(path, environment={"HOME": str(tmp_path)})

    assert seen is None
    [problem] = caught.value.problems
    assert problem.message == "'state_dir': loop/state: its links lead in a circle"
    assert problem.line == 2


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("~nobody-of-this-name/b.yaml", "there is no user 'nobody-of-this-name' here, so name"),
        ("one\0.yaml", "it has a character that no file's name can have"),
        ("one\ud83d.yaml", "it has a character that no file's name can have"),
        ("x" * 300, "it is longer than a file's name can be"),
    ],
)
def test_a_path_that_no_file_can_have_is_a_mistake_and_no_bug(
    tmp_path: Path, text: str, fault: str
) -> None:
    with pytest.raises(OperatorMistake, match=f": {fault}"):
        places.below(tmp_path, text)


def test_the_variable_may_name_the_folder_of_a_configuration(tmp_path: Path) -> None:
    config = written(tmp_path, "mode: sandbox\n")

    named = [places.find_config({"BOT_CONFIG": str(each)}) for each in (tmp_path, config)]

    assert named == [config, config]


def test_a_name_that_no_disk_takes_is_told_by_who_reads_it() -> None:
    assert places.find_config({"BOT_CONFIG": "/" + "x" * 300}) == Path("/" + "x" * 300)


def test_a_variable_may_name_the_folder_of_nobody(tmp_path: Path) -> None:
    with pytest.raises(OperatorMistake, match="there is no user 'nobody-of-this-name' here"):
        places.find_config({"BOT_CONFIG": "~nobody-of-this-name/bot.yaml"}, tmp_path)
    with pytest.raises(OperatorMistake, match="there is no user 'nobody-of-this-name' here"):
        state_dir_at_sight(written(tmp_path, "mode: sandbox\n"), {"HOME": "~nobody-of-this-name"})
