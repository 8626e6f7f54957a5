"""The embedded corpus: rendered scenes with captions, and the pretraining of the mini encoders on others."""
