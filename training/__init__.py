"""Training of the embedded model: its U-Net and the decoder of its autoencoder. See README.md."""
