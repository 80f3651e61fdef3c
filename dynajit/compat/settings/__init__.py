"""Settings by PyTorch's paths; `foreign` says what they are."""
