"""How a remedy is applied to an unmodified command."""

from __future__ import annotations

import msgspec

from trueup.remedies.values import Value


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """What a run with the remedy does differently. Rules name the remedy by its id, `automatic`."""

    remedy: str
    """Id, as in `Remedy.id`."""
    variables: dict[str, str] = {}
    """Environment variables set for the command, and held in each Python process of the job."""
    computed: dict[str, Value] = {}
    """The same, with a value that depends on the machine; a variable of which there is none stays as it is."""
    in_process: bool = True
    """An applier of instrument of this name takes part."""
    corrects: tuple[str, ...] = ()
    """Rules whose fault makes results wrong: with the remedy, losses are not those of the job as it was."""
    excludes: tuple[str, ...] = ()
    """Remedies that are never applied together with this one."""
