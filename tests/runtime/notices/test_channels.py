"""The addresses of channels: which are good, what is said of the others, and that none is shown."""

import email
import io
import json
import logging
import smtplib
from types import SimpleNamespace

import pytest
import requests

from bot.config.problems import OperatorMistake
from bot.config.settings.notify import ChannelPlan
from bot.domain.notice import Severity, Volume
from bot.protocol.secret import Secret
from bot.runtime.notices import channels
from bot.runtime.notices.channels import Message, Sent, open_channels
from tests.notice_server import notice_server
from tests.rows import every_row

pytest.importorskip("apprise")
CANARY = "c4n4ryT0ken"
MESSAGE = Message(Severity.INFO, Volume.ON, "a title", "what happened")
GOOD = (
    f"tgram://123456789:{CANARY}_abcdefgh/12315544/",
    f"mailtos://me:{CANARY}@gmail.com",
    f"ntfys://{CANARY}",
    f"ntfys://ntfy.sh/{CANARY}",
    "json://127.0.0.1:8080/",
    "json://localhost/",
)
BAD = {
    f"notaurl{CANARY}": "not one that Apprise knows",
    f"foo://{CANARY}": "not one that Apprise knows",
    f"json://{CANARY}\u202e@/": "not one that Apprise knows",
    f"json://me:{CANARY}@example.com/": "use jsons://",
    f"ntfy://{CANARY}": "use ntfys://",
    f"mailto://me:{CANARY}@gmail.com": "use mailtos://",
    f"jsons://me:{CANARY}@example.com/?verify=no": "take verify=no out",
    f"jsons://me:{CANARY}@169.254.169.254/latest": "private network",
    f"jsons://me:{CANARY}@10.0.0.1/": "private network",
    f"jsons://me:{CANARY}@[fd00::1]/": "private network",
    f"jsons://me:{CANARY}@[::ffff:10.0.0.1]/": "private network",
}


def plan(url: str) -> ChannelPlan:
    return ChannelPlan("phone", Secret(url), "notify.yaml")


@every_row("url", GOOD)
def test_an_address_over_tls_or_to_this_machine_is_good(url: str) -> None:
    [channel] = open_channels([plan(url)])

    assert CANARY not in repr(channel.plan)


@every_row("url", [*BAD])
def test_an_address_that_is_not_good_is_named_and_not_shown(url: str) -> None:
    with pytest.raises(OperatorMistake) as raised:
        open_channels([plan(url)])

    said = str(raised.value)
    assert said.startswith("E-CFG-050 notify.yaml: the address of channel 'phone': ")
    assert BAD[url] in said
    assert CANARY not in said


def test_all_bad_addresses_are_named_at_once() -> None:
    with pytest.raises(OperatorMistake) as raised:
        open_channels([plan(url) for url in BAD])

    assert len(raised.value.problems) == len(BAD)


@pytest.mark.wire
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_whatever_the_address_says(status: int) -> None:
    with notice_server() as inside, notice_server() as service:
        service.status = status
        service.headers["Location"] = inside.url.replace("json", "http")

        [channel] = open_channels([plan(f"{service.url}?redirect=yes")])
        sent = channel.send(MESSAGE)

    assert sent == Sent(is_taken=False, words=f"it answered HTTP {status}")
    assert (len(service.messages), inside.messages) == (1, [])


@pytest.mark.wire
def test_what_goes_wrong_is_told_in_words_that_hold_no_address(
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    with notice_server() as service:
        [channel] = open_channels([plan(f"{service.url}{CANARY}?token={CANARY}")])
        taken = channel.send(MESSAGE)
        service.status = 500
        failed = channel.send(MESSAGE)
    refused = channel.send(MESSAGE)

    assert taken == Sent(is_taken=True, words="taken")
    assert failed == Sent(is_taken=False, words="it answered HTTP 500")
    assert refused == Sent(is_taken=False, words="the connection was refused")
    logging.getLogger().removeHandler(handler)
    shown = capsys.readouterr()
    assert CANARY not in heard.getvalue() + shown.out + shown.err


@pytest.mark.wire
def test_a_name_that_leads_inside_is_asked_nothing() -> None:
    with notice_server() as service:
        port = service.url.rpartition(":")[2]
        [channel] = open_channels([plan(f"jsons://localhost.localdomain:{port}")])

        sent = channel.send(MESSAGE)

    assert not sent.is_taken
    assert service.messages == []


DO = " Look at your orders: bot orders"
LONG = Message(Severity.CRITICAL, Volume.ON, "LIVE bot: halted", f"{'ă' * 3_100}.{DO}")
ROOM = {
    "json://127.0.0.1/": 32_768,
    "zalo://123456789:abcdefghijklmnopqrstuvwxyz012345678/12345": 2_000,
    "pover://uuuuuuuuuuuuuuuuuuuuuuuuuuuuuu@tttttttttttttttttttttttttttttt": 1_024,
    # Its limit of 160 is that of one SMS: what is longer it sends in several.
    "vonage://abcdef12:abcdefghijklmnop@12345678901/12345678901": 3_000,
}


@every_row("url", [*ROOM])
def test_a_long_text_is_cut_to_what_the_service_takes_together_with_the_title(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = list[str]()

    def notify(*, body: str, **_: object) -> bool:
        bodies.append(body)
        return True

    [channel] = open_channels([plan(url)])
    monkeypatch.setattr(channels, "objection_to", lambda _: "")
    channel._senders = {Volume.ON: SimpleNamespace(notify=notify)}

    sent = channel.send(LONG)

    [body] = bodies
    assert sent.is_taken
    assert len(body) == min(3_000, ROOM[url] - len(f"{LONG.title}\r\n"))
    assert body.startswith("ăă")
    assert body.endswith(f"ă…{DO}")
    assert channel.send(MESSAGE).is_taken
    assert bodies[1:] == [MESSAGE.body]


@pytest.mark.parametrize(
    ("body", "room", "cut"),
    [
        ("held, as it is older. Look: bot status", 36, "held, as it is old… Look: bot status"),
        ("09:00 halted: why or why not\n→ bot status", 30, "09:00 halted: wh…\n→ bot status"),
        ("no end of a sentence anywhere", 11, "no en…where"),
        ("much too long", 1, "…"),
        ("much too long", -5, "…"),
        ("room enough", 11, "room enough"),
    ],
)
def test_what_to_do_stays_where_a_text_is_cut(body: str, room: int, cut: str) -> None:
    assert channels._cut(body, room) == cut


OUTSIDE = "TypeError: '<' & <b>b</b> <a href='https://evil'>enter the code</a>\n→ bot status"
"""What a broker or a plug-in may say, and a line of ours."""


def test_telegram_gets_text_from_outside_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    posted = list[dict[str, str]]()

    def post(*_: object, data: str, **__: object) -> SimpleNamespace:
        posted.append(json.loads(data))
        return SimpleNamespace(status_code=requests.codes.ok, content=b'{"ok": true}')

    monkeypatch.setattr(requests, "post", post)
    [channel] = open_channels([plan(GOOD[0])])

    sent = channel.send(Message(Severity.WARNING, Volume.ON, "LIVE my<a>bot", OUTSIDE))

    assert sent.is_taken
    assert posted[-1]["parse_mode"] == "HTML"
    head, *lines = posted[-1]["text"].splitlines()
    assert head == "<b>LIVE my&lt;a&gt;bot</b>"
    escaped = "&lt;b&gt;b&lt;/b&gt; &lt;a href='https://evil'&gt;enter the code&lt;/a&gt;"
    assert lines == [f"TypeError: '&lt;' &amp; {escaped}", "→ bot status"]


def test_a_mail_keeps_its_lines_and_all_of_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    mailed = list[str]()

    class Mailbox:
        def __init__(self, *_: object, **__: object) -> None: ...

        def __getattr__(self, _: str) -> object:
            return lambda *_, **__: None

        def sendmail(self, _: str, __: object, text: str) -> None:
            mailed.append(text)

    monkeypatch.setattr(smtplib, "SMTP", Mailbox)
    monkeypatch.setattr(smtplib, "SMTP_SSL", Mailbox)
    monkeypatch.setattr(channels, "objection_to", lambda _: "")
    [channel] = open_channels([plan(GOOD[1])])

    sent = channel.send(Message(Severity.WARNING, Volume.ON, "LIVE my<a>bot", OUTSIDE))

    assert sent.is_taken
    [part] = list(email.message_from_string(mailed[0]).walk())
    assert part.get_content_type() == "text/plain"
    assert part.get_payload(decode=True) == OUTSIDE.encode()
