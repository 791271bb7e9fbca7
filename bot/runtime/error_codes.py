"""The codes of what an operator can get wrong before anything is sent, and what they mean.

A code keeps its meaning for ever; a new mistake gets a new number.
"""

from collections.abc import Mapping
from typing import Final

ERROR_CODES: Final[Mapping[str, str]] = {
    "E-CFG-001": "a file is not there, or cannot be read",
    "E-CFG-002": "a file is not YAML",
    "E-CFG-003": "a key stands twice in one mapping",
    "E-CFG-004": "a tab stands where YAML wants spaces",
    "E-CFG-005": "too many anchors, or a merge key",
    "E-CFG-006": "a YAML tag; only plain values are read",
    "E-CFG-007": "a file is too large, too deep or too long",
    "E-CFG-008": "a file is empty, or no mapping of keys",
    "E-CFG-010": "a file is not UTF-8 text",
    "E-CFG-011": "a key is missing",
    "E-CFG-012": "a key is unknown",
    "E-CFG-013": "a value is of another kind than its key",
    "E-CFG-014": "a word is none of those that its key knows",
    "E-CFG-015": "a number is out of its range",
    "E-CFG-016": "a time of day cannot be read",
    "E-CFG-017": "a length of time cannot be read",
    "E-CFG-018": "a percentage cannot be read",
    "E-CFG-019": "the price of an order cannot be read",
    "E-CFG-020": "`on_2fa` cannot be read",
    "E-CFG-021": "a quantity that the exchange takes in no lot",
    "E-CFG-022": "an order type that the exchange does not take, or not then",
    "E-CFG-023": "order type and price do not fit together",
    "E-CFG-024": "a symbol or a name is malformed, or stands twice",
    "E-CFG-025": "a symbol that the shipped table does not know (a warning offline)",
    "E-CFG-026": "what wakes the strategy is missing or cannot be read",
    "E-CFG-027": "two values that let no order through",
    "E-CFG-028": "something that this release cannot do yet",
    "E-CFG-031": "no strategy of that name",
    "E-CFG-032": "a strategy's Python file is broken",
    "E-CFG-033": "a parameter that the strategy does not have, or one that it needs",
    "E-CFG-034": "a parameter of another type than the strategy declares",
    "E-CFG-035": "nothing ever wakes the strategy",
    "E-CFG-036": "two strategy files of one name",
    "E-CFG-037": "no strategy file where the configuration looks",
    "E-CFG-038": "a folder of strategies that others may write to",
    "E-CFG-041": "a secret in a configuration file",
    "E-CFG-042": "`mode: live` without a dated statement that the broker allows automated orders",
    "E-CFG-043": "the broker's address is missing or unsafe",
    "E-CFG-044": "the journal's address cannot be read",
    "E-CFG-045": "an environment variable names no setting",
    "E-CFG-046": "a file would be written over",
    "E-SEC-001": "the API key or its secret is missing",
    "E-SEC-002": "a secrets file that others may read or change",
    "E-SEC-003": "a secret in the environment in live mode",
}
