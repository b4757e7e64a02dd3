"""clustered-flow: nothing is cut, so that the network is linear in its data and its flow is solved for all times."""
