"""The fast attention changes nothing that anyone could see: whole runs on the embedded model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import mast
from mast.core.attention import Joint, Partition, dense_attention
from mast.job import Job, Region, Settings

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class DenseMast(mast.Mast):
    """MAST with the joint map written down, as in the paper."""

    def joint(self, scene, site, query) -> Joint:
        content = scene.content_at(site)
        blended = self.lam * content.query + (1 - self.lam) * query[0]
        styles = [Partition(blended, *style.key_value()) for style in scene.styles_at(site)]
        own = Partition(content.query, *content.key_value())
        return dense_attention(styles, own, self.masses(scene, site), self.tau_rule)


def test_a_run_with_dense_attention_gives_the_same_picture_within_one_level():
    job = Job(
        EXAMPLES / "photos/cat.jpg",
        (
            Region(EXAMPLES / "styles/starry-oil.png", EXAMPLES / "masks/cat-cat.png"),
            Region(EXAMPLES / "styles/woodcut.png"),
        ),
    )
    backbone = mast.load("preview")
    settings = Settings(steps=6, inversion="refined", size=192)
    pictures = [
        np.asarray(mast.stylize(job, backbone, method, settings).image, np.int16)
        for method in (mast.Mast(), DenseMast())
    ]
    assert np.abs(pictures[0] - pictures[1]).max() <= 1
