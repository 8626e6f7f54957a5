"""Similarities of image and caption embeddings: one module each, with a function `scores`.

`scores(image_embeddings, caption_embeddings, *, form)` gives `scores[image, caption]`, larger is better.
"""
