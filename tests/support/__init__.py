"""What tests share: samples, oracles, programs, stand-ins."""
