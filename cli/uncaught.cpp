#include "dlpipe/cli/uncaught.h"

#include <unistd.h>

#include <exception>
#include <string>

#include "dlpipe/base/error.h"
#include "dlpipe/base/text.h"

namespace dlpipe::cli {

/// How many threads this process has; 0 where the system doesn't say.
static int64_t threads_now() {
  constexpr std::string_view kName = "Threads:";
  int64_t threads = 0;
  FILE* const file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) return 0;
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::string_view(line).rfind(kName, 0) == 0) (void)parse_int(trim(line + kName.size()), &threads);
  }
  std::fclose(file);
  return threads;
}

static std::string explanation() {
  if (std::current_exception() == nullptr) return "[dlpipe] ended for a reason that is not known";
  try {
    throw;
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    if (what.find("pthread_create") != std::string_view::npos) {
      return concat(
          "[threads] the system gave no thread beside the ", threads_now(),
          " that there are; raise ulimit -v or ulimit -u, or use fewer --threads; a run goes on with "
          "--resume");
    }
  } catch (...) {
  }
  return status_from_current_exception("dlpipe").message();
}

void explain_uncaught_errors() {
  std::set_terminate([] {
    const std::string text = concat("\ndlpipe: ", explanation(), "\n");
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(1);
  });
}

}  // namespace dlpipe::cli
