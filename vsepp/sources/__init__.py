"""Downloads: complete and verified, or not there at all."""
