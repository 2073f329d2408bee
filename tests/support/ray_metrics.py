"""Metrics that observe the workers of Ray that run them."""

from __future__ import annotations

import functools
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext


@dataclass(frozen=True, kw_only=True)
class Meeting(MeanMetric):
    """Waits until `size` processes measure at the same time; leaves a file with the GPUs of each."""

    NAME, SUMMARY = "meeting", "waits for others"
    folder: str
    size: int

    @property
    def columns(self) -> tuple[str, ...]:
        return ("score",)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        import ray

        folder = Path(self.folder)
        (folder / str(os.getpid())).write_text(json.dumps(ray.get_gpu_ids()))
        end = time.monotonic() + 100
        while len(list(folder.iterdir())) < self.size and time.monotonic() < end:
            time.sleep(0.01)
        return Measurement(np.ones((len(part), 1)))


@dataclass(frozen=True, kw_only=True)
class Network(Meeting):
    """Loads a network, of which it leaves a file, and waits for another process."""

    NAME = "network"

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        load_network(f"{self.folder}-loaded")
        return super().measure(part, context)


@functools.cache
def load_network(folder: str) -> None:
    (Path(folder) / f"{os.getpid()}-{time.monotonic_ns()}").touch()


@dataclass(frozen=True, kw_only=True)
class Deadly(Meeting):
    """Kills its process."""

    NAME = "deadly"

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError
