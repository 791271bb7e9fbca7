"""What a check shows of strategies that run on a made-up bar."""

from pathlib import Path

from bot.cli.checks import rehearsed
from bot.config.strategies.load import check_file
from tests.config.test_plugin_check import HEAD, MARKET, project


def test_a_hook_that_never_returns_is_interrupted_and_told(tmp_path: Path) -> None:
    own = "    def on_bar(self, bar):\n        while True:\n            pass\n"

    checked = check_file(project(tmp_path, HEAD + own), market=MARKET)
    [warning] = rehearsed([checked], hook_s_max=0.0)[0].warnings

    assert (warning.code, warning.line) == ("E-CFG-032", 2)
    assert "mine fails on its first bar: did not return for 0 s and was" in warning.message
