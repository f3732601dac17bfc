"""AdaAttN and Any-to-Any on random weights in the authors' files: what masks hide stays hidden."""

from __future__ import annotations

import torch
from pytest import fixture, mark, raises

from mast.job import InputError
from mast.methods import make
from mast.methods.feedforward.adaattn import AdaAttN, AdaAttNDecoder, AnyToAny, Transformer, keys
from mast.methods.feedforward.attention import covered
from mast.methods.feedforward.vgg import Vgg
from tests.random_networks import awake, rand

NAN = float("nan")
CPU = torch.device("cpu")


def layer_names(prefix: str, planes: int, key_planes: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name, count in (("f", key_planes), ("g", key_planes), ("h", planes)):
        shapes |= {f"{prefix}{name}.weight": (count, count, 1, 1), f"{prefix}{name}.bias": (count,)}
    return shapes


def shapes_of(network: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in network.state_dict().items()}


@fixture(scope="module")
def folder(tmp_path_factory):
    """Random networks as the authors' ckpt.zip would unpack."""
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("ckpt")
    torch.save(awake(Vgg()).state_dict(), place / "vgg_normalised.pth")
    torch.save(AdaAttN(256, 448).state_dict(), place / "latest_net_adaattn_3.pth")
    renamed = {n.replace("attn_adain", "ada_attn"): v for n, v in awake(Transformer()).state_dict().items()}
    torch.save(renamed, place / "latest_net_transformer.pth")
    torch.save(awake(AdaAttNDecoder()).state_dict(), place / "latest_net_decoder.pth")
    return place


@fixture(scope="module")
def method(folder):
    made = AnyToAny(weights=str(folder))
    made.ready(CPU)
    return made


def small_layer(max_sample: int = 10_000, seed: int = 0):
    """A layer of 5 channels and 7 key channels, with content 4x6 and style 5x3."""
    torch.manual_seed(seed)
    layer = AdaAttN(5, 7, max_sample).requires_grad_(False)
    return (
        layer,
        torch.randn(1, 5, 4, 6),
        torch.randn(1, 5, 5, 3),
        torch.randn(1, 7, 4, 6),
        torch.randn(1, 7, 5, 3),
    )


# ---------------------------------------------------------------------------------------- one layer


def test_a_layer_is_the_formula_of_its_paper():
    layer, content, style, content_key, style_key = small_layer()
    query, key = layer.f(content_key).flatten(2)[0].T, layer.g(style_key).flatten(2)[0].T
    value = layer.h(style).flatten(2)[0].T
    attention = torch.softmax(query @ key.T, -1)
    mean = attention @ value
    deviation = (attention @ value**2 - mean**2).clamp_min(0).sqrt()
    own = content.flatten(2)[0].T
    expected = deviation * (own - own.mean(0)) / (own.var(0) + 1e-5).sqrt() + mean
    output = layer(content, style, content_key, style_key)
    assert torch.allclose(output.flatten(2)[0].T, expected, atol=1e-4)


def test_full_masks_are_no_masks():
    layer, *maps = small_layer()
    assert torch.equal(layer(*maps, torch.arange(24), torch.arange(15)), layer(*maps))


def test_a_region_never_reads_keys_outside_the_style_mask():
    layer, content, style, content_key, style_key = small_layer()
    region, part = torch.tensor([0, 1, 2, 8, 9]), torch.tensor([3, 4, 7, 11])
    outside = torch.ones(15, dtype=torch.bool)
    outside[part] = False
    clean = layer(content, style, content_key, style_key, region, part).flatten(2)[..., region]
    poisoned = [feature.flatten(2).clone() for feature in (style, style_key)]
    for feature in poisoned:
        feature[..., outside] = NAN
    style_, style_key_ = (p.view_as(f) for p, f in zip(poisoned, (style, style_key), strict=True))
    assert torch.equal(
        layer(content, style_, content_key, style_key_, region, part).flatten(2)[..., region], clean
    )
    assert not torch.equal(
        layer(content, style, content_key, style_key, region, None).flatten(2)[..., region], clean
    )


def test_a_masked_style_is_a_cropped_one():
    layer, content, style, content_key, style_key = small_layer()
    rows = torch.arange(3, 9)  # rows 1 and 2 of three cells
    masked = layer(content, style, content_key, style_key, torch.arange(24), rows)
    cropped = layer(content, style[..., 1:3, :], content_key, style_key[..., 1:3, :])
    assert torch.allclose(masked, cropped, atol=1e-6)


def test_outside_the_region_nothing_changes():
    layer, *maps = small_layer()
    region = torch.tensor([0, 1, 2, 8, 9])
    masked = layer(*maps, region, torch.tensor([4, 5])).flatten(2)
    plain = layer(*maps).flatten(2)
    outside = torch.ones(24, dtype=torch.bool)
    outside[region] = False
    assert torch.allclose(masked[..., outside], plain[..., outside], atol=1e-6)
    assert not torch.allclose(masked[..., region], plain[..., region], atol=1e-2)


def test_the_photo_is_normalised_over_the_cells_that_count():
    layer, content, style, content_key, style_key = small_layer()
    cells = torch.arange(12)  # the upper half
    clean = layer(content, style, content_key, style_key, content_cells=cells)
    poisoned = content.clone()
    poisoned[..., 2:, :] = NAN
    again = layer(poisoned, style, content_key, style_key, content_cells=cells)
    assert torch.equal(again[..., :2, :], clean[..., :2, :])
    assert not torch.allclose(clean, layer(content, style, content_key, style_key), atol=1e-3)


def test_of_too_many_keys_always_the_same_are_looked_at():
    layer, *maps = small_layer(max_sample=6)
    order = torch.randperm(15, generator=torch.Generator().manual_seed(6666))[:6]
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = layer(*maps)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, layer(*maps))
    whole, *_ = small_layer()
    assert torch.allclose(first, whole(*maps, torch.arange(24), order), atol=1e-6)


def test_as_released_keys_are_chosen_before_the_style_mask_takes_its_part():
    layer, content, style, content_key, style_key = small_layer(max_sample=8)
    every = layer._sampled(torch.arange(15))
    part = torch.tensor([0, 1, 2, 6, 7, 8, 9, 10, 11, 12])
    both = torch.tensor([cell for cell in every.tolist() if cell in part.tolist()])
    assert 0 < len(both) < 8 < len(part)
    region = torch.arange(24)
    whole = AdaAttN(5, 7)
    whole.load_state_dict(layer.state_dict())
    given = (content, style, content_key, style_key, region)
    found = layer(*given, part, sample_first=True)
    assert torch.allclose(found, whole(*given, both), atol=1e-5)
    assert not torch.allclose(found, layer(*given, part), atol=1e-3)
    # Nothing left of a small part: all that were chosen count alike.
    missed = torch.tensor([cell for cell in range(15) if cell not in every.tolist()][:2])
    alone = layer(*given, missed, sample_first=True)
    value = layer.h(style).flatten(2)[0].T[every]
    mean, deviation = value.mean(0).view(1, 5, 1, 1), value.var(0, correction=0).sqrt().view(1, 5, 1, 1)
    own = content.flatten(2)
    normal = (content - own.mean(2)[..., None, None]) / (own.var(2) + 1e-5).sqrt()[..., None, None]
    assert torch.allclose(alone, deviation * normal + mean, atol=1e-4)
    assert torch.equal(layer(*given, None, sample_first=True), layer(*given, None))


def test_a_small_part_of_a_large_style_keeps_all_its_keys():
    layer, *maps = small_layer(max_sample=6)
    whole, *_ = small_layer()
    part = torch.tensor([2, 13])
    assert torch.equal(layer(*maps, torch.arange(24), part), whole(*maps, torch.arange(24), part))


# ------------------------------------------------------------------------------------------- pictures


@mark.parametrize(
    "size, style_size",
    [((48, 64), (64, 48)), ((33, 50), (47, 19)), ((17, 41), (17, 17)), ((40, 24), (56, 40))],
)
def test_any_size_goes_in_and_comes_out(method, size, style_size):
    photo, style, mask = rand(1, 3, *size), rand(1, 3, *style_size, seed=1), torch.ones(1, *size)
    painted = method.paint(photo, [style], mask, [None])
    assert painted.shape == photo.shape
    assert torch.isfinite(painted).all()
    assert torch.equal(painted, method.paint(photo, [style], mask, [None]))
    assert torch.equal(painted, method.paint(photo, [style], mask, [torch.ones(style_size)]))
    assert not torch.equal(painted, method.paint(photo, [style.flip(1)], mask, [None]))


def test_without_a_style_mask_the_region_makes_no_difference(method):
    photo, style = rand(1, 3, 32, 48), rand(1, 3, 48, 32, seed=1)
    half = torch.zeros(1, 32, 48)
    half[..., :20] = 1
    whole = method.paint(photo, [style], torch.ones(1, 32, 48), [None])
    assert torch.equal(method.paint(photo, [style], half, [None]), whole)


def test_a_style_mask_changes_the_region_and_leaves_what_is_far_from_it(method):
    photo, style = rand(1, 3, 32, 160), rand(1, 3, 64, 64, seed=1)
    region, part = torch.zeros(1, 32, 160), torch.zeros(64, 64)
    region[..., :32], part[:32] = 1, 1
    plain = method.paint(photo, [style], region, [None])
    masked = method.paint(photo, [style], region, [part])
    # From there on 3x3 convolutions reach 2 cells of 8 px, 4 of 4, 2 of 2 and 2 of 1: 38 px.
    assert torch.allclose(masked[..., 70:], plain[..., 70:], atol=1e-5)
    assert not torch.allclose(masked[..., 60:70], plain[..., 60:70], atol=1e-5)
    assert (masked[..., :32] - plain[..., :32]).abs().max() > 1e-4


def test_statistics_of_the_region(method, folder):
    made = AnyToAny(weights=str(folder), statistics="region")
    made._networks.update(method._networks)
    photo, style = rand(1, 3, 32, 48), rand(1, 3, 48, 32, seed=1)
    full, half = torch.ones(1, 32, 48), torch.zeros(1, 32, 48)
    half[..., :20] = 1
    plain = method.paint(photo, [style], full, [None])
    assert torch.equal(made.paint(photo, [style], full, [torch.ones(48, 32)]), plain)
    assert not torch.allclose(made.paint(photo, [style], half, [None]), plain, atol=1e-4)


def test_region_statistics_read_nothing_outside_the_style_mask():
    maps = {"relu1_1": torch.randn(1, 64, 8, 8), "relu2_1": torch.randn(1, 128, 4, 4)}
    mask = torch.zeros(8, 8)
    mask[:, :4] = 1
    cells = covered(mask, maps["relu2_1"])
    poisoned = {name: feature.clone() for name, feature in maps.items()}
    poisoned["relu1_1"][..., 4:] = NAN
    poisoned["relu2_1"][..., 2:] = NAN
    clean = keys(maps, "relu2_1", cells)
    assert clean.shape == (1, 192, 4, 4)
    assert torch.equal(keys(poisoned, "relu2_1", cells).flatten(2)[..., cells], clean.flatten(2)[..., cells])


# ------------------------------------------------------------------------------------------- weights


def test_names_and_shapes_are_the_authors():
    assert shapes_of(AdaAttN(256, 448)) == layer_names("", 256, 64 + 128 + 256)
    assert shapes_of(Transformer()) == {
        **layer_names("attn_adain_4_1.", 512, 960),
        **layer_names("attn_adain_5_1.", 512, 960 + 512),
        "merge_conv.weight": (512, 512, 3, 3),
        "merge_conv.bias": (512,),
    }
    widths = [(512, 256), (256, 256), (256, 256), (256, 128), (128, 128), (128, 64), (64, 64), (64, 3)]
    numbers = [1, 4, 7, 10, 14, 17, 21, 24]
    expected = {"decoder_layer_1.1.weight": (256, 512, 3, 3), "decoder_layer_1.1.bias": (256,)}
    for number, (entering, leaving) in zip(numbers, widths, strict=True):
        expected[f"decoder_layer_2.{number}.weight"] = (leaving, entering, 3, 3)
        expected[f"decoder_layer_2.{number}.bias"] = (leaving,)
    assert shapes_of(AdaAttNDecoder()) == expected


def test_either_spelling_of_the_transformer_loads(method, folder, tmp_path):
    stored = torch.load(folder / "latest_net_transformer.pth", weights_only=True)
    assert "ada_attn_4_1.f.weight" in stored
    loaded = method.network("transformer").state_dict()
    assert all(torch.equal(loaded[n.replace("ada_attn", "attn_adain")], v) for n, v in stored.items())
    place = linked(folder, tmp_path)
    (place / "latest_net_transformer.pth").unlink()
    torch.save(loaded, place / "latest_net_transformer.pth")
    again = AnyToAny(weights=str(place))
    again.ready(CPU)
    assert again.fingerprint == method.fingerprint


def test_either_name_of_the_layers_file_is_found(method, folder, tmp_path):
    place = linked(folder, tmp_path)
    (place / "latest_net_adaattn_3.pth").rename(place / "latest_net_attn_adain_3.pth")
    again = AnyToAny(weights=str(place))
    again.ready(CPU)
    assert again.fingerprint == method.fingerprint


def linked(folder, place):
    for file in folder.iterdir():
        (place / file.name).symlink_to(file)
    return place


def test_a_missing_file_is_named_with_its_place(folder, tmp_path, own_cache):
    with raises(InputError, match=r"adaattn_3\.pth: no such file.*ckpt\.zip.*Huage001/Transfer-Any-Style"):
        AnyToAny(weights=str(tmp_path)).ready(CPU)
    with raises(InputError, match=str(own_cache / "weights" / "latest_net_adaattn_3.pth")):
        make("any-to-any").ready(CPU)
    place = linked(folder, tmp_path)
    (place / "latest_net_decoder.pth").unlink()
    with raises(InputError, match=r"latest_net_decoder\.pth: no such file"):
        AnyToAny(weights=str(place)).ready(CPU)


def test_the_encoder_may_be_the_one_mast_fetches(folder, tmp_path, own_cache):
    place = linked(folder, tmp_path)
    (own_cache / "weights").mkdir(parents=True)
    (place / "vgg_normalised.pth").rename(own_cache / "weights" / "vgg_normalized.pth")
    AnyToAny(weights=str(place)).ready(CPU)


def test_a_wrong_file_says_which_key_differs(folder, tmp_path):
    place = linked(folder, tmp_path)
    (place / "latest_net_adaattn_3.pth").unlink()
    torch.save(AdaAttN(256, 256).state_dict(), place / "latest_net_adaattn_3.pth")
    with raises(InputError, match=r"adaattn_3\.pth: not AdaAttN's layer.*f\.weight is \(256, 256, 1, 1\)"):
        AnyToAny(weights=str(place)).ready(CPU)
    (place / "latest_net_adaattn_3.pth").unlink()
    (place / "latest_net_adaattn_3.pth").symlink_to(folder / "latest_net_decoder.pth")
    with raises(InputError, match=r"f\.weight is missing"):
        AnyToAny(weights=str(place)).ready(CPU)


def test_bad_input(method):
    photo, mask = rand(1, 3, 32, 32), torch.ones(1, 32, 32)
    with raises(InputError, match="a style picture is 40x16 px"):
        method.paint(photo, [rand(1, 3, 16, 40)], mask, [None])
    dot = torch.zeros(32, 32)
    dot[0, 0] = 1
    with raises(InputError, match="covers no whole cell"):
        method.paint(photo, [photo], mask, [dot])
    with raises(InputError, match="choose one of region, image"):
        AnyToAny(statistics="whole")
