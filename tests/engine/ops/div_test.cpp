#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {

// The divisor's square is in the range of no f32 here, and its gradient is. As PyTorch's.
TEST(DivOp, TheGradientOfADivisorIsRightWhereverTheQuotientIs) {
  struct Case {
    float a, b;
    double gradient;
  };
  for (const Backend backend : {Backend::kReference, Backend::kCpu}) {
    const UseBackend use(backend);
    for (const Case& c :
         {Case{0, 1e-30F, 0}, {1e-23F, 1e-23F, -1e23}, {1e30F, 1e20F, -1e-10}, {6, 2, -1.5}}) {
      const Tensor a = Tensor::full({9}, c.a);
      Tensor b = Tensor::full({9}, c.b);
      b.set_requires_grad(true);
      div(a, b).backward(Tensor::full({9}, 1.0));
      for (const double gradient : b.grad().to_doubles())
        EXPECT_NEAR(gradient, c.gradient, 1e-6 * -c.gradient) << c.a << " / " << c.b;
    }
  }
}

}  // namespace dlpipe::engine
