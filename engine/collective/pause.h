// What a transport does between two looks for something that another rank sends.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace dlpipe::engine {

/// At first only a word to the scheduler, then longer and longer sleeps.
class Pause {
 public:
  void operator()() {
    constexpr int kYields = 50;
    constexpr std::chrono::microseconds kLongest{200};
    if (looks_++ < kYields) return std::this_thread::yield();
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, kLongest);
  }

 private:
  int looks_ = 0;
  std::chrono::microseconds sleep_{10};
};

}  // namespace dlpipe::engine
