"""What tests of captured Python share: plain runs beside captured ones, breaks at lines."""
