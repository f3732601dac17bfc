"""Weight files are read without running what is in them."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from mast.job import InputError
from mast.weights.checkpoints import is_script, read_arrays, read_checkpoint, read_script


class Evil:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def test_plain_arrays_are_read(tmp_path: Path) -> None:
    arrays = {"a": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}}
    (tmp_path / "a.ckpt").write_bytes(pickle.dumps(arrays))
    np.testing.assert_array_equal(read_arrays(tmp_path / "a.ckpt")["a"]["kernel"], arrays["a"]["kernel"])


@pytest.mark.parametrize("reader", [read_arrays, read_checkpoint])
def test_code_in_a_pickle_is_refused(reader, tmp_path: Path) -> None:
    (tmp_path / "evil.pth").write_bytes(pickle.dumps({"a": Evil(tmp_path / "touched")}, protocol=2))
    with pytest.raises(InputError, match=r"evil\.pth"):
        reader(tmp_path / "evil.pth")
    torch.save({"a": Evil(tmp_path / "touched")}, tmp_path / "evil.pth")
    with pytest.raises(InputError, match=r"evil\.pth"):
        reader(tmp_path / "evil.pth")
    assert not (tmp_path / "touched").exists()


def test_code_in_a_script_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "evil.pt", "w") as archive:
        archive.writestr("m/data.pkl", pickle.dumps({"a": Evil(tmp_path / "touched")}))
        archive.writestr("m/code/m.py", "")
    assert is_script(tmp_path / "evil.pt")
    with pytest.raises(InputError, match=r"evil\.pt"):
        read_script(tmp_path / "evil.pt")
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("reader", [read_arrays, read_script, read_checkpoint])
@pytest.mark.parametrize("content", [b"", b"not weights", b"PK\x03\x04cut"])
def test_damaged_files_are_named(reader, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.pth").write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.pth"):
        reader(tmp_path / "bad.pth")


def test_a_script_gives_its_tensors_and_no_code(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Conv2d(1, 2, 3))
    torch.jit.script(network).save(str(tmp_path / "net.pt"))
    assert is_script(tmp_path / "net.pt")
    tensors = read_script(tmp_path / "net.pt")
    state = network.state_dict()
    assert list(tensors) == list(state)
    for name, value in state.items():
        torch.testing.assert_close(tensors[name], value, rtol=0, atol=0)


def test_state_dicts_may_be_wrapped(tmp_path: Path) -> None:
    weight = torch.ones(2)
    torch.save({"state_dict": {"module.a": weight}, "epoch": 3}, tmp_path / "a.pth")
    assert not is_script(tmp_path / "a.pth")
    assert list(read_checkpoint(tmp_path / "a.pth")) == ["a"]
    torch.save([weight], tmp_path / "b.pth")
    with pytest.raises(InputError, match="holds list, not tensors by name"):
        read_checkpoint(tmp_path / "b.pth")
