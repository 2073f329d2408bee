"""Vision networks by local files, with random weights of the real architecture."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from capmeter.core.errors import AssetError, InputError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from capmeter_research.common.vision_networks import VisionNetwork, average_map  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

pytestmark = pytest.mark.neural


class Bottleneck(nn.Module):
    """A block of torchvision's ResNet, with its names, written from the paper."""

    def __init__(self, before: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm2d(4 * inner)
        self.downsample = None
        if stride > 1 or before != 4 * inner:
            shortcut = nn.Conv2d(before, 4 * inner, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(4 * inner))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(y)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, depths: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        before = width
        for stage, depth in enumerate(depths):
            inner, blocks = width << stage, []
            for k in range(depth):
                blocks.append(Bottleneck(before, inner, 2 if stage and not k else 1))
                before = 4 * inner
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(before, 10)

    def maps(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return x


@pytest.fixture(scope="module")
def resnet50(tmp_path_factory: pytest.TempPathFactory) -> tuple[ResNet, Path]:
    """A narrow ResNet-50 with random weights and statistics, and the file of its weights."""
    torch.manual_seed(0)
    network = ResNet((3, 4, 6, 3), 8).eval()
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.uniform_(-0.2, 0.2)
                module.running_var.uniform_(0.5, 1.5)
                module.weight.uniform_(0.5, 1.2)
    path = tmp_path_factory.mktemp("resnet") / "resnet50.pth"
    torch.save(network.state_dict(), path)
    return network, path


def picture(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height * width).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize("size", ((33, 71), (97, 64), (1, 1)))
def test_a_torchvision_resnet_reads_the_picture_as_it_is(resnet50: tuple[ResNet, Path], size: tuple[int, int]) -> None:
    network, path = resnet50
    pixels = picture(*size)
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    inputs = ((torch.from_numpy(pixels).float() / 255 - mean) / deviation).permute(2, 0, 1)[None]
    with torch.no_grad():
        expected = network.maps(inputs)[0].numpy()
    output = VisionNetwork(path, "cpu").feature_map(pixels)
    assert output.shape == (256, -(-size[0] // 32), -(-size[1] // 32))
    assert np.allclose(output, expected, atol=1e-4)


def test_pools_by_hand() -> None:
    maps = np.random.default_rng(0).random((3, 9, 5), np.float32)
    assert np.allclose(average_map(maps, "mean"), maps.reshape(3, -1).mean(1))
    total = np.zeros(3)
    for i in range(7):
        for j in range(7):
            rows = range(int(np.floor(i * 9 / 7)), int(np.ceil((i + 1) * 9 / 7)))
            columns = range(int(np.floor(j * 5 / 7)), int(np.ceil((j + 1) * 5 / 7)))
            total += np.mean([[maps[:, y, x] for x in columns] for y in rows], axis=(0, 1))
    assert np.allclose(average_map(maps, "overlapping"), total / 49)
    expected = functional.adaptive_avg_pool2d(torch.from_numpy(maps), 7).mean((1, 2)).numpy()
    assert np.allclose(average_map(maps, "overlapping"), expected, atol=1e-6)
    assert not np.allclose(average_map(maps, "overlapping"), average_map(maps, "mean"), atol=1e-3)
    even = np.random.default_rng(1).random((2, 14, 7), np.float32)
    assert np.allclose(average_map(even, "overlapping"), average_map(even, "mean"))


def test_a_folder_of_the_transformers_library(tmp_path: Path) -> None:
    from transformers import ResNetConfig, ResNetModel, ViTConfig, ViTImageProcessorPil, ViTModel

    sizes = [8, 16, 24, 32]
    torch.manual_seed(0)
    convolutional = ResNetModel(ResNetConfig(embedding_size=8, hidden_sizes=sizes, depths=[1, 1, 1, 1])).eval()
    convolutional.save_pretrained(tmp_path / "conv")
    pixels = picture(50, 70)
    assert VisionNetwork(tmp_path / "conv", "cpu").feature_map(pixels).shape == (32, 2, 3)
    config = ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=32)
    vit = ViTModel(config).eval()
    vit.save_pretrained(tmp_path / "vit")
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "vit")
    network = VisionNetwork(tmp_path / "vit", "cpu")
    assert network.pooled_output(pixels).shape == (16,) and not network.convolutional
    with pytest.raises(InputError, match="has no feature map"):
        network.feature_map(pixels)


def test_files_that_are_no_network_get_a_sentence(tmp_path: Path, resnet50: tuple[ResNet, Path]) -> None:
    with pytest.raises(AssetError, match="expected a folder with config"):
        VisionNetwork(tmp_path / "nothing.pth", "cpu")
    with pytest.raises(AssetError, match="has no weights"):
        VisionNetwork(tmp_path, "cpu")
    (tmp_path / "bad.pth").write_bytes(resnet50[1].read_bytes()[:5000])
    with pytest.raises(AssetError, match="cannot read it as a state dict"):
        VisionNetwork(tmp_path / "bad.pth", "cpu")
    (tmp_path / "code.pth").write_bytes(pickle.dumps(Path("x")))
    with pytest.raises(AssetError, match="never loaded"):
        VisionNetwork(tmp_path / "code.pth", "cpu")
    weights = torch.load(resnet50[1], weights_only=True)
    torch.save({name: each for name, each in weights.items() if "layer3.2" not in name}, tmp_path / "short.pth")
    with pytest.raises(AssetError, match="not the weights of torchvision's resnet50, resnet101, resnet152"):
        VisionNetwork(tmp_path / "short.pth", "cpu")
    del weights["layer2.1.bn2.weight"]
    torch.save(weights, tmp_path / "lacking.pth")
    with pytest.raises(AssetError, match="weights are missing or of another shape"):
        VisionNetwork(tmp_path / "lacking.pth", "cpu")
