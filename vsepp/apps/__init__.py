"""What people call: the command line, questions to a model, its export, a model of one's own pictures.

Read `cli` (the commands, a module a group), `query` (an index of pictures and captions, and its answers), `serve` (the same in a
browser), `export` (a model as a folder to take elsewhere, with its card) and `own_pictures` (a folder of pictures as a run). The
library's front door is `vsepp.api`. It may import everything.
"""
