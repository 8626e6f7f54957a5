"""Similarities of image and caption embeddings: one module each, with a function `scores`.

`scores(image_embeddings, caption_embeddings, *, form)` returns `scores[image, caption]`, larger for a better match.
"""
