"""Where networks run, by the settings of a run: device, type of numbers, batch size, threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders.handle import require_neural
from capmeter.encoders.parallel_map import torch_threads

if TYPE_CHECKING:
    import torch

CPU_TOKENS, GPU_TOKENS = 2048, 32768  # per batch; on a CPU, a batch runs on one thread


@dataclass(frozen=True)
class Precision:
    """The device of a network and the type of its numbers."""

    device: str
    dtype: torch.dtype

    @classmethod
    def of(cls, settings: Settings) -> Precision:
        """The precision that the settings ask for."""
        device = device_name(settings.device)
        import torch

        half_dtype = torch.bfloat16 if device == "cpu" else torch.float16
        return cls(device, torch.float32 if settings.precision == "float32" else half_dtype)

    @property
    def name(self) -> str:
        """float32, float16 or bfloat16."""
        return str(self.dtype).removeprefix("torch.")


def device_name(name: str) -> str:
    """The torch device of a setting: `auto` is a GPU if there is one.

    Raises:
        InputError: the device is not available here.
        MissingBackend: torch is not installed.
    """
    require_neural()
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch_device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device: expected auto, cpu, cuda, cuda:1 or mps, but got {name!r}") from error
    counts = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (torch_device.index or 0) >= counts.get(torch_device.type, 0):
        available = [f"{kind}:{k}" if kind == "cuda" else kind for kind, count in counts.items() for k in range(count)]
        raise InputError(f"device {name!r} is not available on this machine; available: auto, {', '.join(available)}")
    return name


def batch_tokens(settings: Settings, device: str, gpu_tokens: int = GPU_TOKENS) -> int:
    """The number of tokens or patches in a batch."""
    return settings.tokens or (CPU_TOKENS if device == "cpu" else gpu_tokens)


def batch_threads(settings: Settings, device: str) -> int:
    """The number of batches that run concurrently, each on one CPU thread; 1 on a GPU."""
    return (settings.threads or torch_threads()) if device == "cpu" else 1


def to_numpy(tensor: torch.Tensor) -> NDArray[np.float32]:
    """The tensor as an array in float32."""
    import torch

    array: NDArray[np.float32] = tensor.to("cpu", torch.float32).numpy()
    return array
