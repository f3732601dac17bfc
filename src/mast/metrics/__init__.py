"""The paper's metrics: FID, LPIPS, ArtFID, R-FID, M-FID; and two of structure, CFSD and SSIM. See
docs/metrics.md.

from mast.metrics import evaluate, from_results
report = evaluate(from_results(Path("results")))
"""

from .artfid import artfid, artfid_of_files
from .evaluate import Evaluation, Networks, Options, evaluate, load_networks
from .fid import Statistics, fid, frechet_from_moments, statistics
from .inception import InceptionEncoder, load_inception
from .lpips import Lpips, load_lpips
from .rfid import RegionFid, RegionPair, region_fid, region_pairs, region_weights
from .samples import Collection, EvaluatedPicture, from_folders, from_results
from .structure import Cfsd, load_cfsd, ssim

__all__ = [
    "Cfsd",
    "Collection",
    "EvaluatedPicture",
    "Evaluation",
    "InceptionEncoder",
    "Lpips",
    "Networks",
    "Options",
    "RegionFid",
    "RegionPair",
    "Statistics",
    "artfid",
    "artfid_of_files",
    "evaluate",
    "fid",
    "frechet_from_moments",
    "from_folders",
    "from_results",
    "load_cfsd",
    "load_inception",
    "load_lpips",
    "load_networks",
    "region_fid",
    "region_pairs",
    "region_weights",
    "ssim",
    "statistics",
]
