"""Checkpoints of feed-forward methods: found, read without running anything, and checked name by name."""

from __future__ import annotations

import os
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from mast.job import InputError
from mast.methods.feedforward.adain import AdaIN
from mast.weights.checkpoints import find_checkpoint, load_checked, read_checkpoint


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing.pth: no such file"):
        read_checkpoint(tmp_path / "nothing.pth")


def test_find_looks_in_the_folder_given_then_beside_the_file_given(tmp_path):
    (tmp_path / "second.pth").touch()
    (tmp_path / "other.bin").touch()
    for given_path in (tmp_path, tmp_path / "other.bin", str(tmp_path)):
        found = find_checkpoint(given_path, ("first.pth", "second.pth"), "a thing", "get it")
        assert found == tmp_path / "second.pth"
    (tmp_path / "first.pth").touch()
    assert find_checkpoint(tmp_path, ("first.pth", "second.pth"), "a thing", "get it").name == "first.pth"


def test_find_falls_back_to_the_weights_folder_and_says_how_to_get_the_file(own_cache, tmp_path):
    for given_path, place in ((None, own_cache / "weights"), (tmp_path / "no", tmp_path / "no")):
        with pytest.raises(InputError) as error:
            find_checkpoint(given_path, ("first.pth", "second.pth"), "a thing", "get it at the shop")
        assert str(error.value) == f"{place / 'first.pth'}: no such file (a thing); get it at the shop"
    (own_cache / "weights").mkdir(parents=True)
    (own_cache / "weights" / "first.pth").touch()
    assert find_checkpoint(None, ("first.pth",), "a thing", "").is_file()


@pytest.mark.parametrize("wrapper", [None, "state_dict", "model_state_dict", "params"])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_tensors_come_back_whatever_they_are_wrapped_in(tmp_path, wrapper, prefix):
    tensors = {prefix + name: value for name, value in small().state_dict().items()}
    torch.save({wrapper: tensors} if wrapper else tensors, tmp_path / "a.pth")
    found = read_checkpoint(tmp_path / "a.pth")
    assert found.keys() == small().state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in small().state_dict().items())


def test_safetensors_are_read(tmp_path):
    save_file(small().state_dict(), tmp_path / "a.safetensors")
    assert read_checkpoint(tmp_path / "a.safetensors").keys() == small().state_dict().keys()


class Intruder:
    """A pickle of it makes a folder when it is opened."""

    def __init__(self, folder: str):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize("plain", [False, True])
def test_pickled_code_is_refused_and_does_not_run(tmp_path, plain):
    mark, path = tmp_path / "ran", tmp_path / "a.pth"
    content = {"0.weight": Intruder(str(mark))}
    if plain:
        path.write_bytes(pickle.dumps(content, protocol=2))
    else:
        torch.save(content, path)
    with pytest.raises(InputError, match=r"a.pth: not a checkpoint of tensors .*which is never done"):
        read_checkpoint(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 cut off", b"<html>Google Drive - Quota exceeded</html>"]
)
@pytest.mark.parametrize("file", ["a.pth", "a.safetensors"])
def test_damaged_files_are_refused(tmp_path, content, file):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=f"{file}: not a checkpoint of tensors"):
        read_checkpoint(tmp_path / file)


@pytest.mark.parametrize("content", [[1, 2], {"epoch": 3}, torch.zeros(2), {"state_dict": {"a": 1}}])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(InputError, match=r"a.pth: holds .* not tensors by name"):
        read_checkpoint(tmp_path / "a.pth")


def test_a_checkpoint_loads_as_float32_and_exactly(tmp_path):
    torch.manual_seed(5)
    tensors = {name: torch.randn_like(value).half() for name, value in small().state_dict().items()}
    network = small()
    assert load_checked(network, tensors, tmp_path / "a.pth", "a thing") is network
    for name, value in network.state_dict().items():
        assert value.dtype == torch.float32 and torch.equal(value, tensors[name].float())


@given(
    st.sampled_from(["0.weight", "0.bias", "2.weight", "2.bias"]), st.sampled_from(["gone", "more", "shape"])
)
def test_a_wrong_checkpoint_says_which_name_differs_and_changes_nothing(tmp_path, name, damage):
    network = small()
    tensors = {key: value + 1 for key, value in network.state_dict().items()}
    if damage == "gone":
        del tensors[name]
        said = f"{name} is missing"
    elif damage == "more":
        tensors[f"x.{name}"] = torch.zeros(1)
        said = f"x.{name} is not known"
    else:
        tensors[name] = torch.zeros(7, 1)
        said = rf"{name} is \(7, 1\), expected \("
    with pytest.raises(InputError, match=f"a.pth: not a thing: {said}"):
        load_checked(network, tensors, tmp_path / "a.pth", "a thing")
    assert all(torch.equal(value, network.state_dict()[key]) for key, value in small().state_dict().items())


def test_a_checkpoint_of_another_network_is_told_in_a_few_lines(tmp_path):
    tensors = {f"layer{i}.weight": torch.zeros(1) for i in range(100)}
    with pytest.raises(InputError, match=r"0.weight is missing; .*; and 99 more$"):
        load_checked(small(), tensors, tmp_path / "a.pth", "a thing")


def test_networks_are_no_options_and_change_the_fingerprint():
    method, other = AdaIN(), AdaIN()
    assert method == other and "_networks" not in method.options() and "_networks" not in repr(method)
    method._networks["only"] = small()
    other._networks["only"] = small()
    assert method == other and method.fingerprint == other.fingerprint
    with torch.no_grad():
        other.network("only")[0].bias[0] += 1e-4
    assert method.fingerprint != other.fingerprint
