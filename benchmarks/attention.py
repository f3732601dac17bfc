"""One controlled attention layer: the paper's dense joint map, mast's exact partitioned form, and one
plain SDPA.

    python benchmarks/attention.py [--quick] [--json FILE]

tokens 1024 is a 32x32 layer of Stable Diffusion at 512 px (8 heads x 80), 4096 a 64x64 one (8 x 40),
16384 the same layer at 1024 px. N regions tile the picture. Dense is left out where its map would not
fit.
"""

from __future__ import annotations

import gc

import torch
from measure import arguments, medians, peak_extra, show, write

from mast.core import lama, sts
from mast.core.attention import Partition, dense_attention, joint_attention, row_statistics
from mast.features.bank import available_memory

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


def measure(n: int, tokens: int, repeats: int, dense: bool) -> dict:
    heads, dim = LAYERS[tokens]
    styles, content, masses = scene(n, tokens, heads, dim)
    known = row_statistics(
        content.query, content.key
    )  # the run computes these once, while it records the content

    def fast() -> torch.Tensor:
        return joint_attention(styles, content, masses, sts.tau_from_gap, known).output

    def joint_map() -> torch.Tensor:
        return dense_attention(styles, content, masses, sts.tau_from_gap).output

    def plain() -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            content.query[None], content.key[None], content.value[None]
        )

    statistics = medians(
        {"fast": fast, "sdpa": plain, "statistics": lambda: row_statistics(styles[0].query, styles[0].key)},
        repeats,
    )
    # About four copies of the joint map live at once in the dense form: logits, shifted logits, scaled
    # logits, softmax.
    fits = dense and 4 * 4 * heads * tokens * tokens * (n + 1) < 0.8 * available_memory()
    row = {
        "n": n,
        "tokens": tokens,
        "heads": heads,
        "dim": dim,
        "dense_s": None,
        "fast_s": statistics["fast"],
    }
    row |= {"sdpa_s": statistics["sdpa"], "statistics_s": statistics["statistics"], "dense_peak": None}
    row |= {"fast_peak": peak_extra(fast), "max_error": None}
    if fits:
        row["dense_s"] = medians({"dense": joint_map}, 1)["dense"]
        gc.collect()
        row["dense_peak"] = peak_extra(joint_map)
        row["max_error"] = float((fast() - joint_map()).abs().max())
    row["dense/fast"] = row["dense_s"] / row["fast_s"] if fits else None
    row["fast/sdpa"] = row["fast_s"] / row["sdpa_s"]
    row["dense_peak/fast_peak"] = row["dense_peak"] / max(row["fast_peak"], 1) if fits else None
    return row


@torch.inference_mode()
def main() -> None:
    parser = arguments(__doc__)
    options = parser.parse_args()
    counts, sizes = ((1, 5, 16), (1024, 4096)) if options.quick else ((1, 2, 3, 5, 8, 16), tuple(LAYERS))
    rows = []
    for tokens in sizes:
        for n in counts:
            dense = n <= 5 if tokens <= 4096 else False
            rows.append(
                measure(
                    n,
                    tokens,
                    3 if options.quick or tokens > 4096 else 5,
                    dense and (not options.quick or n in (1, 5)),
                )
            )
        first = next(row for row in rows if row["tokens"] == tokens and row["n"] == 1)
        for row in rows:
            if row["tokens"] == tokens:
                row["fast/N=1"] = row["fast_s"] / first["fast_s"]
    show(rows, "LAMA + STS in one layer; seconds, bytes, ratios")
    write(rows, options.json)


if __name__ == "__main__":
    main()
