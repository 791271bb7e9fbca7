"""`python -m bot` is `bot`: the folder that it is called in is no place to import from."""

import sys
from pathlib import Path

if not sys.flags.safe_path and Path(sys.path[0]) == Path.cwd():
    del sys.path[0]

from bot.cli.main import main

main()
