"""Truths of COCO's test set that people judged, a module each: `FILES`, role → name of a raw file; `installed`, role → file of a package
that has them, where there is one; `read`, files → `Truth`; and `judge`, which ranks a test set under it. So an evaluation under own
captions does not depend on how truths are judged.

Of its own captions a test set needs no file: `vsepp.evaluation.truth.own_captions`.
"""
