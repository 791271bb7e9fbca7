"""`bot quote` and `bot session`: the market now, and the phases of its day."""

from datetime import datetime
from typing import Final

import click

from bot.cli.command import command
from bot.cli.fields import Fields, each, inner, instant, maybe_whole, text, whole, words
from bot.cli.invocation import Invocation
from bot.cli.places import ask_bot, find_bot
from bot.cli.show import print_json, print_table, print_text
from bot.cli.wording import clock_of, day_and_clock_of, span_of, type_of
from bot.clock import SystemClock
from bot.domain.errors import RuleDataError
from bot.domain.explanation import explain
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Lot
from bot.domain.rule_table import RuleRow
from bot.domain.rulebook import Rulebook
from bot.runtime.rulebook import load_rulebook, load_symbols

LISTED: Final = (Exchange.HOSE, Exchange.HNX, Exchange.UPCOM)
RULE_HEADS: Final = ("RULE", "SINCE", "CONFIDENCE", "SOURCE", "SAYS")
WHY_HEADS: Final = ("WHAT", "SAYS", "RULE", "SINCE", "CONFIDENCE", "SOURCE")
HEADS: Final = ("EXCHANGE", "PHASE", "UNTIL", "IN", "NEXT", "TAKES")


@command("quote", example="bot quote FPT --depth")
@click.argument("symbol")
@click.option("--depth", is_flag=True, help="With the best three prices of both sides.")
@click.pass_obj
def quote(invocation: Invocation, symbol: str, depth: bool) -> None:
    """Show the market of a symbol, as the running bot asks the broker for it."""
    reply = ask_bot(invocation, "quote", symbol=symbol.upper())
    found, levels = inner(reply, "quote"), inner(reply, "depth")
    if invocation.json:
        print_json({**found, "depth": levels})
        return
    print_text(_quote_line(found, levels))
    if depth:
        for bid, ask in _ladder(levels):
            print_text(f"{bid:>24} | {ask}")


def _quote_line(found: Fields, levels: Fields) -> str:
    last, reference = whole(found, "last"), maybe_whole(found, "reference")
    move = f" {(last - reference) * 100 / reference:+.2f}%" if reference else ""
    frame = f"floor {_price(found, 'floor')} ceiling {_price(found, 'ceiling')}"
    best = next(iter(_ladder(levels)), ("-", "-"))
    name = f"{text(found, 'symbol')} {text(found, 'exchange')}"
    market = f"bid {best[0]} | ask {best[1]}"
    at = instant(found, "updated_at")
    seen = f"  {clock_of(at)}" if at else ""
    return f"{name}  {last:,}{move}  {market}  volume {whole(found, 'volume'):,}  {frame}{seen}"


def _price(found: Fields, name: str) -> str:
    value = maybe_whole(found, name)
    return f"{value:,}" if value is not None else "-"


def _ladder(levels: Fields) -> list[tuple[str, str]]:
    """Both sides, best first; the shorter side is filled up with `-`."""
    bids, asks = _side(levels, "bids"), _side(levels, "asks")
    longest = max(len(bids), len(asks))
    fill = ["-"] * longest
    return list(zip((bids + fill)[:longest], (asks + fill)[:longest], strict=True))


def _side(levels: Fields, name: str) -> list[str]:
    found = levels.get(name)
    rows = found if isinstance(found, list) else []
    return [f"{price:,} x {volume:,}" for price, volume in rows]


# -------------------------------------------------------------------------------------- the phases


@command("session", example="bot session FPT --at 2026-11-19T14:31")
@click.argument("symbol", required=False)
@click.option("--at", "moment", metavar="TIME", help="Offline, by the rules: an instant or 14:31.")
@click.option("--rules", is_flag=True, help="The whole rulebook of that day, with its sources.")
@click.pass_obj
def phases(invocation: Invocation, symbol: str | None, moment: str | None, rules: bool) -> None:
    """Show the phase of each exchange, what comes next, and the order types taken now.

    The running bot's word, or without one (or with --at) the rules of the exchanges. With a SYMBOL:
    what may be done with it then, by which rule.
    """
    reply = find_bot(invocation, "phases") if moment is None else None
    at = instant(reply, "at") if reply else _instant_of(moment)
    at = at or SystemClock().now()
    rulebook = _rulebook_of(at)
    if rules:
        _show_rules(invocation, rulebook, at)
    elif symbol is not None:
        _explain(invocation, rulebook, symbol.upper(), at)
    else:
        _show_phases(invocation, rulebook, at, reply)


def _rulebook_of(at: datetime) -> Rulebook:
    day = at.astimezone(EXCHANGE_TZ).date()
    try:
        return load_rulebook(on=day)
    except RuleDataError as unknown:
        message = f"no rules are known of {day}: {unknown}"
        raise click.BadParameter(message, param_hint="--at") from None


def _show_phases(
    invocation: Invocation, rulebook: Rulebook, at: datetime, reply: Fields | None
) -> None:
    found = [_by_rules(rulebook, exchange, at) for exchange in LISTED]
    for told in each(reply or {}, "phases"):
        _overrule(found, told)
    if invocation.json:
        source = "broker" if reply else "rules"
        print_json({"at": at.isoformat(), "source": source, "exchanges": found})
        return
    print_text(f"{day_and_clock_of(at)} by {'the broker' if reply else 'the rules of exchange'}")
    print_table(invocation, HEADS, [_row(one, at) for one in found])


def _explain(invocation: Invocation, rulebook: Rulebook, symbol: str, at: datetime) -> None:
    """Say what may be done with a symbol, line by line, each with its rule."""
    instrument = load_symbols().instrument(symbol, at.astimezone(EXCHANGE_TZ).date())
    if instrument is None:
        day = at.astimezone(EXCHANGE_TZ).date()
        raise click.BadParameter(f"config/symbols.csv has no {symbol!r} on {day}")
    lines = explain(rulebook, instrument, at)
    if invocation.json:
        found = [{"what": x.what, "says": x.says, **_rule_fields(x.rule)} for x in lines]
        print_json({"at": at.isoformat(), "symbol": symbol, "explained": found})
        return
    print_text(f"{symbol} at {day_and_clock_of(at)} by the rules of exchange")
    rows = [(x.what, x.says, *_rule_cells(x.rule)) for x in lines]
    print_table(invocation, WHY_HEADS, rows, spare=("SOURCE", "SINCE"))


def _show_rules(invocation: Invocation, rulebook: Rulebook, at: datetime) -> None:
    """Show every rule in effect on a day."""
    rows = rulebook.table(at.astimezone(EXCHANGE_TZ).date())
    if invocation.json:
        print_json([{"says": row.says, "note": row.note, **_rule_fields(row)} for row in rows])
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
    return (text(one, "exchange"), text(one, "phase"), *times, text(one, "next"), takes)


def _moment(until: datetime, at: datetime) -> str:
    """A time of day; of another day with its date."""
    local, now = until.astimezone(EXCHANGE_TZ), at.astimezone(EXCHANGE_TZ)
    return clock_of(until) if local.date() == now.date() else f"{local:%a %m-%d %H:%M}"


def _instant_of(moment: str | None) -> datetime | None:
    if moment is None:
        return None
    today = SystemClock().now().astimezone(EXCHANGE_TZ).date()
    for written in (moment, f"{today}T{moment}"):
        try:
            at = datetime.fromisoformat(written)
        except ValueError:
            continue
        return at if at.tzinfo else at.replace(tzinfo=EXCHANGE_TZ)
    wanted = "an instant like 2026-11-19T14:31, or a time like 14:31"
    raise click.BadParameter(f"{moment!r}: wanted {wanted}", param_hint="--at")
