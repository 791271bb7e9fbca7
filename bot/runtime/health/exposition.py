"""Numbers in the text format that Prometheus reads (version 0.0.4)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from bot.domain.visible import visible

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"'})

Samples = Mapping[tuple[tuple[str, str], ...], float]


@dataclass(frozen=True, slots=True)
class Metric:
    """One number, or one for each set of labels. `kind` is gauge or counter."""

    name: str
    kind: str
    help: str
    samples: Samples = field(default_factory=dict)


def gauge(name: str, text: str, value: float) -> Metric:
    return Metric(name, "gauge", text, {(): value})


def counter(name: str, text: str, value: float) -> Metric:
    return Metric(name, "counter", text, {(): value})


def labelled(name: str, kind: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return a metric with one label."""
    return Metric(name, kind, text, {((label, key),): value for key, value in values.items()})


def exposed(metrics: Iterable[Metric]) -> str:
    """Return them as a page."""
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in metric.samples.items():
        pairs = ",".join(f'{key}="{visible(text).translate(_ESCAPED)}"' for key, text in labels)
        yield f"{metric.name}{{{pairs}}} {value:.17g}" if pairs else f"{metric.name} {value:.17g}"
