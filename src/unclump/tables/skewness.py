"""The skewness of how often rows are among the nearest of others, which is the hubness of a table."""

from typing import Any

import numpy as np


def skewness_of(first: Any, second: Any, third: Any) -> Any:
    r"""The skewness of a law with the means :math:`m_r` of its powers, elementwise; of a law without variance zero.

    .. math:: \frac{m_3 - 3 m_1 m_2 + 2 m_1^3}{(m_2 - m_1^2)^{3/2}}

    Example:
        >>> [round(float(skewness_of(p, p, p)), 4) for p in (0.5, 0.1)]  # of one with probability p, else zero
        [0.0, 2.6667]
    """
    variance = np.asarray(second - first**2)
    return (third - 3 * first * second + 2 * first**3) / np.where(variance > 0, variance, np.inf) ** 1.5
