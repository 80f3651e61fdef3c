/* A number that no two states of any dicts share.
 *
 * Up to 3.13 every dict has one. 3.14 has none: a watcher counts instead. Every change and the end
 * of a watched dict give its place a new number. Dicts may share a place, then one's change is
 * another's.
 */
#ifndef DYNAJIT_CAPTURE_DICT_VERSIONS_H
#define DYNAJIT_CAPTURE_DICT_VERSIONS_H

#include "versions.h"

#pragma GCC visibility push(hidden)

/* Once, before any other function here. */
void start_watching(void);

/* Make `*dict_version(dict)` follow the dict. -1 where that is not possible. */
int keep_version(PyObject *dict);

#if PY_VERSION_HEX < 0x030E0000
/* Where the number is. */
static inline uint64_t *
dict_version(PyObject *dict)
{
    return &((PyDictObject *)dict)->ma_version_tag;
}
#else
#define VERSION_PLACES 4096

extern uint64_t dict_versions[VERSION_PLACES];

static inline uint64_t *
dict_version(PyObject *dict)
{
    uintptr_t address = (uintptr_t)dict >> 4;
    return &dict_versions[(address ^ address >> 12) % VERSION_PLACES];
}
#endif

#pragma GCC visibility pop

#endif
