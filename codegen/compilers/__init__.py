"""From text to machine code: compilers, and what is kept on disk."""
