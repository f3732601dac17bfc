"""One controlled attention layer: the paper's dense joint map, mast's exact partitioned form, and one
plain SDPA.

    python benchmarks/attention.py [--quick] [--json FILE]

tokens 1024 is a 32x32 layer of Stable Diffusion at 512 px (8 heads x 80), 4096 a 64x64 one (8 x 40),
16384 the same layer at 1024 px. N regions tile the picture. Dense is left out where its map would not
fit.
"""

from __future__ import annotations

import time

import torch
from measure import arguments, medians, peak_extra, show, write

from mast.core import lama, sts
from mast.core.attention import Partition, dense_attention, joint_attention, row_statistics
from mast.features.recording import available_memory

LAYERS = {1024: (8, 80), 4096: (8, 40), 16384: (8, 40)}


def scene(n: int, tokens: int, heads: int, dim: int) -> tuple[list[Partition], Partition, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)

    def random() -> torch.Tensor:
        return torch.randn(heads, tokens, dim, generator=generator)

    content, blended = Partition(random(), random(), random()), random()
    styles = [Partition(blended, random(), random()) for _ in range(n)]
    masks = torch.zeros(n, tokens)
    for i in range(n):
        masks[i, i * tokens // n : (i + 1) * tokens // n] = 1
    return styles, content, lama.target_masses(masks, 0.9)


class Layer:
    """One layer with N regions, in the three forms that are compared."""

    def __init__(self, n: int, tokens: int):
        self.n, self.tokens = n, tokens
        self.heads, self.dim = LAYERS[tokens]
        self.styles, self.content, self.masses = scene(n, tokens, self.heads, self.dim)
        # A run computes these once, while it records the content.
        self.known = row_statistics(self.content.query, self.content.key)

    def fast(self) -> torch.Tensor:
        return joint_attention(self.styles, self.content, self.masses, sts.tau_from_gap, self.known).output

    def dense(self) -> torch.Tensor:
        return dense_attention(self.styles, self.content, self.masses, sts.tau_from_gap).output

    def plain(self) -> torch.Tensor:
        own = self.content
        return torch.nn.functional.scaled_dot_product_attention(
            own.query[None], own.key[None], own.value[None]
        )

    def fits(self) -> bool:
        """About four copies of the joint map live at once in the dense form."""
        return 4 * 4 * self.heads * self.tokens**2 * (self.n + 1) < 0.8 * available_memory()


def measure(counts: tuple[int, ...], tokens: int, repeats: int, dense: tuple[int, ...]) -> list[dict]:
    """A row for each N; all the fast forms and the plain one take turns."""
    layers = [Layer(n, tokens) for n in counts]
    first = layers[0]
    turns = {str(layer.n): layer.fast for layer in layers}
    turns |= {
        "sdpa": first.plain,
        "statistics": lambda: row_statistics(first.styles[0].query, first.styles[0].key),
    }
    seconds = medians(turns, repeats)
    rows = []
    for layer in layers:
        row: dict = {"n": layer.n, "tokens": tokens, "heads": layer.heads, "dim": layer.dim, "dense_s": None}
        row |= {
            "fast_s": seconds[str(layer.n)],
            "sdpa_s": seconds["sdpa"],
            "statistics_s": seconds["statistics"],
        }
        row |= {"dense_peak": None, "fast_peak": peak_extra(layer.fast)[0], "max_error": None}
        if (
            layer.n in dense and layer.fits()
        ):  # half a minute a call: once for time, memory and error together
            began = time.perf_counter()
            row["dense_peak"], output = peak_extra(layer.dense)
            row["dense_s"] = time.perf_counter() - began
            row["max_error"] = float((layer.fast() - output).abs().max())
        known = row["dense_s"] is not None
        row["dense/fast"] = row["dense_s"] / row["fast_s"] if known else None
        row["fast/sdpa"] = row["fast_s"] / row["sdpa_s"]
        row["fast/N=1"] = row["fast_s"] / seconds["1"]
        row["memory"] = row["dense_peak"] / max(row["fast_peak"], 1) if known else None
        rows.append(row)
    return rows


@torch.inference_mode()
def main() -> None:
    options = arguments(__doc__).parse_args()
    counts, sizes = ((1, 5, 16), (1024, 4096)) if options.quick else ((1, 2, 3, 5, 8, 16), tuple(LAYERS))
    dense = (1, 5) if options.quick else (1, 2, 3, 5)
    rows = []
    for tokens in sizes:
        rows += measure(counts, tokens, 3 if tokens > 4096 else 7, dense if tokens <= 4096 else ())
    show(rows, "LAMA + STS in one layer: seconds, bytes, ratios (memory: dense peak / fast peak)")
    write(rows, options.json)


if __name__ == "__main__":
    main()
