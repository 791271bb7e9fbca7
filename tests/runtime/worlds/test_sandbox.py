"""The port of the embedded sandbox, where another program has it already."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.runtime.worlds.sandbox import settle_port
from tests.cli.stage import call

USUAL = 8_790


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_where_the_usual_port_is_taken_and_nobody_chose_it_a_free_one_is(tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text("mode: sandbox\n")
    loaded = load_settings(tmp_path / "bot.yaml", environment={})

    with socket.socket() as other:
        with suppress(OSError):  # it may be taken already
            other.bind(("127.0.0.1", USUAL))
            other.listen()
        settled = settle_port(loaded)

    assert loaded.settings.sandbox.port == USUAL
    assert settled.settings.sandbox.port not in {0, USUAL}
    assert settled.sha256 == loaded.sha256


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
