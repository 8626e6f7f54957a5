"""The joint embedding of images and captions, and the networks that it is made of.

Read `joint` first: f(i) and g(c), Eqs. 1–3, from `sets`, which is how images and captions come in. Its parts are components, one module
each: image `heads`, `text` encoders, `poolings`, `matchers`, and the `similarity` of two embeddings; the docstring of each package says
what a module has. `encoder` makes, imports and loads image encoders, whose families are in `image`; `transformer` has the layers that BERT
and a matcher share. `weights` reads every file of weights, `folder` the folder of a trained model, `released` the authors' checkpoints;
`precision` says how products are rounded.

It imports `base`, `data` and `shipped`; no loss, and nothing of a training.
"""
