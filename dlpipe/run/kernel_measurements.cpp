#include "dlpipe/run/kernel_measurements.h"

#include <cctype>
#include <cstdlib>

#include "dlpipe/base/error.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/cpu/measured_kernels.h"

namespace dlpipe::run {

static std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string measured_kernels_file() {
  std::string folder = environment("XDG_CACHE_HOME");
  if (folder.empty() && !environment("HOME").empty()) folder = environment("HOME") + "/.cache";
  if (folder.empty()) return "";
  std::string cpu;
  for (const char c : cpu_model().substr(0, cpu_model().rfind(','))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      cpu += c;
    } else if (!cpu.empty() && cpu.back() != '-') {
      cpu += '-';
    }
  }
  return concat(folder, "/dlpipe/kernels-", cpu, ".json");
}

void use_kernels(const std::string& option) {
  const std::string given = option == "auto" ? environment("DLPIPE_KERNELS") : option;
  if (given == "rules") return;
  if (!given.empty() && given != "measured") {
    throw Error(Status(
        ErrorCode::kMisuse,
        concat("[kernels] expected --kernels (or DLPIPE_KERNELS) measured or rules, got '", given, "'")));
  }
  engine::kernel_table().measure_with(
      std::make_shared<engine::cpu::MeasuredKernels>(measured_kernels_file()));
}

}  // namespace dlpipe::run
