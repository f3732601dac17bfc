"""The paper's metrics: FID, LPIPS, ArtFID, R-FID, M-FID; beside them R-KID and the cosine of regions with
their styles, and two of structure, CFSD and SSIM. See docs/metrics.md.

from mast.metrics import evaluate, from_results
report = evaluate(from_results(Path("results")))
"""

from .evaluation import METRICS, Estimate, Evaluation, Metric
from .fid import Statistics, artfid, fid, frechet_from_moments, statistics
from .inception import InceptionEncoder, load_inception
from .kid import kid
from .lpips import Lpips, load_lpips
from .measure import Networks, Options, evaluate, load_networks
from .regional import RegionDistances, RegionPair, region_distances, region_pairs, region_weights
from .samples import Collection, EvaluatedPicture, from_folders, from_results
from .structure import Cfsd, load_cfsd, ssim

__all__ = [
    "METRICS",
    "Cfsd",
    "Collection",
    "Estimate",
    "EvaluatedPicture",
    "Evaluation",
    "InceptionEncoder",
    "Lpips",
    "Metric",
    "Networks",
    "Options",
    "RegionDistances",
    "RegionPair",
    "Statistics",
    "artfid",
    "evaluate",
    "fid",
    "frechet_from_moments",
    "from_folders",
    "from_results",
    "kid",
    "load_cfsd",
    "load_inception",
    "load_lpips",
    "load_networks",
    "region_distances",
    "region_pairs",
    "region_weights",
    "ssim",
    "statistics",
]
