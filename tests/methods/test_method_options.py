"""Methods by name, and options that are refused when they make no sense."""

import math

import pytest
import torch

import mast
from mast import InputError, Mast, Reconstruct, Region, Settings, SharedAttention
from mast.core.sts import SD_COEFFICIENTS, tau_from_gap
from mast.methods import METHODS, make

NAN, INF = float("nan"), float("inf")


def test_the_defaults_are_the_papers():
    method = Mast()
    assert (method.lam, method.pi, method.r) == (0.2, 0.9, 0.3)
    assert method.lama and method.sts and method.ddi and method.mass_floor == 0
    settings = Settings()
    assert (settings.steps, settings.inversion, settings.size) == (50, "plain", 512)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_made_by_its_name_and_from_its_own_options(name):
    method = make(name)
    assert method.name == name and method.about
    assert make(name, **method.options()) == method


def test_shared_attention_is_mast_without_its_three_parts():
    base = SharedAttention()
    assert base.options() == Mast(lama=False, sts=False, ddi=False).options()


@pytest.mark.parametrize(
    ("wrong", "near"), [("mats", "mast"), ("shard", "shared"), ("reconstuct", "reconstruct")]
)
def test_an_unknown_method_suggests_the_nearest(tiny_backbone, wrong, near):
    with pytest.raises(InputError, match=f"'{wrong}'; did you mean '{near}'"):
        make(wrong)
    with pytest.raises(InputError, match=near):
        mast.stylize(mast.Job("photo.png"), tiny_backbone, method=wrong)


def test_an_unknown_method_far_from_all_lists_them_and_an_unknown_option_is_named():
    with pytest.raises(InputError, match=r"mast, shared, .*reconstruct"):
        make("zzz")
    with pytest.raises(InputError, match=r"'reconstruct' has no option 'lam'"):
        make("reconstruct", lam=0.1)
    assert make("mast", lam=None, pi=0.5) == Mast(pi=0.5)


@pytest.mark.parametrize(
    "options",
    [
        *[{"pi": value} for value in (0, 0.0, -0.1, 1.1, NAN, INF)],
        *[{"lam": value} for value in (-0.1, 1.1, NAN, INF)],
        *[{"r": value} for value in (0, -1, NAN, INF)],
        *[
            {"tau": value}
            for value in (0, -1.0, 21, NAN, INF, (1.0, 2.0), (1.0, NAN, 2.0), [1.0, 2.0, 3.0, 4.0], ())
        ],
        *[{"mass_floor": value} for value in (-1e-6, 0.5, NAN)],
    ],
)
def test_options_outside_their_range_are_refused_by_name(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Mast(**options)


@pytest.mark.parametrize(
    "options", [{"pi": 1}, {"pi": 1e-3}, {"lam": 0}, {"lam": 1}, {"r": 0.01}, {"tau": 1}, {"tau": [1, 2, 3]}]
)
def test_the_ends_of_a_range_are_allowed(options):
    Mast(**options)


@pytest.mark.parametrize(
    "change",
    [
        *[{"steps": value} for value in (0, 1, -5, 1001, 2.5, NAN, True, "20")],
        *[{"size": value} for value in (0, 63, 10**6, 512.0, NAN)],
        {"inversion": "exact"},
        {"fit": "crop"},
        {"keep_unassigned": "yes"},
        {"features": "disk"},
        {"feature_dtype": "bfloat16"},
    ],
)
def test_settings_outside_their_range_are_refused_by_name(change):
    name = next(iter(change))
    with pytest.raises(InputError, match=name):
        Settings(**change)
    with pytest.raises(InputError, match=name):
        Settings().with_(**change)


def test_an_unknown_setting_is_refused_and_none_changes_nothing():
    with pytest.raises(InputError, match="stepz"):
        Settings().with_(stepz=3)
    assert Settings().with_(steps=None, size=256) == Settings(size=256)


@pytest.mark.parametrize("strength", [0, -0.5, 1.01, NAN, INF])
def test_a_strength_outside_its_range_is_refused(strength):
    with pytest.raises(InputError, match="strength"):
        Region("style.png", strength=strength)


def test_tau_is_fitted_given_as_coefficients_fixed_or_off():
    gap = torch.tensor([0.5, 2.0])
    assert torch.equal(Mast().tau_rule(gap), tau_from_gap(gap, SD_COEFFICIENTS))
    assert torch.equal(Mast(tau=(0.0, 1.0, 1.0)).tau_rule(gap), 1 + gap)
    assert Mast(tau=[0.0, 1.0, 1.0]) == Mast(tau=(0.0, 1.0, 1.0))
    assert Mast(tau=1.5).tau_rule == 1.5 and Mast(tau=2).tau_rule == 2.0
    assert Mast(sts=False).tau_rule == 1.0 and Mast(sts=False, tau=3.0).tau_rule == 1.0


def test_methods_cannot_be_changed_by_accident():
    with pytest.raises(AttributeError):
        Mast().pi = 0.5
    assert Reconstruct().options() == {} and math.isfinite(Mast().pi)
