"""A dry run: every order is checked, journalled and signed, and none is sent."""

from bot.broker.writes import Objection, OrderWriter, SignedRequest, nothing_against
from bot.domain.account import SubAccount
from bot.domain.order import Intent
from bot.protocol.answer import Answer, NoAnswer


class DryWriter:
    """Signs as the real writer does; sending is a certain no."""

    def __init__(self, writer: OrderWriter) -> None:
        self._writer = writer

    def prepare_place(self, account: SubAccount, intent: Intent) -> SignedRequest:
        """Sign the one POST of an intent."""
        return self._writer.prepare_place(account, intent)

    def prepare_cancel(self, account: SubAccount, order_id: str) -> SignedRequest:
        """Sign a DELETE."""
        return self._writer.prepare_cancel(account, order_id)

    def prepare_amend(
        self, account: SubAccount, order_id: str, *, limit_price: int | None, quantity: int | None
    ) -> SignedRequest:
        """Sign a PUT."""
        return self._writer.prepare_amend(
            account, order_id, limit_price=limit_price, quantity=quantity
        )

    async def send(
        self, signed: SignedRequest, objection: Objection = nothing_against
    ) -> Answer | NoAnswer:
        """Send nothing."""
        would = f"dry run: would {signed.method} {len(signed.body)} bytes"
        return NoAnswer(objection() or would, is_sent=False)

    async def burn(self, nonce: str) -> Answer | NoAnswer:
        """A burn is a read, and reads go on."""
        return await self._writer.burn(nonce)


def dry(writer: OrderWriter) -> DryWriter:
    """Wrap the real writer."""
    return DryWriter(writer)
