#include "team.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

// How many threads work on a loop that is given to so many: fewer where the system or OpenMP does not have them.
UNCLUMP_EXPORT Index unclump_team_size(Index threads) {
    Index size = 1;
#ifdef _OPENMP
#pragma omp parallel num_threads(static_cast<int>(threads))
#pragma omp master
    size = omp_get_num_threads();
#else
    static_cast<void>(threads);
#endif
    return size;
}
