"""`trueup explain`: files, folders and standard input; every format; exit codes; no secrets."""

import gzip
import json
import subprocess
import sys

import pytest
from jsonschema import Draft7Validator

from trueup.cli import main

BROKEN = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/train.py", line 7, in <module>
[rank1]:     from flash_attn import flash_attn_func
[rank1]:   File "/opt/env/site-packages/flash_attn/flash_attn_interface.py", line 10, in <module>
[rank1]:     import flash_attn_2_cuda as flash_attn_cuda
[rank1]: ImportError: /opt/env/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi
"""
ROOT = "environment/extension-torch-version-mismatch"
UNKNOWN = """\
Traceback (most recent call last):
  File "/srv/train.py", line 88, in main
    loss = model(batch)
  File "/opt/env/lib/python3.11/site-packages/torch/utils/checkpoint.py", line 488, in checkpoint
    return function(*args)
KeyError: 'labels'
"""


def explained(capsys, *arguments):
    code = main(["explain", *map(str, arguments), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "job.log"
    file.write_text(BROKEN)
    return file


def test_text_names_cause_remedy_and_lines(log, capsys):
    assert main(["explain", str(log)]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(f"trueup: {ROOT}\n")
    assert "flash-attn was compiled for torch 2.2 or older" in printed
    assert f"at {log}:6 (rank 1)" in printed
    assert "  cause  The C++ interface of torch changes" in printed
    assert "--no-build-isolation flash-attn" in printed
    assert "  see    https://" in printed


def test_json_holds_the_findings(log, capsys):
    code, answer = explained(capsys, log)
    assert code == 1
    assert [finding["rule"] for finding in answer["findings"]] == [ROOT]
    assert answer["findings"][0]["confidence"] == "established"
    assert answer["unexplained"] == []
    assert answer["ranks"] == [1]


def test_json_beside_it(log, tmp_path, capsys):
    assert main(["explain", str(log), "--json", str(tmp_path / "out" / "answer.json")]) == 1
    assert json.loads((tmp_path / "out" / "answer.json").read_text())["findings"]
    assert capsys.readouterr().out.startswith("trueup: ")


def test_sarif_points_at_the_line_of_the_log(log, capsys):
    assert main(["explain", str(log), "--format", "sarif"]) == 1
    run = json.loads(capsys.readouterr().out)["runs"][0]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("job.log")
    assert place["region"]["startLine"] == 6
    assert run["tool"]["driver"]["rules"][0]["id"] == ROOT
    assert Draft7Validator({"type": "object", "required": ["ruleId", "message"]}).is_valid(run["results"][0])


def test_html_is_one_page_without_markup_from_the_log(tmp_path, capsys):
    file = tmp_path / "job.log"
    file.write_text("ValueError: <script>alert(1)</script>\n")
    assert main(["explain", str(file), "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_not_known_tells_what_can_be_told(tmp_path, capsys):
    file = tmp_path / "job.log"
    file.write_text(UNKNOWN)
    assert main(["explain", str(file)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("trueup: not known: KeyError: 'labels' ")
    assert "checkpointing, by the innermost library frame: torch/utils/checkpoint.py:488 in checkpoint" in printed
    assert "/srv/train.py:88 in main" in printed


def test_a_folder_is_one_job(tmp_path, capsys):
    for rank in range(3):
        (tmp_path / f"rank{rank}.log").write_text(BROKEN.replace("[rank1]: ", f"[rank{rank}]: "))
    code, answer = explained(capsys, tmp_path)
    assert code == 1
    assert len(answer["findings"]) == 1
    assert answer["ranks"] == [0, 1, 2]
    assert answer["findings"][0]["evidence"][0]["ranks"] == [0, 1, 2]


def test_compressed(tmp_path, capsys):
    file = tmp_path / "job.log.gz"
    file.write_bytes(gzip.compress(BROKEN.encode()))
    assert explained(capsys, file)[0] == 1


def test_standard_input():
    done = subprocess.run(
        [sys.executable, "-m", "trueup", "explain", "-"], input=BROKEN, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stdout.startswith(f"trueup: {ROOT}")


def test_nothing_found(tmp_path, capsys):
    file = tmp_path / "job.log"
    file.write_text("step 1 loss 2.0\nstep 2 loss 1.9\n")
    assert main(["explain", str(file)]) == 0
    assert capsys.readouterr().out.startswith("trueup: no failure found\n")


def test_an_empty_file_says_so(tmp_path, capsys):
    file = tmp_path / "job.log"
    file.write_text("")
    assert main(["explain", str(file)]) == 0
    assert "no text could be read" in capsys.readouterr().out


def test_no_such_file_is_a_usage_error(capsys):
    assert main(["explain", "nowhere.log"]) == 2
    assert "no file or folder 'nowhere.log'" in capsys.readouterr().err


def test_secrets_and_home_stay_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    file = tmp_path / "job.log"
    file.write_text(
        "OSError: /home/somebody/x.so: undefined symbol: _ZN3c104cuda9SetDeviceEi token=hf_abcdefghijklmnopqrstuv\n"
    )
    for shape in ("text", "json", "sarif", "html"):
        assert main(["explain", str(file), "--format", shape]) == 1
        printed = capsys.readouterr().out
        assert "hf_abcdefghijklmnopqrstuv" not in printed
        assert "/home/somebody" not in printed


def test_a_damaged_file_is_told_in_every_format(tmp_path, capsys):
    file = tmp_path / "job.log.gz"
    file.write_bytes(gzip.compress(b"step 1\nstep 2\n" * 99)[:-9])
    for shape in ("text", "json", "sarif", "html"):
        assert main(["explain", str(file), "--format", shape]) == 0
        assert "damaged or cut off" in " ".join(capsys.readouterr().out.split())
    assert main(["explain", str(file)]) == 0
    assert capsys.readouterr().out.startswith("trueup: no failure found in what could be read\n")


@pytest.mark.parametrize(
    ("closed", "said"), [("<&-", "standard input is closed"), (">&-", "standard output is closed")]
)
def test_a_closed_stream_is_wrong_usage(closed, said):
    command = f'"{sys.executable}" -m trueup explain - {closed}'
    done = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
