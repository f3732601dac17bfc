"""Methods that know one style: a run per region, joined; own networks; regions found by the method."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from mast import InputError, Job, Mast, Region, Settings, stylize
from mast.methods import StyleID
from mast.methods.feedforward.network import FeedForward
from mast.pipeline.apart import can_share_passes, sample_together
from mast.pipeline.compose import check_parts, recomposite
from tests.methods.scenes import scene_of
from tests.tiny import halves, picture

pytestmark = pytest.mark.usefixtures("warm_cache")
LEFT, RIGHT = halves(64, 64)
PHOTO, STYLES = picture(64, 64, 1), (picture(64, 64, 2), picture(64, 64, 3))
JOB = Job(PHOTO, (Region(STYLES[0], LEFT), Region(STYLES[1], RIGHT)))
QUICK = Settings(steps=3, size=64, composite="hard")


def pixels(image):
    return np.asarray(image, np.int16)


def test_a_single_style_method_runs_once_a_region_and_is_composited(tiny_backbone):
    told = []
    result = stylize(JOB, tiny_backbone, StyleID(), QUICK, told.append)
    alone = [stylize(Job(PHOTO, (Region(style),)), tiny_backbone, StyleID(), QUICK).image for style in STYLES]
    assert [(pixels(a) == pixels(b)).all() for a, b in zip(result.parts, alone, strict=True)] == [True, True]
    expected = np.where(LEFT[..., None] > 0.5, pixels(alone[0]), pixels(alone[1]))
    assert (pixels(result.image) == expected).all()
    denoise = [step for step in told if step.stage == "denoise"]
    assert [step.done for step in denoise] == [1, 2, 3, 4] and {step.total for step in denoise} == {4}


def test_parts_are_joined_another_way_without_another_run(tiny_backbone):
    result = stylize(JOB, tiny_backbone, StyleID(), QUICK)
    other = recomposite(result, "alpha")
    direct = stylize(JOB, tiny_backbone, StyleID(), QUICK.with_(composite="alpha"))
    assert (pixels(other.image) == pixels(direct.image)).all()
    assert other.provenance == direct.provenance
    assert result.provenance["settings"]["composite"] == "hard"


def test_a_method_for_all_regions_has_no_parts(tiny_backbone):
    result = stylize(JOB, tiny_backbone, Mast(), QUICK)
    assert result.parts == ()
    with pytest.raises(InputError, match="nothing to composite"):
        recomposite(result, "alpha")


def test_masks_that_do_not_tile_are_refused_before_any_pass_unless_the_photo_may_stay(tiny_backbone):
    half = Job(PHOTO, (Region(STYLES[0], LEFT),))
    told = []
    with pytest.raises(InputError, match=r"50\.0% of the picture is uncovered.*--keep exact"):
        stylize(half, tiny_backbone, StyleID(), QUICK, told.append)
    assert told == []
    kept = stylize(half, tiny_backbone, StyleID(), QUICK.with_(keep_unassigned="exact"))
    assert (pixels(kept.image)[:, 40:] == pixels(PHOTO)[:, 40:]).all()
    assert (pixels(kept.image)[:, :24] != pixels(PHOTO)[:, :24]).any()


def test_strength_shows_the_photo_through_a_part(tiny_backbone):
    full = stylize(Job(PHOTO, (Region(STYLES[0]),)), tiny_backbone, StyleID(), QUICK)
    faint = stylize(Job(PHOTO, (Region(STYLES[0], strength=0.25),)), tiny_backbone, StyleID(), QUICK)
    expected = 0.75 * pixels(PHOTO) + 0.25 * pixels(full.image)
    assert np.abs(pixels(faint.image) - expected).max() <= 1


def test_a_batch_of_runs_gives_what_the_runs_give(tiny_backbone):
    """On a GPU the regions share their passes; the way there is the same on a CPU."""
    scene = scene_of(JOB, tiny_backbone)
    scenes = [scene.alone(i, True) for i in range(2)]
    seen = []
    together = sample_together(StyleID(), scenes, lambda i, z, x0: seen.append((i, tuple(z.shape))))
    single = torch.cat([StyleID().sample(one) for one in scenes])
    # A batch is summed in another order: 7e-5 in one pass here, ten times that after two. Mixed-up regions
    # would differ by more than 1.
    assert (together - single).abs().max() < 5e-3 < 1 < (together.flip(0) - single).abs().max()
    assert seen == [(2, (1, 4, 8, 8))] * 2 + [(1, (1, 4, 8, 8))] * 2
    assert not can_share_passes(StyleID(), scenes)  # a CPU gains nothing


# ------------------------------------------------------------ networks of their own


@dataclass(frozen=True)
class Blend(FeedForward):
    """A network that paints each region in its style's mean colour: enough to see who got which inputs."""

    gain: float = 1.0

    name = "blend"
    family = "regional-multi"

    def load(self):
        torch.manual_seed(0)
        return {"net": nn.Conv2d(3, 3, 1)}

    def paint(self, content, styles, masks, style_masks):
        assert content.min() >= 0 and content.max() <= 1 and self.network("net").training is False
        colours = torch.stack(
            [
                style.mean((2, 3))[0] if mask is None else (style[0] * mask).sum((1, 2)) / mask.sum()
                for style, mask in zip(styles, style_masks, strict=True)
            ]
        )
        return torch.einsum("nc,nhw->chw", colours, masks)[None] * self.gain


@dataclass(frozen=True)
class BlendAlone(Blend):
    name = "blend-alone"
    family = "global-single"


RED, BLUE = Image.new("RGB", (50, 40), "red"), Image.new("RGB", (40, 60), "blue")


@pytest.mark.parametrize("size", [(64, 64), (67, 45)])
@pytest.mark.parametrize("method", [Blend(), BlendAlone()])
def test_a_network_of_its_own_paints_regions_without_a_diffusion_model(method, size):
    left, right = halves(*size)
    job = Job(picture(*size, 1), (Region(RED, left), Region(BLUE, right)))
    result = stylize(job, "no-such-model", method, QUICK)
    assert result.image.size == size
    assert pixels(result.image)[2, 2].tolist() == [255, 0, 0]
    assert pixels(result.image)[2, -2].tolist() == [0, 0, 255]
    assert result.provenance["model"] == {"name": None, "fingerprint": method.fingerprint}
    assert len(result.parts) == (2 if method.family == "global-single" else 0)


def test_a_network_sees_style_masks_strength_and_exact_surroundings():
    style = np.zeros((64, 64, 3), np.uint8)
    style[:32] = (0, 255, 0)
    top = np.zeros((64, 64), np.float32)
    top[:32] = 1
    region = Region(style, LEFT, 0.5, style_mask=top)
    result = stylize(Job(PHOTO, (region,)), method=Blend(), settings=QUICK.with_(keep_unassigned="exact"))
    assert abs(int(pixels(result.image)[30, 2, 1]) - 128) <= 1
    assert (pixels(result.image)[:, 40:] == pixels(PHOTO)[:, 40:]).all()


def test_the_fingerprint_of_networks_is_that_of_their_weights():
    one, two = Blend(), Blend(gain=0.5)
    for method in (one, two):
        method.ready(torch.device("cpu"))
    assert one.fingerprint == two.fingerprint and one.options() == {"gain": 1.0}
    with torch.no_grad():
        two.network("net").bias += 1
    assert one.fingerprint != two.fingerprint


# ------------------------------------------------------------ regions found by themselves


@dataclass(frozen=True)
class Finder(Mast):
    auto: bool = True

    name = "finder"


def test_a_method_that_finds_its_regions_needs_no_masks(tiny_backbone):
    job = Job(PHOTO, tuple(Region(style) for style in STYLES))
    with pytest.raises(InputError, match="only one region"):
        stylize(job, tiny_backbone, Mast(), QUICK)
    result = stylize(job, tiny_backbone, Finder(), QUICK)
    assert not any("overlap" in note for note in result.notes)
    assert [region["mask"] for region in result.provenance["regions"]] == [None, None]
    masked = stylize(JOB, tiny_backbone, Finder(), QUICK)
    assert (pixels(masked.image) == pixels(result.image)).all()


def test_a_missing_compositor_is_named_before_any_work(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(InputError, match=r"mast\[composite\]"):
        check_parts(torch.from_numpy(np.stack([LEFT, RIGHT])), replace(QUICK, composite="poisson"))
