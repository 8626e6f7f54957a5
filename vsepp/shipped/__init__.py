"""What comes with the package: models, each a folder here that `vsepp export --light` wrote, with a licence of its own; and `encoders`,
weights that `vsepp.scenes.pretrain` made."""
