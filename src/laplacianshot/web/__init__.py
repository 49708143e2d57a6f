"""What servers share: who may ask, how much and for how long; and the server of a model."""
