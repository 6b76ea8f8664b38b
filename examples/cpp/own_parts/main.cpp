// A program of its own: an augmentation, an op, a model, an optimizer, a loss, a metric and sources that dlpipe doesn't
// have, trained end to end: own_parts DATASET IMAGES, the folder that the dataset was made of
#include <dlpipe/augment_op.h>
#include <dlpipe/codec.h>
#include <dlpipe/ingest.h>
#include <dlpipe/layers.h>
#include <dlpipe/module.h>
#include <dlpipe/op.h>
#include <dlpipe/ops.h>
#include <dlpipe/optim.h>
#include <dlpipe/session.h>
#include <dlpipe/source.h>

#include <cmath>
#include <cstdio>
#include <fstream>

using namespace dlpipe;

// The augmentation negative(p): with probability p, the negative.
struct Negative final : augment::LookupOp {
  explicit Negative(augment::OpArguments&) {}
  uint8_t value(const augment::OpDraw&, int from) const override { return static_cast<uint8_t>(255 - from); }
};
const augment::OpRecord kNegative{
    "negative", "The negative of the image", 1, {augment::probability("0.5")}, augment::build_op<Negative>};

// The op leaky_relu, slope 0.1: one shape rule, a forward, a backward.
const engine::OpRecord kLeakyRelu{
    .name = "leaky_relu",
    .infer = [](std::span<const engine::TensorSpec> in, std::span<const bool>,
                const engine::Attrs&) { return std::vector<engine::TensorSpec>{in[0]}; },
    .save_inputs = engine::bit(0)};
const engine::Kernels kLeakyReluKernels{.forward =
                                            [](const engine::ForwardArgs& args) {
                                              const float* x = args.inputs[0].data<float>();
                                              float* y = args.outputs[0].data<float>();
                                              for (int64_t i = 0; i < args.inputs[0].elements(); ++i)
                                                y[i] = x[i] > 0 ? x[i] : 0.1f * x[i];
                                            },
                                        .backward =
                                            [](const engine::BackwardArgs& args) {
                                              const float* x = args.inputs[0].data<float>();
                                              const float* dy = args.grad_outputs[0].data<float>();
                                              float* dx = args.grad_inputs[0].data<float>();
                                              for (int64_t i = 0; i < args.inputs[0].elements(); ++i)
                                                dx[i] = x[i] > 0 ? dy[i] : 0.1f * dy[i];
                                            }};
const engine::OpRow kLeakyReluRow{&kLeakyRelu, {&kLeakyReluKernels, &kLeakyReluKernels, nullptr}};

// The model: one hidden layer with that op.
struct Small final : engine::Module {
  explicit Small(const engine::ModelArguments& a)
      : hidden(add_module("hidden", std::make_shared<engine::Linear>(a.channels * a.height * a.width, 64))),
        head(add_module("head", std::make_shared<engine::Linear>(64, a.classes))) {
    engine::initialize(*this, a.seed);
  }
  engine::Tensor forward(const engine::Tensor& x) override {
    return (*head)(engine::apply(kLeakyReluRow, {(*hidden)(engine::flatten(x))})[0]);
  }
  std::string kind() const override { return "Small"; }
  std::shared_ptr<engine::Linear> hidden, head;
};
const engine::ModelRecord kSmall{"small", "One hidden layer", 0,
                                 [](const engine::ModelArguments& a) -> std::shared_ptr<engine::Module> {
                                   return std::make_shared<Small>(a);
                                 },
                                 "head."};

// The optimizer sign_sgd: every weight moves by the learning rate, against its gradient's sign.
struct SignSgd final : engine::ElementwiseOptimizer {
  SignSgd(std::vector<engine::NamedTensor> parameters, const engine::OptimizerArguments& arguments)
      : ElementwiseOptimizer(std::move(parameters), arguments, engine::a_float_each({})) {}
  void begin_step(double lr, int64_t) override { rate = static_cast<float>(lr); }
  void update(const engine::ElementRun& run) const override {
    for (int64_t i = 0; i < run.count; ++i) {
      const float gradient = run.gradients[i];  // of sign 0 where it is 0
      run.weights[i] -= rate * run.lr_scale * static_cast<float>((gradient > 0) - (gradient < 0));
    }
  }
  float rate = 0;
};
constexpr engine::OptionDefault kSignSgdOptions[] = {{"lr", "0.001"}};
const engine::OptimizerRecord kSignSgd{
    "sign_sgd", "Steps of the learning rate's size",
    [](std::vector<engine::NamedTensor> parameters, const engine::OptimizerArguments& arguments) {
      return std::unique_ptr<engine::Optimizer>(std::make_unique<SignSgd>(std::move(parameters), arguments));
    },
    kSignSgdOptions};

// The source stripes, a file NAME.stripes: images of dark and bright columns, a class for each width of one.
struct Stripes final : data::Source {
  static constexpr int kClasses = 4, kEach = 60, kSize = 16;
  Result<data::SourceListing> list() override {
    data::SourceListing listing;
    for (int c = 0; c < kClasses; ++c) listing.classes.push_back("width" + std::to_string(c + 1));
    for (int i = 0; i < kClasses * kEach; ++i) {
      data::SourceEntry entry;
      entry.label = i / kEach;
      entry.place = static_cast<uint64_t>(i);
      entry.path = listing.classes[static_cast<size_t>(entry.label)] + "/" + std::to_string(i);
      listing.entries.push_back(std::move(entry));
    }
    return listing;
  }
  Result<std::vector<std::byte>> read(const data::SourceEntry& entry) const override {
    std::vector<uint8_t> pixels(kSize * kSize);
    for (int i = 0; i < kSize * kSize; ++i) {
      const int column = i % kSize + static_cast<int>(entry.place % 3);
      pixels[static_cast<size_t>(i)] = column / (entry.label + 1) % 2 == 0 ? 40 : 210;
    }
    return data::encode_raw(ConstImageView(pixels.data(), kSize, kSize, 1, kSize));
  }
};
const data::SourceRecord kStripes{
    "stripes", "a file .stripes: images that the program draws",
    [](const data::SourceOptions& options) { return options.path.ends_with(".stripes") ? 10 : 0; },
    [](const data::SourceOptions&) -> Result<std::unique_ptr<data::Source>> {
      return std::unique_ptr<data::Source>(std::make_unique<Stripes>());
    }};

// The source pointer, a file NAME.pointer: the images of the folder whose path it holds. They lie there as files, so that
// training links them and needs no ingest.
const data::SourceRecord kPointer{
    "pointer", "a file .pointer: the path of a folder with one folder per class",
    [](const data::SourceOptions& options) { return options.path.ends_with(".pointer") ? 10 : 0; },
    [](const data::SourceOptions& options) {
      data::SourceOptions folder = options;
      std::getline(std::ifstream(options.path), folder.path);
      folder.known = nullptr;
      return data::open_source(folder);
    }};

// The loss squared_entropy: half the square of the cross entropy, which pays for what is far off.
const run::LossRecord kSquaredEntropy{"squared_entropy", "Half the square of the cross entropy",
                                      [](const engine::Tensor& logits, const engine::Tensor& target,
                                         const engine::Tensor& weight, const run::LossArguments&) {
                                        const engine::Tensor entropy =
                                            engine::cross_entropy(logits, target, weight);
                                        return engine::scale(engine::mul(entropy, entropy), 0.5);
                                      }};

// The metric confident: the share of samples whose class has more than half of the probability.
const engine::MetricRecord kConfident{
    .name = "confident",
    .help = "Samples whose class has more than half of the probability",
    .value =
        [](std::span<const float> logits, int64_t target) {
          return engine::cross_entropy_of(logits, target) < std::log(2.0) ? 1.0 : 0.0;
        },
    .is_share = true};

// Mean loss of the last steps of a training of `small` on `data`.
static double train(const std::string& data, const std::string& optimizer, double lr,
                    const run::Registries& registries) {
  run::TrainConfig config;
  config.data = data;
  config.model = "small";
  config.optimizer = optimizer;
  config.augment = "resize(16x16) negative(0.1)";
  config.val_augment = "resize(16x16)";
  config.batch = 32;
  config.epochs = 20;
  config.lr = lr;
  run::Session session(config, registries);
  const run::TrainOutcome outcome = session.train();
  std::printf("%s: steps %lld loss %.4f\n", optimizer.c_str(), static_cast<long long>(outcome.steps),
              outcome.loss);
  return outcome.loss;
}

// Trains on images that only the program's source finds, by its loss, and judges by its metric.
static bool trains_on_images(const std::string& pointer, const std::string& val,
                             const run::Registries& registries) {
  run::TrainConfig config;
  config.data = pointer;
  config.val = val;
  config.model = "small";
  config.augment = config.val_augment = "resize(16x16)";
  config.loss = "squared_entropy";
  config.metrics = {"confident"};
  config.batch = 32;
  config.epochs = 20;
  config.lr = 0.02;
  config.out = val + "-run";
  const run::TrainOutcome outcome = run::Session(config, registries).train();
  const double confident = outcome.last_validation ? outcome.last_validation->result.value("confident") : 0;
  std::printf("images: loss %.4f, confident %.3f\n", outcome.loss, confident);
  return outcome.loss < 1.4 && confident > 0.2;  // 2.65 is chance, of which nothing is confident
}

int main(int, char** argv) try {
  run::Registries own;
  own.augmentations.add(kNegative);
  own.models.add(kSmall);
  own.optimizers.add(kSignSgd);
  own.losses.add(kSquaredEntropy);
  own.metrics.add(kConfident);
  own.sources.add(kPointer);
  data::SourceRegistry sources = data::SourceRegistry::builtin();
  sources.add(kStripes);

  const std::string data = argv[1];
  std::ofstream(data + ".stripes") << "drawn by the program\n";
  ingest::IngestOptions options;
  options.sources = {data + ".stripes"};
  options.destination = data + "-stripes";
  options.known_sources = &sources;
  value_or_throw(ingest::ingest(options));

  const bool learns = train(data, "sgd", 0.02, own) < 1.8;  // ten classes: 2.303 is chance
  const bool learns_stripes = train(options.destination, "sign_sgd", 0.001, own) < 0.7;  // four: 1.386
  std::ofstream(data + ".pointer") << argv[2] << "\n";
  const bool learns_images = trains_on_images(data + ".pointer", data, own);
  return learns && learns_stripes && learns_images ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
