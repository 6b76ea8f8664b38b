#include "dlpipe/module.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dlpipe/layers.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Sequential> make_net(uint64_t seed = 1) {
  auto block = std::make_shared<Sequential>();
  block->append("conv", std::make_shared<Conv2d>(2, 4, 3, Conv2dArguments{.padding = 1, .bias = false}))
      .append("bn", std::make_shared<BatchNorm2d>(4));
  auto net = std::make_shared<Sequential>();
  net->append("block", block)
      .append("pool", std::make_shared<GlobalAvgPool>())
      .append("fc", std::make_shared<Linear>(4, 3));
  initialize(*net, seed);
  return net;
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : tensors) names.push_back(entry.name);
  return names;
}

std::vector<NamedTensor> copy_of(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> copy;
  for (const NamedTensor& entry : state) copy.push_back({entry.name, entry.tensor.clone()});
  return copy;
}

Tensor find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found == tensors.end()) throw std::runtime_error("no " + name);
  return found->tensor;
}

std::string misuse_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMisuse);
    return error.what();
  }
  return "no error";
}

Tensor some_images() {
  Tensor x = Tensor::empty({2, 4, 4, 2});
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>(i % 7) - 3.0f;
  return x;
}

TEST(Module, NamesParametersAndBuffersAsPyTorchDoes) {
  const auto net = make_net();
  EXPECT_EQ(names_of(net->parameters()), (std::vector<std::string>{"block.conv.weight", "block.bn.weight",
                                                                   "block.bn.bias", "fc.weight", "fc.bias"}));
  EXPECT_EQ(names_of(net->state_dict()),
            (std::vector<std::string>{"block.conv.weight", "block.bn.weight", "block.bn.bias",
                                      "block.bn.running_mean", "block.bn.running_var",
                                      "block.bn.num_batches_tracked", "fc.weight", "fc.bias"}));
  EXPECT_EQ(names_of(net->buffers()),
            (std::vector<std::string>{"block.bn.running_mean", "block.bn.running_var",
                                      "block.bn.num_batches_tracked"}));
}

TEST(Module, SharedChildGivesItsParametersOnce) {
  const auto linear = std::make_shared<Linear>(3, 3);
  Sequential net;
  net.append(linear).append(linear);
  EXPECT_EQ(names_of(net.parameters()), (std::vector<std::string>{"0.weight", "0.bias"}));
  EXPECT_EQ(net.state_dict().size(), 4u);
}

TEST(Module, LoadsAStateDictOfAnotherInstance) {
  const auto from = make_net(1);
  const auto to = make_net(2);
  EXPECT_NE(find(from->state_dict(), "fc.weight").to_doubles(),
            find(to->state_dict(), "fc.weight").to_doubles());
  EXPECT_TRUE(to->load_state_dict(from->state_dict()).empty());
  for (const NamedTensor& entry : from->state_dict())
    EXPECT_EQ(find(to->state_dict(), entry.name).to_doubles(), entry.tensor.to_doubles()) << entry.name;
  EXPECT_FALSE(find(to->state_dict(), "fc.weight").impl() == find(from->state_dict(), "fc.weight").impl());
}

TEST(Module, ConvertsFloatingDtypesOnLoad) {
  const auto net = make_net();
  std::vector<NamedTensor> state = copy_of(net->state_dict());
  Tensor bias = Tensor::full({3}, 0.25, DType::kBF16);
  state.back().tensor = bias;
  net->load_state_dict(state);
  EXPECT_EQ(find(net->parameters(), "fc.bias").to_doubles(), (std::vector<double>{0.25, 0.25, 0.25}));
}

TEST(Module, StrictLoadNamesWhatDoesNotFitAndCopiesNothing) {
  const auto net = make_net(1);
  std::vector<NamedTensor> state = copy_of(make_net(2)->state_dict());
  state.erase(state.begin());                            // block.conv.weight
  state.back() = {"fc.bias", Tensor::zeros({9})};        // another shape
  state.push_back({"head.weight", Tensor::zeros({1})});  // unknown
  const std::vector<NamedTensor> before = copy_of(net->state_dict());
  const std::string error = misuse_of([&] { net->load_state_dict(state); });
  EXPECT_NE(error.find("1 missing: block.conv.weight"), std::string::npos) << error;
  EXPECT_NE(error.find("1 unexpected: head.weight"), std::string::npos) << error;
  EXPECT_NE(error.find("fc.bias [9] for [3]"), std::string::npos) << error;
  for (const NamedTensor& entry : before)
    EXPECT_EQ(find(net->state_dict(), entry.name).to_doubles(), entry.tensor.to_doubles()) << entry.name;
}

TEST(Module, LooseLoadTakesWhatFitsAndAnswersTheRest) {
  const auto net = make_net(1);
  std::vector<NamedTensor> state = copy_of(make_net(2)->state_dict());
  const std::vector<double> weight = find(state, "fc.weight").to_doubles();
  state.back() = {"fc.bias", Tensor::zeros({9})};
  state.push_back({"head.weight", Tensor::zeros({1})});
  EXPECT_EQ(net->load_state_dict(state, false), (std::vector<std::string>{"fc.bias", "head.weight"}));
  EXPECT_EQ(find(net->state_dict(), "fc.weight").to_doubles(), weight);
}

TEST(Module, OldFilesMayLackTheBatchCount) {
  const auto net = make_net(1);
  std::vector<NamedTensor> state = copy_of(net->state_dict());
  std::erase_if(state, [](const NamedTensor& entry) { return entry.name.ends_with("num_batches_tracked"); });
  EXPECT_EQ(net->load_state_dict(state), (std::vector<std::string>{"block.bn.num_batches_tracked"}));
}

TEST(Module, TrainAndEvalReachEveryChild) {
  const auto net = make_net();
  net->eval();
  for (const Module::Named& named : net->modules()) EXPECT_FALSE(named.module->is_training()) << named.name;
  net->train();
  for (const Module::Named& named : net->modules()) EXPECT_TRUE(named.module->is_training()) << named.name;
}

TEST(Module, EvalUsesAndKeepsRunningStatistics) {
  const auto net = make_net();
  const Tensor mean = find(net->buffers(), "block.bn.running_mean");
  const Tensor count = find(net->buffers(), "block.bn.num_batches_tracked");
  (*net)(some_images());
  const std::vector<double> after_one = mean.to_doubles();
  EXPECT_NE(after_one, (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(count.item(), 1.0);
  net->eval();
  (*net)(some_images());
  EXPECT_EQ(mean.to_doubles(), after_one);
  EXPECT_EQ(count.item(), 1.0);
}

TEST(Module, FreezeStopsGradientsAndRunningStatistics) {
  const auto net = make_net();
  EXPECT_EQ(net->freeze("block.*"), 3);
  EXPECT_EQ(net->freeze("nothing*"), 0);
  (*net)(some_images()).backward(Tensor::full({2, 3}, 1.0));
  EXPECT_FALSE(find(net->parameters(), "block.conv.weight").grad().defined());
  EXPECT_FALSE(find(net->parameters(), "block.bn.bias").grad().defined());
  EXPECT_TRUE(find(net->parameters(), "fc.weight").grad().defined());
  EXPECT_EQ(find(net->buffers(), "block.bn.running_mean").to_doubles(), (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(find(net->buffers(), "block.bn.num_batches_tracked").item(), 0.0);
}

TEST(Module, ZeroGradDropsGradients) {
  const auto net = make_net();
  (*net)(some_images()).backward(Tensor::full({2, 3}, 1.0));
  net->zero_grad();
  for (const NamedTensor& parameter : net->parameters()) EXPECT_FALSE(parameter.tensor.grad().defined());
}

TEST(Module, HooksSeeEveryCallInForwardOrder) {
  const auto net = make_net();
  std::vector<std::string> calls;
  for (const Module::Named& named : net->modules()) {
    named.module->register_forward_hook([&calls, name = named.name](Module&, const Tensor&, const Tensor& y) {
      calls.push_back(name + y.shape().to_string());
    });
  }
  (*net)(some_images());
  EXPECT_EQ(calls, (std::vector<std::string>{"block.conv[2,4,4,4]", "block.bn[2,4,4,4]", "block[2,4,4,4]",
                                             "pool[2,4]", "fc[2,3]", "[2,3]"}));
}

TEST(Module, HooksOfAScopeGoWithItAndOthersStay) {
  const auto net = make_net();
  int others = 0, own = 0;
  net->register_forward_hook([&](Module&, const Tensor&, const Tensor&) { ++others; });
  try {
    const HookScope scope(
        *net, [&](const std::string& name, Module&, const Tensor&, const Tensor&) { own += name == "pool"; });
    (*net)(some_images());
    (*net)(Tensor::zeros({1}));
    FAIL() << "no images";
  } catch (const Error&) {
  }
  (*net)(some_images());
  EXPECT_EQ(own, 1);
  EXPECT_EQ(others, 2);
  for (const Module::Named& named : net->modules())
    EXPECT_EQ(named.module->has_forward_hooks(), named.module == net.get()) << named.name;
}

TEST(Module, WeightsAreNanUntilInitialised) {
  Linear layer(2, 1);
  const double y = layer(Tensor::full({1, 2}, 1.0)).item();
  EXPECT_NE(y, y);
}

TEST(Module, ModuleWithoutAnInitialisationSaysSo) {
  struct Own : Module {
    Own() { add_parameter("gain", Tensor::full({1}, 1.0)); }
    Tensor forward(const Tensor& x) override { return x; }
    std::string kind() const override { return "Own"; }
  };
  Own own;
  EXPECT_NE(misuse_of([&] { initialize(own, 1); }).find("override reset_parameters"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::engine
