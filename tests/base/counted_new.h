// What the calling thread has asked of operator new, which programs that link dlpipe_counted_new count: work that can be
// compared without a clock, and proof that something takes no memory.
#pragma once

#include <cstdint>

namespace dlpipe::test {

struct NewCount {
  int64_t calls = 0;
  int64_t bytes = 0;
};
NewCount new_count();

/// How much `function` asked for.
template <class Function>
NewCount new_count_of(const Function& function) {
  const NewCount before = new_count();
  function();
  const NewCount after = new_count();
  return {after.calls - before.calls, after.bytes - before.bytes};
}

}  // namespace dlpipe::test
