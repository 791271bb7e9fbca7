from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bot.protocol.signing import SigningKey, body_sha256, sign, signing_payload
from tests.rows import every_row

VECTORS: dict[str, Any] = YAML(typ="safe").load(Path(__file__).with_name("signing_vectors.yaml"))
SECRET: str = VECTORS["secret"]
RIGHT: dict[str, Any] = VECTORS["right"]
SLIPS: dict[str, Any] = VECTORS["slips"]


def signed_values(vector: dict[str, Any]) -> dict[str, Any]:
    return {
        "timestamp_ms": vector["timestamp_ms"],
        "method": vector["method"],
        "target": vector["target"],
        "body_sha256": body_sha256(vector["body"].encode()),
    }


def test_all_vectors_are_there():
    assert [len(RIGHT), len(SLIPS)] == [8, 7]


@every_row("vector", RIGHT.values())
def test_a_vector_gets_its_signature(vector):
    values = signed_values(vector)

    assert sign(SECRET, **values) == vector["signature"]
    assert SigningKey(SECRET).sign(**values) == vector["signature"]
    assert SigningKey(SECRET).has_signed(vector["signature"], **values)
    assert len(signing_payload(**values)) == vector["payload_bytes"]


@pytest.mark.parametrize("slip", SLIPS.values(), ids=SLIPS)
def test_a_slip_is_refused(slip):
    assert not SigningKey(SECRET).has_signed(slip["signature"], **signed_values(RIGHT[slip["of"]]))


def test_a_timestamp_is_signed_as_it_was_sent():
    values = signed_values(RIGHT["V1 GET"])

    as_text = sign(SECRET, **{**values, "timestamp_ms": "1714464000123"})
    padded = sign(SECRET, **{**values, "timestamp_ms": "01714464000123"})

    assert as_text == sign(SECRET, **values) != padded


def test_a_key_signs_again_and_again_as_if_it_were_new():
    key, values = SigningKey(SECRET), signed_values(RIGHT["V1 GET"])

    assert [key.sign(**values) for _ in range(3)] == [sign(SECRET, **values)] * 3


@pytest.mark.parametrize(
    "signature", ["", "é" * 64, "\udcff", RIGHT["V1 GET"]["signature"].upper()]
)
def test_a_signature_of_another_form_is_refused(signature):
    assert not SigningKey(SECRET).has_signed(signature, **signed_values(RIGHT["V1 GET"]))


def test_an_empty_body_has_an_empty_hash():
    assert body_sha256(b"") == ""
