"""What tests of the op table share: samples, graphs, and what PyTorch gives."""
