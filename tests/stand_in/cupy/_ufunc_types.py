"""The ufuncs that CuPy has and dynajit uses, with the types that each computes.

As `cupy.<name>.types` of CuPy 14 says, one signature a word; tests/gpu/test_stand_in.py compares
them with an installed CuPy. "E" is bfloat16.
"""

UFUNC_TYPES = {
    "abs": "?->? b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d F->f D->d",
    "absolute": (
        "?->? b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d F->f D->d"
    ),
    "add": (
        "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f "
        "dd->d FF->F DD->D"
    ),
    "arccos": "e->e E->E f->f d->d F->F D->D",
    "arccosh": "e->e E->E f->f d->d F->F D->D",
    "arcsin": "e->e E->E f->f d->d F->F D->D",
    "arcsinh": "e->e E->E f->f d->d F->F D->D",
    "arctan": "e->e E->E f->f d->d F->F D->D",
    "arctan2": "ee->e EE->E ff->f dd->d FF->F DD->D",
    "arctanh": "e->e E->E f->f d->d F->F D->D",
    "bitwise_and": "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q",
    "bitwise_not": "?->? b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q",
    "bitwise_or": "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q",
    "bitwise_xor": "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q",
    "ceil": "?->? b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d",
    "conj": "b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d F->F D->D",
    "conjugate": "b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d F->F D->D",
    "copysign": "ee->e EE->E ff->f dd->d FF->F DD->D",
    "cos": "e->e E->E f->f d->d F->F D->D",
    "cosh": "e->e E->E f->f d->d F->F D->D",
    "divide": "qq->d qQ->d Qq->d QQ->d ee->e EE->E ff->f dd->d FF->F DD->D",
    "equal": "??->? qq->? QQ->? qQ->? Qq->? ee->? EE->? ff->? dd->? FF->? DD->? VV->?",
    "exp": "e->e E->E f->f d->d F->F D->D",
    "exp2": "e->e E->E f->f d->d F->F D->D",
    "expm1": "e->e E->E f->f d->d F->F D->D",
    "floor": "?->? b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d",
    "floor_divide": (
        "bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f dd->d"
    ),
    "fmax": (
        "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f "
        "dd->d FF->F DD->D"
    ),
    "fmin": (
        "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f "
        "dd->d FF->F DD->D"
    ),
    "fmod": "bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f dd->d",
    "frexp": "e->ei E->Ei f->fi d->di",
    "gcd": "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q",
    "greater": "??->? qq->? QQ->? qQ->? Qq->? ee->? EE->? ff->? dd->? FF->? DD->?",
    "greater_equal": "??->? qq->? QQ->? qQ->? Qq->? ee->? EE->? ff->? dd->? FF->? DD->?",
    "heaviside": "ee->e EE->E ff->f dd->d",
    "hypot": "ee->e EE->E ff->f dd->d FF->F DD->D",
    "invert": "?->? b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q",
    "isfinite": "e->? E->? f->? d->? F->? D->?",
    "isinf": "e->? E->? f->? d->? F->? D->?",
    "isnan": "e->? E->? f->? d->? F->? D->?",
    "lcm": "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q",
    "ldexp": "ei->e Ei->E fi->f el->e El->E fl->f di->d dq->d",
    "left_shift": "bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q",
    "less": "??->? qq->? QQ->? qQ->? Qq->? ee->? EE->? ff->? dd->? FF->? DD->?",
    "less_equal": "??->? qq->? QQ->? qQ->? Qq->? ee->? EE->? ff->? dd->? FF->? DD->?",
    "log": "e->e E->E f->f d->d F->F D->D",
    "log10": "e->e E->E f->f d->d F->F D->D",
    "log1p": "e->e E->E f->f d->d F->F D->D",
    "log2": "e->e E->E f->f d->d F->F D->D",
    "logaddexp": "ee->e EE->E ff->f dd->d",
    "logical_and": "??->? qq->? QQ->? qQ->? Qq->? ee->? EE->? ff->? dd->?",
    "logical_not": "?->? b->? B->? h->? H->? i->? I->? l->? L->? q->? Q->? e->? f->? d->?",
    "logical_or": "??->? qq->? QQ->? qQ->? Qq->? ee->? EE->? ff->? dd->?",
    "logical_xor": (
        "??->? bb->? BB->? hh->? HH->? ii->? II->? ll->? LL->? qq->? QQ->? ee->? ff->? dd->?"
    ),
    "maximum": (
        "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f "
        "dd->d FF->F DD->D"
    ),
    "minimum": (
        "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f "
        "dd->d FF->F DD->D"
    ),
    "multiply": (
        "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f "
        "dd->d FF->F DD->D"
    ),
    "negative": (
        "?->? b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d F->F D->D"
    ),
    "nextafter": "ee->e EE->E ff->f dd->d FF->F DD->D",
    "not_equal": "??->? qq->? QQ->? qQ->? Qq->? ee->? EE->? ff->? dd->? FF->? DD->? VV->?",
    "positive": (
        "?->? b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d F->F D->D"
    ),
    "power": (
        "??->b bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f "
        "dd->d FF->F DD->D"
    ),
    "reciprocal": "b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d F->F D->D",
    "remainder": (
        "bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f dd->d"
    ),
    "right_shift": "bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q",
    "rint": "e->e E->E f->f d->d F->F D->D",
    "sign": "b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d F->F D->D",
    "signbit": "e->? E->? f->? d->?",
    "sin": "e->e E->E f->f d->d F->F D->D",
    "sinh": "e->e E->E f->f d->d F->F D->D",
    "sqrt": "e->e E->E f->f d->d F->F D->D",
    "square": "b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d F->F D->D",
    "subtract": (
        "??->? bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q ee->e EE->E ff->f "
        "dd->d FF->F DD->D"
    ),
    "tan": "e->e E->E f->f d->d F->F D->D",
    "tanh": "e->e E->E f->f d->d F->F D->D",
    "true_divide": "qq->d qQ->d Qq->d QQ->d ee->e EE->E ff->f dd->d FF->F DD->D",
    "trunc": "?->? b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q e->e E->E f->f d->d",
}

# What `cupy.<name>.at` does; other ufuncs have none.
SCATTERS = {
    "add": "add", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "maximum": "max",
    "minimum": "min", "subtract": "sub",
}  # fmt: skip

# Those of `cupyx.scipy.special`, whose names are SciPy's.
SPECIAL_TYPES = {
    "erf": "e->d f->f d->d",
    "erfc": "e->d f->f d->d",
    "erfcx": "e->d f->f d->d",
    "erfinv": "f->f d->d",
    "gammainc": "ff->f dd->d",
    "gammaincc": "ff->f dd->d",
    "gammaln": "l->d e->d f->f d->d",
    "i0": "l->d L->d e->d f->f d->d",
    "i0e": "l->d L->d e->d f->f d->d",
    "i1": "l->d L->d e->d f->f d->d",
    "i1e": "l->d L->d e->d f->f d->d",
    "j0": "l->d L->d e->d f->f d->d",
    "j1": "l->d L->d e->d f->f d->d",
    "k0": "l->d L->d e->d f->f d->d",
    "k0e": "l->d L->d e->d f->f d->d",
    "k1": "l->d L->d e->d f->f d->d",
    "k1e": "l->d L->d e->d f->f d->d",
    "log_ndtr": "e->d f->f d->d",
    "ndtri": "f->f d->d",
    "y0": "l->d L->d e->d f->f d->d",
    "y1": "l->d L->d e->d f->f d->d",
    "zeta": "ff->f dd->d",
}
