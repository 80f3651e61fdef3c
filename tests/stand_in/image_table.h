// What an image of the stand-in driver shows of its kernels: one entry each, the last has no name.
#pragma once

namespace stand_in {

struct Kernel {
    const char *name;
    void (*run)(const unsigned *grid, const unsigned *block, unsigned shared, void **parameters);
    unsigned count;                // of parameters
    const unsigned *sizes;         // bytes of each
    const unsigned char *is_pointer;
};

}  // namespace stand_in
