"""What waves the outputs of a network that adds residues are made of."""
