"""collapsed-flow: each class is one point; an integral of motion makes the loss decay, while the classes stay so."""
