"""Truths of COCO's test set that people judged, a module each: `FILES`, role → name of a raw file; `installed`, role → file of a package,
where a package has the files; `read`, files → `Truth`; and `judge`, which ranks a test set under the truth. So an evaluation under own
captions does not depend on how truths are judged.

A test set's own captions need no file: `vsepp.evaluation.truth.own_captions`.
"""
