"""Derivatives against finite differences, by PyTorch's path; defined in
`dynajit.eager.backward.gradcheck`.

`dynajit.autograd` takes its functions from here, so that `autograd.gradcheck` is the function: a
module imported later would be put in its place.
"""

from dynajit.core.errors import AutogradError as GradcheckError
from dynajit.eager.backward.gradcheck import gradcheck, gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
