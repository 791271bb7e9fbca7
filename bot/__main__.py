"""`python -m bot` is `bot`."""

from bot.cli.main import main

main()
