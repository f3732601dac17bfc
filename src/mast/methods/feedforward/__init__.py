"""Networks that repaint a photo in one forward pass: no diffusion model, but weights of their own."""
