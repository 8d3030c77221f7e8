"""Folders, limits, containers, interfaces and ports."""

import os
import resource
import socket
import subprocess
import sys

import pytest
from hand_made import machine

from trueup.environment import folders as folder_facts
from trueup.environment.folders import folders
from trueup.environment.host import Host
from trueup.environment.limits import limits
from trueup.environment.mounts import mount_of, mounts
from trueup.environment.network import interfaces, ports

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
30 22 0:30 / /home rw,relatime - nfs4 server:/home rw,vers=4.2
31 22 0:31 / /tmp rw,nosuid,nodev,noexec - tmpfs tmpfs rw
32 22 0:32 / /data\\040sets ro,relatime - fuse.s3fs s3fs rw
33 22 0:33 / /tmp ro,relatime - ext4 /dev/sdb1 rw
"""
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 640 1 0 100 0 0 10 0
   1: 0100007F:733D 0100007F:8F4E 01 00000000:00000000 00:00000000 00000000     0        0 641 1 0 20 4 30 10 -1
   2: garbage
"""  # 0x733C = 29500 listens, 0x733D = 29501 is an open connection


def test_the_mounts_of_this_machine_cover_every_path():
    table = mounts(Host())
    assert mount_of("/proc/self", table).filesystem == "proc"
    assert mount_of("/nonexistent/folder", table) is not None


@pytest.mark.parametrize(
    ("path", "filesystem", "network"),
    [
        ("/home/u/.triton", "nfs4", True),
        ("/homework", "ext4", False),
        ("/data sets/x", "fuse.s3fs", True),
        ("/tmp/x", "ext4", False),
    ],
)
def test_the_deepest_and_last_mount_counts(tmp_path, path, filesystem, network):
    mount = mount_of(path, mounts(machine(tmp_path, {"proc/self/mountinfo": MOUNTS})))
    assert (mount.filesystem, mount.is_network) == (filesystem, network)


def test_folders_of_caches_follow_their_variables(tmp_path):
    host = machine(tmp_path, USER="u", TMPDIR="/scratch", TRITON_CACHE_DIR="~/triton", XDG_CACHE_HOME="/cache")
    found, _ = folders(host)
    assert {name: (facts["path"], facts["set_by"]) for name, facts in found.items()} == {
        "inductor cache": ("/scratch/torchinductor_u", "default"),
        "triton cache": (f"{tmp_path}/home/triton", "TRITON_CACHE_DIR"),
        "torch extensions": ("/cache/torch_extensions", "default"),
        "hugging face cache": ("/cache/huggingface", "default"),
        "shm": ("/dev/shm", "default"),
        "tmp": ("/scratch", "TMPDIR"),
    }


def test_inductor_writes_where_torch_says(tmp_path):
    variables = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "USER": "a:b", "LOGNAME": "a:b"}
    code = "from torch._inductor.runtime.cache_dir_utils import default_cache_dir; print(default_cache_dir())"
    said = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    found, _ = folders(Host(variables=variables))
    assert found["inductor cache"]["path"] == said.stdout.strip()


def test_a_folder_is_judged_by_the_nearest_that_exists(tmp_path):
    found, _ = folders(Host(variables={"HOME": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "a" / "b")}))
    facts = found["triton cache"]
    assert (facts["exists"], facts["writable"], facts["nearest"]) == (False, True, str(tmp_path))
    assert facts["free_bytes"] > 0


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    found, _ = folders(Host(variables={"HOME": str(tmp_path), "TRITON_CACHE_DIR": str(closed / "x")}))
    assert found["triton cache"]["writable"] is False


def test_a_file_in_the_place_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    found, _ = folders(Host(variables={"HOME": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "file")}))
    assert found["triton cache"]["writable"] is False


def test_a_file_system_that_does_not_answer(monkeypatch, tmp_path):
    monkeypatch.setattr(folder_facts, "PATIENCE_S", 0.05)
    monkeypatch.setattr(folder_facts, "_of_folder", lambda path: os.read(pipe, 1))
    pipe, other_end = os.pipe()
    found, notes = folders(machine(tmp_path, TRITON_CACHE_DIR="/dead"))
    assert found["triton cache"]["responds"] is False
    assert "triton cache /dead: its file system gave no answer within 0.05 s" in notes
    for _ in found:
        os.write(other_end, b"x")


def test_limits_of_this_process():
    found = limits(Host())
    assert found["open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found["cpus"] == len(os.sched_getaffinity(0))
    assert 0 < found["memory_bytes"] <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


V2 = {
    "proc/meminfo": "MemTotal:       65536 kB\nMemAvailable:   32768 kB\n",
    "proc/self/cgroup": "0::/kubepods/pod1/job\n",
    "sys/fs/cgroup/kubepods/pod1/job/memory.max": "max\n",
    "sys/fs/cgroup/kubepods/pod1/memory.max": "33554432\n",
    "sys/fs/cgroup/kubepods/pod1/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/kubepods/pod1/job/cpu.max": "max 100000\n",
}
V1 = {
    "proc/meminfo": "MemTotal:       65536 kB\n",
    "proc/self/cgroup": "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "33554432\n",  # in a container its own group is the root
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
}
V1_UNLIMITED = {
    "proc/self/cgroup": "4:memory:/\n5:cpu:/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
}


@pytest.mark.parametrize("files", [V2, V1], ids=["version 2", "version 1"])
def test_limits_of_a_control_group(tmp_path, files):
    found = limits(machine(tmp_path, files))
    assert found["container_memory_bytes"] == found["memory_bytes"] == 32 << 20
    assert found["container_cpus"] == 1.5


def test_no_limit_is_no_number(tmp_path):
    found = limits(machine(tmp_path, V1_UNLIMITED))
    assert not {"container_memory_bytes", "container_cpus"} & set(found)


@pytest.mark.parametrize(
    ("files", "variables", "kind"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({"proc/1/cgroup": "0::/kubepods/besteffort/pod1"}, {}, "kubernetes"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({}, {"APPTAINER_CONTAINER": "/x.sif"}, "apptainer"),
        ({"proc/version": "Linux version 5.15.90.1-microsoft-standard-WSL2"}, {}, "wsl"),
        ({"proc/version": "Linux version 6.8.0"}, {}, None),
    ],
)
def test_the_kind_of_container(tmp_path, files, variables, kind):
    assert limits(machine(tmp_path, files, **variables)).get("container") == kind


def test_interfaces_of_this_machine():
    assert set(interfaces(Host())) == {name for _, name in socket.if_nameindex()}


def test_a_port_that_something_listens_on():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert ports(Host(variables={"MASTER_PORT": port})) == {port: True}
    assert ports(Host(variables={"MASTER_PORT": port})) == {port: False}


def test_ports_of_a_table(tmp_path):
    files = {"proc/net/tcp": TCP}
    assert ports(machine(tmp_path, files)) == {"29500": True}
    assert ports(machine(tmp_path, files, MASTER_PORT="29501"), "29500") == {"29501": False, "29500": True}
    assert ports(machine(tmp_path, files, MASTER_PORT="no number")) == {}


def test_no_table_no_answer(tmp_path):
    assert ports(machine(tmp_path)) == {}
