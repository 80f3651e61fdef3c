/* See object_files.h. Names and numbers are those of the System V ABI, with its part for x86-64. */
#define _GNU_SOURCE
#include "object_files.h"

#if defined(__linux__) && defined(__x86_64__) && defined(__LP64__)

#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef SHT_X86_64_UNWIND
#define SHT_X86_64_UNWIND 0x70000001
#endif

const int loads_objects = 1;

/* One for each global name of a file that it does not define, or reaches through a table: a jump to
 * the address for calls, and the address itself. */
typedef struct {
    unsigned char jump[8]; /* jmp *address(%rip), and two bytes that are never executed */
    uint64_t address;
} Entry;

static const unsigned char JUMP[8] = {0xff, 0x25, 0x02, 0x00, 0x00, 0x00, 0xcc, 0xcc};

/* Memory by what may be done with it, in this order. */
enum { CODE, CONSTANTS, VARIABLES, REGIONS };

#define NOWHERE SIZE_MAX
#define LARGEST ((size_t)1 << 30) /* what references of 32 bits surely reach across */

typedef struct {
    const unsigned char *content;
    size_t size;
    const Elf64_Shdr *sections;
    size_t section_count;
    const Elf64_Sym *symbols;
    size_t symbol_count, first_global;
    const char *names; /* of symbols */
    size_t names_size;
    size_t *offsets; /* of sections in memory; NOWHERE for those that are not loaded */
    size_t entries;  /* of global symbols: their offset, in CODE */
} Object;

typedef struct {
    const char *name;
    unsigned char *place;
} Definition;

struct LoadedObjects {
    unsigned char *memory;
    size_t size;
    Definition *definitions; /* sorted by name */
    size_t definition_count;
    char *names; /* of definitions; NULL while these are in the files */
};

typedef struct {
    Object *objects;
    size_t count;
    LoadedObjects *loaded;
    const char *why, *detail;
} Loading;

static int refuse(Loading *loading, const char *why, const char *detail) {
    loading->why = why;
    loading->detail = detail;
    return 0;
}

static int is_within(const Object *object, uint64_t offset, uint64_t size) {
    return offset <= object->size && size <= object->size - offset;
}

/* ---- reading ---- */

static int is_of_this_machine(const Elf64_Ehdr *header) {
    return !memcmp(header->e_ident, ELFMAG, SELFMAG) &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
           header->e_machine == EM_X86_64 && header->e_type == ET_REL &&
           header->e_shentsize == sizeof(Elf64_Shdr);
}

static int read_symbols(Loading *loading, Object *object, const Elf64_Shdr *table) {
    if (object->symbols) return refuse(loading, "it has two tables of symbols", "");
    if (table->sh_link >= object->section_count || table->sh_entsize != sizeof(Elf64_Sym))
        return refuse(loading, "its table of symbols is damaged", "");
    const Elf64_Shdr *names = &object->sections[table->sh_link];
    if (!is_within(object, names->sh_offset, names->sh_size) || !names->sh_size ||
        object->content[names->sh_offset + names->sh_size - 1])
        return refuse(loading, "its names are damaged", "");
    object->symbols = (const Elf64_Sym *)(object->content + table->sh_offset);
    object->symbol_count = table->sh_size / sizeof(Elf64_Sym);
    object->first_global = table->sh_info;
    object->names = (const char *)object->content + names->sh_offset;
    object->names_size = names->sh_size;
    if (object->first_global > object->symbol_count)
        return refuse(loading, "its table of symbols is damaged", "");
    for (size_t i = 0; i < object->symbol_count; i++)
        if (object->symbols[i].st_name >= object->names_size)
            return refuse(loading, "its names are damaged", "");
    return 1;
}

static int read_object(Loading *loading, Object *object, const ObjectFile *file) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file->content;
    object->content = file->content;
    object->size = file->size;
    if (file->size < sizeof *header || !is_of_this_machine(header))
        return refuse(loading, "it is no object file of this machine", "");
    object->section_count = header->e_shnum;
    if (!is_within(object, header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr)) ||
        header->e_shoff % sizeof(uint64_t))
        return refuse(loading, "its sections are damaged", "");
    object->sections = (const Elf64_Shdr *)(file->content + header->e_shoff);
    for (size_t i = 0; i < object->section_count; i++) {
        const Elf64_Shdr *section = &object->sections[i];
        if (section->sh_type != SHT_NOBITS &&
            !is_within(object, section->sh_offset, section->sh_size))
            return refuse(loading, "its sections are damaged", "");
        if (section->sh_type == SHT_SYMTAB && section->sh_offset % sizeof(uint64_t))
            return refuse(loading, "its table of symbols is damaged", "");
        if (section->sh_type == SHT_SYMTAB && !read_symbols(loading, object, section)) return 0;
    }
    if (!object->symbols) return refuse(loading, "it has no table of symbols", "");
    object->offsets = malloc((object->section_count + 1) * sizeof *object->offsets);
    if (!object->offsets) return refuse(loading, "there is no memory", "");
    for (size_t i = 0; i < object->section_count; i++) object->offsets[i] = NOWHERE;
    return 1;
}

static const char *name_of(const Object *object, const Elf64_Sym *symbol) {
    return object->names + symbol->st_name;
}

static const char *section_name(const Object *object, const Elf64_Shdr *section) {
    size_t index = ((const Elf64_Ehdr *)object->content)->e_shstrndx;
    if (index >= object->section_count) return "";
    const Elf64_Shdr *names = &object->sections[index];
    const char *first = (const char *)object->content + names->sh_offset;
    if (names->sh_type != SHT_STRTAB || section->sh_name >= names->sh_size ||
        !memchr(first + section->sh_name, 0, names->sh_size - section->sh_name))
        return "";
    return first + section->sh_name;
}

/* ---- laying out ---- */

/* What debuggers and exceptions read, which generated code has none of. */
static int is_left_out(const Object *object, const Elf64_Shdr *section) {
    return !(section->sh_flags & SHF_ALLOC) || section->sh_type == SHT_NOTE ||
           section->sh_type == SHT_X86_64_UNWIND ||
           !strcmp(section_name(object, section), ".eh_frame");
}

static int region_of(const Elf64_Shdr *section) {
    return section->sh_flags & SHF_EXECINSTR ? CODE
           : section->sh_flags & SHF_WRITE   ? VARIABLES
                                             : CONSTANTS;
}

static size_t aligned(size_t offset, size_t to) { return (offset + to - 1) & ~(to - 1); }

static int check_section(Loading *loading, const Object *object, const Elf64_Shdr *section,
                         size_t page) {
    const uint64_t known = SHF_ALLOC | SHF_EXECINSTR | SHF_WRITE | SHF_MERGE | SHF_STRINGS;
    if ((section->sh_type != SHT_PROGBITS && section->sh_type != SHT_NOBITS) ||
        section->sh_flags & ~known ||
        (section->sh_flags & SHF_EXECINSTR && section->sh_flags & SHF_WRITE))
        return refuse(loading, "it has an unknown kind of section", section_name(object, section));
    if (section->sh_addralign > page || (section->sh_addralign & (section->sh_addralign - 1)) ||
        section->sh_size > LARGEST)
        return refuse(loading, "it has a section of unknown size", section_name(object, section));
    return 1;
}

/* Where everything will lie, as distances from the beginning; `ends` are those of regions. */
static int lay_out(Loading *loading, size_t ends[REGIONS]) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), offset = 0;
    for (int region = 0; region < REGIONS; region++) {
        for (size_t i = 0; i < loading->count; i++) {
            Object *object = &loading->objects[i];
            for (size_t k = 0; k < object->section_count; k++) {
                const Elf64_Shdr *section = &object->sections[k];
                if (is_left_out(object, section) || region_of(section) != region) continue;
                if (!check_section(loading, object, section, page)) return 0;
                offset = aligned(offset, section->sh_addralign ? section->sh_addralign : 1);
                object->offsets[k] = offset;
                offset += section->sh_size;
                if (offset > LARGEST) return refuse(loading, "it is too large", "");
            }
            if (region == CODE) {
                offset = aligned(offset, sizeof(Entry));
                object->entries = offset;
                offset += (object->symbol_count - object->first_global) * sizeof(Entry);
            }
        }
        ends[region] = offset = aligned(offset, page);
    }
    return 1;
}

static int copy_sections(Loading *loading, size_t size) {
    unsigned char *memory = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return refuse(loading, "there is no memory", "");
    loading->loaded->memory = memory;
    loading->loaded->size = size ? size : 1;
    for (size_t i = 0; i < loading->count; i++) {
        const Object *object = &loading->objects[i];
        for (size_t k = 0; k < object->section_count; k++) {
            const Elf64_Shdr *section = &object->sections[k];
            if (object->offsets[k] != NOWHERE && section->sh_type != SHT_NOBITS)
                memcpy(memory + object->offsets[k], object->content + section->sh_offset,
                       section->sh_size);
        }
    }
    return 1;
}

/* ---- names ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const Definition *)a)->name, ((const Definition *)b)->name);
}

static int is_defined(const Elf64_Sym *symbol) {
    return symbol->st_shndx != SHN_UNDEF;
}

/* Where a symbol lies that its file defines; NULL after a refusal. */
static unsigned char *place_of(Loading *loading, const Object *object, const Elf64_Sym *symbol) {
    size_t index = symbol->st_shndx;
    int type = ELF64_ST_TYPE(symbol->st_info);
    if (index >= object->section_count || object->offsets[index] == NOWHERE || type == STT_TLS ||
        type == STT_GNU_IFUNC || symbol->st_value > object->sections[index].sh_size) {
        refuse(loading, "it has an unknown kind of name", name_of(object, symbol));
        return NULL;
    }
    return loading->loaded->memory + object->offsets[index] + symbol->st_value;
}

static int define_names(Loading *loading) {
    LoadedObjects *loaded = loading->loaded;
    size_t count = 0;
    for (size_t i = 0; i < loading->count; i++)
        count += loading->objects[i].symbol_count - loading->objects[i].first_global;
    loaded->definitions = calloc(count + 1, sizeof *loaded->definitions);
    if (!loaded->definitions) return refuse(loading, "there is no memory", "");
    for (size_t i = 0; i < loading->count; i++) {
        const Object *object = &loading->objects[i];
        for (size_t k = object->first_global; k < object->symbol_count; k++) {
            const Elf64_Sym *symbol = &object->symbols[k];
            if (!is_defined(symbol)) continue;
            unsigned char *place = place_of(loading, object, symbol);
            if (!place) return 0;
            loaded->definitions[loaded->definition_count++] =
                (Definition){name_of(object, symbol), place};
        }
    }
    qsort(loaded->definitions, loaded->definition_count, sizeof(Definition), by_name);
    for (size_t i = 1; i < loaded->definition_count; i++)
        if (!by_name(&loaded->definitions[i - 1], &loaded->definitions[i]))
            return refuse(loading, "a name has two definitions", loaded->definitions[i].name);
    return 1;
}

/* The files need not stay. */
static int keep_names(Loading *loading) {
    LoadedObjects *loaded = loading->loaded;
    size_t length = 1;
    for (size_t i = 0; i < loaded->definition_count; i++)
        length += strlen(loaded->definitions[i].name) + 1;
    char *to = loaded->names = malloc(length);
    if (!to) return refuse(loading, "there is no memory", "");
    for (size_t i = 0; i < loaded->definition_count; i++) {
        size_t size = strlen(loaded->definitions[i].name) + 1;
        memcpy(to, loaded->definitions[i].name, size);
        loaded->definitions[i].name = to;
        to += size;
    }
    return 1;
}

/* The process comes first, as for every library that is opened; libraries that it opened for itself
 * alone, after that. */
static void *find_in_process(const char *name) {
    static const char *const libraries[] = {"libgomp.so.1", "libm.so.6"};
    void *found = dlsym(RTLD_DEFAULT, name);
    for (size_t i = 0; !found && i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (!library) continue;
        found = dlsym(library, name);
        dlclose(library); /* the process has it open besides */
    }
    return found;
}

/* The entry of a global symbol, filled at its first use; NULL after a refusal. */
static Entry *entry_of(Loading *loading, const Object *object, size_t index) {
    if (index < object->first_global) {
        refuse(loading, "it reaches a local name through a table", "");
        return NULL;
    }
    Entry *entry = (Entry *)(loading->loaded->memory + object->entries) + index;
    entry -= object->first_global;
    if (entry->address) return entry;
    const char *name = name_of(object, &object->symbols[index]);
    void *found = find_loaded(loading->loaded, name);
    if (!found) found = find_in_process(name);
    if (!found) {
        refuse(loading, "nothing in this process has the name", name);
        return NULL;
    }
    memcpy(entry->jump, JUMP, sizeof JUMP);
    entry->address = (uint64_t)(uintptr_t)found;
    return entry;
}

/* ---- references ---- */

static int put_distance(Loading *loading, unsigned char *at, const unsigned char *to,
                        int64_t addend) {
    int64_t distance = (int64_t)((uintptr_t)to - (uintptr_t)at) + addend;
    int32_t number = (int32_t)distance;
    if (number != distance) return refuse(loading, "a reference reaches too far", "");
    memcpy(at, &number, sizeof number);
    return 1;
}

static int relocate(Loading *loading, const Object *object, unsigned char *at,
                    const Elf64_Rela *reference) {
    size_t index = ELF64_R_SYM(reference->r_info);
    const Elf64_Sym *symbol = &object->symbols[index];
    unsigned char *to = NULL;
    Entry *entry;
    if (is_defined(symbol) && !(to = place_of(loading, object, symbol))) return 0;
    switch (ELF64_R_TYPE(reference->r_info)) {
    case R_X86_64_64: {
        if (!to && !(entry = entry_of(loading, object, index))) return 0;
        uint64_t address = (to ? (uint64_t)(uintptr_t)to : entry->address) +
                           (uint64_t)reference->r_addend;
        memcpy(at, &address, sizeof address);
        return 1;
    }
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
        if (!to && !(entry = entry_of(loading, object, index))) return 0;
        return put_distance(loading, at, to ? to : entry->jump, reference->r_addend);
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        if (!(entry = entry_of(loading, object, index))) return 0;
        return put_distance(loading, at, (unsigned char *)&entry->address, reference->r_addend);
    default: return refuse(loading, "it has an unknown kind of reference", name_of(object, symbol));
    }
}

static int relocate_section(Loading *loading, const Object *object, const Elf64_Shdr *table) {
    size_t target = table->sh_info;
    if (target >= object->section_count || object->offsets[target] == NOWHERE) return 1;
    if (table->sh_type != SHT_RELA || table->sh_entsize != sizeof(Elf64_Rela) ||
        table->sh_offset % sizeof(uint64_t))
        return refuse(loading, "its references are damaged", "");
    const Elf64_Rela *references = (const Elf64_Rela *)(object->content + table->sh_offset);
    uint64_t size = object->sections[target].sh_size;
    unsigned char *place = loading->loaded->memory + object->offsets[target];
    for (size_t i = 0; i < table->sh_size / sizeof *references; i++) {
        const Elf64_Rela *reference = &references[i];
        uint64_t width = ELF64_R_TYPE(reference->r_info) == R_X86_64_64 ? 8 : 4;
        if (reference->r_offset > size || width > size - reference->r_offset ||
            ELF64_R_SYM(reference->r_info) >= object->symbol_count)
            return refuse(loading, "its references are damaged", "");
        if (!relocate(loading, object, place + reference->r_offset, reference)) return 0;
    }
    return 1;
}

static int relocate_all(Loading *loading) {
    for (size_t i = 0; i < loading->count; i++) {
        const Object *object = &loading->objects[i];
        for (size_t k = 0; k < object->section_count; k++) {
            const Elf64_Shdr *section = &object->sections[k];
            int is_table = section->sh_type == SHT_RELA || section->sh_type == SHT_REL;
            if (is_table && !relocate_section(loading, object, section)) return 0;
        }
    }
    return 1;
}

/* Nothing can be written that runs. */
static int protect(Loading *loading, const size_t ends[REGIONS]) {
    unsigned char *memory = loading->loaded->memory;
    if ((ends[CODE] && mprotect(memory, ends[CODE], PROT_READ | PROT_EXEC)) ||
        (ends[CONSTANTS] > ends[CODE] &&
         mprotect(memory + ends[CODE], ends[CONSTANTS] - ends[CODE], PROT_READ)))
        return refuse(loading, "this system lets no memory become code", "");
    return 1;
}

LoadedObjects *load_objects(const ObjectFile *files, size_t count, const char **why,
                            const char **detail) {
    Loading loading = {calloc(count + 1, sizeof(Object)), count, calloc(1, sizeof(LoadedObjects)),
                       "there is no memory", ""};
    size_t ends[REGIONS];
    int is_loaded = loading.objects && loading.loaded;
    for (size_t i = 0; is_loaded && i < count; i++)
        is_loaded = read_object(&loading, &loading.objects[i], &files[i]);
    is_loaded = is_loaded && lay_out(&loading, ends) && copy_sections(&loading, ends[VARIABLES]) &&
                define_names(&loading) && relocate_all(&loading) && keep_names(&loading) &&
                protect(&loading, ends);
    for (size_t i = 0; loading.objects && i < count; i++) free(loading.objects[i].offsets);
    free(loading.objects);
    if (is_loaded) return loading.loaded;
    *why = loading.why;
    *detail = loading.detail;
    if (loading.loaded) unload_objects(loading.loaded);
    return NULL;
}

void *find_loaded(const LoadedObjects *loaded, const char *name) {
    Definition wanted = {name, NULL};
    const Definition *found = bsearch(&wanted, loaded->definitions, loaded->definition_count,
                                      sizeof(Definition), by_name);
    return found ? found->place : NULL;
}

void unload_objects(LoadedObjects *loaded) {
    if (loaded->memory) munmap(loaded->memory, loaded->size);
    free(loaded->definitions);
    free(loaded->names);
    free(loaded);
}

#else

const int loads_objects = 0;

LoadedObjects *load_objects(const ObjectFile *files, size_t count, const char **why,
                            const char **detail) {
    (void)files, (void)count;
    *why = "object files of this kind of machine are not read";
    *detail = "";
    return NULL;
}

void *find_loaded(const LoadedObjects *loaded, const char *name) {
    return (void)loaded, (void)name, NULL;
}

void unload_objects(LoadedObjects *loaded) { (void)loaded; }

#endif
