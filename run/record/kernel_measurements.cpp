#include "dlpipe/run/record/kernel_measurements.h"

#include <cctype>
#include <cstdlib>
#include <utility>

#include "dlpipe/base/error.h"
#include "dlpipe/base/log.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/measured_kernels.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/record/saved_kernels.h"

namespace dlpipe::run {

static std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string measured_kernels_file() {
  std::string folder = environment("XDG_CACHE_HOME");
  if (folder.empty() && !environment("HOME").empty()) folder = environment("HOME") + "/.cache";
  if (folder.empty()) return "";
  const std::string machine =
      concat(cpu_model().substr(0, cpu_model().rfind(',')), " ", engine::kernel_library());
  std::string name;
  for (const char c : machine) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.') {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  return concat(folder, "/dlpipe/kernels-", name, ".json");
}

void resume_kernels(const std::string& file) {
  const Status status = load_kernels(file);
  if (status.code() != ErrorCode::kUnsupported) return throw_if_error(status);
  log(LogLevel::kWarning,
      concat(status.message(), "; kernels are chosen anew, and weights differ in their last bits from those ",
             "that the run would have got"));
}

std::string search_note(std::string_view without) {
  const std::string file = measured_kernels_file();
  return concat("choosing the fastest kernels for this CPU, once for each shape; ",
                file.empty() ? "" : concat(file, " keeps the choices, and "), without, " does without");
}

/// Says once that searches take long. `measured` calls it.
static std::function<void(const std::string& key)> tell_if_long(
    const engine::cpu::MeasuredKernels& measured) {
  constexpr int64_t kLongNs = 1'000'000'000;
  return [&measured, is_said = false](const std::string&) mutable {
    if (is_said || measured.search_ns() < kLongNs) return;
    is_said = true;
    log(LogLevel::kWarning, search_note("DLPIPE_KERNELS=rules"));
  };
}

void use_kernels(std::string_view option, bool several_machines,
                 std::function<void(const std::string& key)> tell) {
  KernelsBy by = value_or_throw(value_named(kKernelsByNames, option, "kernels", "--kernels"));
  const std::string given = environment("DLPIPE_KERNELS");
  if (by == KernelsBy::kAuto && !given.empty())
    by = value_or_throw(value_named(kKernelsByNames, given, "kernels", "DLPIPE_KERNELS"));
  if (by == KernelsBy::kRules || (by == KernelsBy::kAuto && several_machines)) return;
  const std::string file = measured_kernels_file();
  if (file.empty()) {
    log(LogLevel::kWarning,
        "neither XDG_CACHE_HOME nor HOME is set: measured kernels are not kept, and the next run measures "
        "again");
  }
  const auto measured = std::make_shared<engine::cpu::MeasuredKernels>(file);
  measured->tell_of_searches(tell ? std::move(tell) : tell_if_long(*measured));
  engine::kernel_table().measure_with(measured);
}

}  // namespace dlpipe::run
