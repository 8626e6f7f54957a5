"""Generated scenes: rendered images with captions, and other scenes to pretrain the mini encoders on.

Read `world` (what is there), `render` and `grammar` (how it looks and is described), `layouts` (its files) and `pretrain`. It imports
`base`, and `pretrain` also `features` and `models`.
"""
