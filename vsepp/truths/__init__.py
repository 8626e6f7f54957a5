"""Truths of COCO's test set that people judged, a module each: `FILES`, role → name of a raw file, and `read`, their files → `Truth`.

Of its own captions a test set needs no file: `vsepp.evaluation.truth.own_captions`.
"""
