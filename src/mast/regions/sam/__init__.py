"""Segment Anything (Kirillov et al. 2023) with MobileSAM's small encoder, in plain torch."""
