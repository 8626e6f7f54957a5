"""Downloads: whole and verified, or not there."""
