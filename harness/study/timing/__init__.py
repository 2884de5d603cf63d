"""How long inference takes, so that a difference can be believed: launches of all variants, interleaved in one session."""
