"""Code generation: graphs become loop kernels, kernels become C, C becomes a callable program.

Contract: works on raw arrays and Python numbers, never on tensors; a program gives the same bits
for any number of threads. Start reading at `pipeline.compile_graph`. Stages, in order: `lowering`
(rows to scalar expressions), `fusion` (which values share a kernel), `memory` (where values live),
`codegen.c.text` (C11 with OpenMP), `toolchain` (compiler and disk cache), `_runtime` (the call
itself).
"""
