// A program with an augmentation that forgets a lock: the thread sanitizer must see it through TBB and the
// loader's threads. Built and run only with -fsanitize=thread, where the test looks for the report.
#include <cstdio>

#include "base/counters.h"
#include "dlpipe/augment.h"
#include "dlpipe/augment_op.h"
#include "dlpipe/random.h"
#include "tests/io/data/temp_dir.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace {

using namespace dlpipe;

volatile int64_t calls = 0;  // written by every worker: the race

class Racy final : public augment::Op {
 public:
  augment::ImageSize output(const augment::ImageSize& in) const override { return in; }
  Status plan(const augment::ImageSize& in, RandomStream&, augment::OpDraw& draw) const override {
    draw.region = {0, 0, in.width, in.height};
    draw.out = in;
    return {};
  }
  Status apply(const augment::OpDraw&, const ConstImageView&, const ImageView&,
               augment::ChainScratch&) const override {
    // Long enough for two workers to be here at once, also where they take turns on one core.
    for (const int64_t end = now_ns() + 100'000; now_ns() < end;) calls = calls + 1;
    return {};
  }
};

Result<std::shared_ptr<const augment::Op>> build(augment::OpArguments&) {
  return std::shared_ptr<const augment::Op>(std::make_shared<Racy>());
}

}  // namespace

int main() {
  using namespace dlpipe::pipeline;
  data::TempDir dir;
  write_drawn_dataset(dir / "d", {.count = 40, .layout = data::ImageLayout::kRaw, .size = 16});
  const augment::OpRecord racy{.name = "racy", .help = "", .version = 1, .params = {}, .build = build};
  augment::OpRegistry registry;
  registry.add(racy);
  LoaderOptions options;
  options.data = dir / "d";
  options.augment = "racy";
  options.ops = &registry;
  options.batch = 8;
  options.threads = 4;
  options.epochs = 40;
  read_hashes(*open_loader(options));
  std::printf("%lld\n", static_cast<long long>(calls));
  return 0;
}
