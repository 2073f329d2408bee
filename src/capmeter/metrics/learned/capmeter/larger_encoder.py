"""`capmeter(size=large)`: the logit of a larger encoder that reads the references, beside that of the network.

    score = σ(slope (logit + λ_6 g_6) + offset)

logit is the network's (`network.py`), g_6 that of an encoder which reads the caption together with its references
(`capmeter.encoders.text.reference_reader`). The parts are the network's alone. λ_6, slope and offset are in a
checkpoint of the kind `capmeter-large`, which names the network and the encoder that it was made for (`capmeter train
capmeter-large`); the bundled one reads `mpnet-captions`, all-mpnet-base-v2 adapted to captions, and costs at least
ten times as much as the network alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from capmeter.core.checkpoints import load_checkpoint, rebuilding
from capmeter.core.errors import AssetError, InputError
from capmeter.encoders import EncoderHandle, find_encoder

KIND = "capmeter-large"
BASE = "base"
"""The size without a larger encoder."""
SIZES = {BASE: "", "large": KIND}
"""The sizes of `capmeter`, and the checkpoint of each one's larger encoder."""


@dataclass(frozen=True, eq=False)
class LargerEncoder:
    """A larger encoder beside a network.

    Attributes:
        encoder: the encoder, with its adapters.
        weight: λ_6, of its logit.
        calibration: slope and offset of the sum.
        label: the checkpoint in signatures.
    """

    encoder: EncoderHandle
    weight: float
    calibration: tuple[float, float]
    label: str


def check_size(metric: str, size: str) -> None:
    """Raises `InputError` if the size that was given to a metric of this name is empty."""
    if not size.strip():
        raise InputError(f"{metric}: the size is empty; expected {', '.join(SIZES)} or a checkpoint's folder")


def load_larger_encoder(name: str, network_sha256: str) -> LargerEncoder:
    """The larger encoder of a checkpoint.

    Args:
        name: the checkpoint's name or folder.
        network_sha256: hash of the network's checkpoint.

    Raises:
        AssetError: there is no such checkpoint, it was made for another network, or its encoder is not on this machine.
    """
    checkpoint = load_checkpoint(name, KIND)
    with rebuilding("capmeter's larger encoder", name):
        parameters = checkpoint.parameters
        encoder_name, expected_sha256 = str(parameters["encoder"]), str(parameters["encoder_sha256"])
        weight, (slope, offset) = float(parameters["weight"]), parameters["calibration"]
        calibration = float(slope), float(offset)
        network = str(parameters["network_sha256"])
    if network != network_sha256:
        raise AssetError(
            f"capmeter: {name} was made for the network {network[:12]}, not for {network_sha256[:12]}; name the folder "
            "that was made for this one, or make it: capmeter train capmeter-large"
        )
    try:
        encoder = find_encoder(encoder_name, is_replaceable=False)
    except AssetError as error:
        raise AssetError(f"{error}   — or score with the base size, which needs no other encoder") from None
    if encoder.sha256 != expected_sha256:
        raise AssetError(
            f"capmeter: {name} was made for other weights of {encoder_name} ({expected_sha256[:12]}) than those here "
            f"({encoder.sha256[:12]}); make it again: capmeter train capmeter-large"
        )
    return LargerEncoder(encoder, weight, calibration, checkpoint.label)
