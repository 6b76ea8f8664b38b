// Examples of the pipeline, of augmentations and of training: see README.md here.
#include "augment/kinds.h"
#include "base/mutex.h"
#include "base/names.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/graph.h"
#include "dlpipe/loader.h"
#include "dlpipe/models.h"
#include "dlpipe/predictor.h"
#include "dlpipe/session.h"
#include "engine/core/parallel.h"
#include "run/config/values.h"
#include "run/input/batch_input.h"
#include "run/train/session/data.h"
#include "run/train/session/model.h"
#include "run/train/session/options.h"

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

namespace augment {
void negative(uint8_t* pixels, int64_t height, int64_t width, int64_t channels, uint64_t key,
              const double* parameters);
}  // namespace augment
// base/mutex.h
class Tally {
 public:
  void add(int64_t n) {
    const MutexLock lock(mutex_);
    sum_ += n;
  }

 private:
  Mutex mutex_;
  int64_t sum_ DLPIPE_GUARDED_BY(mutex_) = 0;
};

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

void registries_example(const run::TrainConfig& config, const engine::ModelRecord& kMine) {
  dlpipe::run::Registries registries;
  registries.models.add(kMine);
  dlpipe::run::Session session(config, registries);
}

// dlpipe/registry.h
namespace named_values {
enum class Views : uint8_t { kOne, kFlip };
bool example(std::string_view text) {
  constexpr Named<Views> kViewNames[] = {{"none", Views::kOne}, {"flip", Views::kFlip}};
  auto names = names_of(kViewNames);  // {"none", "flip"}
  auto views =
      value_named(kViewNames, text, "eval", "--tta");  // or "[eval] --tta flipp; did you mean 'flip'?"
  return views.ok() && !names.empty();
}
}  // namespace named_values

// run/train/session/options.h
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
class Threshold : public LookupOp {
 public:
  explicit Threshold(OpArguments& arguments) : level_(arguments.drawn("level")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(level_.draw(rng));
    return {};
  }
  uint8_t value(const OpDraw& draw, int from) const override {
    return static_cast<float>(from) < draw.values[0] ? 0 : 255;
  }

 private:
  Drawn level_;
};

extern const OpRecord threshold_augmentation;
const OpRecord threshold_augmentation = {.name = "threshold",
                                         .help = "every value black or white",
                                         .version = 1,
                                         .params = {{.name = "level",
                                                     .kind = "drawn",
                                                     .default_value = "128",
                                                     .help = "from here on white",
                                                     .low = 0,
                                                     .high = 256},
                                                    probability()},
                                         .build = build_op<Threshold>};

}  // namespace augment
}  // namespace dlpipe

// augment/README.md
class Negative final : public dlpipe::augment::LookupOp {
 public:
  explicit Negative(dlpipe::augment::OpArguments&) {}
  uint8_t value(const dlpipe::augment::OpDraw&, int from) const override {
    return static_cast<uint8_t>(255 - from);
  }
};
const dlpipe::augment::OpRecord kNegative = {
    "negative", "the negative", 1, {dlpipe::augment::probability()}, dlpipe::augment::build_op<Negative>};

void registry_example() {
  auto registry = dlpipe::augment::OpRegistry::builtin();  // a copy
  registry.add(kNegative);
  auto chain = dlpipe::augment::Chain::parse("rrc(224) negative hflip", registry);
}

// docs/guide/deployment.md, dlpipe::runtime
float runtime_example(const std::vector<float>& pixels) {
  dlpipe::engine::set_engine_threads(2);
  const dlpipe::engine::graph::Runner model(
      dlpipe::value_or_throw(dlpipe::engine::graph::read_graph("model.dlg")));
  dlpipe::engine::Tensor x = dlpipe::engine::Tensor::empty({8, 224, 224, 3});
  x.copy_from_host(pixels.data(), x.size_bytes());
  const std::vector<dlpipe::engine::Tensor> outputs = model.run({&x, 1});
  const float* logits = outputs[0].data<float>();
  return logits[0];
}

// The public headers, whose examples are written for a program that uses namespace dlpipe.
namespace dlpipe {

void op_example(run::Registries& registries) {
  struct Negative final : augment::LookupOp {
    explicit Negative(augment::OpArguments&) {}
    uint8_t value(const augment::OpDraw&, int from) const override {
      return static_cast<uint8_t>(255 - from);
    }
  };
  const augment::OpRecord kNegative{
      "negative", "The negative of the image", 1, {augment::probability("0.5")}, augment::build_op<Negative>};
  registries.augmentations.add(kNegative);
}

std::vector<engine::Tensor> graph_example(const engine::Tensor& x) {
  const engine::graph::Runner model(value_or_throw(engine::graph::read_graph("model.dlg")));
  const std::vector<engine::Tensor> outputs = model.run({&x, 1});
  return outputs;
}

void print(const run::Prediction& one);

void predictor_example(const std::vector<std::string>& paths) {
  run::Predictor predictor({.model = {.weights = "runs/a"}});
  const run::ImageList images = value_or_throw(run::list_images(paths));
  predictor.predict(images.files, [](const run::Prediction& one) {
    print(one);
    return true;
  });
}

void registry_example(const engine::ModelRecord& kMine) {
  auto models = engine::ModelRegistry::builtin();
  models.add(kMine);
  const engine::ModelRecord* record = value_or_throw(models.find("mine"));
  static_cast<void>(record);
}

}  // namespace dlpipe
