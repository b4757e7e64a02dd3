"""Of what a layer puts out, with and without the labels."""
