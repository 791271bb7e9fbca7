"""The names of the fields of answers that are read by hand, so that drift shows there too.

The other calls have these names in their tables (`protocol/calls.py`). Names only: what they mean
is said where they are read. Source: broker open API 0.2.0-preview.3, bootstrap and account data.
"""

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import make_dataclass
from types import GenericAlias, MappingProxyType
from typing import Final, cast

from bot.protocol.calls import CODECS
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.shaped import Codec

_SUB_ACCOUNT: Final = (
    "id cust_id name depository_number product_type_name sub_account_ext type"  # 4.1
)
_ORDER_ROW: Final = """
    orderid odorderid rootorderid txdate txtime odtimestamp symbol side side_ side_code price
    limitprice pricetype qtty quoteqtty execqtty execprice execamt remainqtty remainamt cancelqtty
    adjustqtty status status_ status_code allowcancel allowamend feedbackmsg hosesession
    matchtype_code matchtype_ timetype timetypevalue isdisposal via via_ via_code tlname username
    custodycd custid afacctno afacctno_ext producttypename strategy_id
"""
_HOLDING: Final = """
    sub_account_id symbol custodycd securities_type total available blocked mortgage vsd_mortgage
    restrict receiving_right receiving_t0 receiving_t1 receiving_t2 sending_t0 sending_t1 sending_t2
    matching_amount withdraw cost_price basic_price close_price cost_price_amount
    basic_price_amount pnl_amount pnl_rate total_pnl is_sellable has_newest_news trade
"""
_SUMMARY: Final = """
    balance ci_balance td_balance interest_balance ca_receiving receiving_t1 receiving_t2
    receiving_t3 receiving_amt securities_amt total_debt_amt debt_amt secure_amt trf_buy_amt
    margin_amt t0_debt_amt advanced_amt advance_max_amt_fee df_debt_amt td_debt_amt cidepo_fee
    cidepo_fee_acr sms_fee_amt ibroker_fee_amt net_asset_value mrcr_limit mrcr_limit_max margin_rate
    mri_rate mrm_rate hold_balance emk_amt td_int_amt add_vnd add_vnd_1 core_bank bankacct_no
    bank_name baldefovd
"""
_AVAILABLE_TRADE: Final = """
    pp0 trade ppse maxqtty balance cash_pending_send mortgage marginrate mrratioloan
"""


def _object(names: str, **inner: type[object]) -> type[object]:
    """Make a type of an object with these fields; `inner` are fields with a shape of their own."""
    plain = [(name, object) for name in names.split()]
    return make_dataclass("Named", [*plain, *inner.items()])


def _list_of(element: type[object]) -> type[object]:
    return cast("type[object]", GenericAlias(tuple, (element, ...)))


_KINDS: Final[Mapping[str, type[object]]] = {
    "sub_accounts": _list_of(_object(_SUB_ACCOUNT)),
    "todays_orders": _list_of(_object(_ORDER_ROW)),
    "order_detail": _object(_ORDER_ROW),
    "portfolio": _object("is_snapshot", portfolio=_list_of(_object(_HOLDING))),
    "summary": _object(_SUMMARY),
    "available_trade": _object(_AVAILABLE_TRADE),
    "market_phase": _object("exchange exchange_session available_order_types"),
}


def _unread(value: object) -> object:
    return value


_BY_HAND: Final = {
    name: Codec(ENDPOINTS[name], _unread, _unread, kind) for name, kind in _KINDS.items()
}

TABLES: Final[Mapping[str, Codec[object]]] = MappingProxyType(
    ChainMap(_BY_HAND, CODECS)  # type: ignore[arg-type]  # it is only read
)
"""Every call with known fields in its answer, by its name."""
