"""`bot plugin list`: strategies in Python, what each has, who uses it, and why one is broken."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bot.cli.command import Invocation, define_command, define_group
from bot.cli.show import print_json, print_lines, print_table
from bot.cli.target import load
from bot.config.problems import OperatorMistake

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.config.strategies.plugins import PluginRow


@define_group("plugin", example="bot plugin list")
def command() -> None:
    """Python strategies, which a strategy file names under `use`."""


@define_command("list", group=command, example="bot plugin list --json")
@click.pass_obj
def list_(invocation: Invocation) -> None:
    """List what `use` can name: its hooks and parameters, and the strategies that use it.

    A broken one says where and why. All of them are loaded for this, but none is run.
    """
    from bot.config.strategies.plugin_check import hooks_of, parameters_of
    from bot.config.strategies.plugins import list_plugins

    loaded = load(invocation)
    plugins = list_plugins(loaded.base_dir)
    fields, cells = list[dict[str, object]](), list[tuple[str | None, ...]]()
    for plugin, users in zip(plugins, _users(loaded, plugins), strict=True):
        hooks = hooks_of(plugin.factory) if plugin.factory else []
        known = parameters_of(plugin.factory) if plugin.factory else {}
        params = {
            name: {"type": each.kind.__name__, "default": each.default}
            for name, each in known.items()
        }
        of_plugin: dict[str, object] = {"name": plugin.name, "where": plugin.where}
        of_plugin |= {"error": plugin.error, "hooks": hooks, "params": params, "used_by": users}
        fields.append(of_plugin)
        hook_words = "broken" if plugin.error else " ".join(hooks)
        words = " ".join(
            f"{name}={'?' if each.default is None else each.default}"
            for name, each in known.items()
        )
        cells.append((plugin.name, hook_words, words, " ".join(users) or None, plugin.where))
    if invocation.json:
        print_json({"plugins": fields})
        return
    print_table(invocation, ("PLUG-IN", "HOOKS", "PARAMS", "USED BY", "WHERE"), cells)
    for each in plugins:
        if each.error:
            print_lines(["", f"{each.where}: {each.error}"])


def _users(loaded: "Loaded", plugins: Sequence["PluginRow"]) -> list[list[str]]:
    """Return the strategies that use each plug-in; for a broken one, by the text under `use`."""
    from bot.config.strategies.load import market_of, sort_out, strategy_files

    try:
        files, market = strategy_files(loaded), market_of(loaded=loaded)
        checked, broken = sort_out(files, base_dir=loaded.base_dir, market=market)
    except OperatorMistake:  # no strategy file yet
        return [[] for _ in plugins]
    users = list[list[str]]()
    for plugin in plugins:
        own = plugin.factory and (plugin.factory.__module__, plugin.factory.__name__)
        sound = [  # by path a module has one name, however often it is loaded
            each.plan.name
            for each in checked
            if own == (each.factory.__module__, each.factory.__name__)
        ]
        meant = [  # `sma_cross`, or `strategies/sma.py:SmaCross`
            each.name
            for each in broken
            if plugin.name in {each.use, Path(each.use.partition(":")[0]).stem}
        ]
        users.append(sound + meant)
    return users
