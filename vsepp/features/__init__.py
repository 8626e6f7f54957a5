"""What a model reads of images and captions.

- `crops`: which part of a stored image an encoder sees, and how it is cut out.
- `frozen`: passes of a frozen encoder over the store: features of fixed crops, and the tape of random crops.
- `images`: a run's images as its training and its evaluation take them, however they are read.
- `captions`: states of tokens under a frozen text encoder, and vectors that say how alike captions are.
- `published`: features that authors give, in place of computed ones.

Read it in this order. It imports `models`, `data` and `base`.
"""
