// A net small enough for unit tests: batch norm, linear, ReLU, linear.
#pragma once

#include <memory>

#include "dlpipe/module.h"

namespace dlpipe::test {

/// For images [side,side,1]; weights drawn from `seed`. Parameters: bn.*, fc1.*, fc2.*.
std::shared_ptr<engine::Module> small_net(int64_t side, int64_t classes, uint64_t seed, double dropout = 0);

}  // namespace dlpipe::test
