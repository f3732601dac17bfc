"""From an example or a photo to a picture, with the mouse."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
from PIL import Image

from tests.browser.conftest import absent
from tests.browser.studio import TOKEN


def test_an_example_becomes_a_picture_that_replays_bit_equal(
    table, run, tiny_sd_folder: Path, tmp_path: Path
):
    table.example("cat")
    assert table.regions.count() == 2
    assert sum(table.shares()) == pytest.approx(100, abs=1)
    names = table.regions.locator(".painting").all_inner_texts()
    assert names == ["starry oil", "impasto autumn"]

    table.page.click("#draft")
    table.painting()
    table.expect(table.page.locator("#under")).to_be_visible()  # a preview lies under the regions
    table.painted()
    table.expect(table.past.first.locator("img")).to_be_visible()
    assert table.page.locator("#masses .chip").all_inner_texts() == ["cat", "the rest"]
    table.page.locator("#masses .chip").first.click()
    table.expect(table.page.locator("#masses .chip").first).to_have_attribute("aria-pressed", "true")

    before = screen(table)
    table.page.locator("#split").focus()
    for _ in range(5):
        table.page.keyboard.press("ArrowLeft")
    assert screen(table) != before, "the line between photo and picture has moved"

    with table.page.expect_download() as caught:
        table.page.locator("#actions a", has_text="Job file").click()
    zipfile.ZipFile(caught.value.path()).extractall(tmp_path)
    (tmp_path / "mast-job" / tiny_sd_folder.name).symlink_to(tiny_sd_folder)  # a model that no zip can hold
    replayed = run("replay", tmp_path / "mast-job" / "result.png")
    assert replayed.code == 0, replayed.err
    assert "bit-equal" in replayed.err


def screen(table) -> bytes:
    table.page.wait_for_timeout(150)
    return table.canvas.screenshot()


def test_regions_are_painted_changed_and_taken_back(table, files: dict[str, Path]):
    table.open_photo(files["meadow"])
    assert table.page.locator("#draft").is_enabled()
    table.page.click("#draft")
    table.says("Make a region first")

    table.drag((0.35, 0.4), (0.45, 0.6))
    table.expect(table.regions).to_have_count(1)
    (brushed,) = table.shares()
    assert 1 <= brushed <= 40
    table.tool("lasso")
    table.drag((0.5, 0.25), (0.7, 0.25), (0.7, 0.7), (0.5, 0.7))
    (larger,) = table.shares()
    assert larger > brushed
    for corner in ((0.1, 0.3), (0.3, 0.3), (0.3, 0.8)):  # clicked instead of drawn
        table.page.mouse.click(*table.point(*corner))
    table.page.keyboard.press("Enter")
    table.expect(table.regions.locator(".share")).not_to_have_text(f"{larger} %")
    (larger,) = table.shares()
    table.tool("eraser")
    table.drag((0.55, 0.3), (0.65, 0.65))
    (smaller,) = table.shares()
    assert smaller < larger

    table.page.keyboard.press("Control+z")
    assert table.shares() == [larger]
    table.page.keyboard.press("Control+Shift+z")
    assert table.shares() == [smaller]

    table.page.click("#add-region")
    table.tool("brush")
    table.drag((0.35, 0.4), (0.45, 0.6))
    taken = table.shares()
    assert taken[0] < smaller, "what one region takes, another gives"
    table.page.click("#add-rest")
    assert sum(table.shares()) == pytest.approx(100, abs=2)

    first = table.regions.first
    first.locator(".name").fill("meadow")
    first.locator(".name").press("Enter")
    first.get_by_role("button", name="Move meadow down").click()
    names = [table.regions.nth(i).locator(".name").input_value() for i in range(3)]
    assert names == ["region 2", "meadow", "the rest"]
    table.page.get_by_role("button", name="Hide region 2").click()
    assert table.shares()[2] > 100 - sum(taken) - 2, "the rest has what a hidden region held"
    table.page.get_by_role("button", name="Remove meadow").click()
    table.expect(table.regions).to_have_count(2)
    table.page.click("#undo")
    table.expect(table.regions).to_have_count(3)


def test_a_dropped_painting_and_a_part_of_it_reach_the_picture(table, files: dict[str, Path]):
    table.open_photo(files["meadow"])
    table.drag((0.4, 0.3), (0.4, 0.7))
    table.page.click("#draft")
    table.says("Choose a painting for “region 1”")
    table.drop(files["fresco"], ".region")
    table.expect(table.regions.first.locator(".painting")).to_have_text("fresco")

    table.page.get_by_role("button", name=re.compile("Use a part of the painting")).click()
    canvas = table.page.locator("#part-canvas")
    table.expect(canvas).to_be_visible()  # the dialog opens when the painting is there
    box = canvas.bounding_box()
    table.page.mouse.move(box["x"] + 5, box["y"] + 5)
    table.page.mouse.down()
    table.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 5, steps=3)
    table.page.mouse.up()
    table.page.click("#part-use")
    table.expect(table.regions.first.locator(".painting")).to_have_text("fresco (a part)")

    table.set({"size": "128", "steps": "4"})
    table.page.click("#paint")
    table.painted()
    request = table.studio.jobs()[0]["request"]
    (region,) = request["regions"]
    assert request["settings"]["size"] == 128 and request["settings"]["preset"] == "fast"
    mask, part = (picture(table, region[key]) for key in ("mask", "style_mask"))
    assert 100 * mask.mean() / 255 == pytest.approx(table.shares()[0], abs=1)
    assert 0.4 < part.mean() / 255 < 0.5 and part[:, : part.shape[1] // 3].mean() > 200
    result = Image.open(io.BytesIO(fetch(table, table.studio.jobs()[0]["result"]["url"])))
    assert result.size == (192, 128)


def fetch(table, path: str) -> bytes:
    asked = Request(table.studio.home + path, headers={"Authorization": f"Bearer {TOKEN}"})
    with urlopen(asked) as answer:
        return answer.read()


def picture(table, id: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(fetch(table, f"/api/images/{id}"))).convert("L"), float)


def test_a_click_finds_an_object(table):
    if not table.studio.get("status")["segmenter"]["available"]:
        absent("the weights that find objects are not here; mast weights fetch mobile-sam u2netp")
    table.example("coffee")
    table.page.click("#add-region")
    table.tool("click")
    table.page.mouse.click(*table.point(0.5, 0.4))
    table.expect(table.regions.nth(2).locator(".share")).not_to_have_text("0 %")
    assert table.shares()[2] > 2
    assert sum(table.shares()) == pytest.approx(100, abs=2), "the others have given way"


def test_edits_are_drafted_by_themselves(table):
    table.example("cat")
    runs = len(table.studio.jobs())
    table.page.locator("#auto").check()
    table.painting()
    strength = table.regions.first.locator("input[type=range]")
    strength.fill("50")
    done = lambda: (
        len(table.studio.jobs()) >= runs + 2
        and table.studio.jobs()[0]["state"] == "done"
        and table.studio.jobs()[0]
    )
    job = table.studio.until(done, "the draft of the last edit is done")
    assert job["draft"] and job["request"]["regions"][0]["strength"] == 0.5
    table.expect(table.progress).to_be_hidden()
    assert table.view() == "edit", "whoever edits is left to it"
    table.expect(table.page.locator("#under")).to_have_attribute("aria-pressed", "true")


def test_masks_keep_their_laws(table):
    """A soft stroke stays soft however often the brush passes; regions that give way never hold more than
    all; what is sent is what was painted.
    """
    found = table.page.evaluate(
        """async () => {
            const masks = await import("./masks.js");
            const grid = { width: 60, height: 40 };
            const stroke = new Uint8Array(2400), from = { x: 15, y: 20 }, to = { x: 45, y: 20 };
            masks.strokeTo(stroke, grid, from, to, 10, 0.8);
            const once = stroke.slice();
            for (let i = 0; i < 5; i++) masks.strokeTo(stroke, grid, from, to, 10, 0.8);
            const corners = [[5, 5], [40, 5], [40, 35], [5, 35]].map(([x, y]) => ({ x, y }));
            const shape = masks.polygon(corners, grid, 3);
            const left = masks.giveWay(shape, stroke);
            const over = left.some((value, i) => value + stroke[i] > 255);
            const rest = masks.rest([left, stroke], grid);
            const image = await createImageBitmap(await masks.toPng(shape, grid));
            return {
                same: once.every((value, i) => value === stroke[i]),
                soft: stroke.filter((value) => value > 20 && value < 235).length,
                full: Math.max(...stroke), over,
                tiled: rest.every((value, i) => value + left[i] + stroke[i] === 255),
                sent: masks.fromImage(image, grid).every((value, i) => value === shape[i]),
                share: masks.share(shape), untouched: masks.giveWay(shape, new Uint8Array(2400)) === shape,
            };
        }"""
    )
    assert found.pop("soft") > 100
    assert found.pop("share") == pytest.approx(35 * 30 / 2400, abs=0.01)
    assert found == {"same": True, "full": 255, "over": False, "tiled": True, "sent": True, "untouched": True}
