"""What installing a release would move: its requirements, and theirs as far as they are known, against what is here.

As pip and uv do it: a package that meets the requirement stays as it is, one that does not is replaced. Nothing is
backtracked, so that a resolver may also settle on an older release of what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from trueup.environment.markers import markers
from trueup.environment.packages import normalised
from trueup.environment.wheels.offers import Offer
from trueup.schema.environment import Environment
from trueup.schema.wheels import Move


def moves(environment: Environment, offers: Iterable[Offer]) -> tuple[Move, ...]:
    """The installed packages that do not meet what the offers require, torch first; of a name the first that asks.

    The first offer is what was asked for: that it replaces an older release of itself is no move.
    """
    offers = list(offers)
    replaced = {offer.name: offer.version for offer in offers}
    found: dict[str, Move] = {}
    for offer in offers:
        for requirement in required(offer, environment):
            name = normalised(requirement.name)
            installed = environment.packages.get(name)
            if installed is None or name in found or name == offers[0].name or _met(requirement, installed.version):
                continue
            wanted = f"{name}{requirement.specifier}"
            found[name] = Move(
                package=name,
                installed=installed.version,
                wanted=str(requirement.specifier),
                because=f"{offer.name} {offer.version} requires {wanted}",
                breaks=tuple(_breaks(environment, name, requirement.specifier, replaced)),
            )
    own = offers[0] if offers else None
    here = environment.packages.get(own.name) if own is not None else None
    if own is not None and here is not None and own.version != here.version:
        broken = tuple(_breaks(environment, own.name, SpecifierSet(f"=={own.version}"), replaced))
        if broken:
            because = "it was asked for"
            found[own.name] = Move(
                package=own.name, installed=here.version, wanted=f"=={own.version}", because=because, breaks=broken
            )
    return tuple(sorted(found.values(), key=lambda move: (move.package != "torch", move.package)))


def unread(environment: Environment, offers: Iterable[Offer]) -> dict[str, str]:
    """Name → requirement of what would be installed or replaced, and of which no offer is known yet."""
    offers = list(offers)
    known = {offer.name for offer in offers}
    wanted: dict[str, SpecifierSet] = {}
    extras: dict[str, set[str]] = {}
    for offer in offers:
        for requirement in required(offer, environment):
            name = normalised(requirement.name)
            installed = environment.packages.get(name)
            if name in known or requirement.url or (installed is not None and _met(requirement, installed.version)):
                continue
            wanted[name] = wanted.get(name, SpecifierSet()) & requirement.specifier
            extras.setdefault(name, set()).update(requirement.extras)
    return {name: f"{name}{specifier}" for name, specifier in wanted.items()}


def required(offer: Offer, environment: Environment) -> Iterator[Requirement]:
    """The requirements that count here; lines that are no requirements are left out."""
    known = markers(environment)
    for line in offer.requires:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate(known):
            yield requirement


def _met(requirement: Requirement, installed: str) -> bool:
    try:
        return requirement.specifier.contains(Version(installed), prereleases=True)
    except InvalidVersion:
        return True


def _breaks(environment: Environment, name: str, wanted: SpecifierSet, replaced: Mapping[str, str]) -> Iterator[str]:
    """Installed packages that need `name` as it is: by their requirements, or by what they were compiled against."""
    version = _exact(wanted)
    known = markers(environment)
    for package in environment.packages.values():
        if package.name in replaced:
            continue
        for line in package.requires:
            try:
                requirement = Requirement(line)
                counts = requirement.marker is None or requirement.marker.evaluate(known)
            except (InvalidRequirement, InvalidSpecifier):
                continue
            if counts and normalised(requirement.name) == name and _excludes(requirement.specifier, version):
                yield f"{package.name} {package.version}, which requires {name}{requirement.specifier}"
    if name == "torch":
        yield from _compiled(environment, replaced)


def _compiled(environment: Environment, replaced: Mapping[str, str]) -> Iterator[str]:
    """Those on the stable ABI go on with a newer torch; which one comes is not always known, so they are not named."""
    names = {each.package for each in environment.extensions if each.package and not each.stable_abi}
    for name in sorted(names - replaced.keys()):
        yield f"{name}, which is compiled against torch {environment.packages['torch'].version}"


def _exact(wanted: SpecifierSet) -> Version | None:
    for each in wanted:
        if each.operator == "==" and "*" not in each.version:
            return Version(each.version)
    return None


def _excludes(specifier: SpecifierSet, version: Version | None) -> bool:
    """Whether a requirement cannot be met any more. Of a move to an unknown version only an exact pin tells."""
    if version is None:
        return any(each.operator in ("==", "===") for each in specifier)
    return not specifier.contains(version, prereleases=True)
