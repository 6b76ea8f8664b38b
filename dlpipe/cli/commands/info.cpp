// `dlpipe info`: the build and what this process may use of the machine.
#include <CLI/CLI.hpp>
#include <memory>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/version.h"

namespace dlpipe::cli {

static std::function<Status()> setup(CLI::App&) {
  return [] {
    print_report(concat("build    ", version_line(), "\ncpu      ", cpu_model(), "\nisa      ", cpu_isa(),
                        "\nthreads  ", available_threads(), "\nmemory   ",
                        human_bytes(available_memory_bytes()), "\ncuda     ", cuda_summary()));
    return Status();
  };
}

extern const CommandRecord info_command;
const CommandRecord info_command = {"info", "Show the build, the machine and the libraries", setup};

}  // namespace dlpipe::cli
