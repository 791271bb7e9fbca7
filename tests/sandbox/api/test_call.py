"""Which endpoint a path means."""

import pytest

from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import path_parameters
from bot.sandbox.api.call import Directory
from tests.rows import every_row

DIRECTORY = Directory(ENDPOINTS.values())


@every_row("endpoint", ENDPOINTS.values())
def test_every_path_of_the_api_leads_to_its_endpoint(endpoint):
    values = {name: f"VALUE{number}" for number, name in enumerate(path_parameters(endpoint))}

    found = DIRECTORY.find(endpoint.method, endpoint.path.format(**values))

    assert found == (endpoint, values)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/market/quotes/stocks/HPG/order-book/"),
        ("GET", "/market/quotes/stocks//order-book"),
        ("POST", "/market/quotes/stocks/HPG/order-book"),
        ("GET", "/trading/oa/sub-accounts/0009000011/orders"),
        ("GET", "/market/quotes/stocks/{symbol}/order-book/more"),
        ("GET", "market/quotes/stocks/HPG/order-book"),
    ],
)
def test_what_is_not_written_there_leads_nowhere(method, path):
    assert DIRECTORY.find(method, path) == (None, {})
