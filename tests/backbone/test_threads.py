"""Threads that share a backbone: every pass gives the bits it gives alone."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest
import torch

from mast.backbone.instrument import Identity, StopForward, controlled
from mast.backbone.taps import block_features, tapped


class Scaled(Identity):
    """Each has its own mark, so a control that meddles with another's pass shows."""

    def __init__(self, factor: float):
        self.factor, self.visits = factor, 0

    def attend(self, site, query, key, value):
        self.visits += 1
        return self.factor * super().attend(site, query, key, value)

    def residual(self, site, branch):
        return self.factor * branch


class Stopping(Identity):
    def attend(self, site, query, key, value):
        raise StopForward


def latent(seed: int) -> torch.Tensor:
    return torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(seed))


def work(backbone, i: int) -> list[torch.Tensor]:
    """Passes of all kinds: plain, under a control of its own, ended early, and tapped."""
    unet, sites = backbone.unet, backbone.sites
    with torch.inference_mode():
        found = [backbone.predict(latent(i), 1 + 20 * i)]
        with controlled(unet, sites, Scaled(1 + i / 4)):
            found.append(backbone.predict(latent(i), 501))
        with controlled(unet, sites, Stopping()):
            backbone.visit(latent(i), 501)
        found.append(block_features(backbone, latent(i), 261, ["up_blocks.1"])["up_blocks.1"])
        found.append(backbone.predict(latent(i), 981))
    return found


@pytest.fixture
def hasty():
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_eight_threads_with_controls_of_their_own_give_the_bits_of_single_runs(tiny_backbone, hasty):
    alone = [work(tiny_backbone, i) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            together = list(pool.map(lambda i: work(tiny_backbone, i), range(8)))
            for one, other in zip(alone, together, strict=True):
                assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    names = {type(processor).__name__ for processor in tiny_backbone.unet.attn_processors.values()}
    assert names == {"AttnProcessor2_0"}, "nothing is left behind"


def in_a_thread(run) -> tuple[Thread, list]:
    """A thread that has begun, and the list its result will come to."""
    found: list = []
    began = Event()

    def body() -> None:
        began.set()
        with torch.inference_mode():
            found.append(run())

    thread = Thread(target=body)
    thread.start()
    began.wait()
    return thread, found


@pytest.mark.parametrize("hold", ["controlled", "tapped"])
def test_a_pass_without_control_waits_for_the_control_of_another_thread(tiny_backbone, hold):
    with torch.inference_mode():
        expected = tiny_backbone.predict(latent(0), 501)
    control = Scaled(3)
    inside = (
        controlled(tiny_backbone.unet, tiny_backbone.sites, control)
        if hold == "controlled"
        else tapped(tiny_backbone.unet, ["up_blocks.1"], stop=True)
    )
    with inside:
        thread, found = in_a_thread(lambda: tiny_backbone.predict(latent(0), 501))
        thread.join(0.3)  # long enough for a pass, if it were let through
        assert thread.is_alive() and not found and not control.visits
    thread.join()
    assert torch.equal(found[0], expected) and not control.visits


def test_one_thread_may_hold_it_many_times(tiny_backbone):
    with controlled(tiny_backbone.unet, tiny_backbone.sites, Scaled(2)), torch.inference_mode():
        outer = tiny_backbone.predict(latent(0), 501)
        with controlled(tiny_backbone.unet, tiny_backbone.sites, Scaled(3)):
            assert not torch.equal(tiny_backbone.predict(latent(0), 501), outer)
        assert torch.equal(tiny_backbone.predict(latent(0), 501), outer)


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), StopForward()])
def test_an_exception_inside_lets_go_of_it(tiny_backbone, error):
    with pytest.raises(type(error)), controlled(tiny_backbone.unet, tiny_backbone.sites, Scaled(2)):
        raise error
    with pytest.raises(type(error)), tapped(tiny_backbone.unet, ["up_blocks.1"]):
        raise error
    with pytest.raises(AttributeError), tapped(tiny_backbone.unet, ["no_such_block"]):
        pass
    thread, found = in_a_thread(lambda: tiny_backbone.predict(latent(0), 501))
    thread.join(60)
    assert not thread.is_alive() and len(found) == 1


def test_two_backbones_do_not_wait_for_each_other(tiny_backbone, preview):
    with controlled(tiny_backbone.unet, tiny_backbone.sites, Scaled(2)):
        thread, found = in_a_thread(lambda: preview.predict(torch.zeros(1, 16, 8, 8), 501))
        thread.join(60)
        assert not thread.is_alive() and len(found) == 1
