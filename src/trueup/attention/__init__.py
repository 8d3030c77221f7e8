"""What is known about attention kernels: their names, and which of them are fused."""
