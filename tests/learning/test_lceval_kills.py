"""Training of LCEval, killed again and again: the weights are those of a run that was never killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lcevalset import made_set

from capmeter.checkpoints import Checkpoint
from capmeter.learning.lceval.recipe import LcEvalRecipe

# one process that has everything imported, and a fork of it for each run
_KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from capmeter.learning import loop
loop._SECONDS_BETWEEN_STATES = loop._SECONDS_BETWEEN_EPOCHS = 0.0
sys.path.insert(0, sys.argv[2])
from lcevalset import made_set
from capmeter.learning.lceval.recipe import LcEvalRecipe
from capmeter.learning.lceval.run import train_lceval
folder, made, chance, killed, code = Path(sys.argv[1]), made_set(), random.Random(0), 0, None
state = folder / "training.pt"
while code is None:
    before = state.stat().st_mtime_ns if state.exists() else None
    process = os.fork()
    if not process:
        try:
            train_lceval(made, LcEvalRecipe(epochs=60), folder)
            os._exit(0)
        finally:
            os._exit(1)
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            break
        if killed < 20 and state.exists() and state.stat().st_mtime_ns != before:
            time.sleep(chance.uniform(0, 0.05))
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            killed += 1
            break
        time.sleep(0.002)
print(killed)
sys.exit(code)
"""


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_same_weights(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the neural extra")
    from capmeter.learning.lceval.run import train_lceval

    whole = train_lceval(made_set(), LcEvalRecipe(epochs=60), tmp_path / "whole")
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", _KILLED, str(folder), str(Path(__file__).parents[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 20
    kept, expected = Checkpoint.read(folder), Checkpoint.read(tmp_path / "whole")
    assert kept.sha256 == expected.sha256
    assert kept.scores == expected.scores
    assert whole.scores["tau"] == pytest.approx(kept.scores["tau"], abs=1e-6)
