/* Convolutions for x86 CPUs with AVX2 and FMA. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC target("avx2,fma")
#ifndef __AVX__
#define __AVX__ 1 /* Clang does not say so for a pragma */
#endif
#define NAMED(x) x##_avx2
#include "convolution_loops.h"
#else
typedef int nothing;
#endif
