"""What kind of file system a folder lies on, from the kernel's table of mounts; the folder itself is not touched."""

from __future__ import annotations

import re

import msgspec

from trueup.environment.host import Host

NETWORK = re.compile(
    r"nfs\d?|lustre|gpfs|beegfs|ceph|cifs|smb3?|smbfs|afs|panfs|wekafs|glusterfs|pvfs2|orangefs|9p|virtiofs"
    r"|fuse\.(?:sshfs|glusterfs|ceph|s3fs|gcsfuse|juicefs|blobfuse2?|goofys|rclone|mount-s3|weka.*|alluxio.*|hadoop.*)"
)
"""File systems that several machines share; their locks and renames are slow, late or not atomic."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `/proc/self/mountinfo`."""

    point: str
    filesystem: str
    options: frozenset[str]

    @property
    def is_network(self) -> bool:
        return NETWORK.fullmatch(self.filesystem) is not None


def mounts(host: Host) -> tuple[Mount, ...]:
    """All mounts, the deepest first and of one point the last first; none where the kernel has no such table.

    https://www.kernel.org/doc/Documentation/filesystems/proc.txt, section 3.5
    """
    found = []
    for line in (host.text("/proc/self/mountinfo") or "").splitlines():
        before, sign, after = line.partition(" - ")
        words, kind = before.split(), after.split()
        if sign and len(words) > 5 and kind:
            options = frozenset(words[5].split(","))
            point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), words[4])
            found.append(Mount(point=point, filesystem=kind[0], options=options))
    found.reverse()
    return tuple(sorted(found, key=lambda mount: -len(mount.point)))


def mount_of(path: str, table: tuple[Mount, ...]) -> Mount | None:
    """The mount that an absolute path lies on; of several on one point the last one counts."""
    for mount in table:
        if mount.point == "/" or path == mount.point or path.startswith(mount.point.rstrip("/") + "/"):
            return mount
    return None
