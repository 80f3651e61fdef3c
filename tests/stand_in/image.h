// An image of the stand-in driver: the emulator, then (by `driver.py`) the CUDA text, then the table
// of its kernels.
#include "../codegen/cuda_emulator.h"
#include "image_table.h"

#include <type_traits>
#include <utility>

namespace stand_in {

template <auto function>
struct Entry;

template <typename... Parameters, void (*function)(Parameters...)>
struct Entry<function> {
    static constexpr unsigned count = sizeof...(Parameters);
    static constexpr unsigned sizes[count + 1] = {sizeof(Parameters)..., 0};
    static constexpr unsigned char is_pointer[count + 1] = {std::is_pointer_v<Parameters>..., 0};

    template <size_t... places>
    static void call(void **parameters, std::index_sequence<places...>) {
        function(*(std::remove_reference_t<Parameters> *)parameters[places]...);
    }

    static void run(const unsigned *grid, const unsigned *block, unsigned, void **parameters) {
        emulator::launch(grid[0], block[0], [=] {
            call(parameters, std::index_sequence_for<Parameters...>());
        });
    }
};

}  // namespace stand_in

#define STAND_IN_KERNEL(name)                                        \
    {#name, stand_in::Entry<name>::run, stand_in::Entry<name>::count, \
     stand_in::Entry<name>::sizes, stand_in::Entry<name>::is_pointer}
