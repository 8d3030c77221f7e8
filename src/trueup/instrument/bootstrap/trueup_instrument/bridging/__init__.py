"""Attention kernels that Dynamo cannot look into, made operators of torch.library: it sees one node, and goes on."""
