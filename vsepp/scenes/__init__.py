"""Generated scenes: rendered images with captions, and other scenes to pretrain the mini encoders on."""
