// `dlpipe info`: the build and what this process may use of the machine.
#include <CLI/CLI.hpp>
#include <memory>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/engine/cpu/kernel_table.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/build_info.h"

namespace dlpipe::cli {

namespace {

void print_info() {
  std::string libraries;
  for (const auto& [name, version] : run::library_versions()) {
    libraries += (libraries.empty() ? "" : ", ") + name + " " + version;
  }
  print_report(concat("build      ", run::build_line(), "\ncpu        ", cpu_model(), "\nisa        ", cpu_isa(),
                      " (engine: ", engine::isa_name(engine::kernel_isa()), ")\nthreads    ", available_threads(),
                      "\nmemory     ", human_bytes(available_memory_bytes()), "\ngpu        ", cuda_summary(),
                      "\nlibraries  ", libraries));
}

void print_info_json() {
  using formats::Json;
  Json libraries = Json::object();
  for (const auto& [name, version] : run::library_versions()) libraries.set(name, version);
  print_json(Json::object({{"build", run::build_line()},
                           {"cpu", cpu_model()},
                           {"isa", cpu_isa()},
                           {"engine_isa", engine::isa_name(engine::kernel_isa())},
                           {"threads", available_threads()},
                           {"memory_bytes", static_cast<int64_t>(available_memory_bytes())},
                           {"gpu", cuda_summary()},
                           {"libraries", std::move(libraries)}})
                 .dump());
}

std::function<Status()> setup(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "Print one JSON line on stdout");
  return [json] {
    if (*json) print_info_json();
    else print_info();
    return Status();
  };
}

}  // namespace

extern const CommandRecord info_command;
const CommandRecord info_command = {"info", "Show the build, the machine and the libraries", setup};

}  // namespace dlpipe::cli
