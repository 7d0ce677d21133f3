"""What the README shows works as shown."""

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        exec(example, names)
    assert names["ahead"].mean.shape == (25, 8, 11)
    assert names["targets"].shape == (24, 8, 11)
    assert (tmp_path / "model.safetensors").exists()
    assert names["out"].output.shape == (25, 8, 16)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target
