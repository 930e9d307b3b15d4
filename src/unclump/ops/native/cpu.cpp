// Which instruction sets this processor has. A library of its own, without OpenMP, since it is loaded before torch.
#include "interface.hpp"

// The largest of 0 (any processor), 1 (AVX2 and FMA) and 2 (AVX-512 as on servers) that it has.
UNCLUMP_EXPORT int unclump_instruction_set() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vl");
    return has_avx2 ? (has_avx512 ? 2 : 1) : 0;
#else
    return 0;
#endif
}
