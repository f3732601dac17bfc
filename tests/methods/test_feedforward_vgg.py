"""AdaIN's encoder and decoder: the names of the authors' files, maps of every size, wrong files."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mast.job import InputError
from mast.methods.feedforward.vgg import CHANNELS, LAYERS, Vgg, VGGDecoder, load_decoder, load_vgg

# As vgg_normalised.pth and decoder.pth have them: module, channels out and in, kernel.
VGG = (
    "0 3 3 1, 2 64 3 3, 5 64 64 3, 9 128 64 3, 12 128 128 3, 16 256 128 3, 19 256 256 3, 22 256 256 3, "
    "25 256 256 3, 29 512 256 3, 32 512 512 3, 35 512 512 3, 38 512 512 3, 42 512 512 3, 45 512 512 3, "
    "48 512 512 3, 51 512 512 3"
)
DECODER = (
    "1 256 512 3, 5 256 256 3, 8 256 256 3, 11 256 256 3, 14 128 256 3, 18 128 128 3, 21 64 128 3, "
    "25 64 64 3, 28 3 64 3"
)


@pytest.fixture(scope="module")
def vgg() -> Vgg:
    torch.manual_seed(0)
    return Vgg().eval().requires_grad_(False)


def shapes(listing: str) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for line in listing.split(", "):
        module, leaving, entering, kernel = (int(number) for number in line.split())
        found |= {f"{module}.weight": (leaving, entering, kernel, kernel), f"{module}.bias": (leaving,)}
    return found


@pytest.mark.parametrize(("network", "listing", "modules"), [(Vgg, VGG, 53), (VGGDecoder, DECODER, 29)])
def test_names_and_shapes_are_those_of_the_authors_files(network, listing, modules):
    made = network()
    assert {name: tuple(value.shape) for name, value in made.state_dict().items()} == shapes(listing)
    assert len(made) == modules


@settings(max_examples=8)
@given(height=st.integers(17, 50), width=st.integers(17, 50))
def test_maps_of_every_size_halve_rounding_up(vgg, height, width):
    maps = vgg.maps(torch.rand(1, 3, height, width))
    assert list(maps) == list(LAYERS)
    for depth, (name, features) in enumerate(maps.items()):
        cell = 2**depth
        assert features.shape == (1, CHANNELS[name], -(-height // cell), -(-width // cell))
        assert float(features.min()) >= 0


def test_a_map_is_the_run_to_its_relu_and_the_last_asked_for_is_the_last_computed(vgg):
    picture = torch.rand(1, 3, 24, 32)
    expected = picture
    for module in list(vgg)[:18]:  # conv3_1 is module 16, its relu 17
        expected = module(expected)
    maps = vgg.maps(picture, "relu3_1")
    assert list(maps) == ["relu1_1", "relu2_1", "relu3_1"]
    assert torch.equal(maps["relu3_1"], expected)


def test_borders_are_reflected_not_black():
    """A picture of one colour has the same features at its border as inside."""
    torch.manual_seed(0)
    maps = Vgg().eval().maps(torch.full((1, 3, 32, 32), 0.7), "relu2_1")
    for features in maps.values():
        assert torch.allclose(features, features[..., 5:6, 5:6].expand_as(features), atol=1e-5)


@pytest.mark.parametrize(("last", "smallest"), [("relu1_1", 2), ("relu4_1", 9), ("relu5_1", 17)])
def test_a_picture_too_small_for_a_map_is_refused_in_pixels(vgg, last, smallest):
    assert last in vgg.maps(torch.rand(1, 3, smallest, 40), last)
    with pytest.raises(InputError, match=f"40x{smallest - 1} px is too small.*{smallest} px or more.*--size"):
        vgg.maps(torch.rand(1, 3, smallest - 1, 40), last)


def test_the_decoder_enlarges_eightfold():
    assert VGGDecoder()(torch.rand(1, 512, 2, 3)).shape == (1, 3, 16, 24)


@pytest.mark.parametrize("file", ["vgg_normalised.pth", "vgg_normalized.pth"])
def test_the_encoder_is_found_in_a_folder_by_either_spelling_and_as_a_file(tmp_path, vgg, file):
    torch.save(vgg.state_dict(), tmp_path / file)
    picture = torch.rand(1, 3, 24, 24)
    wanted = vgg.maps(picture)["relu5_1"]
    for given_path in (tmp_path, tmp_path / file):
        assert torch.equal(load_vgg(given_path).maps(picture)["relu5_1"], wanted)


def test_both_are_found_in_the_weights_folder(own_cache, vgg):
    (own_cache / "weights").mkdir(parents=True)
    torch.save(vgg.state_dict(), own_cache / "weights" / "vgg_normalized.pth")
    torch.save(VGGDecoder().state_dict(), own_cache / "weights" / "decoder.pth")
    assert not load_vgg().training and not load_decoder().training


def test_missing_weights_name_the_file_and_the_command(own_cache):
    with pytest.raises(InputError, match=r"weights/vgg_normalized.pth.*mast weights fetch adain-vgg"):
        load_vgg()
    with pytest.raises(InputError, match=r"weights/decoder.pth.*mast weights fetch adain-decoder"):
        load_decoder()


def test_the_decoder_given_as_the_encoder_is_refused(tmp_path):
    torch.save(VGGDecoder().state_dict(), tmp_path / "vgg_normalised.pth")
    with pytest.raises(
        InputError, match=r"vgg_normalised.pth: not AdaIN's normalised VGG-19.*0.weight is missing"
    ):
        load_vgg(tmp_path)
