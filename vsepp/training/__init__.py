"""Training of a run for one seed.

Read `data` (what a run trains on) with `augment` (what a step leaves out of it), `batches` (which pairs each step uses), `step` (one
step: embeddings, loss, gradient) with `matching` (the loss of a matcher), `schedule` (learning rate, factor of the loss, an encoder's mode),
`optimisers` (one module each), then `loop`: epochs, validation, the best weights. `checkpoint` lets a killed training go on,
`distributed` shares a step among processes.

It imports `base`, `data`, `features`, `models`, `losses` and `evaluation`, which validates.
"""
