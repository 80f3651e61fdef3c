/* See dict_versions.h. */
#include "dict_versions.h"

#if PY_VERSION_HEX < 0x030E0000
void
start_watching(void)
{
}

int
keep_version(PyObject *dict)
{
    (void)dict;
    return 0;
}
#else
uint64_t dict_versions[VERSION_PLACES];
static uint64_t dict_changes;
static int dict_watcher = -1;

static int
dict_changed(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
    *dict_version(dict) = ++dict_changes;
    return 0;
}

/* Without a watcher (there are few for all extensions together) guards have no snapshots. */
void
start_watching(void)
{
    dict_watcher = PyDict_AddWatcher(dict_changed);
    if (dict_watcher < 0) {
        PyErr_Clear();
    }
}

int
keep_version(PyObject *dict)
{
    if (dict_watcher < 0) {
        return -1;
    }
    if (PyDict_Watch(dict_watcher, dict) < 0) {
        PyErr_Clear();
        return -1;
    }
    return 0;
}
#endif
