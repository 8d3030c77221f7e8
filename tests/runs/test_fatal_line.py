"""The line of what a command printed that tells why it failed; a launcher's own exception only follows from it."""

import pytest

from trueup.runs.folder import RunFolder

TORCHRUN = """\
Traceback (most recent call last):
  File "/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
x.py FAILED
"""
ACCELERATE = """\
Traceback (most recent call last):
  File "/venv/bin/accelerate", line 8, in <module>
    sys.exit(main())
subprocess.CalledProcessError: Command '['python', 'x.py']' returned non-zero exit status 2.
"""
NO_FILE = "/usr/bin/python3: can't open file '/jobs/x.py': [Errno 2] No such file or directory\n"


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (NO_FILE * 2 + TORCHRUN, "can't open file '/jobs/x.py': [Errno 2] No such file or directory"),
        (NO_FILE + ACCELERATE, "can't open file '/jobs/x.py': [Errno 2] No such file or directory"),
        ("/venv/bin/python: No module named trainer\n" + TORCHRUN, "No module named trainer"),
        ("x.py: error: unrecognized arguments: --lr\n" + TORCHRUN, "x.py: error: unrecognized arguments: --lr"),
        ("sh: 1: train: not found\n", "sh: 1: train: not found"),
        ("[rank1]: ValueError: no corpus\n" + TORCHRUN, "ValueError: no corpus"),
        (NO_FILE + "ValueError: no corpus\n", "ValueError: no corpus"),
        (ACCELERATE, ACCELERATE.splitlines()[-1]),
        (TORCHRUN, None),
        ("INFO: python: no error here\nloss 0.1\n", None),
    ],
)
def test_the_cause_and_not_the_launchers_word_for_it(tmp_path, printed, line):
    (tmp_path / "stderr.txt").write_text(printed)
    assert RunFolder(tmp_path).fatal_line() == line


def test_a_cause_on_the_other_stream(tmp_path):
    """`2>&1` of the job's own, or a launcher that redirects its ranks."""
    (tmp_path / "stderr.txt").write_text(TORCHRUN)
    (tmp_path / "stdout.txt").write_text("RuntimeError: boom\n")
    assert RunFolder(tmp_path).fatal_line() == "RuntimeError: boom"
