"""`bot secret set|list|test|rm`: the broker's key and its secret, which no command ever shows.

They are typed without echo or piped in, never arguments, which would stay in the shell's history
and show in the process list.
"""

import asyncio
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import Invocation, define_command, define_group
from bot.cli.show import (
    confirm,
    is_attended,
    print_result,
    print_table,
    say,
    show_mistake,
    typed_or_piped,
)
from bot.cli.target import load, load_without_secrets, which_bot
from bot.config.problems import ExitCode, OperatorMistake, shown_path

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.config.settings.secrets import SecretPlaces

KEYS: Final[Mapping[str, str]] = {"api-key": "api_key", "api-secret": "api_secret"}
"""Their names on the command line, and in a file."""
STDIN: Final = "-"
_USABLE: Final = re.compile(r"[!-~]{4,2048}")
"""What a header can carry; anything else is a typing error, or the wrong text pasted."""
_NEVER_AN_ARGUMENT: Final = (
    "never give a secret as an argument: it would stay in the shell's history and show up in the "
    "process list. Type it at the prompt of: bot secret set {name}   or pipe it in: … | bot secret "
    "set {name} -"
)
_FOR_ANOTHER: Final = (
    "what {file} holds was entered for {host}, and is removed: it is sent to no other host"
)

name_argument: Final = click.argument("name", type=click.Choice([*KEYS]), metavar="NAME")


@define_group("secret", example="bot secret set api-key")
def command() -> None:
    """The broker's API key and its secret. No command shows them."""


@define_command("set", group=command, changes=True, example="bot secret set api-key")
@name_argument
@click.argument("source", required=False, metavar="[-]")
@click.pass_obj
def set_(invocation: Invocation, name: str, source: str | None) -> None:
    """Store api-key or api-secret: asked for without echo, or read from stdin with '-'.

    It is written to a file that only you can read (mode 0600), with the host of broker.base_url;
    it is never sent to any other host.
    """
    if source not in {None, STDIN}:
        raise click.UsageError(_NEVER_AN_ARGUMENT.format(name=name))
    places = _places(load_without_secrets(invocation))
    if variable := places.variables().get(KEYS[name]):
        say(invocation, f"warning: {variable} in the environment takes precedence; unset it")
    typed = typed_or_piped(invocation, name, is_piped=source == STDIN)
    if not _USABLE.fullmatch(typed):
        wanted = "one word of letters, digits and punctuation, as the broker shows it"
        raise click.UsageError(f"that is not an {name}: wanted {wanted}; nothing was written")
    if other := places.kept_for_another():
        say(invocation, _FOR_ANOTHER.format(file=shown_path(places.file), host=other))
    places.put(KEYS[name], typed)
    missing = [each for each in KEYS if KEYS[each] not in places.kept()]
    following = f"bot secret set {missing[0]}" if missing else "bot secret test"
    host = f", for {places.host} alone" if places.host else ""
    line = f"{which_bot(invocation)}: {name} is in {shown_path(places.file)} (mode 0600){host}"
    fields = {"name": name, "file": str(places.file), "host": places.host or None}
    print_result(invocation, fields, [f"{line}. Next: {following}"])


@define_command("list", group=command, example="bot secret list")
@click.pass_obj
def list_(invocation: Invocation) -> None:
    """Show which secrets there are and where they come from, never what they are."""
    places = _places(load_without_secrets(invocation))
    credentials, kept, mistake = dict(places.credentials()), dict[str, str](), None
    try:
        kept = places.kept()
        places.find()
    except OperatorMistake as found:
        mistake = found
    rows = list[tuple[str, str, str]]()
    for name, key in KEYS.items():
        if variable := places.variables().get(key):
            rows.append((name, _state(os.environ[variable]), f"env {variable}"))
        elif key in credentials:
            rows.append((name, "set", f"systemd credential {credentials[key]}"))
        elif key in kept:
            rows.append((name, _state(kept[key]), shown_path(places.file)))
        else:
            state = "refused" if mistake and os.path.lexists(places.file) else "missing"
            rows.append((name, state, shown_path(places.file)))
    if invocation.json:
        found_rows = [dict(zip(("name", "state", "where"), row, strict=True)) for row in rows]
        print_result(invocation, {"secrets": found_rows}, [])
    else:
        print_table(invocation, ("NAME", "STATE", "WHERE"), rows)
    if mistake is not None:
        show_mistake(mistake)
    if mistake is not None or any(state != "set" for _, state, _ in rows):
        raise click.exceptions.Exit(ExitCode.SECRET)


@define_command("test", group=command, example="bot secret test")
@click.pass_obj
def test(invocation: Invocation) -> None:
    """Ask the broker, by signed reads, whether it accepts the key. Sends no order."""
    # Slow to import, and help pages do not need it.
    from bot.runtime.health.doctor_broker import check_key

    loaded = load(invocation)
    clock = asyncio.run(check_key(loaded))
    host = _places(loaded).host
    line = f"{which_bot(invocation)}: {host} accepts the key and its signature"
    if clock.fix:
        say(invocation, f"warning: this machine's clock: {clock.found}. Do: {clock.fix}")
    print_result(invocation, {"accepted": True, "host": host}, [line])


@define_command("rm", group=command, changes=True, example="bot secret rm api-key")
@name_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def rm(invocation: Invocation, name: str, yes: bool) -> None:
    """Remove api-key or api-secret from the file; a running bot keeps what it has read."""
    places = _places(load_without_secrets(invocation))
    file = shown_path(places.file)
    question = f"{which_bot(invocation)}: remove {name} from {file}?"
    if not yes and is_attended(invocation) and not confirm(question):
        raise click.Abort
    if not places.remove(KEYS[name]):
        text = (
            f"{file} has no {name}, so nothing was removed. To see what there is: bot secret list"
        )
        raise OperatorMistake.of("E-SEC-001", text, ExitCode.SECRET)
    line = f"{which_bot(invocation)}: {name} was removed from {file}"
    print_result(invocation, {"name": name, "file": str(places.file), "removed": True}, [line])


def _state(text: str) -> str:
    return "set" if text.strip() else "empty"


def _places(loaded: "Loaded") -> "SecretPlaces":
    return loaded.secret_places(os.environ)
