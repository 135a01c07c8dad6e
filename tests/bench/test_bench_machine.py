"""What is told of the machine and the code."""

import subprocess
import sys

from draftune.bench import machine


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_git_id_names_the_commit_and_whether_files_changed(tmp_path):
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "somebody else's")
    code = tmp_path / "code"
    code.mkdir()
    (code / "a.py").write_text("1")
    assert machine.git_id(code) is None  # inside a repository, but not its code
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    commit = machine.git_id(code)
    assert commit is not None
    assert len(commit) == 12
    (code / "a.py").write_text("2")
    assert machine.git_id(code) == f"{commit}-changed"


def test_git_id_outside_any_repository(tmp_path):
    assert machine.git_id(tmp_path) is None


def test_cpu_name(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Some CPU @ 2.0: turbo\nmodel name: other\n")
    assert machine.cpu_name(tmp_path / "cpuinfo") == "Some CPU @ 2.0: turbo"
    assert machine.cpu_name(tmp_path / "nothing")


def test_the_command_can_be_typed_again(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/draftune", "bench", "my bundle"])
    assert machine.command_line() == "draftune bench 'my bundle'"


def test_memory_held_now_is_within_the_peak():
    import psutil

    assert psutil.Process().memory_info().rss * 0.5 < machine.process_peak_bytes() < psutil.virtual_memory().total


def test_description():
    found = machine.describe()
    assert found.num_cores >= 1
    assert found.memory_bytes > 10**8
    assert found.versions["torch"][0].isdigit()
    assert found.gpu is None
