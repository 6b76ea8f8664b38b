// A loader whose caller forgets a lock: the thread sanitizer must see it through TBB and the loader's
// threads. Built and run only with -fsanitize=thread, where the test expects it to fail (WILL_FAIL).
#include <cstdio>

#include "tests/io/data/temp_dir.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

int main() {
  using namespace dlpipe;
  using namespace dlpipe::pipeline;
  data::TempDir dir;
  write_drawn_dataset(dir / "d", {.count = 40, .layout = data::ImageLayout::kRaw, .size = 16});
  LoaderOptions options;
  options.data = dir / "d";
  options.batch = 4;
  options.threads = 2;
  options.epochs = 20;
  int64_t calls = 0;  // written by the prefault thread, read here: the race
  options.inject_read_error = [&calls](int64_t) -> Status {
    ++calls;
    return {};
  };
  const auto loader = open_loader(options);
  int64_t seen = 0;
  while (const auto batch = value_or_throw(loader->next())) {
    seen += calls;
    throw_if_error(loader->release(*batch));
  }
  std::printf("%lld\n", static_cast<long long>(seen));
  return 0;
}
