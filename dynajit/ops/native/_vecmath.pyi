from typing import Any

bessel_j0: Any
bessel_j1: Any
erf: Any
erfc: Any
erfinv: Any
fma: Any
i0: Any
i0e: Any
i1: Any
i1e: Any
lgamma: Any
log_ndtr: Any
ndtri: Any
nextafter: Any
squares_wide: Any
sum_wide: Any
whole_power: Any
zeta: Any
