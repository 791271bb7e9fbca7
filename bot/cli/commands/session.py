"""`bot session`: the day's phases, what may be done with a symbol, and the timetable."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import moment_from, since_of, since_option, watch_option
from bot.cli.rows import fields_of
from bot.cli.show import aligned, json_text, print_json, print_table, say, watch, width, write_line
from bot.cli.target import (
    Fields,
    ask_bot,
    find_bot,
    find_status,
    load,
    open_journal,
    readable_journal,
)
from bot.cli.telling.wording import counted, phase_of, span_of
from bot.clock import SystemClock
from bot.domain.calendar import day_words
from bot.domain.explanation import explain
from bot.domain.instrument import EXCHANGE_TZ, PHASE_WORDS, Exchange, Lot, Phase
from bot.domain.local_time import clock_of, day_and_clock_of
from bot.domain.order import type_word
from bot.domain.rule_data import RuleRow
from bot.domain.rulebook import Rulebook

LISTED: Final = (Exchange.HOSE, Exchange.HNX, Exchange.UPCOM)
HEADS: Final = ("EXCHANGE", "PHASE", "UNTIL", "IN", "NEXT", "TAKES")
RULE_HEADS: Final = ("RULE", "SINCE", "CONFIDENCE", "SOURCE", "SAYS")
WHY_HEADS: Final = ("WHAT", "CONFIDENCE", "SAYS", "RULE", "SINCE", "SOURCE")
JOB_HEADS: Final = ("NEXT", "JOB", "EVERY", "LATE", "MISSED", "OVERLAPPING")
MISSED_HEADS: Final = ("TOLD", "JOB", "RUNS", "FROM", "TO", "THEN", "WHY")
FIRST_HOUR: Final = 9
LAST_HOUR: Final = 15
LETTER_SPAN: Final = timedelta(minutes=5)
LETTERS: Final = {
    Phase.OPEN: "O",
    Phase.PROGRESS: "=",
    Phase.BREAK: ".",
    Phase.PRE_CLOSED: "C",
    Phase.POST_SESSION: "P",
    Phase.PUT_THROUGH: "-",
    Phase.CA: "A",
    Phase.CLOSED: " ",
}
_NAME: Final = 8


@define_command("session", example="bot session FPT --at 2026-11-19T14:31")
@click.argument("symbol", required=False)
@click.option(
    "--at", "moment", metavar="TIME", help="Offline, by the rules: a date and time, or 14:31."
)
@click.option("--rules", is_flag=True, help="The whole rulebook of that day, with sources.")
@click.option("--jobs", is_flag=True, help="The running bot's timetable: what is due next.")
@click.option("--missed", is_flag=True, help="Jobs that were missed or late, and why.")
@since_option
@watch_option
@click.pass_obj
def command(
    invocation: Invocation,
    symbol: str | None,
    moment: str | None,
    rules: bool,
    jobs: bool,
    missed: bool,
    since: str | None,
    watch_s: float | None,
) -> None:
    """Show the time and phase of each exchange, what comes next, and the order types accepted now.

    As the running bot knows it, or without one (or with --at) by the exchanges' rules, and so where
    the broker does not tell it. With SYMBOL: what may be done with it then, and by which rule. With
    --jobs: what the bot does when, and what happens when it can't do it on time.
    """
    if jobs + missed + rules + (symbol is not None) > 1:
        raise click.UsageError("SYMBOL, --rules, --jobs and --missed: use one at a time")
    if since is not None and not missed:
        raise click.UsageError("--since works only with --missed")
    if jobs:
        _show_jobs(invocation)
        return
    if missed:
        _show_missed(invocation, since)
        return
    if symbol is None and not rules:
        watch(invocation, lambda: _phase_lines(invocation, moment), every_s=watch_s)
        return
    at, _, why = _moment_of(invocation, moment)
    if why:
        say(invocation, why)
    rulebook = _rulebook_at(invocation, at)
    if not rules:
        _explain(invocation, rulebook, (symbol or "").upper(), at)
        return
    rows = rulebook.table(at.astimezone(EXCHANGE_TZ).date())
    if invocation.json:
        found = [{"says": row.says, "note": row.note, **_rule_fields(row)} for row in rows]
        print_json({"at": at.isoformat(), "rules": found})
    else:
        cells = [(*_rule_cells(row), row.says) for row in rows]
        print_table(invocation, RULE_HEADS, cells, spare=("SOURCE",))


def _show_jobs(invocation: Invocation) -> None:
    """Print the timetable of the running bot, the next job first. Raises OperatorMistake."""
    reply = ask_bot(invocation, "jobs")
    found = sorted(reply.each("jobs"), key=lambda row: row.text("next") or "9")
    if invocation.json:
        print_json({"at": reply.text("at"), "jobs": found})
        return
    rows = []
    for row in found:
        due, period, late_max = row.instant("next"), row.number("every_s"), row.number("late_max_s")
        by_start = ", a start does it too" if row.get("done_by_start") is True else ""
        rows.append(
            (
                day_and_clock_of(due) if due else "never again",
                row.text("job"),
                span_of(timedelta(seconds=period)) if period else "",
                f"at most {span_of(timedelta(seconds=late_max))}" if late_max else "always run",
                f"{row.text('missed')}{by_start}",
                row.text("overlapping"),
            )
        )
    print_table(invocation, JOB_HEADS, rows, spare=("OVERLAPPING", "EVERY"))


def _show_missed(invocation: Invocation, since: str | None) -> None:
    """Print missed and late runs of the timetable, from the journal. Raises OperatorMistake."""
    from bot.journal.reading.events import missed_runs

    with open_journal(invocation) as reader:
        begin = since_of(since, reader)
    with readable_journal(invocation) as loaded:
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


def _moment_of(invocation: Invocation, moment: str | None) -> tuple[datetime, Fields | None, str]:
    """Return the instant that is meant, the running bot's phases if that is now, and why a running
    bot has none.

    A time of day refers to the running bot's day: a sandbox may be on another day than today.
    """
    is_of_today = moment is None or "-" not in moment
    now, reply, why = _now(invocation) if is_of_today else (SystemClock().now(), None, "")
    if moment is None:
        return now, reply, why
    today = now.astimezone(EXCHANGE_TZ).date()
    for written in (moment, f"{today}T{moment}"):
        try:
            return moment_from(written), None, ""
        except ValueError:
            continue
    wanted = "a date and time like 2026-11-19T14:31, or a time like 14:31"
    raise click.BadParameter(f"{moment!r}: wanted {wanted}", param_hint="--at")


def _now(invocation: Invocation) -> tuple[datetime, Fields | None, str]:
    """Return the market's time, the broker's phases, and why a running bot can't tell them."""
    reply = find_bot(invocation, "phases")
    if reply is None:
        return SystemClock().now(), None, ""
    if reply.get("ok"):
        return reply.instant("at") or SystemClock().now(), reply, ""
    why = f"the broker's phases are not known: {reply.text('message')}"
    if at := find_status(invocation).instant("at"):
        return at, None, why
    return SystemClock().now(), None, f"{why}. The time is this machine's"


def _rulebook_at(invocation: Invocation, at: datetime) -> Rulebook:
    # Here and below: the rules and their files are slow to import, and help pages do not need them.
    from bot.config.rulebook import load_rulebook, rulebook_of

    day = at.astimezone(EXCHANGE_TZ).date()
    begins = load_rulebook().known_since
    if day < begins:
        message = f"{day} is too early: the rules known here took effect on {begins}"
        raise click.BadParameter(message, param_hint="--at")
    return rulebook_of(load(invocation), on=day)


def _phase_lines(invocation: Invocation, moment: str | None) -> list[str]:
    at, reply, why = _moment_of(invocation, moment)
    rulebook = _rulebook_at(invocation, at)
    by_broker = {row.text("exchange"): row for row in (reply or Fields()).each("phases")}
    fields, rows = list[dict[str, object]](), list[tuple[str, ...]]()
    for exchange in LISTED:
        by_rules = rulebook.phase_at(exchange, at)
        change = rulebook.next_phase_change(exchange, at)
        takes = sorted(rulebook.accepted_types(exchange, by_rules, Lot.EVEN))
        found: dict[str, object] = {"exchange": exchange, "phase": by_rules}
        found |= {"until": change.at.isoformat(), "next": change.phase, "takes": takes}
        if row := by_broker.get(exchange):  # the broker's phase takes precedence over the rules
            found["phase"] = row.get("phase")
            found["broker_lists"] = row.get("available_order_types")
        local = change.at.astimezone(EXCHANGE_TZ)
        is_today = local.date() == at.astimezone(EXCHANGE_TZ).date()
        until = clock_of(change.at) if is_today else f"{local:%a %m-%d %H:%M}"
        types = "/".join(map(type_word, takes)) or "nothing"
        words = (phase_of(str(found["phase"])), until, span_of(change.at - at))
        fields.append(found)
        rows.append((exchange, *words, phase_of(change.phase), types))
    day = at.astimezone(EXCHANGE_TZ).date()
    says = day_words(rulebook.calendar, day)
    if invocation.json:
        source = "broker" if reply else "rules"
        whole = {"at": at.isoformat(), "source": source, "day": says, "exchanges": fields}
        whole |= {"why": why} if why else {}
        return json_text(whole).splitlines()
    by = "the broker" if reply else "the exchanges' rules"
    head = f"{day_and_clock_of(at)} by {by}"
    calendar = rulebook.calendar
    doubt = [says] if day in {*calendar.doubts, *calendar.early_closes} else []
    table = aligned(HEADS, rows, limit=width())
    refused = [why] if why else []
    return [head, *refused, *table, *doubt, "", *day_strip(rulebook, LISTED, at)]


def day_strip(rulebook: Rulebook, exchanges: Sequence[Exchange], at: datetime) -> list[str]:
    """Draw the day of `at` by the rules, one letter for five minutes, with a legend.

    A day without trading is described in words.
    """
    start = datetime.combine(at.astimezone(EXCHANGE_TZ).date(), time(FIRST_HOUR), EXCHANGE_TZ)
    if not rulebook.calendar.is_trading_day(start.date()):
        return [day_words(rulebook.calendar, start.date())]
    an_hour = timedelta(hours=1) // LETTER_SPAN
    columns = (LAST_HOUR - FIRST_HOUR) * an_hour
    hours = "".join(f"{hour:<{an_hour}}" for hour in range(FIRST_HOUR, LAST_HOUR + 1))
    lines, seen = [f"{'':<{_NAME}} {hours}".rstrip()], set[Phase]()
    for exchange in exchanges:
        phases = [rulebook.phase_at(exchange, start + LETTER_SPAN * i) for i in range(columns)]
        seen.update(phases)
        lines.append(f"{exchange:<{_NAME}} {''.join(map(LETTERS.__getitem__, phases))}".rstrip())
    if 0 <= (column := (at - start) // LETTER_SPAN) < columns:
        lines.append(f"{'':<{_NAME}} {'':<{column}}^ now")
    legend = [phase for phase in LETTERS if phase in seen and phase is not Phase.CLOSED]
    meanings = (f"{LETTERS[phase]} {PHASE_WORDS[phase].partition(' (')[0]}" for phase in legend)
    return [*lines, "  ".join(meanings)]


def _explain(invocation: Invocation, rulebook: Rulebook, symbol: str, at: datetime) -> None:
    """Describe what may be done with a symbol, line by line, each with its rule."""
    from bot.config.rulebook import load_symbols

    day = at.astimezone(EXCHANGE_TZ).date()
    instrument = load_symbols().instrument(symbol, day)
    if instrument is None:
        raise click.BadParameter(f"the shipped table of symbols has no {symbol!r} on {day}")
    lines = explain(rulebook, instrument, at)
    if invocation.json:
        found = [
            {"what": line.what, "says": line.says, **_rule_fields(line.rule)} for line in lines
        ]
        print_json({"at": at.isoformat(), "symbol": symbol, "explained": found})
        return
    write_line(f"{symbol} at {day_and_clock_of(at)} by the exchange's rules")
    rows = []
    for line in lines:
        rule, since, confidence, source = _rule_cells(line.rule)
        rows.append((line.what, confidence, line.says, rule, since, source))
    print_table(invocation, WHY_HEADS, rows, spare=("SOURCE", "SINCE", "RULE"))


def _rule_fields(rule: RuleRow | None) -> dict[str, object]:
    if rule is None:
        return {"rule": None}
    return {
        "rule": rule.rule,
        "since": rule.since.isoformat() if rule.since else None,
        "until": rule.until.isoformat() if rule.until else None,
        "confidence": rule.confidence,
        "source": list(rule.source),
    }


def _rule_cells(rule: RuleRow | None) -> tuple[str | None, ...]:
    if rule is None:
        return (None, None, None, None)
    since = rule.since.isoformat() if rule.since else None
    return (rule.rule, since, rule.confidence, "/".join(rule.source) or None)
