"""What `bot halt` says of the orders that are open."""

from bot.cli.commands.halt import how_many_open
from bot.cli.target import Fields


def test_a_bot_that_is_still_starting_is_not_said_to_have_no_order_open():
    assert how_many_open(Fields({"state": "HALTED"})) == (
        "the broker has not been read yet; whatever is open there will be cancelled then"
    )
    assert how_many_open(Fields({"open_orders": []})) == "0 orders open"
    assert how_many_open(Fields({"open_orders": [{"order_id": "ORD1"}]})) == "1 order open"
