"""Longer texts of the command line."""

from typing import Final

EXAMPLES: Final = """\
vnbot trades on Vietnam's exchanges through a broker's open API. Nothing is running.

  bot demo                      an hour of trading in a minute; nothing leaves this machine
  bot orders                    what was ordered, and how it ended
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

BENEATH: Final = "  because of {cause}"
LOOKED_IN: Final = "  looked in the {what} {path}"
"""What `-v` adds to an error."""

NOT_LET_GO: Final = (
    "ended without waiting for a disk or database that hangs and still holds its files"
)
NO_CHANNELS: Final = (
    "there is no channel for notices, so nobody is notified. Put one name and address per line "
    "into notify.yaml beside bot.yaml (mode 0600): docs/notices.md"
)
NO_CODE_AS_ARGUMENT: Final = (
    "never give a code or token as an argument: it would stay in the shell's history and show up "
    "in the process list. "
)
"""Why `bot otp 123456` is refused."""
TYPE_CODE: Final = "Type it at the prompt of: bot otp   or pipe it in: … | bot otp submit -"
PIPE_CODE: Final = "Leave out --otp to be asked, or pipe the code in: … | bot conformance --otp -"

URL_HOLDS_TOO_MUCH: Final = (
    "a password belongs neither in a file nor on a command line. Leave it out of the address and "
    "put it into ~/.pgpass (mode 0600), or put the whole address into BOT_JOURNAL__URL"
)
"""Why `bot init --db` refuses an address with a password."""

NO_BOT: Final = "no bot is running on {state_dir}. Start one: bot run (or bot demo)"
NO_BOT_HALTED: Final = (
    "no bot is running on {state_dir}, and there is a HALT file: the next start will be HALTED. "
    'Start it (bot run); when trading may continue: bot resume --reason "…"'
)
STATE_HIDDEN: Final = (
    "its state_dir is {state_dir}, from the {origin}. That hides {named}, which {config} names: if "
    "that one is meant, leave the other out; a service does so after: bot service install"
)
RUNS_BESIDE: Final = (
    "a bot of this configuration is already running on {other}, and this one, on {state_dir}, "
    "would send its own orders beside it, to the same account. First: bot stop --state-dir "
    "{other}. Two bots need two configurations"
)
NOT_HERE: Final = (
    "no bot is running on {state_dir}, but one of this configuration is running on {other}: it was "
    "started with that state_dir. If you mean it, repeat the command with --state-dir {other}"
)
HALT_THERE: Final = (
    "no bot is running on {state_dir}, but one of this configuration is running on {other}, so "
    "that one is halted"
)
HALT_THERE_TOO: Final = "and one on {other}. Halt that one too: bot halt --yes --state-dir {other}"
HALT_HERE_TOO: Final = (
    "the HALT file on {state_dir} stays: the next start there will be HALTED. If you do not want "
    "that, remove it"
)
HALT_OTHER: Final = (
    "No bot is running on {state_dir}, but one of this configuration is running on {other}. Halt "
    "that one: cancel all open orders and send no new ones?"
)

SILENT: Final = "it is busy or hanging"
PROCESS_STATES: Final = {
    "T": "it is stopped; to continue it: kill -CONT {process}",
    "t": "a debugger has stopped it",
    "D": "it is waiting for a disk",
    "Z": "it is dead, but its parent has not noticed",
}
"""What the letter of a process's state means to whoever is waiting for it."""
HALT_LATER: Final = (
    "no bot is running on {state_dir}. A HALT file is in place now: the next start will be HALTED, "
    "cancel what it finds open and sell nothing. Until then, open orders stay open at the broker: "
    "start the bot (bot run), or cancel them in the broker's app"
)
HALT_ENDED: Final = "the bot has ended before it was done:"
HALT_KEPT: Final = (
    "{message}. A HALT file is in place now: if this bot takes over, it will be HALTED. If you do "
    "not want that, remove {state_dir}/HALT"
)
HALT_UNSEEN: Final = (
    "But a HALT file is in place now: a bot running there will halt and cancel what is open; if "
    "none is running, the next start will. Once that is fixed, see what happened: bot status"
)
HALT_NOT: Final = (
    "NOTHING WAS HALTED: a bot running there goes on trading. Name its state directory: bot halt "
    "--yes --state-dir DIR; or halt its process, which needs no file: kill -USR1 PID (pgrep -af "
    "'bot run')"
)
HALT_LOST: Final = (
    "SIGUSR1 came, but the start ended before it could be kept: no HALT file is in place, and the "
    "next start will trade. To have that one HALTED: bot halt --yes"
)
HALT_DECLINED: Final = (
    "NOTHING WAS HALTED: a bot running there goes on trading. To halt without a question: bot halt "
    "--yes"
)
HALT_UNNAMED: Final = (
    "No bot answers on {state_dir}. Put a HALT file there all the same, so that a bot which runs "
    "or starts there sends no new orders and cancels the open ones?"
)
FLATTEN_UNKNOWN: Final = (
    "the bot is HALTED but sells nothing: it is still starting and does not know yet what its "
    "strategies hold. Once bot status shows the positions: bot halt --flatten"
)
NO_LIMITS_YET: Final = (
    "the bot is still starting and has no limits yet; ask again when it runs: bot status "
    "--wait RUNNING"
)
HALT_OPEN: Final = "open, according to the journal: {order}"
LEFT_OPEN: Final = (
    "while the bot is down nothing expires or cancels them: start it (bot run), or cancel them in "
    "the broker's app; what is left ends with its trading day"
)
GOES_ON: Final = (
    "another bot waits for this journal (bot run --standby), or has it by now: it takes over what "
    "is open, and trades. Ask that one, and stop or halt it too: bot status --state-dir …"
)
HAS_ENDED: Final = "began {began}, ended {ended}: {why}"
HAS_NO_END: Final = (
    "began {began}, and has no end in the journal: it was killed, or an error ended it (bot logs). "
    "The next start asks the broker what has become of its orders"
)
OPENING: Final = (
    "it has taken its journal and checks it; it takes no commands yet, and sends nothing"
)
IS_ANOTHERS: Final = (
    "began {began}, and another bot is at it: {writer} writes this journal, and trades. Its own "
    "status shows its orders; this state directory is that of a bot which waits or has waited"
)
HALT_STANDBY: Final = (
    "another bot may be waiting for this journal (bot run --standby) and does not see this HALT "
    "file. Halt that one too: bot halt --state-dir …"
)
HALT_NONE_OPEN: Final = "according to the journal, none of the bot's orders is open or unknown"
HALT_HANGS: Final = (
    "the bot on {state_dir} has not answered for {seconds} s. The HALT file is in place, so no new "
    "order goes out should it wake up. Its open orders are NOT cancelled: nothing can be sent "
    "without the journal, which it holds as long as it lives. Cancel them in the broker's app, or "
    "kill the process (kill -9; a service's watchdog does that) and start it again: it will be "
    "HALTED, cancel the rest and sell nothing"
)

USED_JOURNAL: Final = (
    "{journal} holds an earlier run, but a new demo needs an empty journal. "
    "Name another database with --db, or empty this one"
)
TAKEN: Final = "{do} accepted; the bot stays {state} until that cause clears"
"""When another cause still keeps the bot in its state."""
SYSTEM: Final = "Check permissions and free space, or choose another directory: --state-dir DIR"
BUG: Final = "this is a bug in vnbot, not a mistake of yours: {error}"
BUG_REPORT: Final = "the report is in {path}; it contains no secrets"

NO_JOURNAL_ANY_MORE: Final = (
    "the journal is missing, although a bot has run here (heads of {at}): put it back (bot docs "
    "journal). What is used of these limits is not known without it"
)
SUMMARY_NEXT: Final = (
    "bot orders · bot order last --timeline · bot strategy new mine · bot init ~/mybot"
)

DEMO_JOURNAL: Final = "(this is the demo's journal, {journal}; use -c to read another)"
DEMO_RUN: Final = (
    "no bot.yaml here: this is the demo, with the demo's strategies. -c FILE runs yours"
)
DEMO_BOT: Final = "(this is the running demo; use -c for another bot)"
WHICH_BOT: Final = (
    "which bot? No configuration was found and no demo is running. Name it: {command} -c FILE"
)
NOT_THE_DEMO: Final = (
    "no bot is running on {state_dir}, the state directory of {config}, so nothing was done. "
    "The demo is running; if you meant that, repeat the command with -c {demo}"
)
"""One's own bot is never mistaken for the demo, nor the demo for it."""
OTHER_PORT: Final = (
    "(port {taken} is in use: the sandbox broker listens on 127.0.0.1:{free}; sandbox.port sets it)"
)

LIVE_KEY: Final = (
    "this is real money (a live key, or mode: live). Without --read-only, one order is placed (one "
    "lot at the day's floor), changed and cancelled, and others that must be rejected are tried. "
    "Use --read-only, or --real-orders if you mean it"
)
"""Why `bot conformance` refuses a live key, and a live bot."""

BOT_TRADES_THERE: Final = (
    "a bot runs on this configuration: the checks place and cancel orders on its account and could "
    "take an order of the bot's for their own, and they use two of the day's five codes. Check "
    "with --read-only, or stop the bot first: bot stop"
)
"""Why `bot conformance` places no order beside a bot."""

CHANGED: Final = "{files} changed since the start: restart the bot to pick up the change"
"""About a running strategy."""
RAISED: Final = "real money, and limits that allow more than in the last run:"
TYPE_RAISED: Final = "Type the new value of {key}, or Ctrl-C to start nothing"
NOT_RAISED_SO: Final = (
    "not the same: {where} says {new}. If that is the mistake, Ctrl-C and correct it"
)
UNREAD: Final = (
    "nobody read this output for a while (Ctrl-S, marked text, a pager), and lines were left out "
    "({count:,}). The bot went on; see bot status, bot orders, bot decisions"
)
