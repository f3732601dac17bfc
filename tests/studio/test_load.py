"""Many at once: every submission is painted once, or refused with a word; memory stays where it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from tests.studio.conftest import ALPHA, BETA, PATIENCE, PHOTO, STYLE_A, checked, upload

MANY = 50


def memory(process: int) -> int:
    """kB that a process holds."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError


def test_fifty_submissions_at_once(studio):
    studio.ended(studio.submit()["id"])  # what the first job needs is imported once
    before = memory(studio.process.pid)
    known = {job["id"] for job in studio.get("/api/jobs?limit=200")["jobs"]}

    async def one(client: httpx.AsyncClient, i: int) -> httpx.Response:
        photo = checked(await client.post("/api/images", content=PHOTO + bytes([i]))).json()["id"]
        style = checked(await client.post("/api/images", content=STYLE_A)).json()["id"]
        request = {"photo": photo, "regions": [{"style": style}], "settings": {"size": 64, "steps": 2}}
        return await client.post("/api/jobs", json={**request, "key": f"load {i}"})

    async def all_at_once() -> list[httpx.Response]:
        headers = {"Authorization": f"Bearer {ALPHA}"}
        async with httpx.AsyncClient(
            base_url=studio.address, headers=headers, timeout=PATIENCE, trust_env=False
        ) as client:
            return await asyncio.gather(*(one(client, i) for i in range(MANY)))

    answers = asyncio.run(all_at_once())
    accepted = [answer.json()["id"] for answer in answers if answer.status_code == 201]
    refused = [answer for answer in answers if answer.status_code != 201]
    assert {answer.status_code for answer in refused} <= {429}
    assert all("wait or run already" in answer.json()["error"] for answer in refused)
    assert all("retry-after" in answer.headers for answer in refused)
    assert len(accepted) >= 20 and len(set(accepted)) == len(accepted)  # no more wait than may, none is twice
    assert upload(studio.with_token(BETA), PHOTO)  # others are not held up
    assert [studio.ended(id)["state"] for id in accepted] == ["done"] * len(accepted)
    new = {job["id"] for job in studio.get("/api/jobs?limit=200")["jobs"]} - known
    assert new == set(accepted)  # none lost, none that nobody asked for
    starts = [studio.job(id)["started"] for id in accepted]
    assert len(set(starts)) == len(starts)
    assert memory(studio.process.pid) - before < 100_000


def test_fifty_large_uploads_at_once_stay_on_disk(studio):
    """20 MB each: a gigabyte in all, none of which the server may hold in memory."""
    before = memory(studio.process.pid)

    async def body() -> object:
        yield PHOTO
        for _ in range(20):
            yield bytes(1 << 20)

    async def all_at_once() -> list[int]:
        headers = {"Authorization": f"Bearer {BETA}"}
        async with httpx.AsyncClient(
            base_url=studio.address, headers=headers, timeout=PATIENCE, trust_env=False
        ) as client:
            sent = [client.post("/api/images", content=body()) for _ in range(MANY)]
            return [answer.status_code for answer in await asyncio.gather(*sent)]

    assert set(asyncio.run(all_at_once())) == {201}
    assert memory(studio.process.pid) - before < 100_000
    assert list(studio.folder.glob("data/incoming/*")) == []
