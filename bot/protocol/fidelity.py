"""The one field of ours: how true to the market an order's result is.

Only a broker that is played here, on the data of a real one, sends it; the real broker never does.
It stands beside the document's fields in every order result and row, is kept raw in the journal,
and is shown to people: no figure of paper money must look like one of real money.
"""

from typing import Final

FIDELITY: Final = "fidelity"
"""Like `paper queue · depth 3 levels · snapshot 1.2 s old`."""
