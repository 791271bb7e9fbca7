import typing

from bot.domain import message
from bot.domain.entry import RunState, Transition
from bot.domain.instrument import PHASE_WORDS, Phase
from bot.domain.message import PlaceOrder, Record, TimePassed
from bot.domain.operations import Action
from bot.domain.order import UNRESOLVED_SENDS, OrderState, SendState
from bot.engine import status
from bot.engine.control_state import PRIORITY
from bot.engine.engine import HANDLERS
from bot.engine.gate import REFUSAL_CODES
from bot.engine.operator import ACTIONS
from bot.engine.orders.recover import _ORDER_STATES
from bot.engine.risk.sizing import SIDES
from tests.engine.stage import START, Stage


def test_every_event_has_a_handler():
    assert set(HANDLERS) == set(typing.get_args(message.Event))


def test_every_table_is_complete():
    assert set(PHASE_WORDS) == set(Phase)
    assert set(status._OUTCOMES) == set(SendState)
    assert set(ACTIONS) == set(Action)
    assert (
        set(PRIORITY)
        == set(REFUSAL_CODES)
        == set(RunState)
        - {
            RunState.RUNNING,
            RunState.REDUCING,
            RunState.STOPPED,
        }
    )
    assert set(_ORDER_STATES) >= UNRESOLVED_SENDS | {SendState.READY, SendState.HELD}
    assert len(SIDES) == 3


def test_records_come_before_everything_that_is_done():
    stage = Stage()

    stage.buy()

    kinds = [type(one) for one in stage.done]
    assert kinds == [Record] * (len(kinds) - 1) + [PlaceOrder]
    assert stage.new(Transition)[0].to_state is OrderState.INITIALIZED


def test_a_quiet_event_commands_nothing():
    stage = Stage()

    assert stage.pass_time(1) == []


def test_no_strategy_wakes_before_reconciled():
    stage = Stage(is_open=False)

    stage.request(lambda s: s.buy(100, limit=27_000))

    assert stage.engine.status().state is RunState.STARTING
    assert stage.all(PlaceOrder) == []


def test_time_never_goes_back():
    stage = Stage()

    stage.handle(TimePassed(START.replace(year=2020)))

    assert stage.engine.status().at == START


def test_the_same_events_give_the_same_commands():
    stories = []
    for _ in range(2):
        stage = Stage()
        stage.working()
        stage.pass_time(1)
        stories.append(stage.commands)

    assert stories[0] == stories[1]


def test_a_deadline_that_was_met_is_not_due_again():
    stage = Stage()
    stage.working()

    while (due := stage.due()) < START.replace(hour=3):
        stage.now = due
        stage.handle(TimePassed(due))
        assert stage.due() > due
