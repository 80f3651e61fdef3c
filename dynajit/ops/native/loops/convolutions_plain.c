/* Convolutions for any CPU. */
#define NAMED(x) x##_plain
#include "convolution_loops.h"
