"""The files that `init` and `strategy new` write.

The shipped examples are the templates, so the output is covered by the same tests.
"""

import os
import re
from pathlib import Path
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake, Problem, shown_path
from bot.config.shipped import shipped

TEMPLATES: Final = ("sma", "depth", "blank")
NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
TAKEN: Final = frozenset({"account", "false", "none", "null", "true"})
"""Names that a strategy file, YAML or Python understands as something else."""
SCHEMA_FILE: Final = ".bot/strategy.schema.json"
IGNORED: Final = "# the bot's own data, and secrets\nvar/\nsecrets.yaml\n*.db\n*.db-*\n"
_SHIPPED: Final = {"sma": "sma-fpt", "depth": "depth-hpg", "blank": "sma-fpt"}

_CLASS: Final = '''"""{title}: say here what it waits for, and why that should make money."""

from bot import Strategy


class {title}(Strategy):
    length: int = 20

    def on_bar(self, bar):
        average = bar.sma(self.length)
        self.skip(f"close {{bar.close:,}}, SMA{{self.length}} {{average:,.0f}}: no rule yet")
'''


def strategy_text(template: str, name: str, schema: str = "") -> str:
    """Return a strategy file of that name; its editor line points to the path `schema`."""
    text = shipped(f"config/strategies/{_SHIPPED[template]}.yaml").read_text("utf-8")
    text = text[text.index("name:") :]
    text = re.sub(r"^name: \S+", f"name: {name}", text)
    if template == "blank":
        text = re.sub(r"^use: .*$", f"use: {class_name(name)[1]}", text, flags=re.MULTILINE)
        text = re.sub(r"^params: \{.*\}", "params: {length: 20}", text, flags=re.MULTILINE)
    return f"# yaml-language-server: $schema={schema}\n{text}" if schema else text


def class_text(name: str) -> str:
    return _CLASS.format(title=class_name(name)[0])


def class_name(name: str) -> tuple[str, str]:
    """Return class and file name: `My2nd` and `my2nd` for `my-2nd`; they start with a letter."""
    words = [word for word in re.split(r"[-_]+", name) if word]
    if words[0][0].isdigit():
        words = ["strategy", *words]
    return "".join(word.capitalize() for word in words), "_".join(words)


def config_text(journal_url: str | None = None) -> str:
    """Return the shipped bot.yaml for a separate folder: journal and state in `var/`."""
    text = shipped("config/bot.yaml").read_text("utf-8").replace("../var", "var")
    if journal_url is None:
        return text
    return re.sub(
        r"^# journal: {url: .*$", f'journal: {{url: "{journal_url}"}}', text, flags=re.MULTILINE
    )


def write_new(files: dict[Path, str]) -> None:
    """Write new files, all or none. Raises OperatorMistake, also if one exists."""

    def opener(name: str, flags: int) -> int:
        # others must not be able to write to what runs, whatever the umask
        return os.open(name, flags, 0o644)

    if existing := [path for path in files if os.path.lexists(path)]:
        text = "already exists and was not overwritten: choose another name or folder"
        raise OperatorMistake(Problem("E-CFG-046", text, shown_path(path)) for path in existing)
    written = list[Path]()
    for path, text in files.items():
        try:
            missing = [folder for folder in path.parents if not folder.exists()]
            for folder in reversed(missing):
                folder.mkdir(0o700, exist_ok=True)  # the key will be here, so others may not look
            with open(path, "x", encoding="utf-8", opener=opener) as file:
                written.append(path)
                file.write(text)
        except OSError as error:
            for each in written:
                each.unlink()
            reason = (error.strerror or str(error)).lower()
            problem = Problem("E-CFG-001", f"cannot write this file: {reason}", shown_path(path))
            raise OperatorMistake((problem,), ExitCode.CONFIG) from error
