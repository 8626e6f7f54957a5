"""Truths of COCO's test set that people judged, a module each: `FILES`, role → name of a raw file; `installed`, role → file of a package,
where a package has the files; and `read`, files → `Truth`.

A test set's own captions need no file: `vsepp.evaluation.truth.own_captions`.
"""
