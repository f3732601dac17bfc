"""AdaIN's laws on random networks: statistics become the style's, region by region, at any size."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mast.job import InputError
from mast.methods import METHODS, make
from mast.methods.feedforward.adain import AdaIN, GlobalAdaIN, on_cells, statistics, transfer
from mast.methods.feedforward.vgg import Vgg, VGGDecoder
from mast.weights.registry import known
from tests.random_networks import rand

CPU = torch.device("cpu")
NAN = float("nan")
# Every test has its own cache (see ../conftest.py); the published weights are in that of the tests' user.
KEPT = Path(os.environ.get("MAST_CACHE", Path.home() / ".cache" / "mast")) / "weights"
FILES = [known(name).sources[0].file for name in ("adain-vgg", "adain-decoder")]


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def networks() -> dict[str, torch.nn.Module]:
    """Random ones, with weights that let a picture through."""
    torch.manual_seed(0)
    made: dict[str, torch.nn.Module] = {"vgg": Vgg(), "decoder": VGGDecoder()}
    for network in made.values():
        for module in network.modules():
            if isinstance(module, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(module.weight)
        network.eval().requires_grad_(False)
    return made


@pytest.fixture
def build(networks):
    def build(method: type[GlobalAdaIN] = AdaIN, **options: object) -> GlobalAdaIN:
        made = method(**options)  # type: ignore[arg-type]
        made._networks.update(networks)
        made.ready(CPU)  # has networks already, so it loads nothing
        return made

    return build


def halves(height: int, width: int) -> torch.Tensor:
    left = torch.zeros(height, width)
    left[:, : width // 2] = 1
    return torch.stack([left, 1 - left])


# ---------------------------------------------------------------------------------------------- statistics


@given(seed=st.integers(0, 999), split=st.integers(1, 5), style_rows=st.integers(1, 5))
def test_the_regions_statistics_become_those_of_the_styles_region(seed, split, style_rows):
    content = 3 * randn(1, 6, 7, 9, seed=seed) + 1
    style = 0.5 * randn(1, 6, 6, 5, seed=seed + 1) - 2
    weight, style_weight = torch.zeros(7, 9), torch.zeros(6, 5)
    weight[:split] = 1
    style_weight[:style_rows] = 1
    painted = transfer(content, style, weight, style_weight)
    inside, wanted = painted[:, :, :split].flatten(2), style[:, :, :style_rows].flatten(2)
    assert torch.allclose(inside.mean(2), wanted.mean(2), atol=1e-4)
    assert torch.allclose(inside.std(2), wanted.std(2), rtol=1e-3)


@given(st.integers(0, 999), st.floats(0.01, 1))
def test_a_full_weight_is_no_weight_and_its_strength_does_not_matter(seed, strength):
    features = randn(1, 4, 5, 6, seed=seed)
    mean, deviation = statistics(features)
    assert torch.allclose(mean[0, :, 0, 0], features.flatten(2).mean(2)[0], atol=1e-6)
    assert torch.allclose(deviation[0, :, 0, 0], (features.flatten(2).var(2)[0] + 1e-5).sqrt(), rtol=1e-5)
    for got, wanted in zip(
        statistics(features, torch.full((5, 6), strength)), (mean, deviation), strict=True
    ):
        assert torch.allclose(got, wanted, atol=1e-4)


def test_style_features_outside_the_style_mask_do_not_matter():
    content, style, weight = randn(1, 4, 5, 5), randn(1, 4, 6, 6, seed=1), torch.zeros(6, 6)
    weight[2:4, 1:5] = 1
    changed = torch.where(weight > 0, style, 100 * randn(1, 4, 6, 6, seed=2))
    assert torch.equal(transfer(content, style, None, weight), transfer(content, changed, None, weight))
    assert not torch.allclose(transfer(content, style), transfer(content, style, None, weight))


def test_a_region_of_one_cell_takes_the_styles_mean_and_stays_finite():
    content, style, weight = randn(1, 4, 5, 5), randn(1, 4, 6, 6, seed=1), torch.zeros(5, 5)
    weight[2, 2] = 1
    painted = transfer(content, style, weight)
    assert torch.allclose(painted[:, :, 2, 2], style.mean((2, 3)), atol=1e-5)
    assert torch.isfinite(transfer(content, style, torch.zeros(5, 5))).all()


@given(st.integers(9, 40), st.integers(9, 40))
def test_masks_are_averaged_over_the_pixels_a_cell_has(height, width):
    masks = rand(2, height, width)
    cells = on_cells(masks)
    assert cells.shape == (2, -(-height // 8), -(-width // 8))
    assert torch.allclose(
        cells[:, -1, -1], masks[:, (height - 1) // 8 * 8 :, (width - 1) // 8 * 8 :].mean((1, 2))
    )
    tiled = on_cells(torch.stack([masks[0], 1 - masks[0]]))
    assert torch.allclose(tiled.sum(0), torch.ones(cells.shape[1:]), atol=1e-6)


# ------------------------------------------------------------------------------------------------ pictures


@settings(max_examples=6)
@given(height=st.integers(17, 48), width=st.integers(17, 48), other=st.integers(9, 48))
def test_any_size_comes_back_in_its_own_size(build, height, width, other):
    styles = [rand(1, 3, other, 33), rand(1, 3, 20, other)]
    out = build().paint(rand(1, 3, height, width), styles, halves(height, width), [None, rand(20, other)])
    assert out.shape == (1, 3, height, width) and torch.isfinite(out).all()


def test_a_multiple_of_eight_cut_by_some_pixels_is_nearly_the_same_picture(build):
    """Cells stay where they are: the last ones just have fewer pixels."""
    photo, style = rand(1, 3, 96, 96), rand(1, 3, 64, 64, seed=1)
    whole = build().paint(photo, [style], torch.ones(1, 96, 96), [None])
    cut = build().paint(photo[..., :93, :91], [style], torch.ones(1, 93, 91), [None])
    error = (cut - whole[..., :93, :91]).abs()[..., :40, :40].mean() / whole.std()
    assert float(error) < 0.1


def test_alpha_zero_is_the_decoders_own_reconstruction(build, networks):
    photo = rand(1, 3, 40, 48)
    plain = networks["decoder"](networks["vgg"].maps(photo, "relu4_1")["relu4_1"])
    for method in (AdaIN, GlobalAdaIN):
        out = build(method, alpha=0.0).paint(photo, [rand(1, 3, 32, 32)] * 2, halves(40, 48), [None] * 2)
        assert torch.equal(out, plain)


def test_features_move_along_a_line_with_alpha(build, networks):
    """Read from the decoder's input: alpha .25 is a quarter of the way."""
    seen: list[torch.Tensor] = []
    handle = networks["decoder"].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    try:
        for alpha in (0.0, 0.25, 1.0):
            build(alpha=alpha).paint(
                rand(1, 3, 32, 32), [rand(1, 3, 40, 24, seed=3)], torch.ones(1, 32, 32), [None]
            )
    finally:
        handle.remove()
    none, quarter, full = seen
    assert torch.allclose(quarter, none + 0.25 * (full - none), atol=1e-5 * float(full.abs().max()))


@pytest.mark.parametrize("masked", [False, True])
def test_what_is_decoded_has_the_style_statistics_in_every_region(build, networks, masked):
    photo, styles = rand(1, 3, 64, 96), [rand(1, 3, 72, 48, seed=1) ** 3, rand(1, 3, 64, 64, seed=2)]
    top = torch.zeros(72, 48)
    top[:40] = 1
    seen: list[torch.Tensor] = []
    handle = networks["decoder"].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    try:
        build().paint(photo, styles, halves(64, 96), [top if masked else None, None])
    finally:
        handle.remove()
    features, own = seen[0], networks["vgg"].maps(photo, "relu4_1")["relu4_1"]
    for columns, style, rows in ((slice(6), styles[0], 5 if masked else 9), (slice(6, 12), styles[1], 8)):
        wanted = networks["vgg"].maps(style, "relu4_1")["relu4_1"][:, :, :rows].flatten(2)
        got = features[..., columns].flatten(2)
        alive = own[..., columns].flatten(2).std(2) > 0.05  # a dead channel cannot be brought to life
        assert alive.float().mean() > 0.5
        assert torch.allclose(got.mean(2), wanted.mean(2), atol=1e-3)
        assert torch.allclose(got.std(2)[alive], (wanted.var(2)[alive] + 1e-5).sqrt(), rtol=0.01)


@pytest.mark.parametrize("choice", ["region", "image"])
def test_one_full_mask_is_global_adain(build, choice):
    photo, style, style_mask = rand(1, 3, 40, 56), rand(1, 3, 48, 32, seed=1), rand(48, 32, seed=2).round()
    ones = torch.ones(1, 40, 56)
    regional = build(statistics=choice).paint(photo, [style], ones, [style_mask])
    whole = build(GlobalAdaIN).paint(photo, [style], ones, [style_mask])
    assert torch.allclose(regional, whole, atol=1e-4 * float(whole.abs().max()))


def test_the_global_method_ignores_the_mask_and_statistics_choose_the_cells(build):
    photo, style, masks = rand(1, 3, 48, 48), rand(1, 3, 48, 32, seed=1), halves(48, 48)[:1]
    whole = build(GlobalAdaIN)
    assert torch.equal(
        whole.paint(photo, [style], masks, [None]), whole.paint(photo, [style], torch.ones(1, 48, 48), [None])
    )
    photo[..., :24] *= 0.3
    region, image = (
        build(statistics=choice).paint(photo, [style], masks, [None]) for choice in ("region", "image")
    )
    assert not torch.allclose(region, image, atol=1e-2 * float(region.std()))


def test_what_no_mask_covers_keeps_its_own_features_and_order_does_not_matter(build, networks):
    photo, styles = rand(1, 3, 256, 32), [rand(1, 3, 32, 32, seed=1), rand(1, 3, 40, 32, seed=2)]
    masks = torch.zeros(2, 256, 32)
    masks[0, :16], masks[1, 16:32] = 1, 1
    out = build().paint(photo, styles, masks, [None, None])
    plain = networks["decoder"](networks["vgg"].maps(photo, "relu4_1")["relu4_1"])
    assert torch.allclose(out[:, :, 128:], plain[:, :, 128:], atol=1e-5 * float(plain.abs().max()))
    assert not torch.allclose(out[:, :, :32], plain[:, :, :32], atol=1e-2)
    swapped = build().paint(photo, styles[::-1], masks.flip(0), [None, None])
    assert torch.allclose(out, swapped, atol=1e-5 * float(out.abs().max()))


# ------------------------------------------------------------------------------------- options and weights


def test_both_are_made_by_name_with_their_family():
    assert METHODS["adain"] is AdaIN and AdaIN.family == "regional-multi"
    assert METHODS["adain-global"] is GlobalAdaIN and GlobalAdaIN.family == "global-single"
    assert make("adain", alpha=0.5, statistics="image") == AdaIN(alpha=0.5, statistics="image")
    assert make("adain", **AdaIN(alpha=0.5).options()) == AdaIN(alpha=0.5)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, NAN])
def test_a_strength_outside_its_range_is_refused(alpha):
    with pytest.raises(InputError, match="alpha"):
        AdaIN(alpha=alpha)


def test_unknown_statistics_and_a_tiny_style_are_refused(build):
    with pytest.raises(InputError, match="statistics is 'regions'; choose one of region, image"):
        AdaIN(statistics="regions")
    with pytest.raises(InputError, match="40x8 px is too small"):
        build().paint(rand(1, 3, 32, 32), [rand(1, 3, 8, 40)], torch.ones(1, 32, 32), [None])


def test_missing_weights_say_how_to_get_them_and_a_folder_is_taken(tmp_path, networks):
    with pytest.raises(InputError, match="mast weights fetch adain-vgg"):
        AdaIN().ready(CPU)
    for name, file in (("vgg", "vgg_normalised.pth"), ("decoder", "decoder.pth")):
        torch.save(networks[name].state_dict(), tmp_path / file)
    method = AdaIN(weights=str(tmp_path))
    method.ready(CPU)
    out = method.paint(rand(1, 3, 32, 32), [rand(1, 3, 32, 32)], torch.ones(1, 32, 32), [None])
    assert out.shape == (1, 3, 32, 32)


@pytest.mark.skipif(
    not all((KEPT / file).is_file() for file in FILES), reason="mast weights fetch adain-vgg adain-decoder"
)
def test_the_published_weights_know_a_photo_and_paint_it(example_photo):
    """Their decoder gives the photo's colours and shapes back, and with a dark style darkens it."""
    with Image.open(example_photo) as image:
        small = image.convert("RGB").resize((192, 128))
    photo = torch.from_numpy(np.array(small)).permute(2, 0, 1)[None].float() / 255
    ones, style = torch.ones(1, 128, 192), rand(1, 3, 64, 64) * 0.2
    still, painted = (AdaIN(alpha=alpha, weights=str(KEPT)) for alpha in (0.0, 1.0))
    for method in (still, painted):
        method.ready(CPU)
    again = still.paint(photo, [style], ones, [None])
    assert torch.allclose(again.mean((2, 3)), photo.mean((2, 3)), atol=0.04)
    assert float(torch.corrcoef(torch.stack([again.flatten(), photo.flatten()]))[0, 1]) > 0.7
    assert float(painted.paint(photo, [style], ones, [None]).mean()) < float(photo.mean()) - 0.15
