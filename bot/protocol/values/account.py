"""The account beyond today's orders: assets, rights, the day's profit, older orders.

Money is whole VND: the document types some of it as numbers, so interest may have a fraction, which
is rounded half up. Rates are percent. Quantities are shares. The owner of the account is left out
of every repr. Source: broker open API 0.2.0-preview.3, account data.
"""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from bot.protocol.fields import (
    DayOrNone,
    Floored,
    NumberOrNone,
    Shares,
    SharesOrNone,
    Text,
    Truth,
    Vnd,
    VndOrNone,
    Word,
)

# -------------------------------------------------------------------------------------- assets


@dataclass(frozen=True, slots=True)
class ProductAssets:
    """What is invested, by product. A user of level 0 or 1 gets 0 for stock, fund and bond."""

    total: Vnd = 0
    stock: Vnd = 0
    fund: Vnd = 0
    saving: VndOrNone = None
    bond: Vnd = 0
    hay0: Vnd = 0
    hay0_interest: Vnd = 0
    hay0_depositing: Vnd = 0
    hay0_withdrawing: Vnd = 0


@dataclass(frozen=True, slots=True)
class MoneyAssets:
    """Cash: `ca_receiving` dividends due, `emk_amt` otherwise blocked, `receiving_amt` sale money
    due, `withdrawable` what may be taken out.
    """

    total: Vnd = 0
    ci_balance: Vnd = 0
    ca_receiving: Vnd = 0
    emk_amt: Vnd = 0
    receiving_amt: Vnd = 0
    withdrawable: Annotated[Vnd, Field(alias="baldefovd")] = 0


@dataclass(frozen=True, slots=True)
class Debts:
    total: Vnd = 0
    secure_amount: Vnd = 0
    advance_amt: Vnd = 0
    sms_fee_amt: Vnd = 0
    cidepo_fee_acr: Vnd = 0
    owe_deposit: Vnd = 0


@dataclass(frozen=True, slots=True)
class Profit:
    """Profit or loss, and its rate in percent."""

    pnl: Vnd = 0
    pnl_rate: NumberOrNone = None


@dataclass(frozen=True, slots=True)
class Profits:
    stock: Profit | None = None
    fund: Profit | None = None


@dataclass(frozen=True, slots=True)
class AssetsSummary:
    """All assets of a user, over all sub-accounts: the best source for net assets."""

    net_asset_value: VndOrNone = None
    products: ProductAssets | None = None
    money: MoneyAssets | None = None
    debt: Debts | None = None
    pnl: Profits | None = None


@dataclass(frozen=True, slots=True)
class PnlToday:
    """The day's profit or loss of one sub-account, or of all (`ALL`); the rate is percent."""

    amount: Annotated[VndOrNone, Field(alias="pnl_amount")] = None
    sub_account_id: Text = field(default="", repr=False)
    rate: Annotated[NumberOrNone, Field(alias="pnl_rate")] = None


# -------------------------------------------------------------------------------------- rights


@dataclass(frozen=True, slots=True)
class UserRight:
    """A right of a shareholder: a dividend, an issue, a meeting; newest `reportDate` first.

    `status`, `register_status` and `type` are words of `words.py`, or others. `action_date` is the
    record or ex date. `ratio` and `right_off_rate` are the broker's texts (`1:5`).
    """

    symbol: Word = ""
    type: Text = ""
    account_id: Annotated[Text, Field(alias="accountId")] = field(default="", repr=False)
    depository_number: Annotated[Text, Field(alias="depositoryNumber")] = field(
        default="", repr=False
    )
    full_name: Annotated[Text, Field(alias="fullName")] = field(default="", repr=False)
    owned: Annotated[Shares, Field(alias="ownNumberOfShare")] = 0
    ratio: Text = ""
    status: Text = ""
    register_status: Annotated[Text, Field(alias="userRightRegisterStatus")] = ""
    master_id: Annotated[Text, Field(alias="caMastId")] = ""
    amount: Vnd = 0
    to_symbol: Annotated[Text | None, Field(alias="toSymbol")] = None
    waiting_stock: Annotated[Shares, Field(alias="numberOfWaitingStock")] = 0
    waiting_amount: Annotated[Vnd, Field(alias="waitingAmountForReturn")] = 0
    right_off_rate: Annotated[Text, Field(alias="rightOffRate")] = ""
    buy_price: Annotated[Vnd, Field(alias="buyPrice")] = 0
    may_register: Annotated[Truth, Field(alias="allowRegister")] = False
    stocks_to_buy: Annotated[Shares, Field(alias="totalStocksCanBuy")] = 0
    pay_amount: Annotated[Vnd, Field(alias="totalPayAmount")] = 0
    start_date: Annotated[DayOrNone, Field(alias="startDate")] = None
    finish_date: Annotated[DayOrNone, Field(alias="finishDate")] = None
    transfer_start_date: Annotated[DayOrNone, Field(alias="startDateTransfer")] = None
    transfer_finish_date: Annotated[DayOrNone, Field(alias="finishDateTransfer")] = None
    action_date: Annotated[DayOrNone, Field(alias="actionDate")] = None
    report_date: Annotated[DayOrNone, Field(alias="reportDate")] = None
    stock_name: Annotated[Text, Field(alias="stockName")] = ""
    total_volume: Annotated[SharesOrNone, Field(alias="totalVolume")] = None
    total_value: Annotated[VndOrNone, Field(alias="totalValue")] = None
    reference_price: Annotated[VndOrNone, Field(alias="referencePrice")] = None
    close_price: Annotated[VndOrNone, Field(alias="closePrice")] = None
    ceiling_price: Annotated[VndOrNone, Field(alias="ceilingPrice")] = None
    floor_price: Annotated[VndOrNone, Field(alias="floorPrice")] = None
    predicted_price: Annotated[VndOrNone, Field(alias="predictPrice")] = None
    change_price: Annotated[VndOrNone, Field(alias="changePrice")] = None
    is_read: Annotated[Truth, Field(alias="hasRead")] = False


# ------------------------------------------------------------------------------- order history


@dataclass(frozen=True, slots=True)
class PastOrder:
    """An order of the history. `side` and `status` may be UNKNOWN; `average_price` is rounded down,
    money comes from `executed_amount`. `executed_quantity` None: not given.
    """

    order_id: Text = ""
    symbol: Word = ""
    account_id: Text = field(default="", repr=False)
    transaction_date: DayOrNone = None
    side: Annotated[Word, Field(alias="order_side")] = ""
    quantity: Annotated[Shares, Field(alias="order_quantity")] = 0
    limit_price: VndOrNone = None
    market_price: Text | None = None
    executed_quantity: Annotated[SharesOrNone, Field(alias="execute_quantity")] = None
    average_price: Annotated[Floored, Field(alias="execute_price")] = 0
    status: Annotated[Word, Field(alias="order_status")] = ""
    fee: Annotated[Vnd, Field(alias="fee_amount")] = 0
    tax: Annotated[Vnd, Field(alias="tax_amount")] = 0
    executed_amount: Annotated[Vnd, Field(alias="execute_amount")] = 0
    order_type: Word = ""


@dataclass(frozen=True, slots=True)
class OrderHistory:
    """A page of past orders. It has no paging fields; the page after the last is empty."""

    orders: Annotated[tuple[PastOrder, ...], Field(alias="data")] = ()
