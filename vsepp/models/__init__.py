"""The joint embedding and the networks that it is made of."""
