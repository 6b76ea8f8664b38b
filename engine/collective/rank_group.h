// Which ranks of a transport work together, numbered anew from 0. A value.
#pragma once

#include <vector>

namespace dlpipe::engine {

struct RankGroup {
  std::vector<int> members;  // their numbers on the transport
  int rank = 0;              // this one's among them

  int world() const { return static_cast<int>(members.size()); }
};

}  // namespace dlpipe::engine
