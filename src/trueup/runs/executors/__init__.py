"""Where the runs of a procedure are made: on this machine, or on the workers of a Ray cluster.

    executor = executor_for("local", jobs=2)
    with Probes(command, ..., kind="bisect", executor=executor) as probes:
        bisect(probes.run_all, at_once=executor.at_once)

`executor_for` makes one, `at_once` tells how many runs it makes side by side, `notes` what went otherwise than planned
(a worker that was lost). `Probes` closes it. Its errors are ProbeErrors, whose messages say what to do.

What runs side by side on one machine must not meet: each such run gets the remedy `free-port`, so that launchers and
stores take ports of their own, and GPUs of its own where `GPU=N` was said. Threads are left as the job has them: fewer
would add up numbers in another order than in the job as it is. So times of runs that were made side by side compare
nothing; where time is the question, ask for one at a time.
"""

from __future__ import annotations

from typing import Literal

from trueup.runs.executors.executor import Executor, ExecutorError, Watch
from trueup.runs.executors.local import local_executor
from trueup.runs.executors.resources import resources_of

Kind = Literal["local", "ray"]
KINDS: tuple[Kind, ...] = ("local", "ray")

__all__ = ["KINDS", "Executor", "ExecutorError", "Kind", "Watch", "executor_for"]


def executor_for(
    kind: Kind = "local", jobs: int | None = None, resources: str = "", address: str | None = None
) -> Executor:
    """The executor of `--executor`.

    `jobs`: runs side by side at most; by default as many as there are `resources` for, where they are said, else one
    here and one for each CPU of a Ray cluster. `resources`: of each run, `CPU=2,GPU=1`; on a Ray cluster also those of
    its own. `address`: of the Ray cluster; by default that of RAY_ADDRESS, else one that runs on this machine, else a
    new one for this procedure alone. Raises ExecutorError.
    """
    asked = resources_of(resources)
    if kind == "local":
        return local_executor(jobs, asked)
    from trueup.runs.executors.ray import RayExecutor

    return RayExecutor(jobs, asked, address)
