"""Longer texts of the command line."""

from typing import Final

EXAMPLES: Final = """\
vnbot trades on Vietnam's exchanges through a broker's open API. Nothing is running.

  bot demo                      an hour of trading in a minute, nothing leaves this machine
  bot orders                    what was ordered, and what came of it
  bot order last --timeline     everything that happened to the last order
  bot init ~/mybot              a configuration of your own
  bot strategy list             available strategies
  bot run -c ~/mybot/bot.yaml   run it in the foreground

All commands: bot -h
"""

EXIT_CODES: Final = """\
 0 done, or stopped cleanly           6 broker or network unreachable
 1 unexpected error (a bug)           7 database unreachable or needs migration
 2 wrong command line                 8 refused by a risk limit, or halted
 3 config or strategy file wrong      9 the broker or exchange rejected the order
 4 secret missing or refused         10 no bot running, or one already running
 5 2FA needed                        11 timed out    12 journal, order or API differs
"""

NOT_LET_GO: Final = (
    "ended without waiting for what does not let go of its files: a disk or database that hangs"
)
NO_CHANNELS: Final = (
    "nobody is told: there is no channel for notices. Write a name and an address a line into "
    "notify.yaml beside bot.yaml (mode 0600): docs/notices.md"
)
NO_CODE_AS_ARGUMENT: Final = (
    "a code or token is never an argument: it would stay in the shell's history and show in the "
    "list of processes. "
)
"""Why `bot otp 123456` is refused."""
TYPE_CODE: Final = "Type it at the prompt of: bot otp   or pipe it: … | bot otp submit -"
PIPE_CODE: Final = "Leave --otp out to be asked, or pipe the code: … | bot conformance --otp -"

URL_HOLDS_TOO_MUCH: Final = (
    "a password belongs neither in a file nor on a command line. Leave it out of the address, "
    "and put it into ~/.pgpass (mode 0600), or the whole address into BOT_JOURNAL__URL"
)
"""Why `bot init --db` refuses an address with a password."""

NO_BOT: Final = "no bot is running on {state_dir}. Start one: bot run (or bot demo)"
NO_BOT_HALTED: Final = (
    "no bot is running on {state_dir}, and the file HALT is there: its next start begins HALTED. "
    'Start it (bot run); when it is right to trade again: bot resume --reason "…"'
)

SILENT: Final = "it is busy, or hangs"
PROCESS_STATES: Final = {
    "T": "it is stopped, and goes on with: kill -CONT {process}",
    "t": "a debugger holds it",
    "D": "it waits for a disk",
    "Z": "it is dead, and its parent has not noticed",
}
"""What the letter of a process's state means for who waits for it."""
HALT_LATER: Final = (
    "no bot is running on {state_dir}. The file HALT is there now: its next start begins HALTED, "
    "cancels what it finds open and sells nothing. What is open at the broker works on until then: "
    "start the bot (bot run), or cancel in the broker's own app"
)
HALT_KEPT: Final = (
    "{message}. The file HALT is there now: should this one take over, it begins HALTED. Where that"
    " is not meant, remove {state_dir}/HALT"
)
HALT_UNSEEN: Final = (
    "But the file HALT is there now: a bot that runs there halts by it and cancels what is open, "
    "and if none runs, the next start does so. What came of it: bot status, when that is put right"
)
FLATTEN_UNKNOWN: Final = (
    "the bot is HALTED, and sells nothing: it is starting, and what its strategies hold is not "
    "known yet. When bot status shows the positions: bot halt --flatten"
)
HALT_OPEN: Final = "open, by the journal: {order}"
HALT_STANDBY: Final = (
    "another bot may wait for this journal (bot run --standby): it does not see this file HALT. "
    "Halt it there, too: bot halt --state-dir …"
)
HALT_NONE_OPEN: Final = "by the journal no own order is open or unknown"
HALT_HANGS: Final = (
    "the bot on {state_dir} has not answered for {seconds} s. The file HALT is there: no new order "
    "leaves it, from the moment it moves again. Its open orders are NOT cancelled: the journal is "
    "its own while it lives, and nothing is sent without it. Cancel them in the broker's own app, "
    "or end the process (kill -9; a service's watchdog does) and start it again: it begins HALTED, "
    "cancels the rest and sells nothing"
)

USED_JOURNAL: Final = (
    "{journal} holds an earlier run, and a new demo needs an empty journal. "
    "Give another database with --db, or empty this one"
)
TAKEN: Final = "{do} accepted; the bot stays {state} until that cause clears"
"""Where another cause still keeps the bot in its state."""
SYSTEM: Final = "Check permissions and free space, or choose another directory: --state-dir DIR"
BUG: Final = "this is a bug of ours, not a mistake of yours: {error}"
BUG_REPORT: Final = "the report is in {path}; it holds no secrets"

SUMMARY_NEXT: Final = (
    "bot orders · bot order last --timeline · bot strategy new mine · bot init ~/mybot"
)

DEMO_JOURNAL: Final = "(this is the demo's journal, {journal}; use -c to read another)"
DEMO_BOT: Final = "(this is the running demo; use -c for another bot)"
WHICH_BOT: Final = (
    "which bot? No configuration was found and no demo is running. Name it: {command} -c FILE"
)
NOT_THE_DEMO: Final = (
    "no bot is running on {state_dir}, which {config} names, and nothing was done. "
    "The demo is running; if you mean that one, repeat the command with -c {demo}"
)
"""A bot of one's own is never taken for the demo, nor the demo for it."""
OTHER_PORT: Final = (
    "(port {taken} is taken: the sandbox broker listens on 127.0.0.1:{free}; sandbox.port sets one)"
)

LIVE_KEY: Final = (
    "this key is for real money. Without --read-only an order is placed (one lot at the day's "
    "floor), changed and cancelled, and others are tried that must be rejected. Give --read-only, "
    "or --real-orders if you mean it"
)
"""Why `bot conformance` refuses a live key."""

CHANGED: Final = "{files} changed since the start: restart the bot to use the change"
"""Of a strategy that runs."""
