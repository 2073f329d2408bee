"""`capmeter idf`: a saved table of document frequencies makes CIDEr independent of the run."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from support.command_line import capmeter

REFERENCES = {"1": ["a dog runs on the grass", "the dog is running"], "2": ["two cats sleep", "cats sleeping"]}
CANDIDATES = {"1": ["a dog runs on the grass"], "2": ["two cats sleep on a sofa"]}


def test_a_saved_table_gives_the_same_scores(tmp_path: Path) -> None:
    (tmp_path / "references.json").write_text(json.dumps(REFERENCES))
    (tmp_path / "candidates.json").write_text(json.dumps(CANDIDATES))

    def scores(metric: str) -> Any:
        score = ("score", "candidates.json", "-r", "references.json", "-m", metric, "-f", "json")
        return json.loads(capmeter(*score, folder=tmp_path).stdout)["systems"]["candidates"]["metrics"][metric]

    assert capmeter("idf", "references.json", "-o", "idf.npz", folder=tmp_path).returncode == 0
    saved = scores("cider-d(idf=idf.npz)")
    assert saved["score"] == scores("cider-d")["score"]
    assert "idf:idf.npz/2 documents/" in saved["signature"]


def test_several_files_are_joined_by_image(tmp_path: Path) -> None:
    for k, name in enumerate(("first", "second")):
        references = {image: [texts[k]] for image, texts in REFERENCES.items()}
        (tmp_path / f"{name}.json").write_text(json.dumps(references))
    (tmp_path / "both.json").write_text(json.dumps(REFERENCES))
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as archive:
        archive.write(tmp_path / "both.json", "both.json")
    messages = [
        capmeter("idf", *files, "-o", "idf.npz", folder=tmp_path).stderr
        for files in (("first.json", "second.json"), ("both.json",), ("both.zip",))
    ]
    assert messages[0] == messages[1] == messages[2] and "of 2 documents" in messages[0]
