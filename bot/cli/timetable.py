"""The bot's timetable on the screen: what is due next, and which runs were missed."""

from datetime import timedelta
from typing import Final

from bot.cli.command import Invocation
from bot.cli.options import since_of
from bot.cli.rows import fields_of
from bot.cli.show import print_json, print_table, write_line
from bot.cli.target import Fields, ask_bot, open_journal, readable
from bot.cli.telling.wording import counted, day_and_clock_of, span_of

JOB_HEADS: Final = ("NEXT", "JOB", "EVERY", "LATE", "MISSED", "OVERLAPPING")
MISSED_HEADS: Final = ("TOLD", "JOB", "RUNS", "FROM", "TO", "THEN", "WHY")


def show_jobs(invocation: Invocation) -> None:
    """Print the timetable of the running bot, the next job first. Raises OperatorMistake."""
    reply = ask_bot(invocation, "jobs")
    found = sorted(reply.each("jobs"), key=lambda row: row.text("next") or "9")
    if invocation.json:
        print_json({"at": reply.text("at"), "jobs": found})
        return
    print_table(invocation, JOB_HEADS, [_job(row) for row in found], spare=("OVERLAPPING", "EVERY"))


def show_missed(invocation: Invocation, since: str | None) -> None:
    """Print what the timetable has missed or run late, by the journal. Raises OperatorMistake."""
    from bot.journal.runs import missed_runs
    from bot.runtime.journal_file import journal_errors

    with open_journal(invocation) as reader:
        begin = since_of(since, reader)
    loaded = readable(invocation)
    with journal_errors(loaded.origin_of("journal.url")):
        found = list(missed_runs(loaded.journal_url, begin))
    if invocation.json:
        print_json({"missed": [fields_of(row) for row in found]})
        return
    rows = [
        (
            *(day_and_clock_of(row.at), row.job, row.count, day_and_clock_of(row.first)),
            *(day_and_clock_of(row.last), row.then, row.why),
        )
        for row in found
    ]
    print_table(invocation, MISSED_HEADS, rows, spare=("TOLD", "TO"))
    missed = sum(row.count for row in found if row.is_missed)
    late = sum(row.count for row in found if not row.is_missed)
    write_line(f"{counted(missed, 'run')} missed{f', {late:,} late' if late else ''}")


def _job(row: Fields) -> tuple[str, ...]:
    """A row of `JOB_HEADS`."""
    due, period, late_max = row.instant("next"), row.number("every_s"), row.number("late_max_s")
    by_start = row.get("done_by_start") is True
    return (
        day_and_clock_of(due) if due else "never again",
        row.text("job"),
        span_of(timedelta(seconds=period)) if period else "",
        f"at most {span_of(timedelta(seconds=late_max))}" if late_max else "always run",
        f"{row.text('missed')}{', a start does it too' if by_start else ''}",
        row.text("overlapping"),
    )
