"""BPC on random networks: what lies outside the region is never read, and a full mask masks nothing."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from mast.job import InputError
from mast.methods import METHODS, make
from mast.methods.feedforward import vgg
from mast.methods.feedforward.bpc import (
    BPC,
    FILES,
    PAGE,
    BPCDecoder,
    BPCEncoder,
    Matrix,
    PartialConv,
    grown,
    reflected,
)
from tests.random_networks import rand

CPU = torch.device("cpu")
CONVOLUTIONS = (  # of vgg_r41.pth and dec_r41.pth: name, channels out and in, kernel
    "1 3 3 1, 2 64 3 3, 3 64 64 3, 4 128 64 3, 5 128 128 3, 6 256 128 3, 7 256 256 3, 8 256 256 3, "
    "9 256 256 3, 10 512 256 3, 11 256 512 3, 12 256 256 3, 13 256 256 3, 14 256 256 3, 15 128 256 3, "
    "16 128 128 3, 17 64 128 3, 18 64 64 3, 19 3 64 3"
)


def box(height: int, width: int, top: int, left: int, rows: int, columns: int) -> torch.Tensor:
    """A mask (1, h, w) of one rectangle."""
    mask = torch.zeros(1, height, width)
    mask[:, top : top + rows, left : left + columns] = 1
    return mask


def dilated(mask: torch.Tensor) -> torch.Tensor:
    """(1, h, w), one pixel wider on every side."""
    return F.max_pool2d(mask[None], 3, 1, 1)[0]


@pytest.fixture(scope="module")
def method() -> BPC:
    """Random weights that let a picture through; torch's own fade it away."""
    torch.manual_seed(0)
    made = BPC()
    made._networks.update(encoder=BPCEncoder(), decoder=BPCDecoder(), matrix=Matrix())
    for network in made._networks.values():
        for module in network.modules():
            if isinstance(module, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(module.weight)
                torch.nn.init.uniform_(module.bias, -0.2, 0.2)
    made.ready(CPU)
    return made


# ------------------------------------------------------------------------------------ partial convolutions


@given(
    seed=st.integers(0, 999),
    top=st.integers(0, 8),
    left=st.integers(0, 8),
    rows=st.integers(1, 6),
    columns=st.integers(1, 6),
)
def test_a_partial_convolution_reads_the_dilated_mask_and_all_of_it(seed, top, left, rows, columns):
    torch.manual_seed(seed)
    layer, mask = PartialConv(2, 3, 3, padding=1), box(12, 12, top, left, rows, columns)
    x, seen = rand(1, 2, 12, 12, seed=seed), dilated(mask)
    outside = torch.where(seen > 0, x, rand(1, 2, 12, 12, seed=seed + 1) * 100)
    assert torch.equal(layer(x, mask[None]), layer(outside, mask[None]))
    plain = layer(torch.where(seen > 0, x, torch.zeros(()))[0][None])
    assert torch.equal(layer(x, mask[None]), plain)
    assert torch.equal(layer(x, torch.ones(1, 1, 12, 12)), layer(x))
    assert torch.equal(layer(x), F.conv2d(x, layer.weight, layer.bias, padding=1))


@given(top=st.integers(0, 9), left=st.integers(0, 9), rows=st.integers(1, 9), columns=st.integers(1, 9))
def test_a_mask_grows_by_one_cell_a_convolution(top, left, rows, columns):
    mask = box(10, 10, top, left, rows, columns)[None]
    wider = grown(reflected(mask))
    assert wider.shape == mask.shape
    assert (wider >= mask).all() and set(wider.unique().tolist()) <= {0.0, 1.0}
    inner = (slice(None), slice(None), slice(1, -1), slice(1, -1))  # at the border the mask meets its mirror
    assert torch.equal(wider[inner], dilated(mask[0])[None][inner])


def test_a_soft_mask_dims_what_it_half_covers():
    layer, x = PartialConv(1, 1, 1, bias=False), torch.ones(1, 1, 6, 6)
    out = layer(x, torch.full((1, 1, 6, 6), 0.25))
    assert torch.allclose(out, 0.25 * layer(x))


# ------------------------------------------------------------------------------------- the three networks


def test_without_a_mask_encoder_and_decoder_are_adains(method):
    """Same layers under other names: an independent build of both."""
    encoder, decoder = vgg.Vgg(), vgg.VGGDecoder()
    for plain, masked in ((encoder, method.network("encoder")), (decoder, method.network("decoder"))):
        ours = sorted(masked.named_children(), key=lambda named: int(named[0].removeprefix("conv")))
        theirs = [module for module in plain if isinstance(module, torch.nn.Conv2d)]
        for (_, module), other in zip(ours, theirs, strict=False):
            other.load_state_dict(module.state_dict())
    picture = rand(1, 3, 40, 48)
    features, mask = method.network("encoder")(picture)
    assert mask is None
    assert torch.allclose(features, encoder.maps(picture, "relu4_1")["relu4_1"], atol=1e-5)
    assert torch.allclose(method.network("decoder")(features), decoder(features), atol=1e-5)


def test_the_matrix_without_a_mask_is_linear_style_transfer(method):
    """Li et al.: unzip(T compress(F_c - mean)) + style mean, T the product of two learned covariances."""
    matrix = method.network("matrix")
    content, style = rand(1, 512, 4, 5), rand(1, 512, 6, 3, seed=1)
    centred, style_mean = content - content.mean((2, 3), keepdim=True), style.mean((2, 3), keepdim=True)

    def half(net, x):
        flat = net.convs(x)[0].flatten(1)
        covariance = flat @ flat.T / flat.shape[1]
        return net.fc(covariance.flatten()).view(32, 32)

    transformation = half(matrix.snet, style - style_mean) @ half(matrix.cnet, centred)
    moved = transformation @ matrix.compress(centred)[0].flatten(1)
    wanted = matrix.unzip(moved.view(1, 32, 4, 5)) + style_mean
    got = matrix(content, style)
    assert torch.allclose(got, wanted, atol=1e-4 * float(wanted.abs().max()))


def test_the_matrix_counts_the_cells_inside_only(method):
    matrix, mask = method.network("matrix"), box(8, 8, 2, 2, 3, 3)[None]
    content, style = rand(1, 512, 8, 8), rand(1, 512, 6, 6, seed=1)
    far = torch.where(dilated(mask[0])[None] > 0, content, rand(1, 512, 8, 8, seed=2) * 50)
    out = matrix(content, style, mask)
    assert torch.equal(out, matrix(far, style, mask))
    outside = out[0][:, mask[0, 0] == 0]
    assert torch.allclose(outside, matrix.unzip.bias[:, None].expand_as(outside))
    small = torch.zeros(1, 1, 6, 6)
    small[..., :3, :3] = 1
    other = torch.where(dilated(small[0])[None] > 0, style, rand(1, 512, 6, 6, seed=3) * 50)
    assert torch.equal(matrix(content, style, mask, small), matrix(content, other, mask, small))
    assert not torch.allclose(out, matrix(content, style, mask, small))


def test_covariance_is_over_the_cells_inside(method):
    """Written out by hand: three convolutions of the dilated region, then its own nine cells."""
    net, mask, x = method.network("matrix").cnet, box(8, 8, 2, 2, 3, 3)[None], rand(1, 512, 8, 8)
    seen, out = dilated(mask[0])[None], x
    for i, layer in enumerate(net.convs):
        out = layer(out) if i % 2 else F.conv2d(out * seen, layer.weight, layer.bias, padding=1)
    cells = out[0, :, 2:5, 2:5].flatten(1)
    wanted = net.fc((cells @ cells.T / 9).flatten()).view(32, 32)
    assert torch.allclose(net(x, mask), wanted, atol=1e-4 * float(wanted.abs().max()))


def test_a_soft_mask_dims_the_first_two_convolutions_and_is_then_full(method):
    """Half everywhere: the sum over nine cells saturates, as the authors have it."""
    encoder, picture = method.network("encoder"), rand(1, 3, 32, 40)
    features, mask = encoder(picture, torch.full((1, 1, 32, 40), 0.5))
    assert torch.equal(mask, torch.ones(1, 1, 4, 5))
    x = encoder.conv2(reflected(0.5 * encoder.conv1(0.5 * picture)))
    for number in range(3, 11):
        x, _ = encoder.step(number, F.relu(x), None)
        x = F.max_pool2d(x, 2) if number in (3, 5, 9) else x
    assert torch.allclose(features, F.relu(x), atol=1e-5 * float(x.abs().max()))


def test_names_and_shapes_are_those_of_the_authors_files():
    wanted: dict[str, tuple[int, ...]] = {}
    for line in CONVOLUTIONS.split(", "):
        number, leaving, entering, kernel = (int(value) for value in line.split())
        wanted |= {
            f"conv{number}.weight": (leaving, entering, kernel, kernel),
            f"conv{number}.bias": (leaving,),
        }
    both = {**BPCEncoder().state_dict(), **BPCDecoder().state_dict()}
    assert {name: tuple(value.shape) for name, value in both.items()} == wanted
    wanted = {"compress.weight": (32, 512, 1, 1), "compress.bias": (32,)}
    wanted |= {"unzip.weight": (512, 32, 1, 1), "unzip.bias": (512,)}
    for net in ("snet", "cnet"):
        wanted |= {f"{net}.fc.weight": (1024, 1024), f"{net}.fc.bias": (1024,)}
        for layer, leaving, entering in ((0, 256, 512), (2, 128, 256), (4, 32, 128)):
            wanted |= {f"{net}.convs.{layer}.weight": (leaving, entering, 3, 3)}
            wanted |= {f"{net}.convs.{layer}.bias": (leaving,)}
    assert {name: tuple(value.shape) for name, value in Matrix().state_dict().items()} == wanted


# ------------------------------------------------------------------------------------------------ pictures


@settings(max_examples=6)
@given(height=st.integers(16, 48), width=st.integers(16, 48), top=st.integers(0, 15), left=st.integers(0, 15))
def test_nothing_outside_the_dilated_mask_is_read(method, height, width, top, left):
    photo, style, mask = (
        rand(1, 3, height, width),
        rand(1, 3, 24, 24, seed=1),
        box(height, width, top, left, 9, 7),
    )
    other = torch.where(dilated(mask) > 0, photo, rand(1, 3, height, width, seed=2))
    first, second = (method.paint(picture, [style], mask, [None]) for picture in (photo, other))
    inside = mask[0] > 0
    assert torch.equal(first[..., inside], second[..., inside])
    assert torch.isfinite(first).all() and float(first[..., inside].std()) > 0
    for out, picture in ((first, photo), (second, other)):  # as the authors do, the photo is left outside
        assert torch.equal(out[..., ~inside], picture[..., ~inside])


def test_the_pixels_just_outside_the_mask_are_read(method):
    """The law above is tight: the dilation is one pixel, not none."""
    photo, mask = rand(1, 3, 32, 32), box(32, 32, 8, 8, 16, 16)
    other = torch.where((dilated(mask) > 0) & (mask == 0), 1 - photo, photo)
    first, second = (method.paint(x, [rand(1, 3, 24, 24)], mask, [None]) for x in (photo, other))
    assert not torch.allclose(first[..., mask[0] > 0], second[..., mask[0] > 0])


@pytest.mark.parametrize("size", [(32, 40), (37, 29)])
def test_a_full_mask_is_the_ordinary_network(method, size):
    height, width = size
    photo, style = rand(1, 3, height, width), rand(1, 3, 40, 24, seed=1)
    out = method.paint(photo, [style], torch.ones(1, height, width), [torch.ones(40, 24)])
    padded = F.pad(photo, (0, -width % 8, 0, -height % 8), mode="replicate")
    encoder = method.network("encoder")
    moved = method.network("matrix")(encoder(padded)[0], encoder(style)[0])
    plain = method.network("decoder")(moved)[..., :height, :width]
    assert out.shape == photo.shape
    assert torch.allclose(out, plain, atol=1e-5 * float(plain.abs().max()))


def test_the_style_mask_hides_the_rest_of_the_painting(method):
    photo, style, mask = rand(1, 3, 32, 32), rand(1, 3, 40, 40, seed=1), torch.ones(1, 32, 32)
    part = box(40, 40, 4, 4, 12, 20)
    other = torch.where(dilated(part) > 0, style, rand(1, 3, 40, 40, seed=2))
    first, second = (method.paint(photo, [x], mask, [part[0]]) for x in (style, other))
    assert torch.equal(first, second)
    assert not torch.allclose(first, method.paint(photo, [style], mask, [None]))


def test_one_pixel_is_a_region_and_a_tiny_picture_is_refused(method):
    photo, mask = rand(1, 3, 32, 32), box(32, 32, 17, 5, 1, 1)
    out = method.paint(photo, [rand(1, 3, 16, 16)], mask, [None])
    assert torch.isfinite(out).all() and out.shape == photo.shape
    with pytest.raises(InputError, match="32x8 px is too small"):
        method.paint(photo, [rand(1, 3, 8, 32)], mask, [None])


# --------------------------------------------------------------------------------------------- as released


class Remembering:
    """The authors' layer as far as masks go: asked without a mask about a picture of the size it saw last, it
    hands out the mask that it made then.
    """

    def __init__(self, layer: PartialConv):
        self.layer, self.size, self.made = layer, None, None

    def __call__(self, x: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        if mask is not None or self.size != x.shape:
            self.size = x.shape
            given = torch.ones_like(x[:, :1]) if mask is None else mask
            kernel = self.layer.kernel_size[0]
            self.made = F.conv2d(given, torch.ones(1, 1, kernel, kernel)).clamp(0, 1)
        return self.layer(x, mask), self.made


class RememberingEncoder:
    """Their encoder: every layer passes its mask on to the next."""

    def __init__(self, encoder: BPCEncoder):
        self.layers = [Remembering(getattr(encoder, f"conv{number}")) for number in range(1, 11)]

    def __call__(self, picture: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        x, mask = self.layers[0](picture, mask)
        for number, layer in enumerate(self.layers[1:], 2):
            x, mask = layer(reflected(x), reflected(mask))
            x = F.relu(x)
            if number in (3, 5, 9):
                x, mask = F.max_pool2d(x, 2), F.max_pool2d(mask, 2)
        return x, mask


@pytest.mark.parametrize("size", [(32, 40), (40, 32)])
def test_as_released_the_photos_mask_leaks_onto_a_style_of_its_size(method, size):
    released = BPC(released=True)
    released._networks.update(method._networks)
    photo, style, mask = rand(1, 3, 32, 40), rand(1, 3, *size, seed=1), box(32, 40, 8, 8, 9, 12)
    theirs = RememberingEncoder(method.network("encoder"))
    features, small = theirs(photo, mask[None])
    style_features, _ = theirs(style, None)
    moved = method.network("matrix")(features, style_features, small)
    painted = method.network("decoder")(moved, mask[None])
    expected = mask * painted + (1 - mask) * photo
    found, ours = (made.paint(photo, [style], mask, [None]) for made in (released, method))
    scale = float(expected.abs().max())
    assert torch.allclose(found, expected, atol=1e-5 * scale)
    assert torch.allclose(ours, expected, atol=1e-3 * scale) == (size != (32, 40))
    part = [torch.ones(size)]  # a style mask of its own: there is nothing that could leak
    assert torch.equal(released.paint(photo, [style], mask, part), method.paint(photo, [style], mask, part))


# ------------------------------------------------------------------------------------------------- weights


def test_it_is_made_by_name_and_knows_one_region():
    assert METHODS["bpc"] is BPC and BPC.family == "regional-single"
    assert make("bpc", weights="somewhere") == BPC(weights="somewhere")


def test_files_are_loaded_from_a_folder_or_from_the_weights_folder(method, own_cache, tmp_path):
    for folder in (tmp_path / "bpc", own_cache / "weights"):
        folder.mkdir(parents=True)
        for part, file in FILES.items():
            torch.save(method.network(part).state_dict(), folder / file)
    for weights in (str(tmp_path / "bpc"), str(tmp_path / "bpc" / "r41.pth"), None):
        made = BPC(weights=weights)
        made.ready(CPU)
        assert made.fingerprint == method.fingerprint


@pytest.mark.parametrize("file", FILES.values())
def test_a_missing_file_is_named_with_the_place_where_its_authors_publish_it(tmp_path, file):
    for other in set(FILES.values()) - {file}:
        (tmp_path / other).touch()
    with pytest.raises(InputError) as error:
        BPC(weights=str(tmp_path)).ready(CPU)
    assert str(error.value).startswith(f"{tmp_path / file}: no such file (BPC's ") and PAGE in str(
        error.value
    )


def test_a_wrong_file_says_which_name_differs(method, tmp_path):
    for part, file in FILES.items():
        torch.save(method.network(part).state_dict(), tmp_path / file)
    tensors = method.network("matrix").state_dict()
    tensors["unzip.weight"] = torch.zeros(256, 32, 1, 1)  # as of the authors' r31.pth
    torch.save(tensors, tmp_path / "r41.pth")
    expected = r"r41.pth: not BPC's matrix: unzip.weight is \(256, 32, 1, 1\), expected \(512, 32, 1, 1\)"
    with pytest.raises(InputError, match=expected):
        BPC(weights=str(tmp_path)).ready(CPU)
