"""The page about measuring says what works."""

import json
import re

from tests.conftest import ROOT


def test_the_python_of_the_page_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": f"say {n}", "completion": f"you said {n}"} for n in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(code, "docs/benchmarks.md", "exec"), {"folder": tmp_path})
    tau, num_identical = capsys.readouterr().out.split()
    assert float(tau) >= 1
    assert num_identical == "2"
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "metrics.json").is_file()
