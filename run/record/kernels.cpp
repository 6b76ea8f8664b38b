#include "run/record/kernels.h"

#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/machine.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/log.h"
#include "engine/core/kernel_table.h"
#include "engine/core/measured_kernels.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "run/record/checkpoint.h"

namespace dlpipe::run {

using formats::Json;

Status save_kernels(const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(Json json, Json::parse(engine::kernel_table().save()));
  return formats::write_json(file, with_checksum(std::move(json)));
}

Status load_kernels(const std::string& file) {
  const char* const remedy =
      "remove it to have the kernels chosen again, which may change the last bits if they were measured";
  Result<Json> json = formats::read_json(file);
  if (json.status().code() == ErrorCode::kCorrupt)
    return Status(ErrorCode::kCorrupt, concat(json.status().message(), "; ", remedy));
  if (!json.ok()) return json.status();
  DLPIPE_RETURN_IF_ERROR(check_checksum(*json, file, remedy));
  return engine::kernel_table().load(json->dump());
}

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
      concat(status.message(),
             "; kernels are chosen again, so the last bits of the weights may differ from those ",
             "that the run would have computed"));
}

/// Whether measured kernels can be kept in `file`. Creates its folder if necessary.
static bool can_keep(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  return ::access(folder.c_str(), W_OK) == 0;
}

std::string search_note(std::string_view without) {
  const std::string file = measured_kernels_file();
  return concat("choosing the fastest kernels for this CPU, once for each shape; ",
                !file.empty() && can_keep(file) ? concat("the choices are kept in ", file, "; ") : "",
                without, " avoids it");
}

/// A callback for `measured` that reports once that searches take long.
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
        "neither XDG_CACHE_HOME nor HOME is set: measured kernels are not kept, so the next run measures "
        "them "
        "again");
  }
  const auto measured = std::make_shared<engine::cpu::MeasuredKernels>(file);
  measured->tell_of_searches(tell ? std::move(tell) : tell_if_long(*measured));
  engine::kernel_table().measure_with(measured);
}

}  // namespace dlpipe::run
