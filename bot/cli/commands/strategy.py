"""`bot strategy list|show|new|check|schema|enable|disable`: the configured strategies and those
available.
"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bot.cli import messages
from bot.cli.command import Invocation, define_command, define_group
from bot.cli.operating import OFF, act
from bot.cli.options import reason_option
from bot.cli.show import (
    print_json,
    print_lines,
    print_result,
    print_table,
    say,
    write_json,
    write_line,
)
from bot.cli.strategy_templates import (
    NAME,
    SCHEMA_FILE,
    TAKEN,
    TEMPLATES,
    class_name,
    class_text,
    strategy_text,
    write_new,
)
from bot.cli.target import Fields, load
from bot.config.problems import OperatorMistake, Problem, shown_path
from bot.config.shipped import DEMO, shipped
from bot.domain.entry import ONLY_SELLS, RunState

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded

Plain = dict[str, object]
_ANSWER_S: Final = 2.0
"""Do not wait longer for a running bot: the list does not need it."""


@define_group("strategy", example="bot strategy check strategies/mine.yaml")
def command() -> None:
    """List, show, create and check strategies."""


@define_command("list", group=command, example="bot strategy list --json")
@click.pass_obj
def list_(invocation: Invocation) -> None:
    """List the configured strategies, and what `use` can name. Broken ones say why."""
    from bot.config.strategies.plugins import list_plugins
    from bot.config.strategies.source_files import changed_files
    from bot.runtime.control.socket import NoBotRunning, ask

    loaded = load(invocation)
    files, plugins = _file_rows(loaded), list_plugins(loaded.base_dir)
    try:
        reply = Fields(ask(loaded.state_dir, {"do": "status"}, timeout_s=_ANSWER_S))
    except (NoBotRunning, OSError):
        changed, off = None, list[str]()
    else:
        running = reply.inner("status").each("strategies")
        edited = {row.text("name"): changed_files(row.inner("files")) for row in running}
        changed = {name: names for name, names in edited.items() if names}
        off = [_off_words(row) for row in running if row.text("state") in OFF]
    if invocation.json:
        usable = [{"name": p.name, "where": p.where, "error": p.error} for p in plugins]
        print_json({"strategies": files, "usable": usable, "changed_since_start": changed})
        return

    def cell(value: object) -> str | None:
        if isinstance(value, list):
            return " ".join(map(str, value))
        return None if value is None else str(value)

    heads = ("STRATEGY", "USE", "SYMBOLS", "MODE", "WAKE", "FILE")
    cells = [tuple(cell(row[head.lower()]) for head in heads) for row in files]
    print_table(invocation, heads, cells)
    print_lines(off)
    for name, names in (changed or {}).items():
        write_line(f"{name}: {messages.CHANGED.format(files=', '.join(names))}")
    write_line("")
    rows = [(p.name, "broken" if p.error else "ok", p.where) for p in plugins]
    print_table(invocation, ("USE", "STATE", "WHERE"), rows)
    reasons = [str(row["error"]) for row in files if row["error"]]
    for reason in [*reasons, *(f"{p.where}: {p.error}" for p in plugins if p.error)]:
        print_lines(["", *reason.splitlines()])


def _off_words(row: Fields) -> str:
    """Say that a strategy of the running bot is off, and how to switch it on."""
    name, why = row.text("name"), row.text("reason")
    now_is = f"{name} is {row.text('state')}{f': {why}' if why else ''}"
    if why.startswith(ONLY_SELLS):  # its own loss did that, and the next day ends it
        return now_is
    return f"{now_is}. To let it trade: bot strategy enable {name}"


def _file_rows(loaded: "Loaded") -> list[Plain]:
    from bot.cli.checks import wake_words
    from bot.config.strategies.load import check_file, market_of, strategy_files

    market, rows = market_of(), list[Plain]()
    for file in strategy_files(loaded):
        row: Plain = dict.fromkeys(("strategy", "use", "symbols", "mode", "wake"))
        row |= {"file": shown_path(file), "error": None}
        try:
            plan = check_file(file, base_dir=loaded.base_dir, market=market).plan
        except OperatorMistake as mistake:
            row |= {"strategy": f"broken: {file.stem}", "error": str(mistake.problems[0])}
        else:
            row |= {"strategy": plan.name, "use": plan.use, "symbols": list(plan.symbols)}
            row |= {"mode": plan.mode.value, "wake": wake_words(plan)}
        rows.append(row)
    return rows


@define_command("show", group=command, example="bot strategy show sma-fpt")
@click.argument("name")
@click.pass_obj
def show(invocation: Invocation, name: str) -> None:
    """Show a configured strategy, or the parameters of one that `use` can name."""
    from bot.cli.checks import plan_fields
    from bot.config.strategies.load import market_of, sort_out, strategy_files
    from bot.config.strategies.plugin_check import parameters_of
    from bot.config.strategies.plugins import find_strategy

    loaded = load(invocation)
    files, market = strategy_files(loaded), market_of(loaded=loaded)
    checked, broken = sort_out(files, base_dir=loaded.base_dir, market=market)
    plans = {each.plan.name: each.plan for each in checked}
    if wrong := [problem for each in broken if each.name == name for problem in each.problems]:
        raise OperatorMistake(wrong)
    if name in plans:
        fields = plan_fields(plans[name])
    else:
        try:
            factory = find_strategy(name, loaded.base_dir)
        except OperatorMistake as mistake:
            if any(problem.code != "E-CFG-031" for problem in mistake.problems):
                raise  # there is one, and it is broken
            message = f"no strategy is configured as {name!r}; configured: {', '.join(plans)}"
            raise OperatorMistake.of("E-CFG-031", message) from mistake
        params = {
            key: {"type": parameter.kind.__name__, "default": parameter.default}
            for key, parameter in parameters_of(factory).items()
        }
        fields = {"use": name, "class": factory.__name__, "params": params}
    lines = (line for key, value in fields.items() for line in _lines(key, value))
    print_result(invocation, fields, lines)


def _lines(key: str, value: object) -> list[str]:
    if isinstance(value, dict) and value:
        return [f"{key}:", *(f"  {line}" for k, v in value.items() for line in _lines(k, v))]
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:,}"
    return [f"{key}: {'-' if value in (None, '', {}) else value}"]


@define_command("new", group=command, example="bot strategy new mine -t depth")
@click.argument("name")
@click.option(
    "-t", "--template", type=click.Choice(TEMPLATES), default="sma", help="What to start from."
)
@click.pass_obj
def new(invocation: Invocation, name: str, template: str) -> None:
    """Write a strategy file of that name; with `-t blank`, its Python too."""
    from bot.config.strategies.plugins import place_of_name, project_of

    if not NAME.fullmatch(name):
        raise click.UsageError(f"a name is up to 40 of a-z, 0-9, _ and -; found {name!r}")
    if name in TAKEN:
        raise click.UsageError(f"{name!r} means something else in a file: choose another name")
    loaded = load(invocation)
    folder, project, option = Path("strategies"), Path(), ""
    if loaded.path.absolute() != shipped(DEMO).absolute():  # nobody writes to the shipped demo
        pattern = loaded.strategy_patterns[0]
        folder = next(parent for parent in pattern.parents if "*" not in str(parent))
        project = project_of(loaded.base_dir)
        option = f" -c {shlex.quote(shown_path(loaded.path))}"
    schema = f"../{SCHEMA_FILE}" if (folder.parent / SCHEMA_FILE).is_file() else ""
    files = {folder / f"{name}.yaml": strategy_text(template, name, schema)}
    if template == "blank":
        use = class_name(name)[1]
        code = project / "strategies" / f"{use}.py"
        if (other := place_of_name(use, project.absolute())) and other != shown_path(code):
            text = (
                f"{use} is a strategy already, {other}, and files may use it: choose another name"
            )
            raise OperatorMistake((Problem("E-CFG-046", text, shown_path(code)),))
        files[code] = class_text(name)
    write_new(files)
    written = [shown_path(path) for path in files]
    print_result(invocation, {"written": written}, (f"wrote {path}" for path in written))
    if not invocation.json:
        say(invocation, f"next: bot strategy check {shlex.quote(written[0])}{option}")


@define_command(
    "enable", group=command, example='bot strategy enable sma-fpt --reason "looked"', changes=True
)
@click.argument("name")
@reason_option
@click.pass_obj
def enable(invocation: Invocation, name: str, reason: str) -> None:
    """Let a strategy trade again that was disabled or paused, by you or by a limit."""
    on = {"on", "warming"}
    act(invocation, "resume", RunState.RUNNING, on, strategy=name, reason=reason)


@define_command("disable", group=command, example="bot strategy disable sma-fpt", changes=True)
@click.argument("name")
@reason_option
@click.pass_obj
def disable(invocation: Invocation, name: str, reason: str) -> None:
    """Stop a running strategy from ordering until you enable it; its open orders are cancelled.

    Other strategies continue, its positions stay, and a restart does not enable it.
    """
    act(invocation, "halt", RunState.HALTED, {"disabled"}, strategy=name, reason=reason)


@define_command("check", group=command, example="bot strategy check strategies/mine.yaml")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.pass_obj
def check(invocation: Invocation, files: tuple[Path, ...]) -> int:
    """Check strategy files, and print how much of the request quota each wake-up uses.

    Named files need no other configuration. Without FILE: the configured ones. Needs no network.
    """
    from bot.cli.checks import plan_fields, rehearsed, report, report_good, wake_words
    from bot.config.settings.model import Settings
    from bot.config.strategies.load import check_files, market_of, strategy_files

    try:
        loaded = None if files and invocation.config is None else load(invocation)
        paths = files or (strategy_files(loaded) if loaded else ())
        base_dir = loaded.base_dir if loaded else None
        checked = rehearsed(check_files(paths, base_dir=base_dir, market=market_of()))
    except OperatorMistake as mistake:
        return report(invocation, mistake)
    plans = [each.plan for each in checked]
    settings = loaded.settings if loaded else Settings()
    quota, quote_age_max_s = settings.broker.requests_per_minute, settings.risk.max_quote_age_s
    lines = [
        f"ok {plan.source}: {plan.name}, {plan.use} on {', '.join(plan.symbols)}, "
        f"woken by {wake_words(plan)}"
        for plan in plans
    ]
    fields: Plain = {"strategies": [plan_fields(plan) for plan in plans]}
    return report_good(
        invocation, checked, quota, lines, quote_age_max_s=quote_age_max_s, after=fields
    )


@define_command("schema", group=command, example="bot strategy schema -o .bot/strategy.schema.json")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.pass_obj
def schema(invocation: Invocation, output: Path | None) -> None:
    """Print the JSON schema of a strategy file, for editors; with `-o`, write it to a file."""
    from bot.config.strategies.model import schema_text

    if output is None:
        write_json(schema_text().rstrip())
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(schema_text(), "utf-8")
    except OSError as error:
        message = f"cannot write {output}: {(error.strerror or str(error)).lower()}"
        raise OperatorMistake.of("E-CFG-001", message) from error
    say(invocation, f"wrote {output} ({len(schema_text())} bytes)")
