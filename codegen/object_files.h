/* Object files to code that runs, in this process and without a linker.
 *
 * Contract: `load_objects` maps all of some ELF object files or none; what it returns runs until
 * `unload_objects`. It knows what GCC writes for generated code on x86-64 under Linux, and refuses
 * all the rest with a reason: other machines, kinds of references and sections, names that nobody
 * defines. Files that are damaged are refused, too. Called by library.c.
 */
#include <stddef.h>

typedef struct {
    const unsigned char *content;
    size_t size;
} ObjectFile;

typedef struct LoadedObjects LoadedObjects;

/* NULL if it refuses: then `*why` is the reason, and `*detail` a name that belongs to it, or "". The
 * name lies in the files, or is constant. */
LoadedObjects *load_objects(const ObjectFile *files, size_t count, const char **why,
                            const char **detail);

/* Where a global name of the files lies; NULL if they do not define it. */
void *find_loaded(const LoadedObjects *loaded, const char *name);

void unload_objects(LoadedObjects *loaded);

/* Whether this kind of machine is known at all. */
extern const int loads_objects;
