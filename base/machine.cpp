#include "base/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <limits>
#include <optional>

#include "base/counters.h"
#include "base/text.h"

namespace dlpipe {

namespace {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The process's path in the cgroup hierarchy of `controller` ("" for v2), from /proc/self/cgroup.
std::string cgroup_path(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    const auto controllers = split(parts[1], ',');
    if ((controller.empty() && parts[0] == "0") ||
        (!controller.empty() &&
         std::find(controllers.begin(), controllers.end(), controller) != controllers.end())) {
      return parts[2];
    }
  }
  return "/";
}

// A limit applies to a group and to all groups below it: the smallest one up to the root counts.
template <class ReadLimit>
double smallest_up_the_tree(const std::string& root, std::string path, ReadLimit read) {
  double smallest = std::numeric_limits<double>::infinity();
  while (true) {
    smallest = std::min(smallest, read(root + (path == "/" ? "" : path)));
    if (path.empty() || path == "/") return smallest;
    path = path.substr(0, path.rfind('/'));
  }
}

double number_or(const std::string& text, double fallback) {
  double value = 0;
  return parse_double(trim(text), &value) && value > 0 ? value : fallback;
}

double cgroup_cpus() {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const double v2 = smallest_up_the_tree("/sys/fs/cgroup", cgroup_path(""), [&](const std::string& group) {
    const auto parts = split(read_line(group + "/cpu.max"), ' ');
    if (parts.size() != 2) return kNone;
    return number_or(parts[0], kNone) / number_or(parts[1], 100000);
  });
  const double v1 =
      smallest_up_the_tree("/sys/fs/cgroup/cpu", cgroup_path("cpu"), [&](const std::string& group) {
        return number_or(read_line(group + "/cpu.cfs_quota_us"), kNone) /
               number_or(read_line(group + "/cpu.cfs_period_us"), 100000);
      });
  return std::min(v1, v2);
}

double cgroup_memory() {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const double v2 = smallest_up_the_tree("/sys/fs/cgroup", cgroup_path(""), [&](const std::string& group) {
    return number_or(read_line(group + "/memory.max"), kNone);
  });
  const double v1 =
      smallest_up_the_tree("/sys/fs/cgroup/memory", cgroup_path("memory"), [&](const std::string& group) {
        return number_or(read_line(group + "/memory.limit_in_bytes"), kNone);
      });
  return std::min(v1, v2);
}

uint64_t status_kilobytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    int64_t kilobytes = 0;  // "VmRSS:	  1234 kB"
    if (!line.starts_with(key + ":")) continue;
    const std::string_view value = trim(std::string_view(line).substr(key.size() + 1));
    return parse_int(value.substr(0, value.find(' ')), &kilobytes) ? static_cast<uint64_t>(kilobytes) * 1024
                                                                   : 0;
  }
  return 0;
}

}  // namespace

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int affinity = sched_getaffinity(0, sizeof(set), &set) == 0
                     ? CPU_COUNT(&set)
                     : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const double quota = cgroup_cpus();
  if (std::isfinite(quota)) affinity = std::min(affinity, static_cast<int>(std::ceil(quota)));
  return std::max(1, affinity);
}

uint64_t available_memory_bytes() {
  struct sysinfo info {};
  sysinfo(&info);
  const double physical = static_cast<double>(info.totalram) * info.mem_unit;
  return static_cast<uint64_t>(std::min(physical, cgroup_memory()));
}

uint64_t resident_bytes() {
  return status_kilobytes("VmRSS");
}
uint64_t peak_resident_bytes() {
  return status_kilobytes("VmHWM");
}

constexpr int64_t kSecond = 1'000'000'000;  // in ns

// The value of now_ns() when the system's clock since boot was zero. The two clocks can only be read one after
// the other, and another process may run in between, so this uses the closest of several pairs of readings.
static std::optional<int64_t> boot_ns() {
  constexpr int kPairs = 8;
  int64_t boot = 0, closest = INT64_MAX;
  for (int i = 0; i < kPairs; ++i) {
    timespec since_boot{};
    const int64_t before = now_ns();
    if (clock_gettime(CLOCK_BOOTTIME, &since_boot) != 0) return std::nullopt;
    const int64_t between = now_ns() - before;
    if (between >= closest) continue;
    closest = between;
    boot = before - (since_boot.tv_sec * kSecond + since_boot.tv_nsec);
  }
  return boot;
}

int64_t process_begin_ns() {
  const int64_t now = now_ns();
  const std::string stat = read_line("/proc/self/stat");
  const size_t name_end = stat.rfind(')');  // the program's name may contain anything
  if (name_end == std::string::npos) return now;
  constexpr size_t kStartTime = 22 - 3;  // field 22 of proc(5); field 3 follows the name
  const auto fields = split(trim(std::string_view(stat).substr(name_end + 1)), ' ');
  int64_t ticks = 0;
  const std::optional<int64_t> boot = boot_ns();
  if (fields.size() <= kStartTime || !parse_int(fields[kStartTime], &ticks) || ticks <= 0 || !boot)
    return now;
  return std::min(now, *boot + ticks * (kSecond / sysconf(_SC_CLK_TCK)));
}

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return std::string(trim(line.substr(line.find(':') + 1)));
  }
  return "unknown CPU";
}

std::string cpu_isa() {
  std::string isa;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2")) isa += "sse4.2";
  if (__builtin_cpu_supports("avx2")) isa += " avx2";
  if (!__builtin_cpu_supports("avx512bw")) return isa;
  isa += " avx512";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    for (const char* flag : {"avx512_bf16", "avx512_vbmi2", "amx_tile", "amx_bf16"}) {
      if (line.find(std::string(" ") + flag) != std::string::npos) isa += std::string(" ") + flag;
    }
    break;
  }
#elif defined(__aarch64__)
  isa = "neon";
#endif
  return isa;
}

}  // namespace dlpipe
