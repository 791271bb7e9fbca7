"""The output of checking configuration and strategies: plans, their cost in requests, mistakes."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta

from bot.cli.command import Invocation
from bot.cli.show import print_json, print_result, say, show_mistake, show_problem
from bot.cli.telling.wording import counted
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.config.strategies.check import WORD_OF
from bot.config.strategies.load import CheckedFile, rehearse
from bot.domain.order import ORDER_TYPES
from bot.domain.plan import OrderPlan, StrategyPlan
from bot.runtime.timetable.feeds import (
    fitted,
    order_reads_per_minute,
    polls_of,
    room_for_polls,
    slowed_by,
    slowness_of,
)
from bot.runtime.watches import HOOK_S_MAX, HookWatch

Plain = dict[str, object]


def rehearsed(
    checked: Sequence[CheckedFile], hook_s_max: float = HOOK_S_MAX
) -> tuple[CheckedFile, ...]:
    """Rehearse the strategies on an invented bar, interrupting a hook that does not return, as a
    run does. Raises OperatorMistake as `rehearse` does.
    """
    watch = HookWatch(lambda: False, hook_s_max)
    with watch.at_work():
        return rehearse(checked, watch.invoke)


def report_good(
    invocation: Invocation,
    checked: Sequence[CheckedFile],
    quota: int,
    lines: Sequence[str],
    *,
    quote_age_max_s: int,
    before: Plain | None = None,
    after: Plain | None = None,
    also: Sequence[Problem] = (),
) -> int:
    """Show a check without mistakes: its warnings, those in `also`, its lines, the cost.

    In JSON the fields of `before` come first, those of `after` before the cost.
    """
    plans = [each.plan for each in checked]
    warnings = [*also, *(problem for each in checked for problem in each.warnings)]
    words = slowness_of(plans, quota, timedelta(seconds=quote_age_max_s))
    if "QUOTE_AGE" in words:
        warnings.append(Problem("E-CFG-054", f"the polls {words}"))
    for problem in () if invocation.quiet else warnings:
        show_problem(problem, before="warning ")
    listed = [problem_fields(each) for each in warnings]
    good = {"ok": True, "problems": [], "warnings": listed}
    fields = {**(before or {}), **good, **(after or {})}
    cost = cost_fields(plans, quota)
    print_result(invocation, {**fields, "cost": cost}, [*lines, *cost_lines(plans, quota)])
    return ExitCode.DONE


def report(invocation: Invocation, mistake: OperatorMistake) -> int:
    """Show a mistake and count its problems; return the exit code."""
    if invocation.json:
        problems = [problem_fields(each) for each in mistake.problems]
        print_json({"ok": False, "problems": problems, "warnings": []})
    show_mistake(mistake, invocation.lang)
    files = {problem.file for problem in mistake.problems if problem.file}
    where = f" in {counted(len(files), 'file')}" if files else ""
    say(invocation, f"{counted(len(mistake.problems), 'error')}{where}")
    return int(mistake.exit_code)


def problem_fields(problem: Problem) -> Plain:
    names = ("code", "message", "file", "line", "column")
    return {name: getattr(problem, name) for name in names}


def plan_fields(plan: StrategyPlan) -> Plain:
    """The plan as JSON-ready fields; durations in seconds, prices and money in whole VND."""
    when, order = plan.when, plan.order
    has_hours = when.start and when.end
    return {
        "name": plan.name,
        "use": plan.use,
        "symbols": list(plan.symbols),
        "mode": plan.mode.value,
        "params": dict(plan.parameters),
        "wake": wakes(plan),
        "sessions": sorted(WORD_OF[phase] for phase in when.phases),
        "between": [f"{when.start:%H:%M}", f"{when.end:%H:%M}"] if has_hours else None,
        "order": {
            "size": {order.size_unit.value: order.size},
            "price": price_words(order),
            "expire_s": seconds(order.expire_after),
        },
        "limits": asdict(plan.limits),
        "hold_2fa_s": seconds(plan.hold_2fa),
        "source": plan.source,
        "sha256": plan.source_sha256,
    }


def wakes(plan: StrategyPlan) -> Plain:
    """The wake-ups: kinds with their interval, times of day, session changes."""
    wake = plan.wake
    found: Plain = {
        kind: span_words(interval)
        for kind, interval in (("bar", wake.bar), ("quote", wake.quote), ("depth", wake.depth))
        if interval is not None
    }
    if wake.timers:
        found["timer"] = [f"{each:%H:%M:%S}".removesuffix(":00") for each in wake.timers]
    return {**found, "session": True} if wake.on_phase else found


def wake_words(plan: StrategyPlan) -> str:
    """`bar 1m, timer 09:20`."""
    found = []
    for kind, value in wakes(plan).items():
        when = " ".join(value) if isinstance(value, list) else value
        found.append(kind if value is True else f"{kind} {when}")
    return ", ".join(found)


def price_words(order: OrderPlan) -> str:
    """`ask +1 tick`, or the market type."""
    if not ORDER_TYPES[order.order_type].has_price:
        return order.order_type.value
    if not order.ticks:
        return order.basis.value
    noun = "tick" if abs(order.ticks) == 1 else "ticks"
    return f"{order.basis.value} {order.ticks:+d} {noun}"


def span_words(span: timedelta) -> str:
    """`90s`, `5m`, `1h`: in the largest unit that gives a whole number."""
    total = span.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if total >= size and total % size == 0:
            return f"{total / size:.0f}{unit}"
    return f"{total:.3g}s"


def seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def cost_lines(plans: Sequence[StrategyPlan], quota: int) -> list[str]:
    """What these strategies cost of the request quota, and how often they get their data."""
    asked, room, lines = polls_of(plans), room_for_polls(quota), list[str]()
    polls = fitted(asked, quota)
    for poll, made in zip(asked, polls, strict=True):
        often = span_words(poll.interval)
        if made != poll:
            often = f"{often} asked, {span_words(made.interval)} made"
        named = f"{poll.kind:<5} {poll.symbol:<8} every {often:<6}"
        lines.append(f"  {named} {made.per_minute:>6.1f} a minute")
    total, is_made = sum(poll.per_minute for poll in asked), sum(p.per_minute for p in polls)
    left = f"{total:.1f} a minute"
    if total > room:
        lines.append(
            f"  together {left} asked, the quota of {quota} leaves {room}: each comes "
            f"{slowed_by(asked, quota):.1f} times less often, {is_made:.1f} a minute"
        )
    else:
        share = f"polls may use {room} of {quota} requests, the rest is for orders"
        lines.append(f"  together {left}, {share}")
    always, first, later = order_reads_per_minute()
    opened = f"with open orders {later} more, {first} in an order's first minute"
    lines.append(f"  orders and account {always} a minute; {opened}")
    return lines


def cost_fields(plans: Sequence[StrategyPlan], quota: int) -> Plain:
    """The same in JSON-ready fields."""
    asked = polls_of(plans)
    polls = fitted(asked, quota)
    always, first, later = order_reads_per_minute()
    return {
        "polls": [
            {
                "kind": poll.kind,
                "symbol": poll.symbol,
                "every_s": poll.interval.total_seconds(),
                "per_minute": round(poll.per_minute, 3),
                "made_every_s": made.interval.total_seconds(),
                "made_per_minute": round(made.per_minute, 3),
            }
            for poll, made in zip(asked, polls, strict=True)
        ],
        "per_minute": round(sum(poll.per_minute for poll in asked), 3),
        "made_per_minute": round(sum(poll.per_minute for poll in polls), 3),
        "slower": round(slowed_by(asked, quota), 3),
        "orders_per_minute": {"always": always, "open": later, "first_minute": first},
        "quota": quota,
        "room_for_polls": room_for_polls(quota),
    }
