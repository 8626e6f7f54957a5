"""Image features of frozen encoders: crops, features of whole corpora, the tape of random crops."""
