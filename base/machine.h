// What this process may use of its machine.
#pragma once

#include <cstdint>
#include <string>

namespace dlpipe {

/// min(CPU affinity, cgroup v1/v2 CPU quota rounded up), at least 1. Read from the system at every call.
int available_threads();
/// min(physical memory, cgroup memory limit) in bytes.
uint64_t available_memory_bytes();
/// Resident set of this process now and at its peak, in bytes (/proc/self/status).
uint64_t resident_bytes();
uint64_t peak_resident_bytes();
/// When this process began, including the time before main(), on now_ns()'s clock, to a hundredth of a second
/// (/proc/self/stat). The current time if the system doesn't report it.
int64_t process_begin_ns();
/// CPU seconds (user + system) of this process so far.
double process_cpu_seconds();
/// "AMD EPYC ..." from /proc/cpuinfo; "unknown CPU" if it has no model name.
std::string cpu_model();
/// The available ones of "sse4.2 avx2 avx512 avx512_bf16 avx512_vbmi2 amx_tile amx_bf16"; "neon" on Arm.
std::string cpu_isa();

}  // namespace dlpipe
