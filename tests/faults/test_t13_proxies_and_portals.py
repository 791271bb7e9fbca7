"""T13: proxy variables in the environment, and a portal that answers with its own page."""

from pathlib import Path
from random import Random

import pytest

from bot.broker.broker import open_broker
from bot.broker.budget import RequestBudget, SystemWaiter
from bot.broker.signer import Credentials
from bot.clock import SimulatedClock, SystemClock
from bot.domain.entry import Fill, IntentMoved, Note
from bot.domain.order import SendState
from bot.drill.oracle import faults_in, outcome_of
from bot.protocol.envelope import Answer
from bot.protocol.secret import Secret
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.broker.loopback import raw_server, reply
from tests.broker.test_http import answering
from tests.sandbox.client import RULEBOOK, scenario
from tests.staging import QUIET, intent
from tests.story import once, tell, write_project

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
PORTAL = {"do": "status", "status": 200, "body": "<html>Please log in to this network</html>"}


@pytest.mark.wire
@pytest.mark.one_strike
@pytest.mark.parametrize("spell", [str.upper, str.lower])
async def test_reads_and_orders_go_past_a_proxy_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, spell: type[str]
) -> None:
    played, wire = scenario(), SystemClock()
    sandbox = Sandbox(played, RULEBOOK, clock=SimulatedClock(played.starts_at), wire=wire)
    given, waiter = sandbox.credentials, SystemWaiter(wire)
    async with raw_server(answering(reply())) as proxy, serve(sandbox) as base_url:
        for name in VARIABLES:
            monkeypatch.setenv(spell(name), proxy.base_url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        broker = open_broker(
            base_url,
            Credentials(Secret(given.api_key), Secret(given.api_secret), "proxied"),
            wire=wire,
            waiter=waiter,
            budget=RequestBudget(per_minute=3_000, waiter=waiter, jitter=Random(1)),
        )
        ticket = await broker.client.request_otp()
        token = await broker.client.verify_otp(ticket.ticket_id, Secret("424242"))
        broker.two_factor.set_token(token.token, token.expires_at)
        account = given.accounts[0]
        answer = await broker.writer.send(broker.writer.prepare_place(account, intent()))
        await broker.close()

    assert isinstance(answer, Answer)
    assert answer.http_status == 200
    assert proxy.connections == 0


@pytest.mark.scripted
@pytest.mark.parametrize("point", ["before_auth", "after_apply"])
async def test_the_page_of_a_portal_is_never_the_brokers_word(tmp_path: Path, point: str) -> None:
    """It begins as an order leaves, and ends two minutes later."""
    place = {"verb": "POST", "path": "*/orders"}
    rest = {"path": "*", "at": "09:20:06", "until": "09:22:00"}
    faults = [{"match": match, "point": point, "action": PORTAL} for match in (place, rest)]
    config = write_project(tmp_path, scenario={**QUIET, "faults": faults}, strategies=[once()])

    story = await tell(config, minutes=6)

    moves = [each.to_state for each in story.shown.all(IntentMoved)]
    is_taken = point == "after_apply"
    assert SendState.UNKNOWN in moves
    assert moves[-1] is (SendState.MATCHED if is_taken else SendState.NOT_PLACED)
    assert sum(fill.quantity for fill in story.shown.all(Fill)) == 100 * is_taken
    assert len(story.posts()) == 1
    assert any(note.kind == "ALERT" for note in story.shown.all(Note))
    assert faults_in(outcome_of(story.loaded.state_dir)) == []
