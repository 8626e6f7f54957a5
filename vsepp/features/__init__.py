"""What a model reads of images and captions.

Read `crops` (which part of a stored image an encoder sees), `frozen` (passes of a frozen encoder: features and the tape), `images`
(a run's images, however they are read), `captions` (states and vectors of captions), `published` (features that authors give).
"""
