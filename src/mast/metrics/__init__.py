"""The paper's metrics: FID, LPIPS, ArtFID, R-FID, M-FID; and two of structure, CFSD and SSIM. See docs/metrics.md."""
