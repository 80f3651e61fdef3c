/* What the C modules with rows of eager execution share: see _native_forms.c. Included by them. */

/* The answer for all but the plain case. */
#define DECLINE Py_RETURN_NOTIMPLEMENTED

/* An entry of a module's functions. */
#define METHOD(name, function, text)                                                               \
    {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, text}
