"""NaN and infinity end a run where they arise, with the timestep and what to try; none is handed on."""

from dataclasses import replace

import pytest
import torch

import mast
from mast.backbone.instrument import Identity, controlled
from mast.backbone.load import settled
from mast.job import NotFinite

LATENT = torch.zeros(1, 4, 8, 8)


class Spoiling(Identity):
    """A control that goes wrong at one site, as a wild option would."""

    def __init__(self, value: float):
        self.value = value

    def attend(self, site, query, key, value):
        output = super().attend(site, query, key, value)
        return output * self.value if site.index == 2 else output


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e38])
def test_a_prediction_that_is_not_finite_names_model_timestep_and_dtype(tiny_backbone, value):
    backbone = replace(tiny_backbone, name="somebody/model")
    with (
        controlled(backbone.unet, backbone.sites, Spoiling(value)),
        torch.inference_mode(),
        pytest.raises(NotFinite, match=r"somebody/model: the prediction at timestep 321.*float32") as error,
    ):
        backbone.predict(LATENT, 321)
    assert "method's options" in str(error.value) and "--dtype" not in str(error.value)
    with torch.inference_mode():
        assert backbone.predict(LATENT, 321).isfinite().all()


def test_half_precision_is_told_to_try_float32(tiny_sd_folder):
    backbone = mast.load(tiny_sd_folder)
    half = replace(
        backbone,
        unet=settled(backbone.unet, backbone.device, torch.float16),
        empty_prompt=backbone.empty_prompt.half(),
    )
    with torch.inference_mode(), pytest.raises(NotFinite, match=r"timestep 21.*float16; try --dtype float32"):
        half.predict(LATENT + 1e5, 21)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_was_given_is_blamed_where_it_was_wrong_already(tiny_backbone, value):
    spoilt, image = LATENT.clone(), torch.zeros(1, 3, 64, 64)
    spoilt[0, 1, 2, 3] = image[0, 1, 2, 3] = value
    with torch.inference_mode():
        with pytest.raises(NotFinite, match="what was given for the prediction at timestep 1 "):
            tiny_backbone.predict(spoilt, 1)
        with pytest.raises(NotFinite, match="the latent at timestep 1 "):
            tiny_backbone.visit(spoilt, 1)
    with pytest.raises(NotFinite, match="what was given for the decoded picture"):
        tiny_backbone.decode(spoilt)
    with pytest.raises(NotFinite, match="what was given for the latent of a picture"):
        tiny_backbone.encode(image)


def test_an_autoencoder_that_overflows_is_stopped(tiny_sd_folder):
    backbone = mast.load(tiny_sd_folder)
    backbone.autoencoder.vae.decoder.conv_out.weight.fill_(3e38)
    with pytest.raises(NotFinite, match="the decoded picture"):
        backbone.decode(torch.randn(1, 4, 8, 8))
    backbone.autoencoder.vae.encoder.conv_in.bias.fill_(float("nan"))
    with pytest.raises(NotFinite, match="the latent of a picture"):
        backbone.encode(torch.zeros(1, 3, 64, 64))


def test_damaged_weights_end_a_whole_run_without_a_picture(tiny_sd_folder, job, quick):
    backbone = mast.load(tiny_sd_folder)
    backbone.unet.conv_out.bias[0] = float("nan")
    with pytest.raises(RuntimeError, match="NaN or infinity"):
        mast.stylize(job, backbone, settings=quick)
