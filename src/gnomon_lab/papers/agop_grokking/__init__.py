"""Grokking without a network: Mallinar, Beaglehole, Zhu, Radhakrishnan, Pandit, Belkin, arXiv:2407.20199."""
