"""What `bot halt` says of the orders that are open."""

from bot.cli.commands.halt import how_many_open, why_open
from bot.cli.target import Fields


def test_a_bot_that_is_still_starting_is_not_said_to_have_no_order_open():
    assert how_many_open(Fields({"state": "HALTED"})) == (
        "the broker has not been read yet; whatever is open there will be cancelled then"
    )
    assert how_many_open(Fields({"open_orders": []})) == "0 orders open"
    assert how_many_open(Fields({"open_orders": [{"order_id": "ORD1"}]})) == "1 order open"


def test_why_an_order_is_open_is_what_its_cancel_waits_for():
    cancels = [{"order_id": "ORD1", "why": "the lunch break; next try at 13:00:00"}]

    assert why_open(Fields({"cancels": cancels})) == {
        "ORD1": "the lunch break; next try at 13:00:00"
    }
