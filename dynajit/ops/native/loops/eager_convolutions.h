/* What _convolutions.c shares with the files for each instruction set. */
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "indices.h"
#include "convolution.h"

/* `run_together` of core/arrays/helper_threads.h. */
typedef void (*Together)(void (*unit)(void *, int64_t), void *context, int64_t units, int threads);

typedef void (*Correlate)(const dj_convolution *, int, const void *, const void *, const void *,
                          void *, Together, int, int64_t *);
/* 0 if the call is to be computed directly: see convolution_winograd.h; float32. */
typedef int (*Winograd)(const dj_convolution *, int, const void *, const void *, const void *, void *,
                        Together, int);
typedef void (*Weigh)(const dj_convolution *, const void *, const void *, void *, Together, int,
                      int64_t *);
