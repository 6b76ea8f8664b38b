#include "engine/core/measured_kernels.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>
#include <vector>

#include "base/counters.h"
#include "base/text.h"
#include "dlpipe/ops.h"
#include "engine/core/parallel.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::engine::cpu {
namespace {

class MeasuredKernelsTest : public testing::Test {
 protected:
  ~MeasuredKernelsTest() override { kernel_table().clear(); }
  std::string file() const { return folder_ / "cache/kernels.json"; }

  test::ScratchFolder folder_;
};

KernelChoice never() {
  throw std::logic_error("somebody has measured it");
}

TEST_F(MeasuredKernelsTest, OneAnswerAFile) {
  MeasuredKernels first(file());
  EXPECT_EQ(first.find_or_measure("a",
                                  [] {
                                    return KernelChoice{"direct", 2, 1, "measured"};
                                  }),
            (KernelChoice{"direct", 2, 1, "measured"}));
  EXPECT_EQ(first.find_or_measure("a", never).kernel, "direct");
  MeasuredKernels second(file());
  EXPECT_EQ(second.find_or_measure("a", never), (KernelChoice{"direct", 2, 1, "measured"}));
  second.find_or_measure("b", [] { return KernelChoice{"winograd", 16, 1}; });
  // Another process's answer counts, also where this one has looked before.
  EXPECT_EQ(first.find_or_measure("b", never), (KernelChoice{"winograd", 16, 1}));
}

// A try may need far more scratch than the kernel that is taken.
TEST_F(MeasuredKernelsTest, ScratchOfTriesIsGivenBack) {
  set_engine_threads(1);
  kernel_table().measure_with(std::make_shared<MeasuredKernels>(file()));
  constexpr size_t kLarge = 8 << 20;
  const auto run = [] {
    parallel_slices(1, [&](int64_t) {
      const bool is_greedy = kernel_table().find("key")->kernel == "greedy";
      auto* scratch = worker_scratch(0, is_greedy ? kLarge : 4096);
      if (is_greedy) std::fill_n(scratch, kLarge, std::byte{1});  // and is slower
    });
  };
  measure_choices(
      "key",
      [] {
        return std::vector<KernelChoice>{{"modest", 1, 1}, {"greedy", 1, 1}};
      },
      run);
  ASSERT_EQ(kernel_table().find("key")->kernel, "modest");
  run();
  EXPECT_LT(worker_scratch_bytes(), kLarge);
  EXPECT_EQ(largest_worker_scratch_bytes(), 4096u);
}

// Slices of a tensor that meet a product which nobody has measured would take kernels as they are tried: other bits from call to
// call.
TEST_F(MeasuredKernelsTest, ManyProductsOfOneTensorTakeOneKernel) {
  set_engine_threads(2);
  Tensor a = Tensor::empty({32, 96, 512}), b = Tensor::empty({32, 512, 96});
  for (Tensor* const x : {&a, &b}) {
    for (int64_t i = 0; i < x->elements(); ++i)
      x->data<float>()[i] = static_cast<float>((i * 7919) % 1013) / 1013 - 0.5F;
  }
  const NoGrad no_grad;
  for (int file_number = 0; file_number < 3; ++file_number) {
    kernel_table().clear();
    kernel_table().measure_with(std::make_shared<MeasuredKernels>(concat(file(), file_number)));
    const std::vector<double> first = matmul(a, b).to_doubles();
    EXPECT_EQ(matmul(a, b).to_doubles(), first);
  }
}

TEST_F(MeasuredKernelsTest, ASearchIsToldBeforeAndCountedAfterIt) {
  Ledger ledger;
  ledger.make_current();
  ledger.begin_step();
  std::vector<std::string> told;
  MeasuredKernels measured(file());
  measured.tell_of_searches([&](const std::string& key) { told.push_back(key); });
  const auto slowly = [&] {
    EXPECT_EQ(told.size(), 1u) << "before";
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return KernelChoice{"direct", 1, 1};
  };
  measured.find_or_measure("a", slowly);
  measured.find_or_measure("a", never);
  EXPECT_EQ(told, std::vector<std::string>{"a"});
  EXPECT_EQ(measured.searches(), 1);
  EXPECT_GE(measured.search_ns(), 3'000'000);
  const LedgerEntry step = ledger.end_step();
  EXPECT_GE(step.span_ns[static_cast<size_t>(Span::kKernelSearch)], measured.search_ns());
  MeasuredKernels next(file());
  next.tell_of_searches([](const std::string& key) { ADD_FAILURE() << key << " is in the file"; });
  next.find_or_measure("a", never);
  EXPECT_EQ(next.search_ns(), 0);
}

TEST_F(MeasuredKernelsTest, ProcessesThatAskTogetherGetOneAnswer) {
  std::vector<KernelChoice> answers(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < answers.size(); ++i) {
    threads.emplace_back([&, i] {
      MeasuredKernels mine(file());  // as in a process of its own
      answers[i] = mine.find_or_measure("a", [i] {
        return KernelChoice{"direct", static_cast<int64_t>(i) + 1, 1};
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const KernelChoice& answer : answers) EXPECT_EQ(answer, answers.front());
}

TEST_F(MeasuredKernelsTest, WhatCannotBeReadIsMeasuredAnew) {
  std::filesystem::create_directories(folder_ / "cache");
  std::ofstream(file()) << "{ no json";
  testing::internal::CaptureStderr();
  const KernelChoice choice{"direct", 3, 1};
  EXPECT_EQ(MeasuredKernels(file()).find_or_measure("a", [&] { return choice; }), choice);
  EXPECT_NE(testing::internal::GetCapturedStderr().find(file()), std::string::npos);
  EXPECT_EQ(MeasuredKernels(file()).find_or_measure("a", never), choice);
}

TEST_F(MeasuredKernelsTest, WithoutAFileAnswersLastAsLongAsTheObject) {
  std::ofstream(folder_ / "cache") << "not a folder";
  testing::internal::CaptureStderr();
  for (const std::string& path : {std::string(), file()}) {
    MeasuredKernels measured(path);
    measured.find_or_measure("a", [] { return KernelChoice{"direct", 3, 1}; });
    measured.find_or_measure("b", [] { return KernelChoice{"direct", 4, 1}; });
    EXPECT_EQ(measured.find_or_measure("a", never).images, 3);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t once = said.find("not saved");
  EXPECT_NE(once, std::string::npos) << said;
  EXPECT_EQ(said.find("not saved", once + 1), std::string::npos) << said;
}

TEST_F(MeasuredKernelsTest, AStoppedProcessThatHoldsTheLockIsNotWaitedForForEver) {
  const KernelChoice known{"direct", 3, 1};
  MeasuredKernels(file()).find_or_measure("known", [&] { return known; });
  const int stopped = ::open((file() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(::flock(stopped, LOCK_EX), 0);
  MeasuredKernels measured(file(), 40'000'000);
  EXPECT_EQ(measured.find_or_measure("known", never), known) << "what is known needs no lock";
  testing::internal::CaptureStderr();
  EXPECT_EQ(measured.find_or_measure("a", [] { return KernelChoice{"direct", 4, 1}; }).images, 4);
  EXPECT_EQ(measured.find_or_measure("b", [] { return KernelChoice{"direct", 5, 1}; }).images, 5);
  EXPECT_EQ(measured.find_or_measure("a", never).images, 4);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(file() + ".lock"), std::string::npos) << said;
  EXPECT_EQ(said.find("another process has held"), said.rfind("another process has held")) << said;
  ::close(stopped);
  EXPECT_EQ(MeasuredKernels(file()).find_or_measure("a", [&] { return known; }), known) << "a was kept";
}

TEST_F(MeasuredKernelsTest, AWaitForAnotherProcessIsSaidOnceWithWhoAndWhat) {
  std::filesystem::create_directories(std::filesystem::path(file()).parent_path());
  const int holder = ::open((file() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(::flock(holder, LOCK_EX), 0);
  testing::internal::CaptureStderr();
  MeasuredKernels(file(), 100'000'000, 0).find_or_measure("a", [] { return KernelChoice{"direct", 4, 1}; });
  std::string said = testing::internal::GetCapturedStderr();
  const size_t waits = said.find(" holds " + file() + ".lock while it measures kernels: waiting for at most");
  EXPECT_NE(waits, std::string::npos) << said;
  EXPECT_EQ(said.find("waiting for at most", waits + 1), said.rfind("waiting for at most")) << said;
  EXPECT_NE(said.find("--kernels rules"), std::string::npos) << said;
  if (std::filesystem::exists("/proc/locks")) {
    EXPECT_NE(said.find("process " + std::to_string(::getpid())), std::string::npos) << said;
  }
  testing::internal::CaptureStderr();
  MeasuredKernels(file(), 40'000'000, 1'000'000'000).find_or_measure("a", [] {
    return KernelChoice{"direct", 4, 1};
  });
  said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("waiting for at most"), std::string::npos)
      << "a short wait is not worth a word: " << said;
  ::close(holder);
}

TEST_F(MeasuredKernelsTest, ADamagedNameIsMeasuredAnewAndItsFileNamed) {
  MeasuredKernels(file()).find_or_measure("a", [] { return KernelChoice{"dirvct", 2, 1}; });
  const KernelChoice good{"direct", 2, 1};
  const auto is_direct = [](const KernelChoice& choice) { return choice.kernel == "direct"; };
  testing::internal::CaptureStderr();
  EXPECT_EQ(MeasuredKernels(file()).find_or_measure(
                "a", [&] { return good; }, is_direct),
            good);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("'dirvct' is not a choice for 'a' in " + file()), std::string::npos) << said;
  EXPECT_EQ(MeasuredKernels(file()).find_or_measure("a", never, is_direct), good);
}

TEST_F(MeasuredKernelsTest, AnotherVersionsChoicesAreSaidOnce) {
  const auto set = [&](const char* key, const char* kernel) {
    MeasuredKernels(file()).find_or_measure(key, [&] { return KernelChoice{kernel, 2, 1}; });
  };
  set("a", "former");
  set("b", "former");
  MeasuredKernels measured(file());
  const auto is_direct = [](const KernelChoice& choice) { return choice.kernel == "direct"; };
  testing::internal::CaptureStderr();
  for (const char* key : {"a", "b"}) {
    const KernelChoice found = measured.find_or_measure(
        key,
        [] {
          return KernelChoice{"direct", 1, 1};
        },
        is_direct);
    EXPECT_EQ(found.kernel, "direct") << key;
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t first = said.find("is not a choice for");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("is not a choice for", first + 1), std::string::npos) << said;
}

// HOME may lie where nobody may look, or be no path at all.
TEST_F(MeasuredKernelsTest, AFolderThatCannotBeLookedIntoKeepsNothingAndEndsNothing) {
  testing::internal::CaptureStderr();
  const std::string too_long = folder_ / std::string(300, 'x') + "/kernels.json";
  EXPECT_EQ(MeasuredKernels(too_long)
                .find_or_measure("a",
                                 [] {
                                   return KernelChoice{"direct", 4, 1};
                                 })
                .images,
            4);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("not saved"), std::string::npos);
}

TEST_F(MeasuredKernelsTest, TheFastestIsTakenAndKept) {
  const auto candidates = [] {
    return std::vector<KernelChoice>{{"slow", 1, 1}, {"fast", 1, 1}, {"slower", 1, 1}};
  };
  int runs = 0;
  const auto run = [&] {
    ++runs;
    const std::string kernel = kernel_table().find("key")->kernel;
    if (kernel != "fast") std::this_thread::sleep_for(std::chrono::milliseconds(kernel == "slow" ? 20 : 40));
  };
  measure_choices("key", candidates, run);
  EXPECT_EQ(runs, 0) << "nobody told the table to measure";
  kernel_table().measure_with(std::make_shared<MeasuredKernels>(file()));
  measure_choices("key", candidates, run);
  EXPECT_GE(runs, 6);
  EXPECT_EQ(kernel_table().find("key")->kernel, "fast");
  EXPECT_NE(kernel_table().find("key")->why.find("slow "), std::string::npos);
  runs = 0;
  measure_choices("key", candidates, run);
  kernel_table().clear();
  kernel_table().measure_with(std::make_shared<MeasuredKernels>(file()));
  measure_choices("key", candidates, run);
  EXPECT_EQ(runs, 0) << "it was known";
  EXPECT_EQ(kernel_table().find("key")->kernel, "fast");
}

// Of no memory for a try: what was tried last is nobody's choice, and the next call measures.
TEST_F(MeasuredKernelsTest, ATryThatFailsLeavesNoChoice) {
  kernel_table().measure_with(std::make_shared<MeasuredKernels>(file()));
  const auto candidates = [] { return std::vector<KernelChoice>{{"modest", 1, 1}, {"greedy", 1, 1}}; };
  bool fails = true;
  const auto run = [&] {
    if (fails && kernel_table().find("key")->kernel == "greedy") throw std::bad_alloc();
  };
  EXPECT_THROW(measure_choices("key", candidates, run), std::bad_alloc);
  EXPECT_FALSE(kernel_table().find("key").has_value());
  fails = false;
  measure_choices("key", candidates, run);
  EXPECT_NE(kernel_table().find("key")->why.find("measured"), std::string::npos);
}

TEST_F(MeasuredKernelsTest, ConvolutionsAndProductsAreMeasuredOnTheirOwnTensors) {
  const auto step = [] {
    Tensor x = Tensor::full({2, 12, 12, 16}, 0.5).set_requires_grad(true);
    Tensor w = Tensor::full({16, 16, 3, 3}, 0.25).set_requires_grad(true);
    const Tensor y = conv2d(x, w, Tensor(), {.padding = {1, 1}});
    const Tensor flat = reshape(y, {-1, 96});
    sum(matmul(flat, transpose(flat, {1, 0}))).backward();
    return std::vector<double>{x.grad().to_doubles()[100], w.grad().to_doubles()[100]};
  };
  const std::vector<double> by_rules = step();
  kernel_table().clear();
  kernel_table().measure_with(std::make_shared<MeasuredKernels>(file()));
  const std::vector<double> measured = step();
  for (size_t i = 0; i < measured.size(); ++i) EXPECT_NEAR(measured[i] / by_rules[i], 1, 1e-4);
  const std::string known = kernel_table().save();
  if (kernel_isa() >= KernelIsa::kAvx2) {
    for (const char* what : {"conv2d forward", "conv2d backward_data", "conv2d backward_weights", "gemm"})
      EXPECT_NE(known.find(what), std::string::npos) << what << " in " << known;
    EXPECT_NE(known.find("measured"), std::string::npos) << known;
  }
  // The same table, the same bits.
  EXPECT_EQ(step(), measured);
}

}  // namespace
}  // namespace dlpipe::engine::cpu
