"""Digests, manifests and the refusal of artefacts that do not belong together."""
