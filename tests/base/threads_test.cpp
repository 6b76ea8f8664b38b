#include "base/threads.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <stdexcept>

namespace dlpipe {
namespace {

TEST(Threads, RunEachBodyOnce) {
  std::atomic<int> sum = 0;
  Threads threads("test", 5, [&](int index) { sum += 1 << (4 * index); });
  EXPECT_TRUE(threads.join().ok());
  EXPECT_EQ(sum, 0x11111);
  EXPECT_EQ(threads.count(), 5);
  EXPECT_EQ(threads.running(), 0);
}

TEST(Threads, JoinAnswersWhatABodyThrew) {
  Threads threads("test", 3, [](int index) {
    if (index == 1) throw std::runtime_error("the second one fell");
  });
  EXPECT_NE(threads.join().message().find("the second one fell"), std::string::npos);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes
// Those that are sent home hold stacks: half of the limit, which the work must find free.
TEST(Threads, WorkBeginsOnceThoseThatAreSentHomeHaveEnded) {
  rlimit former{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &former), 0);
  const rlimit little = {rlim_t{2} << 30, former.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &little), 0);
  int count = 0;
  std::atomic<bool> had_room = false;
  {
    Threads threads("test", 1000, [&](int index) {
      if (index != 0) return;
      constexpr size_t kBytes = size_t{256} << 20;
      void* room = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      had_room = room != MAP_FAILED;
      if (had_room) ::munmap(room, kBytes);
    });
    count = threads.count();
    EXPECT_TRUE(threads.join().ok());
  }
  ::setrlimit(RLIMIT_AS, &former);
  EXPECT_LT(count, 1000);
  EXPECT_TRUE(had_room);
}
#endif

}  // namespace
}  // namespace dlpipe
