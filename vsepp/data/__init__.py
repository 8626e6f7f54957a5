"""From raw files to tables, tokens and decoded images.

- Raw files: `download` and `transfer`; `container` (a folder or zip archive), `raw` (one file, and what a reader
  returns), `readers` (one module a layout), `caption_files` (captions as people keep them),
  `corpus` (all checks).
- Captions: `tables`, `captions` (vocabulary and tokens), `vectors` (TF-IDF).
- Pictures: `pictures` (any file → RGB), `metadata` (broken ones), `picture_folder`, `decode` (a corpus → the
  store), `store`, `thumbnails` (to be looked at). `arrays` reads and writes all `.npy` and `.npz`.

Read `raw`, `readers`, `corpus`, `tables`, `captions` and `decode` in this order; the others when asked
for. It imports `base`.
"""
