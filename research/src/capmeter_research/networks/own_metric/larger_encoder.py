"""The larger encoder beside the network of `capmeter` (`size=large`): it reads a caption together with its references.

λ_6, slope and offset (`capmeter.metrics.own.trained_networks`) are in a checkpoint of the kind `capmeter-large`, which
names the network and the encoder that it was made for (`capmeter train capmeter-large`); the bundled one reads
`mpnet-captions`, all-mpnet-base-v2 adapted to captions, and costs at least ten times as much as the network alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capmeter.core.checkpoints import load_checkpoint, rebuilding
from capmeter.core.errors import AssetError
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import PieceTable, find_encoder
from capmeter.encoders.batches import TORCH_THREADS
from capmeter.metrics.own.trained_networks import LARGE, LargerEncoder
from capmeter_research.common.reference_reader import load_reader


@dataclass(frozen=True, eq=False)
class ReadingEncoder(LargerEncoder):
    """A larger encoder that reads references (`reference_reader.py`)."""

    def logits(
        self, pieces: PieceTable, candidates: NDArray[np.int64], references: Ragged, settings: Settings
    ) -> NDArray[np.float32]:
        """The reader's logit of each caption, (captions,).

        Args:
            pieces, candidates, references, settings: as `LargerEncoder` has them.
        """
        import torch

        reader = load_reader(self.encoder, settings)
        with TORCH_THREADS.restored():
            if settings.threads:
                torch.set_num_threads(settings.threads)
            return reader.score(pieces, candidates, references)


def load_larger_encoder(name: str, network_sha256: str) -> ReadingEncoder:
    """The larger encoder of a checkpoint.

    Args:
        name: the checkpoint's name or folder.
        network_sha256: hash of the network's checkpoint.

    Raises:
        AssetError: there is no such checkpoint, it was made for another network, or its encoder is not on this machine.
    """
    checkpoint = load_checkpoint(name, LARGE)
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
    return ReadingEncoder(encoder, weight, calibration, checkpoint.label)
