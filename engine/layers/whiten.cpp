#include "dlpipe/engine/layers/whiten.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::engine {
namespace {

// Square and symmetric, row by row.
struct Matrix {
  explicit Matrix(int64_t size) : size(size), values(static_cast<size_t>(size * size)) {}
  double& at(int64_t row, int64_t column) { return values[static_cast<size_t>(row * size + column)]; }
  int64_t size;
  std::vector<double> values;
};

// The mean of p p^T over all patches p of all images; elements in the order of a filter's: channel, row,
// column.
Matrix second_moment(const Tensor& images, const Shape& filter) {
  const int64_t channels = filter[1], kh = filter[2], kw = filter[3];
  const int64_t height = images.size(1), width = images.size(2);
  Matrix sum(channels * kh * kw);
  std::vector<double> patch(static_cast<size_t>(sum.size));
  const float* const pixels = images.data<float>();
  for (int64_t n = 0; n < images.size(0); ++n) {
    for (int64_t y = 0; y + kh <= height; ++y) {
      for (int64_t x = 0; x + kw <= width; ++x) {
        for (int64_t i = 0; i < sum.size; ++i) {
          const int64_t c = i / (kh * kw), row = y + i / kw % kh, column = x + i % kw;
          patch[static_cast<size_t>(i)] = pixels[((n * height + row) * width + column) * channels + c];
        }
        for (int64_t i = 0; i < sum.size; ++i) {
          for (int64_t j = 0; j <= i; ++j)
            sum.at(i, j) += patch[static_cast<size_t>(i)] * patch[static_cast<size_t>(j)];
        }
      }
    }
  }
  const auto count = static_cast<double>(images.size(0) * (height - kh + 1) * (width - kw + 1));
  for (int64_t i = 0; i < sum.size; ++i) {
    for (int64_t j = 0; j <= i; ++j) sum.at(i, j) = sum.at(j, i) = sum.at(i, j) / count;
  }
  return sum;
}

// Rotates rows and columns p and q of `a` so that a(p, q) becomes 0, and the columns of `vectors` with them.
void rotate(Matrix& a, Matrix& vectors, int64_t p, int64_t q) {
  if (a.at(p, q) == 0.0) return;
  const double theta = (a.at(q, q) - a.at(p, p)) / (2.0 * a.at(p, q));
  const double t = std::copysign(1.0, theta) / (std::fabs(theta) + std::sqrt(theta * theta + 1.0));
  const double cosine = 1.0 / std::sqrt(t * t + 1.0);
  const double sine = t * cosine;
  const auto turn = [&](double& first, double& second) {
    const double old = first;
    first = cosine * old - sine * second;
    second = sine * old + cosine * second;
  };
  for (int64_t k = 0; k < a.size; ++k) turn(a.at(k, p), a.at(k, q));
  for (int64_t k = 0; k < a.size; ++k) turn(a.at(p, k), a.at(q, k));
  for (int64_t k = 0; k < a.size; ++k) turn(vectors.at(k, p), vectors.at(k, q));
}

// Jacobi's method (Golub and Van Loan, "Matrix Computations", 8.5): afterwards `a` holds the eigenvalues on
// its diagonal, and the answer their eigenvectors as columns.
Matrix diagonalize(Matrix& a) {
  Matrix vectors(a.size);
  for (int64_t i = 0; i < a.size; ++i) vectors.at(i, i) = 1.0;
  constexpr int kSweeps = 30;  // it converges quadratically: ten are plenty
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (int64_t p = 0; p < a.size; ++p) {
      for (int64_t q = p + 1; q < a.size; ++q) rotate(a, vectors, p, q);
    }
  }
  return vectors;
}

}  // namespace

void fill_whitening(Tensor& weight, const Tensor& images, double epsilon) {
  const Shape& filter = weight.shape();
  if (filter.rank() != 4 || images.rank() != 4 || images.size(3) != filter[1] || images.size(1) < filter[2] ||
      images.size(2) < filter[3] || images.size(0) < 1 || filter[0] % 2 != 0 ||
      filter[0] > 2 * filter[1] * filter[2] * filter[3]) {
    refuse("engine", "filters ", filter.to_string(), " can't whiten the patches of images ",
           images.shape().to_string(),
           "; expected an even number of filters, at most two "
           "for each element of a patch");
  }
  Matrix moment = second_moment(images.contiguous_copy(), filter);
  Matrix vectors = diagonalize(moment);
  std::vector<int64_t> order(static_cast<size_t>(moment.size));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return moment.at(a, a) > moment.at(b, b); });
  float* out = weight.data<float>();
  for (int64_t o = 0; o < filter[0]; ++o) {
    const int64_t k = order[static_cast<size_t>(o / 2)];
    const double scale = (o % 2 == 0 ? 1.0 : -1.0) / std::sqrt(std::max(moment.at(k, k), 0.0) + epsilon);
    for (int64_t i = 0; i < moment.size; ++i) *out++ = static_cast<float>(scale * vectors.at(i, k));
  }
  weight.bump_version();
}

}  // namespace dlpipe::engine
