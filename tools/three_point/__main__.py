"""Bachoc and Vallentin's three-point bounds for some sizes, each with a proof in exact arithmetic, added to the table.

python tools/three_point D N [N ...] [--degree 8]

A bound that is proved and better than what the package knows is written to src/unclump/codes/bounds/three_point.json.
A size takes about six programs: half a minute altogether at degree 6 on one core, a minute at degree 8.
"""

import argparse
import math

from threshold import threshold

from unclump.codes import spherical_code
from unclump.codes.bounds import three_point
from unclump.codes.bounds.upper_bound import best_bound

LEAST_GAIN = 1e-5  # degrees: less is no reason for an entry


def solve(n, d, degree):
    """The entry of n points in d dimensions, None if it is no better than what is known, and a line of text."""
    low, known = spherical_code(n, d).min_angle, best_bound(n, d)
    text = f"{n} points in {d} dimensions: {math.degrees(low):.6f}, at most {math.degrees(known.angle):.6f}"
    if math.degrees(known.angle - low) < LEAST_GAIN:
        return None, f"{text}: nothing to gain"
    found = threshold(n, d, degree, low, known.angle)
    if found is None or math.degrees(known.angle - found.angle) < LEAST_GAIN:
        return None, f"{text}: no gain at degree {degree}"
    share = (known.angle - found.angle) / (known.angle - low)
    entry = three_point.Entry(d, n, found.cosine, degree, float(f"{found.slack:.1e}"))
    return (
        entry,
        f"{text}; degree {degree}: {math.degrees(found.angle):.6f}, {share:.0%} of the gap, slack {found.slack:.1e}",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("d", type=int, help="dimensions")
    parser.add_argument("n", type=int, nargs="+", help="numbers of points")
    parser.add_argument("--degree", type=int, default=8, help="of the program (default: %(default)s)")
    args = parser.parse_args()
    for n in args.n:
        entry, text = solve(n, args.d, args.degree)
        print(text, flush=True)
        if entry:
            three_point.add(entry)


if __name__ == "__main__":
    main()
