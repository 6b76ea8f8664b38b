// What a call costs, counted and not timed: the most memory that it holds at once, and its operations, which are allocations and
// comparisons of bytes (texts compare by memcmp). A program with counted.cpp in it counts all of its own.
#pragma once

#include <cstdint>

namespace dlpipe {

struct Cost {
  uint64_t peak_bytes = 0;  // above what was held before
  uint64_t operations = 0;
};

/// Of one call at a time.
class Counting {
 public:
  Counting();
  Cost cost() const;

 private:
  uint64_t held_before_;
  uint64_t operations_before_;
};

}  // namespace dlpipe
