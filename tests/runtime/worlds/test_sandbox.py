"""The embedded sandbox: a port that is taken, and what one demo leaves to the next."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.protocol.secret import Secret
from bot.runtime.state_dir import LEDGER, keep_token, kept_token
from bot.runtime.worlds.sandbox import NotAlone, alone, make_room, settle_port
from tests.cli.stage import call

USUAL = 8_790
NOW = datetime(2026, 11, 19, 3, tzinfo=UTC)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_where_the_usual_port_is_taken_and_nobody_chose_it_a_free_one_is(tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text("mode: sandbox\n")
    loaded = load_settings(tmp_path / "bot.yaml", environment={})

    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # also just after another's end
        with suppress(OSError):  # it may already be taken
            other.bind(("127.0.0.1", USUAL))
            other.listen()
        settled = settle_port(loaded)

    assert loaded.settings.sandbox.port == USUAL
    assert settled.settings.sandbox.port not in {0, USUAL}
    assert settled.sha256 == loaded.sha256


def test_the_usual_port_makes_room_for_the_health_page(tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text(f"health: {{port: {USUAL}}}\n")
    loaded = load_settings(tmp_path / "bot.yaml", environment={})

    assert settle_port(loaded).settings.sandbox.port not in {0, USUAL}


@pytest.mark.parametrize("port", ["0", "null"])
def test_who_wants_any_port_or_none_has_it_without_a_look(tmp_path: Path, port: str) -> None:
    (tmp_path / "bot.yaml").write_text(f"sandbox: {{port: {port}}}\n")
    loaded = load_settings(tmp_path / "bot.yaml", environment={})

    assert settle_port(loaded) is loaded


def test_a_chosen_port_that_is_taken_is_named_with_its_setting(tmp_path: Path, taken: int) -> None:
    (tmp_path / "bot.yaml").write_text(f"sandbox:\n  port: {taken}\n")
    loaded = load_settings(tmp_path / "bot.yaml", environment={})

    with pytest.raises(OperatorMistake) as caught:
        settle_port(loaded)

    assert str(caught.value) == (
        f"E-NET-003 port {taken} on this machine is taken by another program, or not ours to take; "
        f"it is sandbox.port ({tmp_path}/bot.yaml:2). Set another, 0 for any free one, or null for "
        "none. For this run alone: BOT_SANDBOX__PORT=0"
    )


def test_a_demo_that_finds_its_port_taken_does_not_say_that_it_goes_on(
    tmp_path: Path, taken: int
) -> None:
    ran = call(
        *("demo", "--state-dir", str(tmp_path / "demo")),
        environment={"BOT_SANDBOX__PORT": str(taken)},
    )

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(f"E-NET-003 port {taken} ")
    assert "goes on" not in ran.err
    assert not (tmp_path / "demo").exists()


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """A state directory with a journal and a token, as a demo leaves it."""
    (tmp_path / "journal.db").write_text("journal")
    keep_token(tmp_path, Secret("a-token"), NOW + timedelta(hours=1))
    return tmp_path


def write_ledger(state_dir: Path, *lines: dict[str, object]) -> None:
    (state_dir / LEDGER).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_demo_that_was_over_is_kept_once_and_its_token_is_not(state_dir: Path) -> None:
    write_ledger(state_dir, {"kind": "start", "seed": 7}, {"kind": "finished"})

    is_resumed = make_room(state_dir, seed=7)

    assert not is_resumed
    assert sorted(path.name for path in state_dir.iterdir()) == ["journal.1.db", "sandbox.1.jsonl"]


def test_a_second_demo_touches_nothing_while_the_first_is_starting(state_dir: Path) -> None:
    with alone(state_dir), pytest.raises(NotAlone), alone(state_dir):
        raise AssertionError("two demos of one directory")

    with alone(state_dir):
        assert (state_dir / "journal.db").read_text() == "journal"


def test_a_demo_of_another_seed_begins_without_the_token(state_dir: Path) -> None:
    write_ledger(state_dir, {"kind": "start", "seed": 8})

    is_resumed = make_room(state_dir, seed=7)

    assert not is_resumed
    assert kept_token(state_dir, NOW) is None


def test_a_demo_that_was_cut_off_goes_on_with_its_token(state_dir: Path) -> None:
    write_ledger(state_dir, {"kind": "start", "seed": 7}, {"kind": "otp_request"})

    is_resumed = make_room(state_dir, seed=7)

    assert is_resumed
    assert kept_token(state_dir, NOW) is not None
    assert (state_dir / "journal.db").read_text() == "journal"


def test_a_demo_whose_start_failed_is_not_gone_on_with(state_dir: Path) -> None:
    write_ledger(state_dir, {"kind": "start", "seed": 7})

    assert not make_room(state_dir, seed=7)
    assert not (state_dir / LEDGER).exists()
