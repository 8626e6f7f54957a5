"""Generated scenes: rendered images with captions, and a script that pretrains the mini encoders on other scenes.

Read `world` (what is there), `render` and `grammar` (how it looks and is described), `layouts` (its files) and `pretrain`. It imports
`base`, and `pretrain` also `features` and `models`.
"""
