// What an image of the stand-in driver shows of its kernels: one entry each, the last has no name.
#pragma once

#include <stddef.h>

namespace stand_in {

struct Kernel {
    const char *name;
    // 0, or the image's `emulator_message` says what the kernel did wrong.
    int (*run)(const unsigned *grid, const unsigned *block, size_t dynamic_bytes, void **parameters);
    unsigned count;         // of parameters
    const unsigned *sizes;  // bytes of each
    const unsigned char *is_pointer;
};

}  // namespace stand_in
