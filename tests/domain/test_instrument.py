"""Which symbol trades where."""

from datetime import date

import pytest

from bot.config.rulebook import load_symbols
from bot.domain.errors import RuleDataError
from bot.domain.instrument import Exchange, Instrument, InstrumentKind, SymbolTable

HEADER = ["symbol", "exchange", "kind", "from", "to", "source"]


def table(*lines: str) -> SymbolTable:
    return SymbolTable.from_rows(dict(zip(HEADER, f"{x},t".split(","), strict=True)) for x in lines)


@pytest.mark.parametrize(
    ("on", "exchange"),
    [
        ("2025-01-06", Exchange.UPCOM),
        ("2025-01-07", None),
        ("2025-01-16", None),
        ("2025-01-17", Exchange.HOSE),
        ("2026-11-19", Exchange.HOSE),
    ],
)
def test_bsr_moves_from_upcom_to_hose_in_january_2025(on, exchange):
    found = load_symbols().instrument("BSR", date.fromisoformat(on))

    assert found == (Instrument("BSR", exchange) if exchange else None)


def test_the_shipped_table_knows_shares_of_three_exchanges_and_funds():
    today, symbols = date(2026, 11, 19), load_symbols()
    found = [symbols.instrument(symbol, today) for symbol in symbols.symbols(today)]

    assert len(found) >= 60
    assert {each.exchange for each in found if each} == {
        Exchange.HOSE,
        Exchange.HNX,
        Exchange.UPCOM,
    }
    assert symbols.instrument("E1VFVN30", today) == Instrument(
        "E1VFVN30", Exchange.HOSE, InstrumentKind.ETF
    )


def test_an_unknown_symbol_is_none():
    assert table("FPT,HOSE,STOCK,2023-09-11,").instrument("FTP", date(2026, 1, 1)) is None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["fpt,HOSE,STOCK,2023-09-11,"], "line 2.symbol: wanted a symbol in capitals"),
        (["FPT,NYSE,STOCK,2023-09-11,"], "line 2.exchange: wanted one of HOSE"),
        (["FPT,HOSE,SHARE,2023-09-11,"], "line 2.kind: wanted one of STOCK"),
        (["FPT,HOSE,STOCK,11.9.2023,"], "line 2.from: wanted a date"),
        (["FPT,HOSE,STOCK,2023-09-11,2023-09-10"], "line 2: wanted `to` not before"),
        (["A,HNX,STOCK,2023-01-01,", "A,HOSE,STOCK,2024-01-01,"], "line 3: wanted dates of A"),
        (
            ["A,HNX,STOCK,2023-01-01,2024-01-01", "A,HOSE,STOCK,2024-01-01,"],
            "line 3: wanted dates of A",
        ),
    ],
)
def test_a_row_that_makes_no_sense_names_its_line(lines, message):
    with pytest.raises(RuleDataError, match=message):
        table(*lines)
