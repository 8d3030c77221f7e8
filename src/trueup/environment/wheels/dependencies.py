"""`--for` any package: what installing it would move in this environment, and the lines that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from packaging.requirements import Requirement

from trueup.environment.packages import normalised
from trueup.environment.wheels import commands
from trueup.environment.wheels.here import here_of
from trueup.environment.wheels.index import IndexFailed
from trueup.environment.wheels.installing import moves, unread
from trueup.environment.wheels.knowledge import UnknownPackage, packages
from trueup.environment.wheels.offers import Offer, known_offer
from trueup.schema.environment import Environment
from trueup.schema.wheels import Move, Resolution, Way

Ask = Callable[[Iterable[str], Environment], tuple[Offer, ...]]
"""As `index.ask`."""
ROUNDS = 3
"""Of dependencies of dependencies that are asked of the index."""
MOST_CALLS = 16
"""Of pip in one round."""


def resolve_any(environment: Environment, asked: str, ask: Ask | None) -> Resolution:
    """The answer for a package without a table of wheels. Raises UnknownPackage where nothing is known of it."""
    requirement = Requirement(asked)
    name = normalised(requirement.name)
    offers, notes = offered(environment, requirement, ask)
    here = here_of(environment)
    installed = environment.packages.get(name)
    if not offers:
        raise UnknownPackage(
            f"{asked}: {notes[-1] if notes else 'no such release is known here; --online asks the index'}. There are "
            f"tables of wheels for {', '.join(packages())}"
        )
    moved = moves(environment, offers)
    return Resolution(
        package=name,
        asked=asked,
        verdict="moves" if moved else "fits",
        summary=in_words(offers[0], moved, len(environment.packages)),
        here=here.in_words(),
        ways=tuple(_ways(environment, offers[0], moved)),
        moves=moved,
        installed=None if installed is None else installed.version,
        notes=notes,
    )


def with_moves(resolution: Resolution, environment: Environment, ask: Ask | None) -> Resolution:
    """The answer for a package with a table of wheels, and what installing it by its name would move."""
    requirement = Requirement(resolution.asked)
    requirement.name = resolution.package
    offers, notes = offered(environment, requirement, ask)
    moved = moves(environment, offers)
    said = notes if moved or ask is not None else ()
    return msgspec.structs.replace(resolution, moves=moved, notes=(*resolution.notes, *said))


def offered(
    environment: Environment, requirement: Requirement, ask: Ask | None
) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """(the release that was asked for and, as far as they are known, what it would bring; what is not known)"""
    name, specifier = normalised(requirement.name), requirement.specifier
    if ask is None:
        known = known_offer(name, specifier, environment)
        return _followed_offline(environment, known)
    try:
        offers = ask([f"{name}{specifier}"], environment)
    except IndexFailed as error:
        known = known_offer(name, specifier, environment)
        found, notes = _followed_offline(environment, known)
        return found, (*notes, f"the index was asked, and gave no release for this Python and platform: {error}")
    return _followed(environment, offers, ask)


def _followed(
    environment: Environment, offers: tuple[Offer, ...], ask: Ask
) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """The offers, and those of their dependencies round by round."""
    notes = [f"read from the index: {offers[0].name} {offers[0].version}" if offers else "the index has no release"]
    left_out: set[str] = set()
    for _ in range(ROUNDS):
        wanted = {name: text for name, text in unread(environment, offers).items() if _is_followed(name, left_out)}
        if not wanted:
            break
        offers += _answered(environment, list(wanted.values()), ask)
        known = {offer.name for offer in offers}
        left_out.update(name for name in wanted if name not in known)
    if left_out:
        notes.append(f"what these would move is not known: {_first_of(sorted(left_out))}")
    return offers, tuple(notes)


def _is_followed(name: str, left_out: set[str]) -> bool:
    """torch brings its own CUDA packages and Triton, gigabytes where an index has no separate metadata."""
    return name not in left_out and name not in ("torch", "triton") and not name.startswith("nvidia-")


def _answered(environment: Environment, wanted: list[str], ask: Ask, calls: int = MOST_CALLS) -> tuple[Offer, ...]:
    """Offers for all that the index answers for: pip fails for all when it does for one, so that halves are tried."""
    try:
        return ask(wanted, environment)
    except IndexFailed:
        if len(wanted) < 2 or calls < 2:
            return ()
        middle = len(wanted) // 2
        halves = (wanted[:middle], wanted[middle:])
        return tuple(found for half in halves for found in _answered(environment, half, ask, calls // 2))


def _followed_offline(environment: Environment, known: Offer | None) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    if known is None:
        return (), ()
    offers: tuple[Offer, ...] = (known,)
    for _ in range(ROUNDS):
        wanted = unread(environment, offers)
        more = (known_offer(name, Requirement(text).specifier, environment) for name, text in wanted.items())
        found = tuple(each for each in more if each is not None)
        if not found:
            break
        offers += found
    missing = sorted(unread(environment, offers))
    notes = [f"read from {known.read}, not from the index: {known.name} {known.version}; --online asks the index"]
    if missing:
        notes.append(f"would be installed, too, and what they require is not known: {_first_of(missing)}")
    return offers, tuple(notes)


def _first_of(names: list[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def in_words(offer: Offer, moved: tuple[Move, ...], there: int) -> str:
    """The answer in a sentence."""
    if not moved:
        return f"{offer.name} {offer.version} moves none of the {there} packages that are installed"
    names = ", ".join(f"{move.package} {move.installed}" for move in moved[:4])
    more = f" and {len(moved) - 4} more" if len(moved) > 4 else ""
    return f"installing {offer.name} {offer.version} would replace {names}{more}"


def _ways(environment: Environment, offer: Offer, moved: tuple[Move, ...]) -> Iterator[Way]:
    if not moved:
        yield Way(
            kind="wheel",
            title="install it, with what is here held fast",
            commands=commands.install(environment, [f"{offer.name}=={offer.version}", *_pins(environment)]),
        )
        return
    pins = [f"{move.package}=={move.installed}" for move in moved if move.package != offer.name]
    if pins:
        yield Way(
            kind="keep",
            title="keep what is here: the resolver takes a release that allows it, or says that there is none",
            commands=commands.install(environment, [offer.name, *pins]),
            cost=f"not {offer.version}, and another release may lack what you want of it",
        )
    if pins and not any(move.package == "torch" and move.wanted.startswith("==") for move in moved):
        # an exact torch is asked for by what is compiled against it, which does not load in another
        yield Way(
            kind="keep",
            title=f"install {offer.version} alone, and see whether it works with what is here",
            commands=commands.install(environment, [f"{offer.name}=={offer.version}"], options="--no-deps"),
            cost="nothing checks it, and what else it requires is to be installed by hand",
        )
    yield Way(
        kind="apart",
        title="an environment of its own",
        commands=_apart(offer),
        cost="what is common to both stands on disk twice",
    )


def _pins(environment: Environment) -> list[str]:
    torch = environment.packages.get("torch")
    return [] if torch is None else [f"torch=={torch.version}"]


def _apart(offer: Offer) -> dict[str, str]:
    folder, what = f".venv-{offer.name}", commands.quoted(f"{offer.name}=={offer.version}")
    return {
        "pip": f"python3 -m venv {folder} && {folder}/bin/python -m pip install {what}",
        "uv": f"uv venv {folder} && uv pip install --python {folder}/bin/python {what}",
    }
