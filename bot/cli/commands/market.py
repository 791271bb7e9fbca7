"""`bot quote` and `bot session`: the market now, and the phases of its day."""

from datetime import datetime
from functools import partial
from math import ceil
from typing import Final

import click

from bot.cli.command import command
from bot.cli.day_strip import day_strip
from bot.cli.fields import Fields, each, inner, instant, text, words
from bot.cli.invocation import Invocation
from bot.cli.market_view import headline, picture
from bot.cli.places import ask_bot, find_bot, load
from bot.cli.repaint import watch, watch_option
from bot.cli.show import aligned, json_text, print_json, print_table, print_text, width
from bot.cli.telling.wording import clock_of, day_and_clock_of, phase_of, span_of, type_of
from bot.clock import SystemClock
from bot.config.rulebook import load_rulebook, load_symbols, rulebook_of
from bot.domain.calendar import day_words
from bot.domain.explanation import Explained, explain
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Lot
from bot.domain.rule_data import RuleRow
from bot.domain.rulebook import Rulebook

LISTED: Final = (Exchange.HOSE, Exchange.HNX, Exchange.UPCOM)
RULE_HEADS: Final = ("RULE", "SINCE", "CONFIDENCE", "SOURCE", "SAYS")
WHY_HEADS: Final = ("WHAT", "CONFIDENCE", "SAYS", "RULE", "SINCE", "SOURCE")
HEADS: Final = ("EXCHANGE", "PHASE", "UNTIL", "IN", "NEXT", "TAKES")


@command("quote", example="bot quote FPT --depth --watch")
@click.argument("symbol")
@click.option("--depth", is_flag=True, help="The best prices of both sides as a picture.")
@watch_option
@click.pass_obj
def quote(invocation: Invocation, symbol: str, depth: bool, watch_s: float | None) -> None:
    """Show the market of a symbol, as the running bot asks the broker for it.

    With --watch it looks again and again until Ctrl-C. What a strategy has polled meanwhile costs
    no request; other symbols cost two of the bot's requests at each look.
    """
    looks = _Looks(invocation, symbol.upper(), with_depth=depth, max_age_s=watch_s)
    watch(invocation, looks.lines, every_s=watch_s or 0, looks=None if watch_s else 1)


class _Looks:
    """Looks at one symbol; each can be compared with the one before."""

    def __init__(
        self, invocation: Invocation, symbol: str, *, with_depth: bool, max_age_s: float | None
    ) -> None:
        self._invocation = invocation
        self._request = {"symbol": symbol, "max_age_s": ceil(max_age_s or 0)}
        self._with_depth = with_depth
        self._before: Fields | None = None

    def lines(self) -> list[str]:
        """Look once more."""
        reply = ask_bot(self._invocation, "quote", **self._request)
        before, self._before = self._before, reply
        if self._invocation.json:
            found = {**inner(reply, "quote"), "depth": inner(reply, "depth")}
            return json_text(found).splitlines()
        return picture(reply, before) if self._with_depth else [headline(reply)]


# -------------------------------------------------------------------------------------- the phases


@command("session", example="bot session FPT --at 2026-11-19T14:31")
@click.argument("symbol", required=False)
@click.option("--at", "moment", metavar="TIME", help="Offline, by the rules: an instant or 14:31.")
@click.option("--rules", is_flag=True, help="The whole rulebook of that day, with its sources.")
@watch_option
@click.pass_obj
def phases(
    invocation: Invocation,
    symbol: str | None,
    moment: str | None,
    rules: bool,
    watch_s: float | None,
) -> None:
    """Show the clock and phase of each exchange, what comes next, and the order types taken now.

    The running bot's word, or without one (or with --at) the rules of the exchanges. With a SYMBOL:
    what may be done with it then, by which rule.
    """
    if symbol is None and not rules:
        draw = partial(_phase_lines, invocation, moment)
        watch(invocation, draw, every_s=watch_s or 0, looks=None if watch_s else 1)
        return
    at, _ = _moment_of(invocation, moment)
    rulebook = _rulebook_at(invocation, at)
    if rules:
        _show_rules(invocation, rulebook, at)
    else:
        _explain(invocation, rulebook, (symbol or "").upper(), at)


def _moment_of(invocation: Invocation, moment: str | None) -> tuple[datetime, Fields | None]:
    """The instant that is meant, and what the running bot says of it where that is now.

    A time of day is one of the running bot's day: a sandbox plays another one than today.
    """
    is_of_today = moment is None or "-" not in moment
    reply = find_bot(invocation, "phases") if is_of_today else None
    now = (instant(reply, "at") if reply else None) or SystemClock().now()
    return (now, reply) if moment is None else (_instant_of(moment, now), None)


def _rulebook_at(invocation: Invocation, at: datetime) -> Rulebook:
    day = at.astimezone(EXCHANGE_TZ).date()
    begins = load_rulebook().known_since
    if day < begins:
        message = f"{day} is too early: the rules known here are in effect since {begins}"
        raise click.BadParameter(message, param_hint="--at")
    return rulebook_of(load(invocation), on=day)


def _phase_lines(invocation: Invocation, moment: str | None) -> list[str]:
    at, reply = _moment_of(invocation, moment)
    rulebook = _rulebook_at(invocation, at)
    found = [_by_rules(rulebook, exchange, at) for exchange in LISTED]
    for told in each(reply or {}, "phases"):
        _overrule(found, told)
    day = at.astimezone(EXCHANGE_TZ).date()
    says = day_words(rulebook.calendar, day)
    if invocation.json:
        source = "broker" if reply else "rules"
        fields = {"at": at.isoformat(), "source": source, "day": says, "exchanges": found}
        return json_text(fields).splitlines()
    by = "the broker" if reply else "the exchanges' rules"
    head = f"{day_and_clock_of(at)} by {by}"
    table = aligned(HEADS, [_row(one, at) for one in found], limit=width())
    doubt = [says] if day in rulebook.calendar.doubts else []
    return [head, *table, *doubt, "", *day_strip(rulebook, LISTED, at)]


def _explain(invocation: Invocation, rulebook: Rulebook, symbol: str, at: datetime) -> None:
    """Say what may be done with a symbol, line by line, each with its rule."""
    instrument = load_symbols().instrument(symbol, at.astimezone(EXCHANGE_TZ).date())
    if instrument is None:
        day = at.astimezone(EXCHANGE_TZ).date()
        raise click.BadParameter(f"the shipped table of symbols has no {symbol!r} on {day}")
    lines = explain(rulebook, instrument, at)
    if invocation.json:
        found = [{"what": x.what, "says": x.says, **_rule_fields(x.rule)} for x in lines]
        print_json({"at": at.isoformat(), "symbol": symbol, "explained": found})
        return
    print_text(f"{symbol} at {day_and_clock_of(at)} by the exchange's rules")
    rows = [_why_cells(line) for line in lines]
    spare = ("SOURCE", "SINCE", "RULE")
    print_table(invocation, WHY_HEADS, rows, spare=spare)


def _why_cells(line: Explained) -> tuple[str | None, ...]:
    rule, since, confidence, source = _rule_cells(line.rule)
    return (line.what, confidence, line.says, rule, since, source)


def _show_rules(invocation: Invocation, rulebook: Rulebook, at: datetime) -> None:
    """Show every rule in effect on a day."""
    rows = rulebook.table(at.astimezone(EXCHANGE_TZ).date())
    if invocation.json:
        found = [{"says": row.says, "note": row.note, **_rule_fields(row)} for row in rows]
        print_json({"at": at.isoformat(), "rules": found})
        return
    table = [(*_rule_cells(row), row.says) for row in rows]
    print_table(invocation, RULE_HEADS, table, spare=("SOURCE",))


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


def _by_rules(rulebook: Rulebook, exchange: Exchange, at: datetime) -> dict[str, object]:
    phase = rulebook.phase_at(exchange, at)
    change = rulebook.next_phase_change(exchange, at)
    return {
        "exchange": exchange,
        "phase": phase,
        "until": change.at.isoformat(),
        "next": change.phase,
        "takes": sorted(rulebook.accepted_types(exchange, phase, Lot.EVEN)),
    }


def _overrule(found: list[dict[str, object]], told: Fields) -> None:
    """The broker's word on a phase stands above the rules."""
    for one in found:
        if one["exchange"] == told.get("exchange"):
            one["phase"] = told.get("phase")
            one["broker_lists"] = told.get("available_order_types")


def _row(one: Fields, at: datetime) -> tuple[str, ...]:
    until = instant(one, "until")
    takes = "/".join(type_of(word) for word in words(one, "takes")) or "nothing"
    times = (_moment(until, at), span_of(until - at)) if until else ("-", "-")
    now, then = phase_of(text(one, "phase")), phase_of(text(one, "next"))
    return (text(one, "exchange"), now, *times, then, takes)


def _moment(until: datetime, at: datetime) -> str:
    """A time of day; of another day with its date."""
    local, now = until.astimezone(EXCHANGE_TZ), at.astimezone(EXCHANGE_TZ)
    return clock_of(until) if local.date() == now.date() else f"{local:%a %m-%d %H:%M}"


def _instant_of(moment: str, now: datetime) -> datetime:
    today = now.astimezone(EXCHANGE_TZ).date()
    for written in (moment, f"{today}T{moment}"):
        try:
            at = datetime.fromisoformat(written)
        except ValueError:
            continue
        return at if at.tzinfo else at.replace(tzinfo=EXCHANGE_TZ)
    wanted = "an instant like 2026-11-19T14:31, or a time like 14:31"
    raise click.BadParameter(f"{moment!r}: wanted {wanted}", param_hint="--at")
