// A program of its own: an augmentation, an op and a model that dlpipe doesn't have, trained end to end.
// Usage: consumer DATASET
#include <dlpipe/augment/op.h>
#include <dlpipe/engine/core/op.h>
#include <dlpipe/engine/layers/init.h>
#include <dlpipe/engine/layers/layers.h>
#include <dlpipe/engine/ops/ops.h>
#include <dlpipe/run/train/session.h>

#include <cstdio>

using namespace dlpipe;

// The augmentation invert(p): with probability p, the negative.
struct Invert final : augment::Op {
  explicit Invert(double p) : probability(p) {}
  augment::ImageSize output(const augment::ImageSize& in) const override { return in; }
  Status plan(const augment::ImageSize& in, RandomStream& rng, augment::OpDraw& draw) const override {
    draw.active = rng.uniform() < probability;
    draw.region = {0, 0, in.width, in.height};
    draw.out = in;
    return {};
  }
  Status apply(const augment::OpDraw&, const ConstImageView& in, const ImageView& out,
               augment::ChainScratch&) const override {
    for (int y = 0; y < in.height; ++y) {
      for (int x = 0; x < in.width * in.channels; ++x)
        out.row(y)[x] = static_cast<uint8_t>(255 - in.row(y)[x]);
    }
    return {};
  }
  double probability;
};
const augment::OpRecord kInvert{
    "invert",
    "The negative of the image",
    1,
    {{"p", "float", "0.5", "probability"}},
    [](augment::OpArguments& arguments) -> Result<std::shared_ptr<const augment::Op>> {
      DLPIPE_ASSIGN_OR_RETURN(const double p, arguments.number("p"));
      return std::shared_ptr<const augment::Op>(std::make_shared<Invert>(p));
    }};

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

int main(int, char** argv) try {
  augment::OpRegistry augmentations = augment::OpRegistry::builtin();
  augmentations.add(kInvert);
  engine::ModelRegistry models = engine::ModelRegistry::builtin();
  models.add(kSmall);

  run::TrainConfig config;
  config.data = argv[1];
  config.model = "small";
  config.augment = "resize(16x16) invert(0.1)";
  config.val_augment = "resize(16x16)";
  config.batch = 32;
  config.epochs = 20;
  config.lr = 0.02;
  run::Session session(config, {.augmentations = &augmentations, .models = &models});
  const run::TrainOutcome outcome = session.train();
  std::printf("steps %lld loss %.4f\n", static_cast<long long>(outcome.steps), outcome.loss);
  return outcome.loss < 1.8 ? 0 : 1;  // ten classes: 2.303 is chance
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
