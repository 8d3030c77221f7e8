"""Each way to launch says how many processes it was asked for and how many it starts."""

import base64
import json
import sys

import pytest
from observed_jobs import SCRIPTS, Process


def launched(observed):
    return [event for event in observed.of("launcher") if event["kind"] == "launcher"]


def test_accelerate_on_a_cpu_starts_one_process_whatever_was_asked(run_job):
    observed = run_job(str(SCRIPTS / "accelerate"), "launch", "--cpu", "--num_processes", "2", "accelerated.py")
    (launcher,) = launched(observed)
    assert (launcher["name"], launcher["processes"], launcher["started"]) == ("accelerate launch", 2, 1)
    assert (launcher["detail"]["way"], launcher["detail"]["cpu"]) == ("simple", True)
    assert Process(observed.of("launcher")).requests("launcher", "processes") == [(2, "accelerate launch")]
    assert Process(observed.of("rank")).layer("Accelerator")["detail"]["num_processes"] == 1


def test_accelerate_reads_the_number_from_its_configuration_file(run_job, tmp_path):
    config = tmp_path / "accelerate.yaml"
    config.write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 2\n"
        "mixed_precision: bf16\nuse_cpu: false\ngpu_ids: all\nmachine_rank: 0\n"
    )
    command = ("-m", "accelerate.commands.launch", "--config_file", str(config), "nothing.py")
    outer, inner = launched(run_job(sys.executable, *command))
    assert (outer["name"], outer["processes"], outer["started"]) == ("accelerate launch", 2, None)
    assert (outer["detail"]["multi_gpu"], outer["detail"]["mixed_precision"]) == (True, "bf16")
    assert outer["detail"]["config_file"] == str(config)
    assert (inner["name"], inner["processes"]) == ("torchrun", 2)


@pytest.mark.parametrize(
    ("module", "name", "options"),
    [
        ("torch.distributed.run", "torchrun", ("--nproc-per-node", "auto")),
        ("torch.distributed.launch", "torch.distributed.launch", ("--use-env", "--nproc-per-node", "3")),
    ],
)
def test_modules_of_torch_that_launch_are_seen(run_job, module, name, options):
    import os

    observed = run_job(sys.executable, "-W", "ignore", "-m", module, "--standalone", *options, "nothing.py")
    (launcher,) = launched(observed)
    assert launcher["name"] == name
    assert launcher["processes"] == (3 if "3" in options else os.cpu_count())


def test_an_elastic_launch_has_no_one_number(run_job):
    observed = run_job(
        *(str(SCRIPTS / "torchrun"), "--nnodes", "1:4", "--nproc-per-node", "2", "--max-restarts", "0"),
        *(
            "--rdzv-backend",
            "c10d",
            "--rdzv-endpoint",
            "localhost:0",
            "--rdzv-conf",
            "last_call_timeout=1",
            "nothing.py",
        ),
    )
    (launcher,) = launched(observed)
    assert (launcher["processes"], launcher["per_node"], launcher["nodes"]) == (None, 2, None)
    assert (launcher["detail"]["min_nodes"], launcher["detail"]["max_nodes"]) == (1, 4)


def test_processes_spawned_from_python_are_told_by_their_parent_and_are_ranks_once_they_train(run_job):
    observed = run_job(sys.executable, "spawning.py")
    parents = [events for events in observed.processes if any(event["kind"] == "launcher" for event in events)]
    (launcher,) = [event for event in parents[0] if event["kind"] == "launcher"]
    assert (launcher["name"], launcher["processes"]) == ("torch.multiprocessing.spawn", 2)
    ranks = [Process(events).layers("init_process_group") for events in observed.processes if events not in parents]
    assert sorted(init["detail"]["rank"] for (init,) in ranks) == [0, 1]


def test_the_launcher_of_deepspeed_is_read_from_its_command_line(run_job):
    """DeepSpeed is not installed here: a stand-in module of its name is started with the documented argument."""
    world = base64.urlsafe_b64encode(json.dumps({"first": [0, 1], "second": [0, 1]}).encode()).decode()
    observed = run_job(sys.executable, "deepspeed_command.py", f"--world_info={world}")
    (launcher,) = launched(observed)
    assert (launcher["name"], launcher["processes"]) == ("deepspeed", 4)
    assert (launcher["per_node"], launcher["nodes"]) == (2, 2)
