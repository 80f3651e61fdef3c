// A CUDA driver without a GPU, for tests: the entry points that codegen/_device.c looks up in
// libcuda.so.1 and in libcublasLt.so, over host memory.
//
// An image is a shared object that `driver.py` beside this makes of CUDA text (image.h, the
// emulator of tests/codegen): kernels run on the CPU, one launch after the other. Work runs when it
// is given, or (`stand_in_set_lazy`) when somebody waits for it, so that results read too early, and
// host memory reused too early, show. Found, as complaints that `stand_in_complaint` gives and as
// CUDA_ERROR_ILLEGAL_ADDRESS from then on, as on a GPU: what the emulator finds wrong in a kernel
// (accesses outside of the blocks that its arguments lie in, races, barriers that are not met),
// pointers that lie in no living memory, and writes beside it or into freed memory (a border of
// known bytes around every block, freed blocks kept for a while). Enumerations have the values of
// cuda.h and cublasLt.h.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "image_table.h"

namespace {

enum Code {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_IMPLICIT = 906,
};

constexpr int DEVICES = 2;
constexpr size_t BORDER = 256;
constexpr unsigned char BORDER_BYTE = 0xC5, FRESH_BYTE = 0xAB, FREED_BYTE = 0xDD;
constexpr size_t MOST_KEPT = 64 << 20;  // bytes of freed blocks that are watched
constexpr size_t TOTAL_BYTES = size_t(1) << 33;
constexpr unsigned MOST_SHARED = 227 << 10;

struct Block {
    char *base;  // of what malloc gave
    size_t size;
    int device;  // -1: host memory
    bool is_foreign;
};

struct Node {
    std::function<void()> run;
    const stand_in::Kernel *kernel = nullptr;  // of a kernel node
    unsigned grid[3], block[3], shared;
    std::vector<std::string> values;  // of its parameters
};

struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
};

struct Executable {
    std::vector<std::unique_ptr<Node>> nodes;
    std::map<const Node *, Node *> of;  // node of the graph -> own node
};

struct Stream {
    int device = 0;
    bool is_legacy = false;
    Graph *capturing = nullptr;
    bool is_invalid = false;
    const Node *last = nullptr;
};

struct Event {
    double milliseconds = -1;
    uint64_t pending = 0;  // records that wait in the queue
};

struct Module {
    void *library;
    const char *(*message)();
    void (*allow)(const void *, size_t);
    void (*forget)();
};

struct Context {
    int device;
    int error = SUCCESS;
};

std::recursive_mutex lock;
std::map<uintptr_t, Block> blocks;
std::deque<std::pair<uintptr_t, Block>> freed;
size_t freed_bytes, used_bytes[DEVICES], limit_bytes = TOTAL_BYTES;
std::map<void *, Stream> streams;
std::map<const stand_in::Kernel *, const Module *> kernels;
std::set<Event *> events;
Context contexts[DEVICES] = {{0}, {1}};
thread_local Context *current;
bool is_lazy, checks = true;
std::deque<std::function<void()>> queue;
std::string complaint;
std::map<std::string, uint64_t> calls;
std::map<std::string, std::pair<long, int>> failures;  // call -> (calls until it fails, code)

#define LOCKED std::lock_guard<std::recursive_mutex> held(lock)
#define CALLED                                 \
    LOCKED;                                    \
    if (int code = called(__func__)) return code

int called(const char *name) {
    calls[name]++;
    auto found = failures.find(name);
    if (found != failures.end() && found->second.first-- <= 0) {
        int code = found->second.second;
        failures.erase(found);
        return code;
    }
    return current ? current->error : SUCCESS;
}

void complain(const std::string &text) {
    if (complaint.empty()) complaint = text;
    (current ? current : &contexts[0])->error = ILLEGAL_ADDRESS;
}

double now_ms() {
    auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(since).count();
}

// ---- memory ----

const Block *block_of(uintptr_t address, uintptr_t *start = nullptr) {
    auto after = blocks.upper_bound(address);
    if (after == blocks.begin()) return nullptr;
    --after;
    // One past the end is the address of a buffer of no elements.
    if (address > after->first + after->second.size) return nullptr;
    if (start) *start = after->first;
    return &after->second;
}

std::string hexadecimal(uintptr_t address) {
    char text[32];
    snprintf(text, sizeof text, "0x%llx", (unsigned long long)address);
    return text;
}

bool borders_hold(const Block &block) {
    const char *end = block.base + BORDER + block.size;
    for (size_t i = 0; i < BORDER; i++)
        if ((unsigned char)block.base[i] != BORDER_BYTE || (unsigned char)end[i] != BORDER_BYTE)
            return false;
    return true;
}

void check_borders(const std::string &who) {
    if (!checks) return;
    for (auto &[start, block] : blocks)
        if (!block.is_foreign && !borders_hold(block))
            return complain(who + " wrote beside the block of " + std::to_string(block.size) +
                            " bytes at " + hexadecimal(start));
    for (auto &[start, block] : freed)
        for (size_t i = 0; i < block.size; i++)
            if (((unsigned char *)start)[i] != FREED_BYTE)
                return complain(who + " wrote into freed memory at " + hexadecimal(start + i));
}

void let_go(const std::pair<uintptr_t, Block> &entry) { free(entry.second.base); }

int allocate(void **pointer, size_t size, int device) {
    if (!size) return INVALID_VALUE;
    if (device >= 0 && used_bytes[device] + size > limit_bytes) return OUT_OF_MEMORY;
    char *base = (char *)aligned_alloc(BORDER, (size + 2 * BORDER + BORDER - 1) / BORDER * BORDER);
    if (!base) return OUT_OF_MEMORY;
    memset(base, BORDER_BYTE, BORDER);
    memset(base + BORDER, FRESH_BYTE, size);
    memset(base + BORDER + size, BORDER_BYTE, BORDER);
    *pointer = base + BORDER;
    blocks[(uintptr_t)*pointer] = {base, size, device, false};
    if (device >= 0) used_bytes[device] += size;
    return SUCCESS;
}

int release(void *pointer) {
    auto found = blocks.find((uintptr_t)pointer);
    if (found == blocks.end() || found->second.is_foreign) return INVALID_VALUE;
    Block block = found->second;
    if (!borders_hold(block)) complain("something wrote beside a block that is freed now");
    if (block.device >= 0) used_bytes[block.device] -= block.size;
    memset(pointer, FREED_BYTE, block.size);
    freed.push_back(*found);
    freed_bytes += block.size;
    blocks.erase(found);
    while (freed_bytes > MOST_KEPT) {
        freed_bytes -= freed.front().second.size;
        let_go(freed.front());
        freed.pop_front();
    }
    return SUCCESS;
}

/* Whether so many bytes from an address on are memory that a kernel may touch. */
bool is_living(uintptr_t address, size_t size) {
    uintptr_t start;
    const Block *block = block_of(address, &start);
    return block && address + size <= start + block->size;
}

// ---- running ----

void drain() {
    while (!queue.empty()) {
        auto work = queue.front();
        queue.pop_front();
        work();
    }
}

Stream *stream_of(void *handle) {
    auto found = streams.find(handle);
    if (found != streams.end()) return &found->second;
    Stream stream;
    stream.is_legacy = (uintptr_t)handle < 2;  // any other is one of a runtime's that we do not see
    return &(streams[handle] = stream);
}

/* Whether all addresses among the parameters are those of living memory; the emulator is told of
 * the blocks, so that it sees accesses outside of them. */
bool allow(const Node &node, const Module &module) {
    const stand_in::Kernel &kernel = *node.kernel;
    std::set<uintptr_t> told;
    for (unsigned i = 0; i < kernel.count; i++) {
        // A structure by value: any of its words may be an address.
        for (size_t at = 0; at + 8 <= node.values[i].size(); at += 8) {
            uintptr_t address, start;
            memcpy(&address, node.values[i].data() + at, sizeof address);
            const Block *block = address ? block_of(address, &start) : nullptr;
            if (block && told.insert(start).second) module.allow((void *)start, block->size);
            if (block || !address || !kernel.is_pointer[i]) continue;
            complain(std::string("kernel ") + kernel.name + ": its parameter " +
                     std::to_string(i) + ", " + hexadecimal(address) + ", lies in no living memory");
            return false;
        }
    }
    return true;
}

void run_kernel(const Node &node) {
    const stand_in::Kernel &kernel = *node.kernel;
    auto found = kernels.find(&kernel);
    if (found == kernels.end()) return complain("a kernel runs whose module was unloaded");
    const Module &module = *found->second;
    std::vector<void *> parameters;
    for (auto &value : node.values) parameters.push_back((void *)value.data());
    if (!checks || allow(node, module)) {
        int wrong = kernel.run(node.grid, node.block, node.shared, parameters.data());
        if (wrong) complain(std::string("kernel ") + kernel.name + ": " + module.message());
    }
    module.forget();
    check_borders(std::string("kernel ") + kernel.name);
}

/* Work goes into the graph that its stream captures, into the queue, or runs. */
int give(void *handle, std::unique_ptr<Node> node) {
    Stream *stream = stream_of(handle);
    if (stream->capturing) {
        stream->last = node.get();
        stream->capturing->nodes.push_back(std::move(node));
        return SUCCESS;
    }
    if (!is_lazy) {
        node->run();
        return SUCCESS;
    }
    std::shared_ptr<Node> kept(std::move(node));
    queue.push_back([kept] { kept->run(); });
    return SUCCESS;
}

int give(void *handle, std::function<void()> run) {
    auto node = std::make_unique<Node>();
    node->run = std::move(run);
    return give(handle, std::move(node));
}

std::unique_ptr<Node> kernel_node(
    const stand_in::Kernel *kernel, const unsigned *grid, const unsigned *block, unsigned shared,
    void **parameters) {
    auto node = std::make_unique<Node>();
    node->kernel = kernel;
    memcpy(node->grid, grid, sizeof node->grid);
    memcpy(node->block, block, sizeof node->block);
    node->shared = shared;
    for (unsigned i = 0; i < kernel->count; i++)
        node->values.emplace_back((const char *)parameters[i], kernel->sizes[i]);
    Node *own = node.get();
    node->run = [own] { run_kernel(*own); };
    return node;
}

bool is_launchable(const unsigned *grid, const unsigned *block, unsigned shared) {
    uint64_t threads = uint64_t(block[0]) * block[1] * block[2];
    return grid[0] && grid[1] && grid[2] && grid[0] <= 0x7fffffffu && grid[1] <= 65535 &&
           grid[2] <= 65535 && threads && threads <= 1024 && block[2] <= 64 &&
           shared <= MOST_SHARED;
}

int refuse_while_capturing(void *handle) {
    Stream *stream = stream_of(handle);
    if (!stream->capturing) return SUCCESS;
    stream->is_invalid = true;
    return CAPTURE_UNSUPPORTED;
}

/* The bytes of an ELF file in memory: its section headers are last. */
size_t image_size(const void *image) {
    auto header = (const Elf64_Ehdr *)image;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG)) return 0;
    return header->e_shoff + size_t(header->e_shnum) * header->e_shentsize;
}

}  // namespace

extern "C" {

// ---- for the tests themselves ----

void stand_in_set_lazy(int lazy) {
    LOCKED;
    drain();
    is_lazy = lazy;
}

void stand_in_drain() {
    LOCKED;
    drain();
}

void stand_in_set_checks(int on) {
    LOCKED;
    checks = on;
}

/* What was found first; empty if nothing was. It is forgotten, and the context works again. */
const char *stand_in_complaint() {
    static std::string told;
    LOCKED;
    drain();
    check_borders("something");
    told = complaint;
    complaint.clear();
    for (Context &context : contexts) context.error = SUCCESS;
    return told.c_str();
}

uint64_t stand_in_calls(const char *name) {
    LOCKED;
    return calls[name];
}

/* The call after `skipped` others of this name fails with a code, once. */
void stand_in_fail(const char *name, long skipped, int code) {
    LOCKED;
    failures[name] = {skipped, code};
}

void stand_in_limit(uint64_t bytes) {
    LOCKED;
    limit_bytes = bytes ? bytes : TOTAL_BYTES;
}

uint64_t stand_in_block_count() {
    LOCKED;
    return blocks.size();
}

/* Memory of others that kernels may touch, such as arrays of a stand-in for CuPy. */
void stand_in_register(void *pointer, uint64_t size) {
    LOCKED;
    blocks[(uintptr_t)pointer] = {nullptr, size_t(size), 0, true};
}

void stand_in_forget(void *pointer) {
    LOCKED;
    blocks.erase((uintptr_t)pointer);
}

// ---- devices and contexts ----

int cuInit(unsigned) { return SUCCESS; }

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    *count = DEVICES;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
    if (ordinal < 0 || ordinal >= DEVICES) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

int cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, length, "stand-in for a GPU, number %d", device);
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const std::map<int, int> values = {
        {1, 1024}, {5, 0x7fffffff}, {8, 48 << 10}, {10, 32}, {16, 4},
        {38, 1 << 22}, {41, 1}, {75, 9}, {76, 0}, {97, MOST_SHARED},
    };
    auto found = values.find(attribute);
    if (found == values.end() || device >= DEVICES) return INVALID_VALUE;
    *value = found->second;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (device < 0 || device >= DEVICES) return INVALID_DEVICE;
    *context = &contexts[device];
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }

int cuCtxGetCurrent(void **context) {
    *context = current;
    return SUCCESS;
}

int cuCtxSetCurrent(void *context) {
    current = (Context *)context;
    return SUCCESS;
}

int cuGetErrorName(int code, const char **name) {
    static const std::map<int, const char *> names = {
        {SUCCESS, "CUDA_SUCCESS"},
        {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {NOT_READY, "CUDA_ERROR_NOT_READY"},
        {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
        {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
        {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    };
    auto found = names.find(code);
    *name = found == names.end() ? nullptr : found->second;
    return *name ? SUCCESS : INVALID_VALUE;
}

int cuGetErrorString(int code, const char **text) { return cuGetErrorName(code, text); }

// ---- modules and kernels ----

int cuModuleLoadData(void **module, const void *image) {
    CALLED;
    size_t size = image_size(image);
    if (!size) return INVALID_IMAGE;
    char path[] = "/tmp/stand-in-XXXXXX";  // a new name each time: dlopen knows files by name
    int file = mkstemp(path);
    bool is_written = file >= 0 && write(file, image, size) == ssize_t(size);
    void *library = is_written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (file >= 0) close(file);
    unlink(path);
    if (!library) return INVALID_IMAGE;
    auto made = new Module{library};
    made->message = (const char *(*)())dlsym(library, "emulator_message");
    made->allow = (void (*)(const void *, size_t))dlsym(library, "emulator_allow");
    made->forget = (void (*)())dlsym(library, "emulator_forget");
    if (!dlsym(library, "stand_in_kernels") || !made->message || !made->allow || !made->forget) {
        dlclose(library);
        delete made;
        return INVALID_IMAGE;
    }
    *module = made;
    return SUCCESS;
}

int cuModuleUnload(void *module) {
    CALLED;
    drain();
    auto own = (Module *)module;
    for (auto entry = (const stand_in::Kernel *)dlsym(own->library, "stand_in_kernels");
         entry->name; entry++)
        kernels.erase(entry);
    dlclose(own->library);
    delete own;
    return SUCCESS;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    CALLED;
    auto entry = (const stand_in::Kernel *)dlsym(((Module *)module)->library, "stand_in_kernels");
    for (; entry->name; entry++)
        if (!strcmp(entry->name, name)) {
            kernels[entry] = (const Module *)module;
            *function = (void *)entry;
            return SUCCESS;
        }
    return NOT_FOUND;
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
    CALLED;
    if (!kernels.count((const stand_in::Kernel *)function)) return INVALID_HANDLE;
    return attribute == 8 && unsigned(value) > MOST_SHARED ? INVALID_VALUE : SUCCESS;
}

int cuLaunchKernel(
    void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void *stream, void **parameters, void **) {
    CALLED;
    auto kernel = (const stand_in::Kernel *)function;
    if (!kernels.count(kernel)) return INVALID_HANDLE;
    if (!current) return INVALID_CONTEXT;
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    if (!is_launchable(grid, block, shared)) return INVALID_VALUE;
    return give(stream, kernel_node(kernel, grid, block, shared, parameters));
}

// ---- memory ----

int cuMemAlloc_v2(void **pointer, size_t size) {
    CALLED;
    if (!current) return INVALID_CONTEXT;
    return allocate(pointer, size, current->device);
}

int cuMemFree_v2(void *pointer) {
    CALLED;
    drain();
    return pointer ? release(pointer) : SUCCESS;
}

int cuMemHostAlloc(void **pointer, size_t size, unsigned) {
    CALLED;
    return allocate(pointer, size, -1);
}

int cuMemFreeHost(void *pointer) {
    LOCKED;
    drain();
    return release(pointer);
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CALLED;
    if (!current) return INVALID_CONTEXT;
    *total = limit_bytes;
    *free_bytes = limit_bytes - used_bytes[current->device];
    return SUCCESS;
}

/* Plain host memory is read when the call is made, as the driver stages it; pinned memory later. */
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t size, void *stream) {
    CALLED;
    if (block_of((uintptr_t)from))
        return give(stream, [=] { memcpy(to, from, size); });
    auto staged = std::make_shared<std::string>((const char *)from, size);
    return give(stream, [=] { memcpy(to, staged->data(), size); });
}

int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t size, void *stream) {
    CALLED;
    return give(stream, [=] { memcpy(to, from, size); });
}

int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t size, void *stream) {
    CALLED;
    return give(stream, [=] {
        if (checks && !(is_living((uintptr_t)to, size) && is_living((uintptr_t)from, size)))
            return complain("a copy of " + std::to_string(size) + " bytes leaves living memory");
        memmove(to, from, size);
    });
}

int cuMemsetD8Async(void *to, unsigned char value, size_t count, void *stream) {
    CALLED;
    return give(stream, [=] {
        if (checks && !is_living((uintptr_t)to, count))
            return complain("a memset of " + std::to_string(count) + " bytes leaves living memory");
        memset(to, value, count);
    });
}

// ---- streams and events ----

int cuStreamCreate(void **stream, unsigned) {
    CALLED;
    if (!current) return INVALID_CONTEXT;
    static char *next = (char *)0x1000;
    *stream = next += 16;
    streams[*stream].device = current->device;
    return SUCCESS;
}

int cuStreamDestroy_v2(void *stream) {
    LOCKED;
    drain();
    return streams.erase(stream) ? SUCCESS : INVALID_HANDLE;
}

int cuStreamSynchronize(void *stream) {
    CALLED;
    if (int code = refuse_while_capturing(stream)) return code;
    drain();
    return current ? current->error : SUCCESS;
}

int cuStreamIsCapturing(void *stream, int *status) {
    CALLED;
    Stream *own = stream_of(stream);
    *status = !own->capturing ? 0 : own->is_invalid ? 2 : 1;
    return SUCCESS;
}

int cuStreamBeginCapture_v2(void *stream, int) {
    CALLED;
    Stream *own = stream_of(stream);
    if (own->is_legacy) return CAPTURE_UNSUPPORTED;
    if (own->capturing) return INVALID_VALUE;
    own->capturing = new Graph;
    own->is_invalid = false;
    own->last = nullptr;
    return SUCCESS;
}

int cuStreamEndCapture(void *stream, void **graph) {
    CALLED;
    Stream *own = stream_of(stream);
    if (!own->capturing) return INVALID_VALUE;
    Graph *made = own->capturing;
    own->capturing = nullptr;
    if (own->is_invalid) {
        delete made;
        *graph = nullptr;
        return CAPTURE_INVALIDATED;
    }
    *graph = made;
    return SUCCESS;
}

int cuStreamGetCaptureInfo_v2(
    void *stream, int *status, uint64_t *id, void **graph, const void *const **nodes,
    size_t *count) {
    CALLED;
    Stream *own = stream_of(stream);
    *status = own->capturing ? 1 : 0;
    if (id) *id = 1;
    if (graph) *graph = own->capturing;
    if (nodes) *nodes = (const void *const *)&own->last;
    if (count) *count = own->last != nullptr;
    return SUCCESS;
}

int cuEventCreate(void **event, unsigned) {
    CALLED;
    auto made = new Event;
    events.insert(made);
    *event = made;
    return SUCCESS;
}

int cuEventDestroy_v2(void *event) {
    LOCKED;
    drain();
    if (!events.erase((Event *)event)) return INVALID_HANDLE;
    delete (Event *)event;
    return SUCCESS;
}

int cuEventRecord(void *event, void *stream) {
    CALLED;
    auto own = (Event *)event;
    if (!events.count(own)) return INVALID_HANDLE;
    own->pending++;
    return give(stream, [own] {
        own->pending--;
        own->milliseconds = now_ms();
    });
}

int cuEventSynchronize(void *event) {
    CALLED;
    if (!events.count((Event *)event)) return INVALID_HANDLE;
    drain();
    return current ? current->error : SUCCESS;
}

int cuEventQuery(void *event) {
    CALLED;
    return ((Event *)event)->pending ? NOT_READY : SUCCESS;
}

int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    CALLED;
    auto first = (Event *)start, last = (Event *)end;
    if (first->pending || last->pending) return NOT_READY;
    *milliseconds = float(last->milliseconds - first->milliseconds);
    return SUCCESS;
}

int cuStreamWaitEvent(void *, void *, unsigned) { return SUCCESS; }  // there is one queue

// ---- graphs ----

int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long) {
    CALLED;
    auto made = new Executable;
    for (auto &node : ((Graph *)graph)->nodes) {
        auto copy = std::make_unique<Node>(*node);
        Node *own = copy.get();
        if (own->kernel) own->run = [own] { run_kernel(*own); };
        made->of[node.get()] = own;
        made->nodes.push_back(std::move(copy));
    }
    *executable = made;
    return SUCCESS;
}

int cuGraphDestroy(void *graph) {
    LOCKED;
    delete (Graph *)graph;
    return SUCCESS;
}

int cuGraphExecDestroy(void *executable) {
    LOCKED;
    drain();
    delete (Executable *)executable;
    return SUCCESS;
}

/* As on a GPU, a launch keeps the parameters that the graph had when it was launched. */
int cuGraphLaunch(void *executable, void *stream) {
    CALLED;
    if (int code = refuse_while_capturing(stream)) return code;
    for (auto &node : ((Executable *)executable)->nodes) {
        auto copy = std::make_unique<Node>(*node);
        Node *own = copy.get();
        if (own->kernel) own->run = [own] { run_kernel(*own); };
        if (int code = give(stream, std::move(copy))) return code;
    }
    return SUCCESS;
}

int cuGraphExecKernelNodeSetParams(void *executable, void *node, const void *given) {
    CALLED;
    struct Parameters {
        void *function;
        unsigned grid[3], block[3], shared;
        void **values;
        void **extra;
    };
    auto wanted = (const Parameters *)given;
    auto own = (Executable *)executable;
    auto found = own->of.find((const Node *)node);
    if (found == own->of.end() || !found->second->kernel) return INVALID_VALUE;
    auto kernel = (const stand_in::Kernel *)wanted->function;
    if (kernel != found->second->kernel) return INVALID_VALUE;
    if (!is_launchable(wanted->grid, wanted->block, wanted->shared)) return INVALID_VALUE;
    auto made = kernel_node(kernel, wanted->grid, wanted->block, wanted->shared, wanted->values);
    Node *target = found->second;
    *target = *made;
    target->run = [target] { run_kernel(*target); };
    return SUCCESS;
}

}  // extern "C"

#include "cublas_lt.h"
