"""The script of the main job: what it keeps, skips, refuses and never overwrites."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from draftune import errors
from draftune.bench import record
from draftune.bench.record import Report
from draftune.data import open_task
from tests.bench import made_report
from tests.conftest import ROOT

SCRIPT = ROOT / "benchmarks" / "main_job.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if str(SCRIPT.parent) not in sys.path:
        sys.path.append(str(SCRIPT.parent))  # the scripts share kept.py
    spec = importlib.util.spec_from_file_location("main_job", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["main_job"] = module  # where its dataclass looks for its module
    spec.loader.exec_module(module)
    return module


def make_job(script: ModuleType, **changes):
    settings = {"task": "sql", "data": "rows.jsonl", "model": "smollm2-135m", "drafters": ("medusa",)}
    numbers = {"adapter_rows": 600, "minutes": 10.0, "prompts": 40, "num_drafts": 5, "max_new_tokens": 256}
    return script.Job(**{**settings, **numbers, **changes})


def finished(script: ModuleType, work) -> None:
    """A work folder whose stages are all done."""
    for precision in ("float32", "bfloat16"):
        report = made_report.report(dtype=precision)
        script.replace(script.report_path(work, precision), report.to_dict(include_text=False))
    script.replace(work / script.TRAINING, {"summary": {"stages": {"adapter": {"seconds": 1.5}}}})


def test_every_semi_autoregressive_drafter_is_trained_and_medusa(script):
    names = script.default_drafters()
    assert {"semiar-state", "semiar-lstm", "medusa"} <= set(names)
    assert all(name.startswith("semiar-") for name in names[:-1])


def test_the_result_holds_both_precisions_the_job_and_no_text(script, tmp_path):
    finished(script, tmp_path)
    path = script.write(tmp_path / "out", make_job(script), tmp_path, ["float32", "bfloat16"])
    text = path.read_text()
    whole = json.loads(text)
    assert "alert" not in text
    assert whole["job"]["data"] == "rows.jsonl"
    assert whole["training"]["summary"]["stages"]["adapter"]["seconds"] == 1.5
    assert whole["drafters"]["bfloat16"]["semiar-lstm"]["num_identical"] == 1
    assert whole["drafters"]["float32"]["semiar-lstm"]["tau"] == pytest.approx(1 + 58 / 40)
    assert Report.from_dict(whole["reports"]["float32"]).dtype == "float32"
    assert max(map(len, text.splitlines())) <= record.LINE + 40


def test_results_are_named_and_never_overwritten(script, tmp_path):
    finished(script, tmp_path)
    names = [script.write(tmp_path, make_job(script), tmp_path, ["float32"]).name for _ in range(3)]
    start = "2026-01-02-smollm2-135m-sql-some-9000-2-cores"
    assert names == [f"{start}.json", f"{start}-2.json", f"{start}-3.json"]


@pytest.mark.parametrize(
    ("cpu", "gpu", "words"),
    [
        ("AMD EPYC 9634 84-Core Processor", None, "sql-amd-epyc-9634-84-core-2-cores"),
        ("Intel(R) Core(TM) i7-1065G7 CPU @ 1.30GHz", None, "sql-intel-core-i7-1065g7-2-cores"),
        ("any", "NVIDIA H200", "sql-nvidia-h200"),
    ],
)
def test_hardware_in_the_name(script, cpu, gpu, words):
    import dataclasses

    report = made_report.report()
    report = dataclasses.replace(report, machine=dataclasses.replace(report.machine, cpu=cpu, gpu=gpu))
    assert script.file_name(make_job(script), report) == f"2026-01-02-smollm2-135m-{words}"


def test_a_work_folder_goes_on_with_its_own_job_alone(script, tmp_path):
    script.claim(tmp_path, make_job(script))
    script.claim(tmp_path, make_job(script))
    with pytest.raises(errors.ConfigError, match=r"it was begun with minutes 10.0, not 2.0"):
        script.claim(tmp_path, make_job(script, minutes=2.0))


def test_a_stage_that_is_done_is_skipped(script, tmp_path):
    (tmp_path / "done").write_text("")
    script.stage(tmp_path / "done", None)


def test_an_error_of_a_stage_is_told_in_its_sentence(script, tmp_path):
    with pytest.raises(errors.DataError, match=r"nowhere\.jsonl"):
        script.stage(tmp_path / "done", open_task, str(tmp_path / "nowhere.jsonl"))


@pytest.mark.slow
def test_the_whole_job_on_a_tiny_model_and_again_without_work(tmp_path):
    from draftune.target import tiny

    tiny.save_tiny(tmp_path / "model", "llama", vocab_size=300, dtype="float32")
    rows = [{"prompt": f"say {n}", "completion": f"you said {n} and {n}"} for n in range(80)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, str(SCRIPT), str(tmp_path / "rows.jsonl"), "--work", str(tmp_path / "work")]
    command += ["--out", str(tmp_path / "out"), "--model", str(tmp_path / "model"), "--drafter", "semiar-state"]
    command += ["--drafter", "medusa", "--minutes", "0.02", "--adapter-rows", "40", "--prompts", "3"]
    command += ["--num-drafts", "3", "--max-new-tokens", "16", "--dtype", "float32"]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    path = first.stdout.split()[-1]
    found = json.loads(Path(path).read_text())
    assert [one["num_identical"] for one in found["drafters"]["float32"].values()] == [3, 3]
    assert set(found["training"]["summary"]["stages"]) == {"adapter", "drafter:semiar-state", "drafter:medusa"}
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stderr.count("done before") == 2
    assert again.stdout.split()[-1] != path


def test_the_readme_holds_what_the_summary_prints():
    said = subprocess.run([sys.executable, SCRIPT.with_name("summary.py")], capture_output=True, text=True, check=True)
    page = (SCRIPT.parent / "README.md").read_text(encoding="utf-8")
    table = page.partition("<!-- summary -->\n")[2].partition("<!-- end of summary -->")[0]
    assert table.strip() == said.stdout.strip()
