"""Checkpoints as PyTorch Lightning publishes them: the weights are read, everything else stays asleep."""

import io
import pickle
import sys
import types
import zipfile
from collections import OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast import InputError
from mast.backbone.ckpt import read_ckpt

TENSORS = {
    "weight": torch.arange(12, dtype=torch.float32).view(3, 4),
    "turned": torch.arange(12, dtype=torch.float32).view(3, 4).t(),
    "half": torch.full((2, 2), 0.5, dtype=torch.float16),
    "brain": torch.full((2, 2), 0.25, dtype=torch.bfloat16),
    "count": torch.tensor(7),
    "empty": torch.zeros(0, 3),
    "part": torch.arange(100, dtype=torch.float32)[10:14],
    "flag": torch.tensor([True, False]),
}


@pytest.fixture
def training_packages(monkeypatch):
    """Classes of packages that are not installed here, under the names that pickles of theirs ask for."""

    def make(module: str, name: str) -> type:
        for i in range(1, module.count(".") + 2):
            part = ".".join(module.split(".")[:i])
            if part not in sys.modules:
                monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
        kind = type(name, (), {"__module__": module})
        setattr(sys.modules[module], name, kind)
        return kind

    return make


def lightning(make) -> dict:
    """What stands beside the weights in sd-v1-4.ckpt and its like."""
    checkpoint = make("pytorch_lightning.callbacks.model_checkpoint", "ModelCheckpoint")
    config = make("omegaconf.dictconfig", "DictConfig")()
    config.__dict__.update(_content={"target": "ldm.models.diffusion.ddpm.LatentDiffusion"}, _parent=None)
    return {
        "epoch": 12,
        "global_step": 470000,
        "pytorch-lightning_version": "1.4.2",
        "callbacks": {checkpoint: {"best_model_score": np.float64(0.12), "dirpath": Path("/data/logs")}},
        "optimizer_states": [{"state": {0: {"exp_avg": torch.ones(3)}}, "betas": (np.float32(0.9), 0.999)}],
        "lr_schedulers": [{"_step_count": defaultdict(int, {1: 2}), "seen": {1, 2, 3}}],
        "hyper_parameters": config,
        "array": np.arange(5),
        "device": torch.device("cpu"),
        "size": torch.Size([1, 2]),
    }


def saved(tmp_path: Path, content: object, name: str = "model.ckpt", **how: object) -> Path:
    torch.save(content, tmp_path / name, **how)
    return tmp_path / name


def same(found: dict) -> bool:
    return found.keys() == TENSORS.keys() and all(
        torch.equal(found[name], value) and found[name].dtype == value.dtype
        for name, value in TENSORS.items()
    )


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_lightning_checkpoint_gives_its_weights(tmp_path, training_packages, monkeypatch, protocol):
    content = {**lightning(training_packages), "state_dict": OrderedDict(TENSORS)}
    path = saved(tmp_path, content, pickle_protocol=protocol)
    for name in [name for name in sys.modules if name.split(".")[0] in ("pytorch_lightning", "omegaconf")]:
        monkeypatch.delitem(sys.modules, name)
    assert same(read_ckpt(path))


@pytest.mark.parametrize("nested", [True, False])
def test_plain_checkpoints_of_today_and_of_old_are_read(tmp_path, nested):
    content = {"state_dict": TENSORS} if nested else TENSORS
    assert same(read_ckpt(saved(tmp_path, content)))
    assert same(read_ckpt(saved(tmp_path, content, "old.ckpt", _use_new_zipfile_serialization=False)))


def test_parameters_are_tensors_too(tmp_path):
    path = saved(tmp_path, {"state_dict": {"weight": torch.nn.Parameter(torch.ones(2, 3))}})
    assert torch.equal(read_ckpt(path)["weight"], torch.ones(2, 3))


class Calls:
    """An object that has a function called when it is unpickled."""

    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("kind", ["os", "builtins", "subprocess", "eval"])
@pytest.mark.parametrize("old", [False, True])
def test_a_pickle_that_asks_to_run_something_runs_nothing_and_is_refused(tmp_path, kind, old):
    import os
    import subprocess

    trap = tmp_path / "sprung"
    asked = {
        "os": Calls(os.mkdir, str(trap)),
        "builtins": Calls(open, str(trap), "w"),
        "subprocess": Calls(subprocess.check_call, ["touch", str(trap)]),
        "eval": Calls(eval, f"open({str(trap)!r}, 'w')"),
    }[kind]
    content = {"state_dict": TENSORS, "callbacks": asked}
    path = saved(tmp_path, content, _use_new_zipfile_serialization=not old)
    with pytest.raises(InputError, match=r"not opened for safety \(it asks for .*safetensors") as error:
        read_ckpt(path)
    assert not trap.exists() and "\n" not in str(error.value)


def test_what_numpy_and_torch_could_run_stays_asleep(tmp_path):
    """Names of packages that leave traces are replaced, not looked up: their functions are never called."""
    trap = tmp_path / "sprung"
    asked = Calls(np.ndarray.tofile, np.zeros(1), str(trap))
    path = saved(tmp_path, {"state_dict": TENSORS, "callbacks": [asked, Calls(torch.save, 1, str(trap))]})
    assert same(read_ckpt(path)) and not trap.exists()


def rewritten(path: Path, change) -> Path:
    """The archive with its pickle changed."""
    other = path.with_name("changed.ckpt")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            new.writestr(info, change(content) if info.filename.endswith("data.pkl") else content)
    return other


@pytest.mark.parametrize(
    "wild",
    [
        {"size": (10**12,)},
        {"size": (-1, 4)},
        {"offset": 10**9},
        {"offset": -1},
        {"stride": (10**9, 1)},
        {"stride": (0, 0), "size": (10**6, 10**6)},
        {"size": ("3", 4)},
        {"size": (1,) * 100, "stride": (1,) * 100},
        {"key": "../../etc/passwd"},
        {"key": "99"},
    ],
)
def test_tensors_that_claim_what_the_file_does_not_hold_are_refused(tmp_path, wild):
    path = saved(tmp_path, {"weight": torch.ones(3, 4)})

    class Wild(pickle.Pickler):
        def persistent_id(self, value):
            return ("storage", Float, wild.get("key", "0"), "cpu", 12) if value is STORAGE else None

    class Float: ...

    STORAGE = object()
    Float.__module__, Float.__qualname__, Float.__name__ = "torch", "FloatStorage", "FloatStorage"
    buffer = io.BytesIO()
    pickler = Wild(buffer, protocol=2)
    given = (wild.get("size", (3, 4)), wild.get("stride", (4, 1)))
    rebuild = torch._utils._rebuild_tensor_v2
    pickler.dispatch_table = {Float: lambda _: "FloatStorage"}
    torch.FloatStorage, before = Float, torch.FloatStorage
    try:
        pickler.dump({"weight": Calls(rebuild, STORAGE, wild.get("offset", 0), *given, False, OrderedDict())})
    finally:
        torch.FloatStorage = before
    with pytest.raises(InputError, match=r"changed\.ckpt: damaged"):
        read_ckpt(rewritten(path, lambda _: buffer.getvalue()))


def test_compressed_archives_are_not_blown_up(tmp_path):
    path = tmp_path / "bomb.ckpt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 100_000_000)
    with pytest.raises(InputError, match=r"bomb\.ckpt: damaged.*compressed"):
        read_ckpt(path)


@pytest.mark.parametrize("content", [[1, 2], {"state_dict": 5}, {}, {"state_dict": {}}, "text"])
def test_a_checkpoint_without_tensors_is_an_input_error(tmp_path, content):
    with pytest.raises(InputError, match="no tensors"):
        read_ckpt(saved(tmp_path, content))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8), st.booleans())
def test_any_bytes_changed_give_tensors_or_an_input_error(tmp_path, changes, cut):
    path = tmp_path / "good.ckpt"
    if not path.exists():
        torch.save({"state_dict": {"weight": torch.ones(3, 4)}, "callbacks": {"score": np.float64(1)}}, path)
    content = bytearray(path.read_bytes())
    for place, byte in changes:
        content[place % len(content)] = byte
    (tmp_path / "bad.ckpt").write_bytes(content[: changes[0][0] % len(content)] if cut else content)
    try:
        found = read_ckpt(tmp_path / "bad.ckpt")
    except InputError as error:
        assert "bad.ckpt" in str(error)
    else:
        assert all(value.nbytes < 10_000 for value in found.values())


@given(st.binary(max_size=300))
def test_any_pickle_gives_tensors_or_an_input_error(tmp_path, content):
    path = tmp_path / "good.ckpt"
    if not path.exists():
        torch.save({"weight": torch.ones(3, 4)}, path)
    with pytest.raises(InputError, match=r"changed\.ckpt"):
        read_ckpt(rewritten(path, lambda _: content))
