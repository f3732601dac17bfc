"""Where attention mass goes: the distances, the interiors, and what a watched run counts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.analysis import allocation
from mast.analysis.allocation import Allocation, decompose, interior, jensen_shannon, total_variation
from mast.analysis.observe import Observer, Tally, observe
from mast.analysis.sharpness import Drift, Entropy
from mast.core.attention import dense_logits, logits
from mast.job import InputError, Job, Region, Settings
from mast.methods import Mast, SharedAttention
from mast.pipeline.stylize import stylize
from tests.tiny import halves, picture

SETTINGS = Settings(steps=3, size=64, cache=False)
weights = st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda values: sum(values) > 1e-3)


def distribution(values: list[float]) -> torch.Tensor:
    found = torch.tensor(values, dtype=torch.float64)
    return found / found.sum()


@given(weights, weights)
def test_the_distances_keep_their_bounds(a: list[float], b: list[float]):
    p, q = distribution(a), distribution(b)
    tv, jsd = float(total_variation(p, q)), float(jensen_shannon(p, q))
    assert 0 <= tv <= 1 + 1e-12
    assert 0 <= jsd <= math.log(2) + 1e-12
    assert jsd == pytest.approx(float(jensen_shannon(q, p)), abs=1e-12)
    assert jsd <= tv * math.log(2) + 1e-12  # Lin 1991
    assert float(total_variation(p, p)) == float(jensen_shannon(p, p)) == 0


def test_the_distances_of_known_pairs():
    one, other = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert float(total_variation(one, other)) == 1
    assert float(jensen_shannon(one, other)) == pytest.approx(math.log(2))
    half = torch.tensor([0.5, 0.5])
    assert float(total_variation(one, half)) == 0.5
    expected = 0.5 * (math.log(4 / 3) + 0.5 * math.log(2 / 3) + 0.5 * math.log(2))
    assert float(jensen_shannon(one, half)) == pytest.approx(expected)


def test_interiors_are_where_one_mask_is_full_and_no_other_is_there():
    masks = torch.tensor([[1.0, 0.99, 0.98, 0.99, 0.0], [0.0, 0.01, 0.0, 0.02, 0.0]])
    assert interior(masks).tolist() == [[True, True, False, False, False], [False] * 5]


def test_masses_fall_into_style_content_and_leakage():
    masses = torch.tensor([[0.5, 0.1, 0.3], [0.2, 0.6, 0.3], [0.3, 0.3, 0.4]]).unsqueeze(1)  # (3, 1, 3)
    inside = torch.tensor([[True, False, False], [False, True, False]])
    style, content, leakage = decompose(masses, inside)
    assert style.item() == pytest.approx(0.55) and content.item() == pytest.approx(0.3)
    assert leakage.item() == pytest.approx(0.15)
    assert all(torch.isnan(value).all() for value in decompose(masses, torch.zeros_like(inside)))


def watched(job: Job, backbone, watch, method: Mast | None = None) -> list:
    return list(observe([job], backbone, SETTINGS, method or Mast(), watch))


def test_lama_realises_the_masses_of_its_masks_in_a_run(tiny_backbone, job):
    found = Allocation()
    watched(job, tiny_backbone, found)
    tally = found.tally
    assert tally.mean("lama.style") == pytest.approx(0.9, abs=1e-5)
    assert tally.mean("lama.content") == pytest.approx(0.1, abs=1e-5)
    assert max(tally.mean(f"lama.{name}") for name in ("leakage", "tv", "jsd")) < 1e-5
    assert tally.mean("shared.tv") > 0.05
    parts = [tally.mean(f"shared.{name}") for name in ("style", "content", "leakage")]
    assert sum(parts) == pytest.approx(1, abs=1e-5)
    heads = sum(site.heads for site in tiny_backbone.sites)
    assert tally.count("lama.tv") == heads * 2  # two moves for three timesteps


def test_what_is_left_of_a_neighbour_in_an_interior_is_the_targets_leakage_too(tiny_backbone, pictures):
    soft = [np.where(half > 0, 0.995, 0.005).astype(np.float32) for half in halves(64, 64)]
    regions = tuple(Region(pictures[f"style_{x}"], mask) for x, mask in zip("ab", soft, strict=True))
    found = Allocation()
    watched(Job(pictures["photo"], regions), tiny_backbone, found)
    leakage = found.tally.mean("lama.leakage")
    assert leakage == pytest.approx(0.9 * 0.005, abs=1e-5)
    assert leakage == pytest.approx(found.tally.mean("target.leakage"), abs=1e-6)
    assert found.tally.mean("target.tv") == 0 and 0 < found.furthest[2] < 1e-5


def test_streamed_means_equal_those_of_the_joint_maps(tiny_backbone, job):
    """Everything is measured once more on the map that streaming never makes."""
    dense: dict[str, list[torch.Tensor]] = {}
    allocated, entropies, drift = Allocation(), Entropy(), Drift()

    def watch(sight):
        for watcher in (allocated, entropies, drift):
            watcher(sight)
        *styles, own = sight.partitions
        entropy = lambda joint: torch.special.entr(joint.softmax(-1)).sum(-1).mean(-1)
        sizes = [part.key.shape[1] for part in sight.partitions]
        masses = lambda joint: torch.stack([part.sum(-1) for part in joint.softmax(-1).split(sizes, -1)])
        target = sight.targets.unsqueeze(1)
        biased = dense_logits(styles, own, sight.targets)
        after = masses(sight.tau.view(-1, 1, 1) * biased)
        rho = [
            [np.corrcoef(sight.targets[i], after[i, h])[0, 1] for h in range(after.shape[1])]
            for i in range(sight.n)
        ]
        for name, value in {
            "tv": total_variation(masses(dense_logits(styles, own, None)), target).mean(-1),
            "content": entropy(logits(own)),
            "lama": entropy(biased),
            "sts": entropy(sight.tau.view(-1, 1, 1) * biased),
            "d_mass": total_variation(after, target).mean(-1),
            "rho": torch.tensor(rho),
        }.items():
            dense.setdefault(name, []).append(value)

    watched(job, tiny_backbone, watch)
    mean = {name: torch.cat(values, -1).double().mean(-1) for name, values in dense.items()}
    assert allocated.tally.mean("shared.tv") == pytest.approx(float(mean["tv"]), abs=1e-5)
    for name in ("content", "lama", "sts"):
        assert entropies.tally.mean(name) == pytest.approx(float(mean[name]), abs=1e-4)
    assert drift.tally.mean("d_mass") == pytest.approx(float(mean["d_mass"]), abs=1e-5)
    assert drift.rho_min(2) == pytest.approx(float(mean["rho"].min()), abs=1e-4)
    assert len(entropies.tally.by_head("sts")) == tiny_backbone.sites[0].heads


def test_nothing_moves_at_tau_one_and_much_at_tau_three(tiny_backbone, job):
    still, moved = Drift(), Drift()
    watched(job, tiny_backbone, still, Mast(tau=1.0))
    watched(job, tiny_backbone, moved, Mast(tau=3.0))
    assert still.tally.mean("d_mass") < 1e-6 and still.rho_min(2) == pytest.approx(1, abs=1e-6)
    assert still.tally.mean("content") == pytest.approx(still.tally.mean("target"), abs=1e-6)
    assert moved.tally.mean("d_mass") > 1e-3


def test_watching_changes_no_picture(tiny_backbone, job):
    (result,) = watched(job, tiny_backbone, lambda sight: None)
    plain = stylize(job, tiny_backbone, Mast(), SETTINGS)
    assert np.array_equal(np.asarray(result.image), np.asarray(plain.image))
    assert result.provenance == plain.provenance
    (shared,) = watched(job, tiny_backbone, Allocation(("shared-run",)), SharedAttention())
    alone = stylize(job, tiny_backbone, "shared", SETTINGS)
    assert np.array_equal(np.asarray(shared.image), np.asarray(alone.image))
    assert Observer().options() == Mast().options()


def test_a_job_without_interiors_or_regions(tiny_backbone):
    photo, style = picture(64, 64, 1), picture(64, 64, 2)
    found = Allocation()
    watched(Job(photo, (Region(style, halves(64, 64)[0], strength=0.7),)), tiny_backbone, found)
    assert found.tally.mean("lama.style") is None and found.tally.mean("lama.tv") < 1e-5
    with pytest.raises(InputError, match="no region"):
        watched(Job(photo), tiny_backbone, found)


def test_tables_and_data_name_the_paper_and_every_n(tiny_backbone, job):
    found = Allocation()
    one = Job(job.content, job.regions[:1])
    list(observe([job, one, job], tiny_backbone, SETTINGS, Mast(), found))
    rows = allocation.table([found], "tiny")
    assert [row[:4] for row in rows[:3]] == [
        ("Shared Attn.", "paper, SD 1.4", "2", "200"),
        ("Shared Attn.", "tiny", "1", "1"),
        ("Shared Attn.", "tiny", "2", "2"),
    ]
    assert rows[-1][:2] == ("Target", "tiny")
    assert rows[-1][4:] == ("0.900", "0.100", "0.000", "0.000", "0.000")  # halves on whole cells
    data = json.loads(json.dumps(allocation.data([found], tiny_backbone.sites)))
    assert data["stages"]["lama"]["by_n"]["2"]["pictures"] == 2
    assert len(data["stages"]["lama"]["by_layer_and_step"]) == 2 * 6 * 2  # N, layers, steps


def test_a_tally_leaves_out_what_cannot_be_measured(tiny_backbone, job):
    tally, sights = Tally(), []
    watched(job, tiny_backbone, sights.append)
    tally.add(sights[0], "x", torch.tensor([1.0, math.nan]))
    tally.add(sights[0], "x", torch.tensor([3.0, math.nan]))
    assert tally.mean("x") == 2 and tally.count("x") == 2
    assert tally.by_head("x") == [2.0, None] and tally.mean("y") is None
