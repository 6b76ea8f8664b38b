// Adafactor (Shazeer and Stern, 2018): keeps only averages of each row and each column of a matrix's second
// moments, and no first moment. The state is a few thousandths of adam's.
//
// As in PyTorch: beta2 grows as 1 - step^-0.8, updates are clipped to a root mean square of 1, steps are
// relative to the size of the weights (at least 1e-3) and at most 1 / sqrt(step), and weight decay is decoupled.
// Filters are treated as [outputs, the rest], while PyTorch factors each 3x3 window separately. Vectors keep
// all moments.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/portable_math.h"
#include "dlpipe/optim.h"
#include "engine/core/parallel.h"
#include "engine/optim/gradients.h"

namespace dlpipe::engine {
namespace {

constexpr double kBeta2Decay = -0.8;
constexpr double kLeastSize = 1e-3;  // the least size of weights that steps are relative to
constexpr double kClip = 1.0;        // the largest root mean square of an update
constexpr float kTiny = std::numeric_limits<float>::epsilon();
constexpr int64_t kRowsElements = 1 << 15;  // elements in the rows of one task
constexpr int64_t kColumns = 512;           // columns of one task

int64_t rows_of(const Shape& shape) {
  return shape.rank() > 1 ? shape[0] : 1;
}

std::vector<StateForm> states_of(const Shape& parameter) {
  const int64_t rows = rows_of(parameter);
  if (rows <= 1) return {{"square", {parameter.elements()}}};
  return {{"row", {rows}}, {"column", {parameter.elements() / rows}}};
}

/// A parameter as a matrix; a vector has one row.
struct Matrix {
  float* weights;
  const float* gradients;
  int64_t rows, columns;
};

/// Calls row(r) for all rows, from many threads.
template <class Row>
void for_rows(const Matrix& m, const Row& row) {
  const int64_t grain = std::max<int64_t>(1, kRowsElements / std::max<int64_t>(1, m.columns));
  parallel_ranges(m.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) row(r);
  });
}

/// The sum over all rows of row(r), in the rows' order.
template <class Row>
double sum_rows(const Matrix& m, const Row& row) {
  std::vector<double> sums(static_cast<size_t>(m.rows));
  for_rows(m, [&](int64_t r) { sums[static_cast<size_t>(r)] = row(r); });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

class Adafactor final : public ElementwiseOptimizer {
 public:
  Adafactor(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments)
      : ElementwiseOptimizer(std::move(parameters), arguments, states_of,
                             [](const NamedTensor&) { return true; }),
        weight_decay_(arguments.weight_decay) {}

 protected:
  void begin_step(double lr, int64_t step) override {
    lr_ = lr;
    step_ = static_cast<double>(step);
    take_ = static_cast<float>(portable_exp(kBeta2Decay * portable_log(step_)));
  }
  void update(const ElementRun&) const override {}  // all parameters are updated whole

  void update_whole(const ElementRun& run, int64_t first_axis) const override {
    const bool factored = run.states[1] != nullptr;
    const Matrix m = {run.weights, run.gradients, factored ? first_axis : 1,
                      factored ? run.count / first_axis : run.count};
    if (!factored) return apply(run, m, run.state(0), 1.0f);
    float* const row = run.state(0);
    float* const column = run.state(1);
    average_rows(m, row);
    average_columns(m, column);
    const double mean =
        lane_sum(m.rows, [=](int64_t r) DLPIPE_INLINE { return row[r]; }) / static_cast<double>(m.rows);
    apply(run, m, column, 1.0f / std::max(static_cast<float>(mean), kTiny));
  }

 private:
  void average_rows(const Matrix& m, float* row) const {
    for_rows(m, [&](int64_t r) {
      double sum = 0;
      cpu::on_best_isa([&sum, g = m.gradients + r * m.columns, n = m.columns]() DLPIPE_INLINE {
        sum = lane_sum(n, [g](int64_t i) DLPIPE_INLINE { return double{g[i]} * g[i]; });
      });
      row[r] += take_ * (static_cast<float>(sum / static_cast<double>(m.columns)) - row[r]);
    });
  }

  void average_columns(const Matrix& m, float* column) const {
    parallel_ranges(m.columns, kColumns, [&](int64_t begin, int64_t end) {
      std::vector<float> sums(static_cast<size_t>(end - begin), 0.0f);
      cpu::on_best_isa([=, sums = sums.data(), take = take_]() DLPIPE_INLINE {
        for (int64_t r = 0; r < m.rows; ++r) {
          const float* const g = m.gradients + r * m.columns;
          for (int64_t c = begin; c < end; ++c) sums[c - begin] += g[c] * g[c];
        }
        for (int64_t c = begin; c < end; ++c)
          column[c] += take * (sums[c - begin] / static_cast<float>(m.rows) - column[c]);
      });
    });
  }

  /// The step of a matrix or a vector. The second moment of element c of a row is the row's scale * column[c].
  /// For a vector, `column` has its moments, which are updated first, and the scale is 1.
  void apply(const ElementRun& run, const Matrix& m, float* column, float inverse_mean) const {
    const bool factored = m.rows > 1;
    if (!factored) {
      for (int64_t c = 0; c < m.columns; ++c)
        column[c] += take_ * (m.gradients[c] * m.gradients[c] - column[c]);
    }
    const auto scale_of = [&](int64_t r) { return factored ? run.state(0)[r] * inverse_mean : 1.0f; };
    const auto update = [column](float scale, const float* g, int64_t c) DLPIPE_INLINE {
      return g[c] / std::sqrt(std::max(scale * column[c], kTiny * kTiny));
    };
    double update_squares = 0, weight_squares = 0;
    std::vector<double> squares(static_cast<size_t>(m.rows));
    update_squares = sum_rows(m, [&](int64_t r) {
      double sum = 0;
      cpu::on_best_isa([&, g = m.gradients + r * m.columns, w = m.weights + r * m.columns, n = m.columns,
                        scale = scale_of(r)]() DLPIPE_INLINE {
        sum = lane_sum(n, [=](int64_t i) DLPIPE_INLINE {
          const double u = update(scale, g, i);
          return u * u;
        });
        squares[static_cast<size_t>(r)] =
            lane_sum(n, [=](int64_t i) DLPIPE_INLINE { return double{w[i]} * w[i]; });
      });
      return sum;
    });
    for (const double sum : squares) weight_squares += sum;
    const auto count = static_cast<double>(m.rows * m.columns);
    const double lr = lr_ * run.lr_scale;
    const double size = std::max(kLeastSize, std::sqrt(weight_squares / count));
    const double clip = std::max(1.0, std::sqrt(update_squares / count) / kClip);
    const auto rate = static_cast<float>(size * std::min(lr, 1.0 / std::sqrt(step_)) / clip);
    const auto keep = static_cast<float>(1.0 - lr * weight_decay_ * run.decay_scale);
    for_rows(m, [&](int64_t r) {
      cpu::on_best_isa([=, g = m.gradients + r * m.columns, w = m.weights + r * m.columns, n = m.columns,
                        scale = scale_of(r)]() DLPIPE_INLINE {
        for (int64_t c = 0; c < n; ++c) w[c] = keep * w[c] - rate * update(scale, g, c);
      });
    });
  }

  double weight_decay_;
  double lr_ = 0.0, step_ = 0.0;
  float take_ = 0.0f;
};

std::unique_ptr<Optimizer> build(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments) {
  check_optimizer_argument(arguments.weight_decay >= 0.0, "adafactor", "weight_decay", arguments.weight_decay,
                           "a number of at least 0");
  return std::make_unique<Adafactor>(std::move(parameters), arguments);
}

constexpr OptionDefault kOptions[] = {{"lr", "0.01"}, {"weight-decay", "0"}};

}  // namespace

extern const OptimizerRecord adafactor_optimizer;
const OptimizerRecord adafactor_optimizer = {
    "adafactor",
    "second moments per row and column only, steps relative to the weights; weight decay is decoupled. "
    "Filters are matrices [outputs, the rest], while torch.optim.Adafactor factors each window",
    build, kOptions};

}  // namespace dlpipe::engine
