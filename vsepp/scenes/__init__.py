"""Generated scenes: rendered images with captions, in the raw layouts of MS-COCO and Flickr30K.

- `world`: what is in a scene.
- `render`: how it looks.
- `grammar`: how people describe it.
- `layouts`: its files, which readers of the real data read.
- `pretrain`: a script that pretrains the encoders of `mini` on other scenes.

Read it in this order. It imports `base`; `pretrain` also `features` and `models`.
"""
