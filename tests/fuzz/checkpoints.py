"""Hostile checkpoints: their JSON and arrays are changed, under checksums that fit, and they are read and used.

    python tests/fuzz/checkpoints.py --inputs 3000 --seed 1

A checkpoint is refused with an `AssetError`, or gives finite scores. Half of the inputs are damaged files instead.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import random
import sys
import tempfile
import types
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from capmeter_research.papers.infometic.infometic import InfoMetICHead
from capmeter_research.papers.infometic.network import HeadShape, InfoMetIC
from capmeter_research.papers.infometic.regressor import Regressor
from capmeter_research.papers.lceval.checkpoint import load_network
from capmeter_research.papers.leic.forward import weight_shapes
from capmeter_research.papers.leic.shape import CriticShape
from capmeter_research.papers.umic.pairs import load_pair_encoder
from support.hostile_values import Found, as_json, hostile, main, mutated
from support.uniter_examples import FEATURES, small_checkpoint

import capmeter
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import CapmeterError
from capmeter.core.settings import Settings
from capmeter.encoders.text.layers import LORA_A, LORA_B, MATRICES, TransformerLayer, find_adapter, merge_adapter
from capmeter.metrics.audio.detector import KIND as FLUENCY
from capmeter.metrics.audio.detector import FluencyDetector

SETTINGS = Settings(device="cpu", precision="float32", cache=None)
WORDS = ("a", "dog", "runs", "cat", "sleeps", "on", "the", "grass")
ROWS = ["a dog runs", "cat on the grass"], [["the dog runs"], ["a cat sleeps"]]
STATES = (4, 6, 5, 7)  # regions, and the widths of a region, a word piece and a feature
DTYPES = (np.float16, np.float64, np.int64, np.uint8, np.bool_, np.complex64)


def make_checkpoints(folder: Path) -> dict[str, Callable[[Path], float]]:
    """Writes a sound checkpoint of each kind into a folder of its name; gives what uses them, to a finite number."""
    drawn = np.random.default_rng(0)

    def arrays(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
        return {name: drawn.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}

    layers = {"weights-0": (3, 4), "bias-0": (4,), "weights-1": (4, 2), "bias-1": (2,)}
    features = {"pool": "max", "vectors": "", "base": [0.1, 0.2, 0.3]}
    Checkpoint("lceval", features, arrays(layers), ("bleu-4", "rouge-l", "cider-d")).save(folder / "lceval")
    critic = CriticShape(context="reference", hidden=(6,), width=5, embedding=4)
    words = {name: tuple(len(WORDS) + 4 if n < 0 else n for n in size) for name, size in weight_shapes(critic).items()}
    Checkpoint("leic", {"shape": critic.to_dict(), "start": "seeded"}, arrays(words), (), WORDS).save(folder / "leic")
    inputs = {"shape": "pair", "encoder": "clip", "prefix": "", "text_encoder": "", "encoder_sha256": "0"}
    head = arrays({"w-0": (4, 3), "b-0": (3,), "w-1": (3, 1), "b-1": (1,), "mean": (4,), "cosines": (1,)})
    Checkpoint("regressor", inputs, head | {"deviation": np.ones(4, np.float32)}).save(folder / "regressor")
    network = InfoMetIC(HeadShape(*STATES, width=8, layers=1, heads=2))
    states = {name: each.numpy() for name, each in network.state_dict().items()}
    sizes = inputs | {"shape": "infometic", "network": asdict(network.shape)}
    Checkpoint("regressor", sizes, states).save(folder / "infometic")
    small_checkpoint(folder / "uniter")
    matrices = {"qkv": (12, 4), "attn_out": (4, 4), "ffn_up": (6, 4), "ffn_down": (4, 6)}
    factors = {}
    for number in range(2):
        for matrix, (outputs, width) in matrices.items():
            name = f"layers.{number}.{MATRICES[matrix]}"
            factors |= {f"{name}.{LORA_A}": (2, width), f"{name}.{LORA_B}": (outputs, 2)}
    Checkpoint("encoder", {"encoder": "minilm", "encoder_sha256": "0"}, arrays(factors)).save(folder / "encoder")
    Checkpoint(FLUENCY, {"bias": 0.5}, arrays({"weights": (64,)})).save(folder / "fluency")
    nothing = torch.zeros(4), torch.zeros(4)
    linear = {name: (torch.ones(shape), torch.zeros(shape[0])) for name, shape in matrices.items()}
    layer = TransformerLayer(attn_norm=nothing, ffn_norm=nothing, **linear)
    return {
        "lceval": lambda path: float(load_network(str(path)).network.score(np.ones((1, 3)))[0]),
        "leic": _use_leic,
        "regressor": lambda path: _use_regressor(path),
        "infometic": _use_infometic,
        "uniter": _use_uniter,
        "encoder": lambda path: _use_adapter(path, [layer] * 3),
        "fluency": lambda path: float(FluencyDetector.from_checkpoint(Checkpoint.read(path, FLUENCY)).weights.sum()),
    }


def _use_leic(path: Path) -> float:
    results = capmeter.score(candidates=ROWS[0], references=ROWS[1], metrics=[f'leic(checkpoint="{path}")'])
    return next(iter(results.values())).score


def _use_regressor(path: Path) -> float:
    regressor = Regressor(checkpoint=str(path))
    assert regressor.inputs.shape in ("polos", "pair", "text", "infometic")
    return float(regressor.head.scores(np.ones((1, regressor.head.inputs)))[0])


def _use_infometic(path: Path) -> float:
    encoder: Any = types.SimpleNamespace(shape=STATES)
    head = InfoMetICHead.from_checkpoint(Regressor(checkpoint=str(path)).trained, encoder, str(path))
    return float(head.network.combine.bias.sum())


def _use_uniter(path: Path) -> float:
    encoder = load_pair_encoder(str(path), SETTINGS)
    if encoder.shape.features != FEATURES or "rank_output" not in encoder.heads:
        return 0.0
    embedded = encoder.embed(np.ones((2, FEATURES), np.float32), np.ones((2, 7), np.float32))
    pieces, pair = encoder.pieces(["a dog runs on the grass"]), np.zeros(1, np.int64)
    ((_, states),) = encoder.run_pairs(pieces, pair, [embedded], pair, lambda batch: batch.states, SETTINGS)
    value = float(states.sum())
    if not np.isfinite(value):  # which metrics refuse as their result
        raise CapmeterError("an overflow")
    return value


def _use_adapter(path: Path, stack: list[TransformerLayer]) -> float:
    adapter = find_adapter(str(path))
    if adapter is None:
        return 0.0
    factors = {name: torch.from_numpy(array) for name, array in adapter.factors().items()}
    try:
        return float(merge_adapter(stack, factors)[0].qkv[0].sum())
    except (ValueError, KeyError, TypeError, RuntimeError) as error:  # which the encoder tells as its own
        raise CapmeterError(str(error)) from error


def damage(source: Path, target: Path, drawn: random.Random) -> None:
    """Writes the checkpoint of one folder into another, with its JSON, its arrays or its bytes changed."""
    text, packed = (source / "checkpoint.json").read_bytes(), (source / "weights.safetensors").read_bytes()
    act = drawn.random()
    if act < 0.2:
        text, packed = (mutated(text, drawn), packed) if drawn.random() < 0.5 else (text, mutated(packed, drawn))
    else:
        if act < 0.5:
            packed = safetensors.numpy.save(_damage_arrays(safetensors.numpy.load(packed), drawn))
        content = json.loads(text)
        del content["checksum"]
        if act >= 0.4:
            content["parameters"] = hostile(copy.deepcopy(content["parameters"]), drawn)
            content = hostile(content, drawn) if drawn.random() < 0.3 else content
        content = as_json(content)
        if isinstance(content, dict):
            content |= {"weights": hashlib.sha256(packed).hexdigest()}
            plain = json.dumps(content, sort_keys=True).encode("ascii")
            content |= {"checksum": hashlib.sha256(plain).hexdigest()}
        text = json.dumps(content).encode("ascii")
    target.mkdir(exist_ok=True)
    (target / "checkpoint.json").write_bytes(text)
    (target / "weights.safetensors").write_bytes(packed)


def _damage_arrays(arrays: dict[str, Any], drawn: random.Random) -> dict[str, Any]:
    for _ in range(drawn.choice((1, 1, 2))):
        name = drawn.choice(list(arrays))
        array, act = arrays[name], drawn.randrange(7)
        if act == 0:
            arrays[name] = array.astype(drawn.choice(DTYPES))
        elif act == 1 and array.size and array.dtype.kind == "f":
            array = array.copy()
            array.flat[drawn.randrange(array.size)] = drawn.choice((np.nan, np.inf, 1e38, -1e38))
            arrays[name] = array
        elif act == 2:
            arrays[name] = np.ascontiguousarray(array[: drawn.randrange(len(array) + 1)] if array.ndim else array[None])
        elif act == 3:
            arrays[name] = np.ascontiguousarray(array.T.reshape(drawn.choice(((-1,), (1, -1), array.shape[::-1]))))
        elif act == 4:
            arrays[drawn.choice(("x", "w-7", "layers.9.heads.down", "layers.x", "b-0", name + ".up"))] = arrays.pop(
                name
            )
        elif act == 5:
            del arrays[name]
        else:
            arrays[name] = np.zeros((), np.float32)
        if not arrays:
            break
    return arrays


def check(source: Path, target: Path, use: Callable[[Path], float], drawn: random.Random) -> str:
    """Damages and uses a checkpoint; says how that ended."""
    damage(source, target, drawn)
    try:
        value = use(target)
    except CapmeterError as error:
        assert str(error).strip(), "an error without a sentence"
        return "refused"
    assert np.isfinite(value), "a number that is not finite"
    return "used"


def fuzz(count: int, seed: int) -> Found:
    """Runs so many inputs."""
    drawn, result = random.Random(seed), Found()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        uses = make_checkpoints(folder)
        for number in range(count):
            kind = drawn.choice(list(uses))
            target = folder / f"hostile-{number % 2}"

            def content(target: Path = target) -> Any:
                return (target / "checkpoint.json").read_bytes()[:400]

            result.add(kind, functools.partial(check, folder / kind, target, uses[kind], drawn), content)
    return result


if __name__ == "__main__":
    sys.exit(main(fuzz, __doc__, 10_000))
