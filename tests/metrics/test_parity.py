"""The same numbers as the packages everybody uses, with the same weights on the same pictures.

They are the extra `parity`, in a folder of their own (docs/metrics.md): they ask for other builds of torch.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from mast.metrics import kid, load_inception, load_lpips, region_distances, region_pairs, statistics
from mast.metrics.fid import fid
from mast.metrics.inception import Conv, Inception, _from_script
from mast.metrics.lpips import read_layers
from mast.metrics.store import to_levels
from mast.weights.checkpoints import is_script, read_arrays, read_checkpoint, read_script

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*'(pretrained|weights)'.*")]
_schemas: list[torch.library.Library] = []  # they exist as long as this does


def parity(name: str) -> ModuleType:
    """A package of the extra, or a skip that says what is missing."""
    try:
        return importlib.import_module(name)
    except RuntimeError as error:
        # torchvision's operators are not built for this torch; its models do not need them, only their names.
        if "torchvision::nms" not in str(error):
            raise
        for module in [m for m in sys.modules if m.split(".")[0] in ("torchvision", name.split(".")[0])]:
            del sys.modules[module]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _schemas.append(library)
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} is not installed (the extra `parity`): {error}")


@pytest.fixture(scope="module")
def sets() -> tuple[list[Path], list[Path]]:
    """Photos and paintings of the examples."""
    return sorted((ROOT / "examples/photos").glob("*.jpg")), sorted((ROOT / "examples/styles").glob("*.png"))[
        :8
    ]


@pytest.fixture(scope="module")
def square(sets: tuple[list[Path], list[Path]], tmp_path_factory: pytest.TempPathFactory) -> list[list[Path]]:
    """The same at 224x256, as PNG: every package then reads the same pixels."""
    folders = []
    for i, paths in enumerate(sets):
        folder = tmp_path_factory.mktemp(f"set{i}")
        for path in paths:
            Image.open(path).convert("RGB").resize((224, 256)).save(folder / f"{path.stem}.png")
        folders.append(sorted(folder.iterdir()))
    return folders


@pytest.fixture(scope="module")
def inception_file(real_weight: Callable[[str], Path]) -> Path:
    return real_weight("fid-inception")


@pytest.fixture(scope="module")
def pth(inception_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights in the format of pytorch-fid's and torch-fidelity's releases, under that name."""
    if not is_script(inception_file):
        state = read_checkpoint(inception_file)
    else:
        names = [name for name, module in Inception().named_modules() if isinstance(module, Conv)]
        state = _from_script(read_script(inception_file), names)
        for name in names:
            state[f"{name}.bn.weight"] = torch.ones_like(state[f"{name}.bn.bias"])
    state = {**{"fc.weight": torch.zeros(1008, 2048), "fc.bias": torch.zeros(1008)}, **state}
    folder = tmp_path_factory.mktemp("torch") / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(state, folder / "pt_inception-2015-12-05-6726825d.pth")
    return folder / "pt_inception-2015-12-05-6726825d.pth"


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


def pooled(name: str, weights: Path, paths: list[Path]) -> torch.Tensor:
    return load_inception(name, weights).maps([to_levels(Image.open(path)) for path in paths]).mean(1)


def test_pytorch_fid(
    square: list[list[Path]], inception_file: Path, pth: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inception, score = parity("pytorch_fid.inception"), parity("pytorch_fid.fid_score")
    monkeypatch.setenv("TORCH_HOME", str(pth.parents[2]))  # where the package looks before it downloads
    model = inception.InceptionV3([inception.InceptionV3.BLOCK_INDEX_BY_DIM[2048]]).eval()
    theirs = [
        torch.from_numpy(score.get_activations(paths, model, batch_size=4, num_workers=0)) for paths in square
    ]
    ours = [pooled("pytorch-fid", inception_file, paths).double() for paths in square]
    for mine, other in zip(ours, theirs, strict=True):
        assert relative(mine, other) < 1e-5
    parity("scipy")
    moments = [(x.numpy().mean(0), np.cov(x.numpy(), rowvar=False)) for x in theirs]
    expected = score.calculate_frechet_distance(*moments[0], *moments[1])
    assert fid(*(statistics([mine]) for mine in ours)) == pytest.approx(expected, rel=1e-3)


def test_torch_fidelity(square: list[list[Path]], inception_file: Path, pth: Path) -> None:
    package = parity("torch_fidelity.feature_extractor_inceptionv3")
    model = package.FeatureExtractorInceptionV3("inception", ["2048"], str(pth)).eval()
    for paths in square:
        images = torch.stack([to_levels(Image.open(path)).byte() for path in paths])
        with torch.inference_mode():
            theirs = model(images)[0]
        assert relative(pooled("fid", inception_file, paths), theirs) < 1e-5


def test_kid_is_torch_fidelitys(square: list[list[Path]], inception_file: Path) -> None:
    """Its kernel and its estimate, on the features of real pictures; as many of each."""
    package = parity("torch_fidelity.metric_kid")
    x, y = (pooled("fid", inception_file, paths[:6]) for paths in square)
    theirs = package.polynomial_mmd(x.double().numpy(), y.double().numpy(), degree=3, gamma=None, coef0=1)
    assert kid(x, y) == pytest.approx(theirs, rel=1e-10)
    assert kid(x, y) == pytest.approx(package.polynomial_mmd(x.numpy(), y.numpy(), 3, None, 1), rel=1e-3)
    subset = {"kid_subsets": 1, "kid_subset_size": 6, "kid_degree": 3, "kid_gamma": None, "kid_coef0": 1}
    found = package.kid_features_to_metric(x, y, **subset, rng_seed=0, verbose=False)
    assert kid(x, y) == pytest.approx(found[package.KEY_METRIC_KID_MEAN], rel=1e-3)


def test_rkid_is_torch_fidelitys_u_statistic(square: list[list[Path]], inception_file: Path) -> None:
    """Regions that are whole pictures have one possible draw: the pooled features of pictures and styles."""
    package = parity("torch_fidelity.metric_kid")
    encoder = load_inception("fid", inception_file)
    results, styles = (encoder.maps([to_levels(Image.open(p)) for p in paths[:6]]) for paths in square)
    pairs = [region_pairs(results[i], torch.ones(1, 64), [f"{i}"], f"{i}")[0][0] for i in range(6)]
    ours = region_distances(pairs, lambda name: styles[int(name)], repeats=2)
    x, y = (maps.mean(1).double().numpy() for maps in (results, styles))
    kernels = [package.polynomial_kernel(a, b) for a, b in ((x, x), (x, y), (y, y))]
    assert ours.rkid == pytest.approx(package.mmd2(*kernels, mmd_est="u-statistic"), rel=1e-4)


def test_a_state_dict_gives_what_the_packaged_file_gives(
    square: list[list[Path]], inception_file: Path, pth: Path
) -> None:
    torch.testing.assert_close(
        pooled("fid", pth, square[0][:2]), pooled("fid", inception_file, square[0][:2])
    )


def test_artfids_architecture_is_torchvisions() -> None:
    models = parity("torchvision.models.inception")
    torch.manual_seed(0)
    theirs = models.Inception3(aux_logits=False, transform_input=False, init_weights=False).eval()
    for module in theirs.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)
    ours = Inception(art=True).eval()
    ours.load({**theirs.state_dict(), "fc1.weight": torch.zeros(1)}, Path("random"))
    image = torch.rand(1, 3, 512, 512)
    kept: list[torch.Tensor] = []
    theirs.Mixed_7c.register_forward_hook(lambda _, __, output: kept.append(output))
    with torch.inference_mode():
        theirs(image)
        assert relative(ours(image), kept[0]) < 1e-5
    assert kept[0].shape[-2:] == (14, 14)


@pytest.mark.parametrize("net", ["alex", "vgg"])
def test_lpips(net: str, square: list[list[Path]], real_weight: Callable[[str], Path]) -> None:
    package = parity("lpips")
    path = real_weight(f"lpips-{net}")
    theirs = package.LPIPS(net=net, pnet_rand=True, verbose=False).eval()  # its own heads, and our backbone
    convolutions = [m for m in theirs.net.modules() if isinstance(m, torch.nn.Conv2d)]
    layers = read_layers(read_arrays(path), net, len(convolutions), path)
    for module, (kernel, bias) in zip(convolutions, layers, strict=True):
        module.weight.data, module.bias.data = kernel, bias
    a = torch.stack([to_levels(Image.open(p)) for p in square[0][:4]]) / 127.5 - 1
    b = torch.stack([to_levels(Image.open(p)) for p in square[1][:4]]) / 127.5 - 1
    with torch.inference_mode():
        expected = theirs(a, b).flatten()
    got = load_lpips(net, path)(a, b)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    assert 0.3 < float(got.mean()) < 1
