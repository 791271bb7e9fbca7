"""The result of a check: one row of the table that `bot conformance` prints."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """OK and FAIL are about what the document shows.

    DRIFT is a difference that a tolerant client can handle: a field added, missing or renamed, a
    number sent as a text, or another choice where the document is silent. SKIPPED was not tried.
    """

    OK = "ok"
    FAIL = "fail"
    DRIFT = "drift"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One assertion: `id` begins with the document's section, `found` says what was found."""

    id: str
    what: str
    verdict: Verdict
    found: str = ""


Show = Callable[[Finding], None]
"""Called with a finding as soon as it is made."""


def nobody(_: Finding) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """Everything that was asserted, in the order of the requests."""

    findings: tuple[Finding, ...]

    @property
    def counts(self) -> Mapping[Verdict, int]:
        counted = Counter(finding.verdict for finding in self.findings)
        return {verdict: counted[verdict] for verdict in Verdict}

    @property
    def executed(self) -> int:
        """How many assertions were made and not skipped."""
        return len(self.findings) - self.counts[Verdict.SKIPPED]

    @property
    def is_conforming(self) -> bool:
        """True if nothing failed and something was checked at all."""
        return self.counts[Verdict.FAIL] == 0 and self.counts[Verdict.OK] > 0


def judged(
    id_: str, what: str, *, is_met: bool, found: object, otherwise: Verdict = Verdict.FAIL
) -> Finding:
    """Return OK or `otherwise`, with what was found."""
    return Finding(id_, what, Verdict.OK if is_met else otherwise, str(found))


def skipped(id_: str, what: str, why: str) -> Finding:
    """Return that it was not checked, and why."""
    return Finding(id_, what, Verdict.SKIPPED, why)
