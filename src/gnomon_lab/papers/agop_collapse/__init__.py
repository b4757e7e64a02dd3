"""Neural collapse and the AGOP: Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728."""
