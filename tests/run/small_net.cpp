#include "tests/run/small_net.h"

#include "dlpipe/layers.h"
#include "dlpipe/module.h"

namespace dlpipe::test {

std::shared_ptr<engine::Module> small_net(int64_t side, int64_t classes, uint64_t seed, double dropout) {
  using namespace engine;  // NOLINT: layers only
  constexpr int64_t kHidden = 16;
  auto net = std::make_shared<Sequential>();
  net->append("bn", std::make_shared<BatchNorm2d>(1));
  net->append("flatten", std::make_shared<Flatten>());
  net->append("fc1", std::make_shared<Linear>(side * side, kHidden));
  net->append("relu", std::make_shared<ReLU>());
  if (dropout > 0) net->append("drop", std::make_shared<Dropout>(dropout));
  net->append("fc2", std::make_shared<Linear>(kHidden, classes));
  initialize(*net, seed);
  return net;
}

}  // namespace dlpipe::test
