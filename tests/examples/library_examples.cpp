// Examples of the pipeline, of augmentations and of training: see README.md here.
#include "dlpipe/augment/chain.h"
#include "dlpipe/base/text.h"
#include "dlpipe/pipeline/feed.h"
#include "dlpipe/pipeline/loader.h"
#include "dlpipe/run/train/session.h"

namespace dlpipe {

void use(const Batch& batch);
ConstImageView decode(const Region& region);

namespace pipeline {
void loader_example() {
  auto loader = value_or_throw(Loader::open({.data = "DST/train", .augment = "rrc(224) hflip", .batch = 64}));
  while (auto batch = value_or_throw(loader->next())) {
    use(*batch);
    throw_if_error(loader->release(*batch));
  }
}

void feed_example() {
  FeedOptions options;
  options.loader = {.data = "DST/train", .augment = "rrc(224) hflip", .batch = 64, .slots_max = 16};
  auto feed = value_or_throw(Feed::open(options));
  auto pass = value_or_throw(feed->begin_pass());
  while (auto batch = value_or_throw(feed->next(pass))) use(batch->batch());
}
}  // namespace pipeline

void session_example() {
  dlpipe::run::TrainConfig config;
  config.data = "DST/train";
  config.model = "resnet18";
  config.augment = "rrc(224) hflip";
  config.out = "runs/a";
  dlpipe::run::Session session(config);
  const dlpipe::run::TrainOutcome outcome = session.train();
  static_cast<void>(outcome);
}

// run/train/session_options.h
namespace run {
void stages_example(const TrainConfig& config) {
  const SessionOptions options = resolve_options(config);
  SessionData data = open_data(options);
  const auto model = build_model(options, data);
  while (auto batch = value_or_throw(data.train->next())) {
    const engine::Tensor logits = (*model)(batch_input(*batch).pixels);
    throw_if_error(data.train->release(*batch));
  }
}
}  // namespace run

namespace augment {

void chain_example(const ImageSize& source_size, const SampleKey& key, ChainPlan& plan, const ImageView& out,
                   ChainScratch& scratch) {
  Result<Chain> chain = Chain::parse("rrc(224) hflip");
  Status status = chain->plan(source_size, key, plan);
  ConstImageView pixels = decode(plan.source_region);
  status = chain->apply(plan, pixels, out, scratch);
}

// augment/ops/README.md
class Solarize : public Op {
 public:
  explicit Solarize(int threshold) : threshold_(threshold) {}
  ImageSize output(const ImageSize& in) const override { return in; }
  Status plan(const ImageSize& in, RandomStream&, OpDraw& draw) const override {
    draw.region = {0, 0, in.width, in.height};
    draw.out = in;
    return {};
  }
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    for (int y = 0; y < out.height; ++y) {
      for (int i = 0; i < out.width * out.channels; ++i) {
        const uint8_t value = in.row(y)[i];
        out.row(y)[i] = value < threshold_ ? value : 255 - value;
      }
    }
    return {};
  }

 private:
  int threshold_;
};

Result<std::shared_ptr<const Op>> build(const OpArguments& arguments) {
  DLPIPE_ASSIGN_OR_RETURN(const int64_t threshold, arguments.integer("threshold"));
  if (threshold < 0 || threshold > 256) {
    return Status(ErrorCode::kMisuse, concat("threshold must lie in 0..256, got ", threshold));
  }
  return std::shared_ptr<const Op>(std::make_shared<Solarize>(static_cast<int>(threshold)));
}

extern const OpRecord solarize_augmentation;
const OpRecord solarize_augmentation = {"solarize",
                                        "values above a threshold inverted",
                                        1,
                                        {{"threshold", "int", "128", "values from here on are inverted"}},
                                        build};

}  // namespace augment
}  // namespace dlpipe

// augment/README.md
class Invert final : public dlpipe::augment::Op {
 public:
  dlpipe::augment::ImageSize output(const dlpipe::augment::ImageSize& in) const override { return in; }
  dlpipe::Status plan(const dlpipe::augment::ImageSize& in, dlpipe::RandomStream&,
                      dlpipe::augment::OpDraw& draw) const override;
  dlpipe::Status apply(const dlpipe::augment::OpDraw& draw, const dlpipe::ConstImageView& in,
                       const dlpipe::ImageView& out, dlpipe::augment::ChainScratch&) const override;
};

const dlpipe::augment::OpRecord kInvert = {
    "invert",
    "the negative",
    1,
    {},
    [](const dlpipe::augment::OpArguments&) -> dlpipe::Result<std::shared_ptr<const dlpipe::augment::Op>> {
      return std::shared_ptr<const dlpipe::augment::Op>(std::make_shared<Invert>());
    }};

void registry_example() {
  auto registry = dlpipe::augment::OpRegistry::builtin();  // a copy
  registry.add(kInvert);
  auto chain = dlpipe::augment::Chain::parse("rrc(224) invert hflip", registry);
}
