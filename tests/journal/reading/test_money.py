"""What was earned, added up from rows of the journal."""

from datetime import UTC, date, datetime

from bot.domain.entry import CLOSE_NOTE, HOLDS_NOTE, Note
from bot.journal.journal import Journal
from bot.journal.reading.money import By, HeldRow, profit_of
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.values import PositionRow, PriceRow, ProfitRow
from tests.journal.facts import Story as Order
from tests.journal.facts import after, but

AT = datetime(2026, 11, 19, 3, 0, tzinfo=UTC)


def of(day: int, strategy: str, symbol: str, realised: int) -> ProfitRow:
    """A day on which 100 were bought and sold again, with a fee of 30 and a tax of 7."""
    return ProfitRow(
        trading_date=date(2026, 11, day),
        strategy=strategy,
        symbol=symbol,
        fills=2,
        bought=100,
        bought_amount=1_000,
        sold=100,
        sold_amount=1_000 + realised,
        realised=realised,
        fee=30,
        tax=7,
        net=realised - 37,
    )


DAYS = [of(18, "sma", "FPT", 500), of(19, "sma", "HPG", -200), of(19, "depth", "HPG", 1_000)]
HELD = [PositionRow("sma", "FPT", 200, 26_000_000, 130_000, 0, 0, 0)]


def test_the_same_money_is_added_up_by_day_symbol_and_strategy() -> None:
    told = {by: profit_of(DAYS, [], {}, by=by) for by in By}

    assert [(row.of, row.net) for row in told[By.DAY].rows] == [
        ("2026-11-18", 463),
        ("2026-11-19", 726),
    ]
    assert [(row.of, row.net) for row in told[By.SYMBOL].rows] == [("FPT", 463), ("HPG", 726)]
    assert [(row.of, row.net) for row in told[By.STRATEGY].rows] == [("depth", 963), ("sma", 226)]
    totals = {(each.total.net, each.total.fee, each.total.tax) for each in told.values()}
    assert totals == {(1_189, 90, 21)}


def test_days_before_since_are_left_out_and_what_is_held_is_not() -> None:
    prices = {"FPT": PriceRow("FPT", 131_000, AT)}

    told = profit_of(DAYS, HELD, prices, by=By.DAY, since=date(2026, 11, 19))

    assert ([row.of for row in told.rows], told.total.net) == (["2026-11-19"], 726)
    assert told.held == (HeldRow("sma", "FPT", 200, 26_000_000, 131_000, AT, 26_200_000, 200_000),)
    assert (told.unrealised, told.unpriced) == (200_000, ())


def test_shares_without_a_price_are_named_and_count_nothing() -> None:
    told = profit_of(DAYS, HELD, {}, by=By.DAY)

    assert (told.unrealised, told.unpriced) == (0, ("FPT",))
    assert told.held[0].value is None


async def test_the_newest_price_that_was_believed_counts(sqlite_url: str) -> None:
    order, saw = Order(1), {"last": 27_100, "quote_at": after(10).isoformat()}
    journal = Journal.open(sqlite_url)
    await journal.write([Note(after(1), "QUOTE", "FPT 130,000", {"last": 130_000}, "FPT")])
    await journal.write([but(order.decision, symbol="HPG", saw=saw)])
    await journal.write([Note(after(5), CLOSE_NOTE, "HPG", {"close": 27_000}, "HPG")])
    await journal.write([Note(after(20), HOLDS_NOTE, "FPT", {"last FPT": 131_500})])
    await journal.write([Note(after(30), "PHASE", "closed", {"last": 1}, "FPT")])
    await journal.close()

    with JournalReader(sqlite_url) as reader:
        prices = reader.prices(["FPT", "HPG", "VNM"])

    assert prices == {
        "FPT": PriceRow("FPT", 131_500, after(20)),
        "HPG": PriceRow("HPG", 27_100, after(10)),
    }
