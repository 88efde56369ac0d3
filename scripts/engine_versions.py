"""docs/versions.md, the extras of pyproject.toml and the pins of the requirement files, from versions.toml.

`make versions` writes them; a test compares them with src/diver/integrations/versions.toml, which alone is edited.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from diver.core.tables import markdown
from diver.integrations.versions import VERSIONS

ROOT = Path(__file__).resolve().parents[1]
INTRODUCTION = """# Versions of the engines

The releases that the extras allow, and the pinned releases with which each target of the Makefile runs its tests.
`diver train --engine trl` needs TRL {trl}; the reward function in your own script runs with every allowed TRL. verl's
version is exact, since the hooks of its trainer are not a public interface. `make versions` writes this page from
`src/diver/integrations/versions.toml`.
"""


def main() -> None:
    for path, text in current().items():
        path.write_text(text, encoding="utf-8")


def current() -> dict[Path, str]:
    """The files that name versions, each as it has to be."""
    extras = ROOT / "pyproject.toml"
    texts = {ROOT / "docs" / "versions.md": page(), extras: extras.read_text(encoding="utf-8")}
    for package, specifier in VERSIONS["allowed"].items():
        texts[extras] = re.sub(rf'"{package}[<>=][^"]*"', f'"{package}{specifier}"', texts[extras])
    for environment in VERSIONS["environments"].values():
        for path in (ROOT / file for file in environment["files"]):
            texts[path] = pinned(path.read_text(encoding="utf-8"), environment["versions"])
    return texts


def pinned(requirements: str, versions: dict[str, str]) -> str:
    """A requirement file with these versions of the packages that it pins."""
    for package, version in versions.items():
        requirements = re.sub(rf"^{package}==\S+", f"{package}=={version}", requirements, flags=re.MULTILINE)
    return requirements


def page() -> str:
    introduction = INTRODUCTION.format(trl=VERSIONS["allowed_by_train"]["trl"].removeprefix(">=") + " or newer")
    environments = VERSIONS["environments"]
    targets = [(f"`{target}`", environment["runs"]) for target, environment in environments.items()]
    header = ("package", "allowed", *(target.removeprefix("make ") for target in environments))
    tables = [
        markdown(header, rows(), text=len(header)),
        markdown(("target", "what runs"), targets, text=2),
        markdown(("Python", "what was run"), VERSIONS["python"].items(), text=2),
    ]
    return "\n".join([introduction, *tables])


def rows() -> Iterator[list[str]]:
    """The allowed releases of each package, and its release in each environment."""
    allowed, pins = VERSIONS["allowed"], [environment["versions"] for environment in VERSIONS["environments"].values()]
    for package in dict.fromkeys([*allowed, *(package for versions in pins for package in versions)]):
        yield [package, allowed.get(package, ""), *(versions.get(package, "") for versions in pins)]


if __name__ == "__main__":
    main()
