"""No request goes to a server that does not prove who it is, and no setting changes that."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import which

import pytest

from bot.broker.carrier import Carrier
from bot.broker.http import HttpxLink, over_sockets, tls_context
from bot.broker.link import Bounds, HttpRequest, Link, Origin, Traffic
from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.config.settings.model import Settings
from bot.protocol.envelope import Answer, NoAnswer
from tests.broker.loopback import reply

pytestmark = pytest.mark.wire
BOUNDS = Bounds(deadline_s=60.0, body_bytes_max=1000)
GET = HttpRequest("GET", "/x", {"X-FH-APIKEY": "not for everybody"})
CA = """
[ca]
default_ca=own
[own]
database={0}/index.txt
new_certs_dir={0}
rand_serial=yes
default_md=sha256
policy=any
copy_extensions=copy
[any]
commonName=optional
"""
NAMES = {
    "good": "DNS:localhost",
    "expired": "DNS:localhost",
    "not trusted": "DNS:localhost",
    "of another host": "DNS:other.example",
    "of a name that certificates may not have any more": "DNS:other.example",
}
SAYS = {
    "expired": "expired",
    "not trusted": "self-signed",
    "of another host": "Hostname mismatch",
    "of a name that certificates may not have any more": "Hostname mismatch",
}


def certificate(folder: Path, kind: str, common_name: str = "localhost") -> tuple[Path, Path]:
    """Make a self-signed one; `expired` ended in 2020. Who trusts several tells them by name."""
    openssl = which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate")
    key, asked, made = folder / "key.pem", folder / "asked.pem", folder / "made.pem"
    (folder / "index.txt").touch()
    (folder / "ca.cnf").write_text(CA.format(folder))
    days = ["-days", "2"]
    if kind == "expired":
        days = ["-startdate", "20190101000000Z", "-enddate", "20200101000000Z"]
    asks = f"req -new -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -keyout {key}"
    asks += f" -out {asked} -subj /CN={common_name} -addext subjectAltName={NAMES[kind]}"
    signs = f"ca -batch -selfsign -config {folder / 'ca.cnf'} -keyfile {key} -in {asked}"
    for words in (asks.split(), [*f"{signs} -out {made}".split(), *days]):
        subprocess.run([openssl, *words], check=True, capture_output=True)
    return key, made


@asynccontextmanager
async def serving(key: Path, made: Path, heard: list[bytes]) -> AsyncIterator[int]:
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(made, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1000))
        writer.write(reply(b"{}"))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=served)
    async with server:
        yield server.sockets[0].getsockname()[1]


def links(port: int, trusted: Path | None) -> list[Link]:
    """Both carriers, with the product's own TLS, that trusts one certificate more."""
    tls = tls_context()
    if trusted is not None:
        tls.load_verify_locations(trusted)
    origin = Origin("https", "localhost", port, f"localhost:{port}")
    ours = Carrier(origin, Traffic(), tls=tls, connections_max=1)
    return [ours, HttpxLink(origin, Traffic(), over_sockets(tls))]


@pytest.mark.parametrize("kind", NAMES)
async def test_only_a_certificate_that_is_good_gets_a_request(tmp_path: Path, kind: str) -> None:
    key, made = await asyncio.to_thread(certificate, tmp_path, kind)
    heard, answers = list[bytes](), list[Answer | NoAnswer]()
    async with serving(key, made, heard) as port:
        for link in links(port, None if kind == "not trusted" else made):
            answers.append(await link.exchange(GET, BOUNDS))
            await link.close()

    if kind == "good":
        assert all(isinstance(each, Answer) for each in answers)
        assert len(heard) == len(answers)
        return
    for answer in answers:
        assert isinstance(answer, NoAnswer)
        assert SAYS[kind] in answer.reason
        assert not answer.is_sent
    assert heard == []


def test_no_setting_is_about_whom_to_believe() -> None:
    words = ("verify", "insecure", "tls", "ssl", "cert", "trust", "ca_")
    keys = [*Settings.model_fields, *Settings.model_fields["broker"].annotation.model_fields]  # type: ignore[union-attr]

    assert [key for key in keys if any(word in key for word in words)] == []


@pytest.mark.parametrize(
    "url",
    [
        "http://broker.example",
        "http://10.0.0.1",
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example",
        "http://0x7f000001",
        "http://user@evil.example#127.0.0.1",
        "ftp://127.0.0.1",
        "https://",
    ],
)
def test_without_tls_nothing_leaves_this_machine(tmp_path: Path, url: str) -> None:
    (tmp_path / "bot.yaml").write_text(f"mode: sandbox\nbroker: {{base_url: '{url}'}}\n")

    with pytest.raises(OperatorMistake):
        load_settings(tmp_path / "bot.yaml", environment={})


def test_certificates_are_verified_and_keys_are_written_nowhere() -> None:
    tls = tls_context()

    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert tls.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert tls.keylog_filename is None
