"""The checkpoints and vocabularies that the paper's authors released, turned into runs of this package."""
