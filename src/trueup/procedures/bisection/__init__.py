"""`bisect`: the smallest set of layers, and their order, with which a job fails as it does; and what within them."""
