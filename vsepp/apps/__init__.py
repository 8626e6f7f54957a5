"""What people call: questions to a model, its export, a model of one's own pictures, and the command line over all of it.

Read `query` (an index of pictures and captions, and its answers) with `kept_vectors` (embeddings of pictures that were searched before),
`serve` (the same in a browser), `export` (a model as a folder to take elsewhere, with its card), `own_pictures` (a folder of pictures as a
run), and `cli` (the commands, a module a group). The library's front door is `vsepp.api`, which `query` calls, too.
It may import every room, and no room imports it.
"""
