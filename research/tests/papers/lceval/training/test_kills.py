"""LCEval's training, killed at random moments, ends with the weights of an uninterrupted run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from capmeter_research.papers.lceval.training.training import LcEvalRecipe
from support.lceval_training_set import random_training_set

from capmeter.core.checkpoints import Checkpoint

# one process with all imports, forked for each run
SCRIPT = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from capmeter_research.common.loop import Learner
Learner.save_seconds = 0.0
sys.path.insert(0, sys.argv[2])
from support.lceval_training_set import random_training_set
from capmeter_research.papers.lceval.training.training import LcEvalRecipe
from capmeter_research.papers.lceval.training.training import train_lceval
torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).zero_grad()  # imports a second's worth of modules
folder, examples, delays, kills, code = Path(sys.argv[1]), random_training_set(), random.Random(0), 0, None
state = folder / "training.pt"
while code is None:
    before = state.stat().st_mtime_ns if state.exists() else None
    process = os.fork()
    if not process:
        try:
            train_lceval(examples, LcEvalRecipe(epochs=60), folder)
            os._exit(0)
        finally:
            os._exit(1)
    while True:
        exited, status = os.waitpid(process, os.WNOHANG)
        if exited:
            code = os.waitstatus_to_exitcode(status)
            break
        if kills < 20 and state.exists() and state.stat().st_mtime_ns != before:
            time.sleep(delays.uniform(0, 0.05))
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            kills += 1
            break
        time.sleep(0.002)
print(kills)
sys.exit(code)
"""


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_same_weights(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the neural extra")
    from capmeter_research.papers.lceval.training.training import train_lceval

    uninterrupted = train_lceval(random_training_set(), LcEvalRecipe(epochs=60), tmp_path / "uninterrupted")
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", SCRIPT, str(folder), str(Path(__file__).resolve().parents[5] / "tests")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 20
    resumed, expected = Checkpoint.read(folder), Checkpoint.read(tmp_path / "uninterrupted")
    assert resumed.sha256 == expected.sha256
    assert resumed.scores == expected.scores
    assert uninterrupted.scores["tau"] == pytest.approx(resumed.scores["tau"], abs=1e-6)
