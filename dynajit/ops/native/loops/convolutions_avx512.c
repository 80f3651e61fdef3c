/* Convolutions for x86 CPUs with AVX-512. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC target("avx512f,avx2,fma")
#ifndef __AVX__
#define __AVX__ 1 /* Clang does not say so for a pragma */
#endif
#ifndef __AVX512F__
#define __AVX512F__ 1 /* Clang does not say so for a pragma */
#endif
#define NAMED(x) x##_avx512
#include "convolution_loops.h"
#else
typedef int nothing;
#endif
