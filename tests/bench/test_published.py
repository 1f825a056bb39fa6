"""No figure of the README's tables is typed by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from confu_demo.bench.published import KINDS, RESULTS, ROOT, main, rendered

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readmes_tables_are_those_of_the_published_results():
    assert rendered(README) == README, "run python -m confu_demo.bench.published"


def test_every_published_result_has_its_provenance_and_is_named_in_the_readme():
    for path in sorted(RESULTS.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        made = data["provenance"]
        assert made["commit"], path.name
        assert "python -m confu_demo" in made["command"], path.name
        assert made["device"], path.name
        assert path.name in README, path.name


def test_a_table_that_was_changed_by_hand_is_noticed_and_made_anew(tmp_path: Path):
    found = re.search(r"<!-- results: \S+ \S+ -->\n\|.*?<!-- end -->", README, re.DOTALL)
    assert found is not None
    page = tmp_path / "README.md"
    page.write_text(re.sub(r"(\d)x", r"9x", found[0]) + "\nx\n", encoding="utf-8")
    before = page.read_text(encoding="utf-8")
    if before != found[0] + "\nx\n":
        assert main([str(page), "--check"]) == 1
        assert page.read_text(encoding="utf-8") == before
    assert main([str(page)]) == 0
    assert page.read_text(encoding="utf-8") == found[0] + "\nx\n"
    assert main([str(page), "--check"]) == 0


def test_an_unknown_table_is_refused():
    with pytest.raises(ValueError, match="no table is called 'pie'"):
        rendered("<!-- results: pie bundled_2cpu.json -->\n<!-- end -->")
    assert set(KINDS) >= {"tokens", "methods", "heads", "sweep", "profile", "calibration"}
