"""StyleMixer on random weights in the authors' file: masks, matching, and what no cell may read."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from pytest import fixture, mark, raises

from mast.job import InputError
from mast.methods import make
from mast.methods.feedforward.stylemixer import Mixer, PatchAttention, StyleMixer, choose, cluster
from tests.random_networks import awake, rand

NAN = float("nan")
CPU = torch.device("cpu")


@fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("checkpoint")
    torch.save(awake(Mixer()).state_dict(), place / "iter_80000.pth.tar")
    return place


@fixture(scope="module")
def method(folder):
    made = StyleMixer(weights=str(folder))
    made.ready(CPU)
    return made


@fixture(scope="module")
def automatic(method):
    made = StyleMixer(auto=True, clusters=3)
    made._networks.update(method._networks)
    return made


def small_attention(seed: int = 0):
    """6 channels; content 4x5, style and its pyramid 6x7."""
    torch.manual_seed(seed)
    attention = PatchAttention(6, 4).requires_grad_(False)
    attention.CA["scale"].copy_(torch.rand(9) + 0.2)
    return attention, torch.randn(1, 6, 4, 5), torch.randn(1, 6, 6, 7), torch.randn(1, 6, 6, 7)


def halves(height: int, width: int, at: int) -> torch.Tensor:
    masks = torch.zeros(2, height, width)
    masks[0, :, :at], masks[1, :, at:] = 1, 1
    return masks


# ----------------------------------------------------------------------------------- patch attention


def test_patch_attention_is_written_out():
    attention, content, style, pyramid = small_attention()
    scale = attention.CA["scale"].view(3, 3)

    def patches(convolution, feature):
        flat = feature.flatten(2)
        mean, variance = flat.mean(2)[..., None, None], flat.var(2)[..., None, None]
        padded = torch.nn.ReflectionPad2d(1)(convolution((feature - mean) / (variance + 1e-5).sqrt()))[0]
        height, width = feature.shape[2:]
        return [padded[:, y : y + 3, x : x + 3] * scale for y in range(height) for x in range(width)]

    queries, candidates = patches(attention.theta, content), patches(attention.phi, style)
    logits = torch.stack([torch.stack([(q * k).sum() for k in candidates]) for q in queries])
    weights = logits.softmax(1)
    value = attention.g(pyramid).flatten(2)[0].T
    expected = attention.W((weights @ value).T.reshape(1, 4, 4, 5)).flatten(2)[0].T
    swapped, fit = attention(content, style, pyramid)
    assert torch.allclose(swapped, expected, atol=1e-5)
    assert torch.allclose(fit, (weights * logits).sum(1), atol=1e-4)


def test_some_cells_are_as_among_all():
    attention, *maps = small_attention()
    rows = torch.tensor([19, 0, 7])
    swapped, fit = attention(*maps)
    some, some_fit = attention(*maps, rows)
    assert torch.allclose(some, swapped[rows], atol=1e-6)
    assert torch.allclose(some_fit, fit[rows], atol=1e-5)
    assert torch.allclose(attention(*maps, None, torch.arange(42))[0], swapped, atol=1e-6)


def test_nothing_is_read_beyond_the_patches_of_the_style_mask():
    attention, content, style, pyramid = small_attention()
    inside = torch.zeros(6, 7, dtype=torch.bool)
    inside[1:3, 2:5] = True
    around = torch.zeros_like(inside)
    around[0:4, 1:6] = True  # what 3x3 patches of these cells reach
    cells = inside.flatten().nonzero().squeeze(1)
    clean = attention(content, style, pyramid, None, cells)
    style_, pyramid_ = style.masked_fill(~around, NAN), pyramid.masked_fill(~inside, NAN)
    for got, expected in zip(attention(content, style_, pyramid_, None, cells), clean, strict=True):
        assert torch.equal(got, expected)


# ------------------------------------------------------------------------------------------- mixing


@mark.parametrize("style_size", [(64, 64), (64, 96), (96, 64)])
def test_as_released_styles_are_448_px_where_the_photo_has_512(method, style_size):
    released = StyleMixer(released=True)
    released._networks.update(method._networks)
    photo, style = rand(1, 3, 64, 64), rand(1, 3, *style_size, seed=1)
    masks, part = torch.ones(1, 64, 64), torch.ones(style_size)
    part[:, : style_size[1] // 2] = 0
    smaller = torch.nn.functional.interpolate(
        style, [side * 56 // 64 for side in style_size], mode="bilinear", antialias=True
    )
    for style_mask in (None, part):
        found = released.paint(photo, [style], masks, [style_mask])
        assert torch.allclose(found, method.paint(photo, [smaller], masks, [style_mask]), atol=1e-5)
        assert not torch.allclose(found, method.paint(photo, [style], masks, [style_mask]), atol=1e-3)


@mark.parametrize("size, style_size", [((48, 64), (64, 40)), ((33, 50), (47, 19)), ((17, 41), (17, 17))])
def test_any_size_goes_in_and_comes_out(method, size, style_size):
    photo, style, masks = rand(1, 3, *size), rand(1, 3, *style_size, seed=1), torch.ones(1, *size)
    painted = method.paint(photo, [style], masks, [None])
    assert painted.shape == photo.shape
    assert torch.isfinite(painted).all()
    assert torch.equal(painted, method.paint(photo, [style], masks, [None]))
    assert torch.equal(painted, method.paint(photo, [style], masks, [torch.ones(style_size)]))


def test_a_full_mask_is_the_authors_single_style_network(method):
    photo, style = rand(1, 3, 40, 48), rand(1, 3, 32, 56, seed=1)
    mixer = method.network("mixer")
    (feature, pyramid), (style_feature, style_pyramid) = mixer.encode(photo), mixer.encode(style)
    swapped, _ = mixer.non_local(feature, style_feature, style_pyramid)
    expected = mixer.decoder(pyramid + swapped.T.reshape(pyramid.shape))
    painted = method.paint(photo, [style], torch.ones(1, 40, 48), [None])
    assert torch.allclose(painted, expected, atol=1e-5)


def test_where_no_style_is_wanted_the_photo_is_rebuilt_from_itself(method):
    photo, style = rand(1, 3, 40, 48), rand(1, 3, 32, 56, seed=1)
    nothing = method.paint(photo, [style], torch.zeros(1, 40, 48), [None])
    assert torch.allclose(nothing, method.paint(photo, [photo], torch.ones(1, 40, 48), [None]), atol=1e-5)
    assert not torch.allclose(nothing, method.paint(photo, [style], torch.ones(1, 40, 48), [None]), atol=1e-4)


def test_a_style_does_nothing_outside_its_region_before_decoding(method):
    mixer = method.network("mixer")
    photo, first, second, other = (mixer.encode(rand(1, 3, 32, 48, seed=i)) for i in range(4))
    masks = halves(4, 6, 2)
    mixed = mixer.mix(photo, [first, second], masks, [None, None])
    changed = mixer.mix(photo, [first, other], masks, [None, None])
    assert torch.equal(mixed[..., :2], changed[..., :2])
    assert not torch.allclose(mixed[..., 2:], changed[..., 2:], atol=1e-4)


def test_soft_masks_mix_in_proportion(method):
    mixer = method.network("mixer")
    photo, first, second = (mixer.encode(rand(1, 3, 32, 48, seed=i)) for i in range(3))
    share = rand(1, 4, 6, seed=5)
    alone = [mixer.mix(photo, [style], torch.ones(1, 4, 6), [None]) for style in (first, second)]
    mixed = mixer.mix(photo, [first, second], torch.cat([share, 1 - share]), [None, None])
    assert torch.allclose(mixed, share * alone[0] + (1 - share) * alone[1], atol=1e-5)


@mark.parametrize("auto", [False, True])
def test_the_order_of_styles_is_irrelevant(method, automatic, auto):
    made = automatic if auto else method
    photo, styles = rand(1, 3, 40, 48), [rand(1, 3, 32 + 8 * i, 40, seed=i) for i in range(1, 3)]
    masks, part = halves(40, 48, 19), torch.ones(48, 40)
    part[:, 24:] = 0
    one = made.paint(photo, styles, masks, [None, part])
    other = made.paint(photo, styles[::-1], masks.flip(0), [part, None])
    assert torch.allclose(one, other, atol=1e-5)


# ---------------------------------------------------------------------------------------- matching


def patchwork(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """relu4_1-like features: a photo 6x12 whose halves differ, and two styles that show the same."""
    torch.manual_seed(seed)
    left, right = torch.randn(1, 512, 6, 6), torch.randn(1, 512, 6, 6)
    kinds = torch.randn(2, 512, 1, 1) * 3
    return torch.cat([left + kinds[0], right + kinds[1]], 3), left, right


@given(st.integers(0, 50))
def test_clusters_are_the_parts_of_a_photo(seed):
    photo, *_ = patchwork(seed)
    labels = cluster(photo, 2).view(6, 12)
    assert (labels[:, :6] == labels[0, 0]).all()
    assert (labels[:, 6:] == 1 - labels[0, 0]).all()


def test_every_cell_gets_a_cluster_and_near_cells_the_same():
    flat = torch.zeros(1, 3, 8, 8)
    labels = cluster(flat, 4).view(8, 8)
    assert len(labels.unique()) == 4  # nothing but the place tells these cells apart
    assert torch.equal(cluster(flat, 4).view(8, 8), labels)
    assert (labels[:, 1:] == labels[:, :-1]).float().mean() > 0.7
    assert cluster(flat[..., :1, :2], 9).max() < 2  # fewer cells than clusters


def test_a_cluster_takes_the_style_that_fits_it_in_sum():
    labels = torch.tensor([0, 0, 0, 2, 2])
    fits = torch.tensor([[5.0, 0, 0, 1, 1], [2.0, 2, 2, -9, 9]])
    assert choose(labels, fits).tolist() == [[0, 0, 0, 1, 1], [1, 1, 1, 0, 0]]


@mark.parametrize("swapped", [False, True])
def test_matching_picks_the_style_that_has_what_the_region_shows(method, swapped):
    mixer = Mixer().requires_grad_(False)
    mixer.non_local.phi.load_state_dict(mixer.non_local.theta.state_dict())  # alike is what looks alike
    photo, left, right = patchwork()
    styles = [(left, left), (right, right)]
    masks = mixer.match((photo, photo), styles[::-1] if swapped else styles, [None, None], 2)
    expected = halves(6, 12, 6)
    assert torch.equal(masks, expected.flip(0) if swapped else expected)


def test_auto_ignores_the_masks_and_tiles_the_photo(automatic):
    photo, styles = rand(1, 3, 40, 48), [rand(1, 3, 32, 40, seed=i) for i in range(1, 4)]
    one = automatic.paint(photo, styles, torch.zeros(3, 40, 48), [None] * 3)
    assert torch.equal(one, automatic.paint(photo, styles, rand(3, 40, 48) / 3, [None] * 3))
    mixer = automatic.network("mixer")
    masks = mixer.match(mixer.encode(photo), [mixer.encode(s) for s in styles], [None] * 3, 3)
    assert torch.equal(masks.sum(0), torch.ones(5, 6))


# ----------------------------------------------------------------------------------------- weights


def test_names_and_shapes_are_the_authors():
    shapes = {name: tuple(value.shape) for name, value in Mixer().state_dict().items()}
    expected: dict[str, tuple[int, ...]] = {"amplifier.scale": (1,), "non_local.CA.scale": (9,)}

    def convolution(name, leaving, entering, size):
        expected[f"{name}.weight"], expected[f"{name}.bias"] = (leaving, entering, size, size), (leaving,)

    for name in ("theta", "phi", "g"):
        convolution(f"non_local.{name}", 256, 512, 1)
    convolution("non_local.W", 512, 256, 1)
    for number, entering in ((1, 256), (2, 512), (3, 512)):
        convolution(f"feature_pyramid.latlayer{number}", 256, entering, 1)
    convolution("feature_pyramid.squeeze", 512, 768, 3)
    expected["feature_pyramid.channel_attention.fc.0.weight"] = (384, 768)
    expected["feature_pyramid.channel_attention.fc.2.weight"] = (768, 384)
    convolution("encoder.0.0", 3, 3, 1)
    # The VGG is cut after relu1_1 ... relu5_1; each piece counts from 0, pads and activations included.
    pieces = [
        [(2, 64, 3)],
        [(1, 64, 64), (5, 128, 64)],
        [(1, 128, 128), (5, 256, 128)],
        [(1, 256, 256), (4, 256, 256), (7, 256, 256), (11, 512, 256)],
        [(1, 512, 512), (4, 512, 512), (7, 512, 512), (11, 512, 512)],
    ]
    for piece, members in enumerate(pieces):
        for number, leaving, entering in members:
            convolution(f"encoder.{piece}.{number}", leaving, entering, 3)
    numbers = [1, 5, 8, 11, 14, 18, 21, 25, 28]
    widths = [512, 256, 256, 256, 256, 128, 128, 64, 64, 3]
    for i, number in enumerate(numbers):
        convolution(f"decoder.{number}", widths[i + 1], widths[i], 3)
    assert shapes == expected


def test_a_missing_file_is_named_with_its_place(tmp_path, own_cache):
    with raises(InputError, match=r"iter_80000\.pth\.tar: no such file.*storage\.googleapis\.com/stylemixer"):
        StyleMixer(weights=str(tmp_path)).ready(CPU)
    with raises(InputError, match=str(own_cache / "weights" / "iter_80000.pth.tar")):
        make("stylemixer").ready(CPU)


def test_a_wrong_file_says_which_key_differs(folder, tmp_path):
    tensors = torch.load(folder / "iter_80000.pth.tar", weights_only=True)
    tensors["non_local.CA.scale"] = torch.ones(25)
    tensors.pop("amplifier.scale")
    torch.save(tensors, tmp_path / "iter_80000.pth.tar")
    with raises(
        InputError,
        match=r"not StyleMixer's network: amplifier\.scale is missing; non_local\.CA\.scale is \(25,\)",
    ):
        StyleMixer(weights=str(tmp_path)).ready(CPU)


def test_bad_input(method):
    photo, masks = rand(1, 3, 32, 32), torch.ones(1, 32, 32)
    with raises(InputError, match="the photo is 32x16 px"):
        method.paint(rand(1, 3, 16, 32), [photo], torch.ones(1, 16, 32), [None])
    with raises(InputError, match="covers no whole cell"):
        method.paint(photo, [photo], masks, [torch.zeros(32, 32)])
    with raises(InputError, match="clusters is 0"):
        StyleMixer(clusters=0)
