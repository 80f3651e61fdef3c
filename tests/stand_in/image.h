// Behind the CUDA text in an image of the stand-in driver: the table of its kernels (`driver.py`).
#include "image_table.h"

#include <type_traits>

namespace stand_in {

template <auto function>
struct Signature;

template <typename... Parameters, void (*function)(Parameters...)>
struct Signature<function> {
    static constexpr unsigned count = sizeof...(Parameters);
    static constexpr unsigned sizes[count + 1] = {sizeof(Parameters)..., 0};
    static constexpr unsigned char is_pointer[count + 1] = {std::is_pointer_v<Parameters>..., 0};
};

}  // namespace stand_in

#define STAND_IN_KERNEL(name)                                                                    \
    {#name, emulated_##name, stand_in::Signature<name>::count, stand_in::Signature<name>::sizes, \
     stand_in::Signature<name>::is_pointer}

#define STAND_IN_TABLE extern "C" __attribute__((visibility("default"), used))
