"""Lists what the lock installs as CycloneDX 1.6 (JSON): names, versions, licences, hashes, needs.

    make sbom        writes dist/vnbot.cdx.json

Written here, as the format is small and the tool that writes it would bring twenty packages into
what we trust. The same lock gives the same file: it has no time in it. `scope` tells what runs with
every bot (required) from extras (optional) and from what only builds and tests (excluded). Licences
and needs are those of what is installed; what is for another system only has neither.
"""

import json
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
FILE = ROOT / "dist" / "vnbot.cdx.json"
US = "vnbot"
_PINNED = re.compile(
    r"(?P<name>[a-z0-9.-]+)==(?P<version>[\w.+!-]+)(?: ; (?P<marker>[^\\]+?))?"
    r"(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)"
)
_LICENCE = "License :: OSI Approved :: "

Json = dict[str, object]


def pinned(lock: str) -> Iterator[re.Match[str]]:
    """Yield each package of a lock. Raises ValueError for a line that pins none by its hashes."""
    for line in lock.replace("\\\n", " ").splitlines():
        match = _PINNED.fullmatch(re.sub(r"\s+", " ", line))
        if match is None:
            raise ValueError(f"no package with version and hashes: {line[:80]}")
        yield match


def needed_by(name: str, *extras: str) -> set[str]:
    """Return the packages that come with one here, those of its extras too."""
    found, waiting = set[tuple[str, str]](), [(name, extra) for extra in ("", *extras)]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += _below(*one)
    return {each for each, _ in found} - {name}


def _below(name: str, extra: str = "") -> Iterator[tuple[str, str]]:
    """Yield what a package needs here, with the extras that it asks for."""
    try:
        needed = requires(name) or []
    except PackageNotFoundError:  # for another system
        return
    for each in map(Requirement, needed):
        if each.marker is None or each.marker.evaluate({"extra": extra}):
            for wanted in ("", *each.extras):
                yield canonicalize_name(each.name), wanted


def bill(lock: str) -> Json:
    """Return the list of what a lock installs."""
    us, packages = metadata(US), [*pinned(lock)]
    core = needed_by(US)
    optional = needed_by(US, *(us.get_all("Provides-Extra") or ()))
    refs = dict[str, list[str]]()
    for match in packages:
        refs.setdefault(match["name"], []).append(_ref(match))

    def needs(ref: str, name: str) -> Json:
        below = {each for each, _ in _below(name)}
        return {
            "ref": ref,
            "dependsOn": [one for each in sorted(below) for one in refs.get(each, ())],
        }

    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, lock)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": US,
                "name": US,
                "version": us["Version"],
                "licenses": [*_licences(US)],
            }
        },
        "components": [_component(match, core, optional) for match in packages],
        "dependencies": [needs(US, US), *(needs(_ref(each), each["name"]) for each in packages)],
    }


def _ref(match: re.Match[str]) -> str:
    return f"pkg:pypi/{match['name']}@{match['version']}"


def _component(match: re.Match[str], core: Iterable[str], optional: Iterable[str]) -> Json:
    name, marker = match["name"], match["marker"]
    return {
        "type": "library",
        "bom-ref": _ref(match),
        "name": name,
        "version": match["version"],
        "scope": "required" if name in core else "optional" if name in optional else "excluded",
        "purl": _ref(match),
        "hashes": [
            {"alg": "SHA-256", "content": each.rpartition(":")[2]}
            for each in match["hashes"].split()
        ],
        "licenses": [*_licences(name)],
        "properties": [{"name": "python:marker", "value": marker}] if marker else [],
    }


def _licences(name: str) -> Iterator[Json]:
    try:
        said = metadata(name)
    except PackageNotFoundError:
        return
    classes = said.get_all("Classifier") or ()
    named = [each.removeprefix(_LICENCE) for each in classes if each.startswith(_LICENCE)]
    words = "\n".join(said.get_all("License") or ()).strip().splitlines()
    if expressions := said.get_all("License-Expression"):
        yield {"expression": expressions[0]}
    elif named or words:
        yield {"license": {"name": (named or words)[0]}}


def main() -> None:
    """Write the file."""
    listed = bill(LOCK.read_text("utf-8"))
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(listed, indent=1) + "\n", "utf-8")
    print(f"{FILE.relative_to(ROOT)}: {len(list(pinned(LOCK.read_text('utf-8'))))} packages")


if __name__ == "__main__":
    main()
