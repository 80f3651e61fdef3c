from typing import Any

erf: Any
fma: Any
squares_wide: Any
sum_wide: Any
whole_power: Any
