"""Hub ids: from the local hub cache where they are there, completed where they are not whole, or advice."""

import json
import os
import shutil
from collections.abc import Iterator
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
import torch
from safetensors.torch import load_file, save_file

import mast
from mast import InputError
from mast.backbone.hub import missing_files, wanted_files

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache on a machine without a network."""
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    cache.mkdir()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # read from the environment once, at import
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    return cache


def put_in_cache(hub: Path, name: str, folder: Path) -> None:
    """The layout of a downloaded model: blobs, a snapshot of links to them, and the reference main."""
    root = hub / f"models--{name.replace('/', '--')}"
    (root / "refs").mkdir(parents=True)
    (root / "blobs").mkdir()
    (root / "refs" / "main").write_text(COMMIT)
    for i, file in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        blob, link = root / "blobs" / f"{i:040x}", root / "snapshots" / COMMIT / file.relative_to(folder)
        shutil.copy(file, blob)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))


def test_a_hub_id_that_is_not_cached_is_one_line_that_says_what_to_do(hub):
    with pytest.raises(InputError) as error:
        mast.load("CompVis/stable-diffusion-v1-4")
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("CompVis/stable-diffusion-v1-4: not cached")
    assert "download CompVis/stable-diffusion-v1-4" in message and "--model" in message


def test_a_cached_hub_id_loads_without_a_network(hub, tiny_sd_folder, tiny_backbone):
    put_in_cache(hub, "someone/tiny-sd", tiny_sd_folder)
    backbone = mast.load("someone/tiny-sd")
    assert backbone.name == "someone/tiny-sd"
    assert backbone.fingerprint == tiny_backbone.fingerprint
    latent = torch.randn(1, 4, 8, 8)
    with torch.inference_mode():
        assert torch.equal(backbone.predict(latent, 1), tiny_backbone.predict(latent, 1))


LOST = [
    "unet/diffusion_pytorch_model.safetensors",
    "unet/config.json",
    "vae/diffusion_pytorch_model.safetensors",
    "vae/config.json",
    "text_encoder/model.safetensors",
    "text_encoder/config.json",
    "tokenizer/vocab.json",
]


@pytest.mark.parametrize("how", ["the file", "its blob"])
@pytest.mark.parametrize("lost", LOST)
def test_what_a_snapshot_lacks_is_named_with_the_command_that_fetches_it(hub, tiny_sd_folder, lost, how):
    put_in_cache(hub, "someone/half-a-model", tiny_sd_folder)
    path = hub / "models--someone--half-a-model" / "snapshots" / COMMIT / lost
    (path if how == "the file" else path.resolve()).unlink()
    for allow_download in (True, False):
        with pytest.raises(
            InputError, match=rf"local copy lacks {lost}.*hf download someone/half-a-model {lost}"
        ):
            mast.load("someone/half-a-model", allow_download=allow_download)


def test_a_snapshot_with_16_bit_weights_alone_loads(hub, tiny_sd_folder, tmp_path):
    small = Path(shutil.copytree(tiny_sd_folder, tmp_path / "small"))
    for path in small.rglob("*.safetensors"):
        half = {name: value.half() for name, value in load_file(path).items()}
        save_file(half, path.with_suffix(".fp16.safetensors"))
        path.unlink()
    put_in_cache(hub, "someone/small", small)
    assert mast.load("someone/small").native_size == 64


def test_nothing_is_downloaded_without_being_asked(hub, tiny_sd_folder, server):
    name = "someone/tiny-sd"
    server.publish(name, tiny_sd_folder)
    with pytest.raises(InputError, match=rf"{name}: not cached.*without being asked.*hf download {name}"):
        mast.load(name, allow_download=False)
    assert not server.asked and not list(hub.iterdir())
    put_in_cache(hub, name, tiny_sd_folder)
    assert mast.load(name, allow_download=False).name == name
    assert not server.asked


# ------------------------------------------------------------------------------------------------ a hub


class Hub:
    """A hub of our own on this machine, for huggingface_hub to talk to: listings, heads and files."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self, body=True)

            def do_HEAD(self) -> None:
                outer.answer(self, body=False)

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        Thread(target=self.http.serve_forever, daemon=True).start()

    def publish(self, name: str, folder: Path) -> None:
        self.files[name] = {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    def answer(self, request: BaseHTTPRequestHandler, body: bool) -> None:
        path = urlsplit(request.path).path
        self.asked.append(path)
        for name, files in self.files.items():
            if path.startswith(f"/api/models/{name}/tree/"):
                listing = [
                    {"type": "file", "path": file, "size": len(content), "oid": sha1(content).hexdigest()}
                    for file, content in files.items()
                ]
                return self.send(request, json.dumps(listing).encode(), body)
            if path in (f"/api/models/{name}", f"/api/models/{name}/revision/main"):
                siblings = [{"rfilename": file} for file in files]
                info = {"id": name, "sha": COMMIT, "siblings": siblings, "tags": [], "downloads": 0}
                return self.send(request, json.dumps({**info, "private": False}).encode(), body)
            for revision in (COMMIT, "main"):
                start = f"/{name}/resolve/{revision}/"
                if path.startswith(start) and path.removeprefix(start) in files:
                    return self.send(request, files[path.removeprefix(start)], body)
        self.send(request, b"{}", body, 404, {"X-Error-Code": "RepoNotFound"})

    def send(self, request, content: bytes, body: bool, status: int = 200, more: dict | None = None) -> None:
        request.send_response(status)
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{sha1(content).hexdigest()}"', **(more or {})}
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            request.send_header(key, value)
        request.end_headers()
        if body:
            request.wfile.write(content)


@pytest.fixture
def server(hub: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    from huggingface_hub import constants

    own = Hub()
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", own.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", own.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    yield own
    own.http.shutdown()
    own.http.server_close()


def test_a_model_is_downloaded_once_and_only_what_is_used_of_it(
    hub, server, tiny_sd_folder, tiny_backbone, tmp_path
):
    published = Path(shutil.copytree(tiny_sd_folder, tmp_path / "published"))
    for unused in (
        "unet/diffusion_pytorch_model.non_ema.safetensors",
        "v1-5.ckpt",
        "safety_checker/model.safetensors",
    ):
        (published / unused).parent.mkdir(exist_ok=True)
        (published / unused).write_bytes(b"0" * 1000)
    server.publish("someone/tiny-sd", published)
    assert mast.load("someone/tiny-sd").fingerprint == tiny_backbone.fingerprint
    fetched = {path.split(f"{COMMIT}/")[-1] for path in server.asked if "/resolve/" in path}
    assert "unet/diffusion_pytorch_model.safetensors" in fetched
    assert not fetched & {"unet/diffusion_pytorch_model.non_ema.safetensors", "v1-5.ckpt"}
    server.asked.clear()
    assert mast.load("someone/tiny-sd").fingerprint == tiny_backbone.fingerprint
    assert not server.asked


@pytest.mark.parametrize("lost", ["vae/diffusion_pytorch_model.safetensors", "tokenizer/vocab.json"])
def test_a_snapshot_that_is_not_whole_is_completed(hub, server, tiny_sd_folder, tiny_backbone, lost):
    server.publish("someone/tiny-sd", tiny_sd_folder)
    put_in_cache(hub, "someone/tiny-sd", tiny_sd_folder)
    (hub / "models--someone--tiny-sd" / "snapshots" / COMMIT / lost).unlink()
    assert mast.load("someone/tiny-sd").fingerprint == tiny_backbone.fingerprint


def test_a_model_that_the_hub_does_not_have_or_not_whole_is_an_input_error(
    hub, server, tiny_sd_folder, tmp_path
):
    with pytest.raises(InputError, match=r"no such model to this machine.*hf auth login"):
        mast.load("someone/nothing")
    part = Path(shutil.copytree(tiny_sd_folder, tmp_path / "part"))
    (part / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    server.publish("someone/part", part)
    with pytest.raises(InputError, match=r"the hub has no vae/diffusion_pytorch_model\.safetensors"):
        mast.load("someone/part")


PUBLISHED = [
    "README.md",
    "feature_extractor/preprocessor_config.json",
    "model_index.json",
    "safety_checker/config.json",
    "safety_checker/model.fp16.safetensors",
    "safety_checker/model.safetensors",
    "scheduler/scheduler_config.json",
    "text_encoder/config.json",
    "text_encoder/model.fp16.safetensors",
    "text_encoder/model.safetensors",
    "text_encoder/pytorch_model.bin",
    "tokenizer/merges.txt",
    "tokenizer/special_tokens_map.json",
    "tokenizer/tokenizer_config.json",
    "tokenizer/vocab.json",
    "unet/config.json",
    "unet/diffusion_pytorch_model.bin",
    "unet/diffusion_pytorch_model.fp16.safetensors",
    "unet/diffusion_pytorch_model.non_ema.safetensors",
    "unet/diffusion_pytorch_model.safetensors",
    "v1-5-pruned.ckpt",
    "v1-5-pruned-emaonly.safetensors",
    "vae/config.json",
    "vae/diffusion_pytorch_model.fp16.safetensors",
    "vae/diffusion_pytorch_model.safetensors",
]


def test_of_stable_diffusion_as_published_one_variant_is_wanted():
    small = [name for name in PUBLISHED if name.endswith(".json") and name.split("/")[0] in
             {"scheduler", "text_encoder", "tokenizer", "unet", "vae"}]  # fmt: skip
    parts = ["text_encoder/model", "unet/diffusion_pytorch_model", "vae/diffusion_pytorch_model"]
    assert wanted_files(PUBLISHED) == sorted([*small, *[f"{part}.safetensors" for part in parts]])
    halves = [name for name in PUBLISHED if f"{name.split('.')[0]}.safetensors" != name]
    assert wanted_files(halves) == sorted([*small, *[f"{part}.fp16.safetensors" for part in parts]])


def test_a_stored_prompt_makes_the_text_encoder_unnecessary(tiny_sd_folder, tmp_path):
    wanted = wanted_files([*PUBLISHED, "empty_prompt.safetensors"])
    assert "empty_prompt.safetensors" in wanted
    assert not [name for name in wanted if name.startswith(("text_encoder", "tokenizer"))]
    part = Path(shutil.copytree(tiny_sd_folder, tmp_path / "part"))
    assert missing_files(part) == []
    shutil.rmtree(part / "text_encoder")
    assert missing_files(part) == ["text_encoder/config.json", "text_encoder/model.safetensors"]
    save_file({"empty_prompt": torch.zeros(1, 8, 32)}, part / "empty_prompt.safetensors")
    assert missing_files(part) == []


@pytest.mark.parametrize("name", ["./no/such", "/no/such", "a/b/c", "model.safetensors", "a/model.ckpt"])
def test_what_cannot_be_a_hub_id_is_not_asked_for(hub, name):
    with pytest.raises(InputError, match="no such model"):
        mast.load(name)
