#include "tests/engine/optim/check_optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "dlpipe/random.h"
#include "engine/core/isa.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine {

Tensor random_tensor(const Shape& shape, uint64_t stream) {
  Tensor tensor = Tensor::empty(shape);
  RandomStream random(7, stream);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = 2.0f * random.uniform() - 1.0f;
  return tensor;
}

namespace {

/// A matrix of several runs with a rest, a vector, and one that never gets a gradient.
std::vector<NamedTensor> make_parameters() {
  std::vector<NamedTensor> all = {{"fc.weight", random_tensor({131, 257}, 1)},
                                  {"fc.bias", random_tensor({131}, 2)},
                                  {"idle", random_tensor({5}, 3)}};
  for (NamedTensor& parameter : all) parameter.tensor.set_requires_grad(true);
  return all;
}

Tensor gradient_of(const std::vector<NamedTensor>& parameters, size_t i, uint64_t step) {
  return random_tensor(parameters[i].tensor.shape(), 100 + 2 * step + i);
}

double rate_of(uint64_t step) {
  return 0.1 / static_cast<double>(1 + step);
}

void take_step(std::vector<NamedTensor>& parameters, Optimizer& optimizer, uint64_t step) {
  for (size_t i = 0; i < 2; ++i) parameters[i].tensor.set_grad(gradient_of(parameters, i, step));
  optimizer.step(rate_of(step));
}

/// The same with the gradients of these shares alone.
void take_step_of_shares(std::vector<NamedTensor>& parameters, Optimizer& optimizer, uint64_t step,
                         const std::vector<Share>& shares) {
  std::vector<Tensor> gradients(parameters.size());
  for (size_t i = 0; i < 2; ++i) {
    parameters[i].tensor.zero_grad();
    const Tensor all = gradient_of(parameters, i, step);
    const std::span<const float> values(all.data<float>() + shares[i].begin,
                                        static_cast<size_t>(shares[i].count()));
    gradients[i] = Tensor::from<float>(values, {shares[i].count()});
  }
  optimizer.step_shares(rate_of(step), gradients);
}

std::vector<std::vector<double>> values_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::vector<double>> all;
  for (const NamedTensor& entry : tensors) all.push_back(entry.tensor.to_doubles());
  return all;
}

std::vector<NamedTensor> copy_of(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> all;
  for (const NamedTensor& entry : tensors) all.push_back({entry.name, entry.tensor.clone()});
  return all;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMisuse);
    return error.what();
  }
  return "no error";
}

class Check {
 public:
  Check(const OptimizerRecord& record, const OptimizerArguments& arguments)
      : record_(record), arguments_(arguments) {}

  void leaves_what_has_no_gradient() const {
    std::vector<NamedTensor> parameters = make_parameters();
    const auto before = values_of(parameters);
    const auto optimizer = record_.build(parameters, arguments_);
    const uint32_t version = parameters[0].tensor.version();
    take_step(parameters, *optimizer, 0);
    EXPECT_NE(parameters[0].tensor.to_doubles(), before[0]);
    EXPECT_NE(parameters[1].tensor.to_doubles(), before[1]);
    EXPECT_EQ(parameters[2].tensor.to_doubles(), before[2]);
    EXPECT_EQ(parameters[0].tensor.grad().to_doubles(), random_tensor({131, 257}, 100).to_doubles());
    EXPECT_GT(parameters[0].tensor.version(), version) << "an in-place write must be counted";
    EXPECT_EQ(optimizer->steps(), 1);
  }

  std::vector<std::vector<double>> run(int steps) const {
    std::vector<NamedTensor> parameters = make_parameters();
    const auto optimizer = record_.build(parameters, arguments_);
    for (int step = 0; step < steps; ++step) take_step(parameters, *optimizer, static_cast<uint64_t>(step));
    return values_of(parameters);
  }

  void same_on_any_number_of_threads() const {
    const int former = engine_threads();
    set_engine_threads(1);
    const auto one = run(3);
    for (const int threads : {2, 3}) {
      set_engine_threads(threads);
      EXPECT_EQ(run(3), one) << threads << " threads";
    }
    set_engine_threads(former);
  }

  void same_on_every_isa() const {
    const auto best = run(3);
    for (const cpu::Isa limit : {cpu::Isa::kAvx2, cpu::Isa::kBaseline}) {
      const cpu::LimitIsa scope(limit);
      EXPECT_EQ(run(3), best) << "isa " << static_cast<int>(limit);
    }
  }

  void resumes_exactly() const {
    std::vector<NamedTensor> parameters = make_parameters();
    std::vector<NamedTensor> weights;
    std::vector<NamedTensor> state;
    {
      const auto optimizer = record_.build(parameters, arguments_);
      for (uint64_t step = 0; step < 3; ++step) take_step(parameters, *optimizer, step);
      state = copy_of(optimizer->state());
    }
    const auto resumed = record_.build(parameters, arguments_);
    resumed->load_state(state);
    EXPECT_EQ(resumed->steps(), 3);
    for (uint64_t step = 3; step < 5; ++step) take_step(parameters, *resumed, step);
    EXPECT_EQ(values_of(parameters), run(5));
  }

  void refuses_states_of_others() const {
    std::vector<NamedTensor> parameters = make_parameters();
    const auto optimizer = record_.build(parameters, arguments_);
    take_step(parameters, *optimizer, 0);
    const std::vector<NamedTensor> good = copy_of(optimizer->state());
    const auto before = values_of(good);

    std::vector<NamedTensor> unknown = good;
    unknown.push_back({"other.momentum", Tensor::zeros({2})});
    EXPECT_NE(error_of([&] { optimizer->load_state(unknown); }).find("other.momentum"), std::string::npos);
    std::vector<NamedTensor> cut(good.begin() + 1, good.end());
    EXPECT_NE(error_of([&] { optimizer->load_state(cut); }).find("step count"), std::string::npos);
    if (good.size() > 1) {
      std::vector<NamedTensor> misshapen = good;
      misshapen[1].tensor = Tensor::zeros({3});
      EXPECT_NE(error_of([&] { optimizer->load_state(misshapen); }).find(good[1].name), std::string::npos);
    }
    EXPECT_EQ(values_of(optimizer->state()), before);
  }

  /// Three that share out the parameters, whose states then go on in two of other shares and in one without.
  void shares_are_the_whole() const {
    const auto bias_share = [](size_t i) { return i == 1 ? Share{0, 131} : Share{}; };
    const auto sharing = [&](std::vector<NamedTensor>& parameters, const std::vector<Share>& of_matrix) {
      std::vector<std::unique_ptr<Optimizer>> all;
      for (size_t i = 0; i < of_matrix.size(); ++i) {
        all.push_back(record_.build(parameters, arguments_));
        all.back()->keep({of_matrix[i], bias_share(i), {}});
      }
      return all;
    };
    const auto state_of = [](const std::vector<std::unique_ptr<Optimizer>>& all) {
      std::vector<NamedTensor> state;
      for (const auto& one : all) {
        for (const NamedTensor& entry : copy_of(one->state())) state.push_back(entry);
      }
      return state;
    };
    constexpr int64_t kEnd = 131 * 257;
    std::vector<NamedTensor> parameters = make_parameters();
    auto all = sharing(parameters, {{kShareUnit, 2 * kShareUnit}, {0, kShareUnit}, {2 * kShareUnit, kEnd}});
    for (uint64_t step = 0; step < 3; ++step) {
      for (const auto& one : all) take_step(parameters, *one, step);
    }
    EXPECT_EQ(values_of(parameters), run(3));
    const std::vector<NamedTensor> parts = state_of(all);

    const std::vector<Share> of_matrix = {{2 * kShareUnit, kEnd}, {0, 2 * kShareUnit}};
    all = sharing(parameters, of_matrix);
    for (const auto& one : all) one->load_state(parts);
    const std::vector<Tensor> none = {Tensor::zeros({3}), {}, {}};
    EXPECT_NE(error_of([&] { all[0]->step_shares(0.1, none); }).find("of the share"), std::string::npos);
    for (size_t i = 0; i < all.size(); ++i)
      take_step_of_shares(parameters, *all[i], 3, {of_matrix[i], bias_share(i), {}});
    EXPECT_EQ(values_of(parameters), run(4));

    const auto whole = record_.build(parameters, arguments_);
    whole->load_state(state_of(all));
    take_step(parameters, *whole, 4);
    EXPECT_EQ(values_of(parameters), run(5));

    if (parts.size() > 3) {  // it has a state
      const std::vector<NamedTensor> lacking(parts.begin(), parts.end() - 1);
      EXPECT_NE(error_of([&] { whole->load_state(lacking); }).find("in part"), std::string::npos);
    }
  }

  void spares_vectors_when_told() const {
    OptimizerArguments decaying = arguments_;
    decaying.weight_decay = 0.5;
    decaying.decay_vectors = false;
    OptimizerArguments never = decaying;
    never.weight_decay = 0.0;
    const Check some(record_, decaying);
    const Check none(record_, never);
    const auto with = some.run(2);
    const auto without = none.run(2);
    EXPECT_NE(with[0], without[0]);
    EXPECT_EQ(with[1], without[1]);
  }

  void scales_the_rate_of_what_matches() const {
    OptimizerArguments scaled = arguments_;
    scaled.lr_scales = {{"*", 0.5}, {"*.bias", 0.0}};
    const Check check(record_, scaled);
    const auto still = values_of(make_parameters());
    const auto whole = run(1);
    const auto with = check.run(1);
    EXPECT_EQ(with[1], still[1]) << "the last pattern that matches counts";
    for (size_t i = 0; i < still[0].size(); ++i)
      ASSERT_NEAR(with[0][i] - still[0][i], 0.5 * (whole[0][i] - still[0][i]), 1e-6);
    scaled.lr_scales = {{"*", -1.0}};
    EXPECT_NE(error_of([&] { record_.build(make_parameters(), scaled); }).find("lr_scale"),
              std::string::npos);
  }

  void scales_the_decay_of_what_matches() const {
    OptimizerArguments scaled = arguments_;
    scaled.weight_decay = 0.5;
    scaled.decay_scales = {{"*.bias", 0.0}};
    OptimizerArguments never = scaled;
    never.weight_decay = 0.0;
    const auto with = Check(record_, scaled).run(2);
    const auto without = Check(record_, never).run(2);
    EXPECT_NE(with[0], without[0]);
    EXPECT_EQ(with[1], without[1]);
  }

  // One of another shape is refused by set_grad.
  void refuses_a_gradient_of_another_dtype() const {
    std::vector<NamedTensor> parameters = make_parameters();
    const auto optimizer = record_.build(parameters, arguments_);
    const auto before = values_of(parameters);
    parameters[1].tensor.set_grad(Tensor::full({131}, 1.0, DType::kBF16));
    const std::string error = error_of([&] { optimizer->step(0.1); });
    EXPECT_NE(error.find("the gradient of 'fc.bias' is bf16 [131], expected f32 [131]"), std::string::npos)
        << error;
    EXPECT_EQ(values_of(parameters), before);
  }

  void refuses_negative_decay() const {
    OptimizerArguments wrong = arguments_;
    wrong.weight_decay = -1.0;
    EXPECT_NE(error_of([&] { record_.build(make_parameters(), wrong); }).find("weight_decay"),
              std::string::npos);
  }

 private:
  const OptimizerRecord& record_;
  OptimizerArguments arguments_;
};

bool takes(const OptimizerRecord& record, std::string_view option) {
  return std::ranges::any_of(record.options, [&](const OptionDefault& one) { return one.name == option; });
}

}  // namespace

void check_optimizer(const std::string& name, const OptimizerArguments& arguments) {
  const OptimizerRecord& record = *value_or_throw(find_optimizer(name));
  EXPECT_EQ(record.name, name);
  const Check check(record, arguments);
  check.leaves_what_has_no_gradient();
  check.same_on_any_number_of_threads();
  check.same_on_every_isa();
  check.resumes_exactly();
  check.refuses_states_of_others();
  if (record.shares) check.shares_are_the_whole();
  check.scales_the_rate_of_what_matches();
  check.refuses_a_gradient_of_another_dtype();
  if (!takes(record, "weight-decay")) return;
  check.spares_vectors_when_told();
  check.scales_the_decay_of_what_matches();
  check.refuses_negative_decay();
}

}  // namespace dlpipe::engine
