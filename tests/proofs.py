"""The end of a long proof: one that has done nothing has found nothing wrong, and shown nothing."""


def undone(**counts: int) -> list[str]:
    """Name each thing that a proof should have done, or met, at least once and has not."""
    return [
        f"NOTHING SHOWN: no {name.replace('_', ' ')}" for name, count in counts.items() if not count
    ]
