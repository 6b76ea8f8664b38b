#include "engine/cpu/onednn/onednn.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/text.h"
#include "engine/cpu/conv/conv2d_plan.h"

namespace dlpipe::engine {
namespace {

using cpu::ConvPass;
using cpu::ConvPlan;
using cpu::ConvVariant;

Conv2dShape square(int64_t n, int64_t size, int64_t channels) {
  return conv2d_shape({n, size, size, channels}, {channels, channels, 3, 3}, {.padding = {1, 1}});
}

std::vector<float> ramp(const dnnl::memory::desc& desc) {
  std::vector<float> values(desc.get_size() / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 37) % 101) / 101.0f - 0.5f;
  return values;
}

/// Runs the plan's first primitive on the calling thread.
std::vector<float> run(const ConvPlan& plan) {
  const ConvVariant& v = plan.variants.front();
  const std::vector<float> x = ramp(v.x);
  const std::vector<float> weights = ramp(v.weights);
  std::vector<float> y(v.y.get_size() / sizeof(float));
  v.primitive.run({{DNNL_ARG_SRC, &v.x, x.data()},
                   {DNNL_ARG_WEIGHTS, &v.weights, weights.data()},
                   {DNNL_ARG_DST, &v.y, y.data()}});
  return y;
}

// On AVX-512 this is a Winograd primitive, which crashes when its scratchpad belongs to the thread that made
// it; elsewhere a direct one.
TEST(OneDnnTest, PrimitivesMadeInOneThreadRunInEight) {
  const LayoutChoice layouts = cpu::conv_layouts(square(4, 14, 64), DType::kF32);
  std::shared_ptr<const ConvPlan> plan;
  std::thread([&] {
    plan = cpu::conv_plan(ConvPass::kForward, square(4, 14, 64), DType::kF32, layouts, false);
  }).join();
  const std::vector<float> expected = run(*plan);
  std::vector<std::vector<float>> got(8);
  std::vector<std::thread> threads;
  threads.reserve(got.size());
  for (auto& answer : got) {
    threads.emplace_back([&] {
      const SingleOpenMpThread single;
      for (int round = 0; round < 3; ++round) answer = run(*plan);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& answer : got) {
    EXPECT_EQ(std::memcmp(answer.data(), expected.data(), expected.size() * sizeof(float)), 0);
  }
}

/// Of the thread that a signal is sent to: where its stack lies, and how often a handler was called beside it.
std::atomic<uintptr_t> stack_begin{0}, stack_end{0};
std::atomic<int> handled{0}, handled_elsewhere{0};

void look_at_stack_pointer(int, siginfo_t*, void* context) {
  const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto pointer = static_cast<uintptr_t>(machine.gregs[REG_RSP]);
#else
  const auto pointer = static_cast<uintptr_t>(machine.sp);
#endif
  if (pointer < stack_begin || pointer > stack_end) ++handled_elsewhere;
  ++handled;
}

/// An f32 product whose K is above what oneDNN 2.6's and 3.7's kernels without copies keep on the stack (84 to 252).
struct DeepProduct {
  dnnl::memory::desc a{{64, 512}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab};
  dnnl::memory::desc b{{512, 96}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab};
  dnnl::memory::desc c{{64, 96}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab};
  onednn::Primitive primitive = onednn::Primitive::make<dnnl::matmul>(
      onednn::describe<dnnl::matmul>(onednn::cpu_engine(), onednn::user_scratchpad(), a, b, c));
};

// The kernel writes a handler's frame below the stack pointer. Where that points into the heap, it overwrites the heap.
TEST(OneDnnTest, NoSignalIsHandledWhileAProductHasItsStackOnTheHeap) {
  struct sigaction action {
  }, former{};
  action.sa_sigaction = look_at_stack_pointer;
  action.sa_flags =
      SA_SIGINFO | SA_ONSTACK | SA_RESTART;  // on a stack of its own: what this finds doesn't crash it
  ::sigaction(SIGUSR2, &action, &former);
  handled = handled_elsewhere = 0;
  std::atomic<bool> is_ready{false}, is_done{false};
  std::thread worker([&] {
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    void* begin = nullptr;
    size_t size = 0;
    pthread_attr_getstack(&attributes, &begin, &size);
    pthread_attr_destroy(&attributes);
    stack_begin = reinterpret_cast<uintptr_t>(begin);
    stack_end = stack_begin + size;
    std::vector<std::byte> alternate(1 << 16);
    const stack_t stack = {alternate.data(), 0, alternate.size()};
    ::sigaltstack(&stack, nullptr);
    {
      const SingleOpenMpThread single;
      const DeepProduct product;
      const std::vector<float> a = ramp(product.a), b = ramp(product.b);
      std::vector<float> c(product.c.get_size() / sizeof(float));
      is_ready = true;
      while (handled < 200) {
        product.primitive.run({{DNNL_ARG_SRC, &product.a, a.data()},
                               {DNNL_ARG_WEIGHTS, &product.b, b.data()},
                               {DNNL_ARG_DST, &product.c, c.data()}});
      }
    }
    const stack_t none = {nullptr, SS_DISABLE, 0};
    ::sigaltstack(&none, nullptr);
    is_done = true;
  });
  while (!is_ready) std::this_thread::yield();
  while (!is_done) {
    pthread_kill(worker.native_handle(), SIGUSR2);
    std::this_thread::yield();
  }
  worker.join();
  ::sigaction(SIGUSR2, &former, nullptr);
  EXPECT_EQ(handled_elsewhere, 0) << "of " << handled;
}

TEST(OneDnnTest, APrimitiveLeavesTheSignalMaskAsItWas) {
  const DeepProduct product;
  const std::vector<float> a = ramp(product.a), b = ramp(product.b);
  std::vector<float> c(product.c.get_size() / sizeof(float));
  sigset_t before, after;
  sigemptyset(&before);
  sigaddset(&before, SIGUSR2);
  pthread_sigmask(SIG_SETMASK, &before, &after);
  const sigset_t former = after;
  product.primitive.run({{DNNL_ARG_SRC, &product.a, a.data()},
                         {DNNL_ARG_WEIGHTS, &product.b, b.data()},
                         {DNNL_ARG_DST, &product.c, c.data()}});
  pthread_sigmask(SIG_SETMASK, &former, &after);
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
}

TEST(OneDnnTest, PlansAreMadeOnceUntilTheTableChanges) {
  const LayoutChoice layouts = cpu::conv_layouts(square(2, 8, 32), DType::kF32);
  const auto plan = [&] {
    return cpu::conv_plan(ConvPass::kForward, square(2, 8, 32), DType::kF32, layouts, false);
  };
  const auto first = plan();
  EXPECT_EQ(plan(), first);
  kernel_table().set("something else", {"direct", 1, 1});
  EXPECT_NE(plan(), first);
  EXPECT_EQ(plan()->form, first->form) << "what constants were packed to would be packed anew";
  const auto other = cpu::conv_plan(ConvPass::kForward, square(2, 8, 64), DType::kF32, layouts, false);
  EXPECT_NE(other->form, first->form);
  kernel_table().clear();
}

TEST(OneDnnTest, SlicesDependOnTheShapeAlone) {
  const Conv2dShape shape = square(32, 28, 128);
  const auto fresh_choice = [&] {
    kernel_table().clear();
    return cpu::conv_choice(ConvPass::kForward, shape, DType::kF32, 8);
  };
  const KernelChoice choice = fresh_choice();
  const int former = engine_threads();
  for (int threads : {1, 3, 8}) {
    set_engine_threads(threads);
    EXPECT_EQ(fresh_choice(), choice);
  }
  set_engine_threads(former);
}

TEST(OneDnnTest, FormatCopyGoesThereAndBackInParts) {
  using dnnl::memory;
  const auto f32 = memory::data_type::f32;
  for (const auto tag :
       {memory::format_tag::OIhw8i8o, memory::format_tag::OIhw16i16o, memory::format_tag::OIhw8o8i,
        memory::format_tag::Ohwi8o, memory::format_tag::hwio}) {
    const memory::desc oihw({96, 32, 3, 3}, f32, memory::format_tag::oihw);
    const memory::desc inner({96, 32, 3, 3}, f32, tag);
    const onednn::FormatCopy there(oihw, inner, 16);
    const onednn::FormatCopy back(inner, oihw, 16);
    EXPECT_GT(there.parts(), 1);
    const std::vector<float> values = ramp(oihw);
    std::vector<float> copied(inner.get_size() / sizeof(float));
    std::vector<float> returned(values.size());
    there.run(values.data(), copied.data());
    back.run(copied.data(), returned.data());
    EXPECT_EQ(returned, values);
    // One part at a time is the same as the whole.
    const onednn::FormatCopy whole(oihw, inner, 1);
    std::vector<float> at_once(copied.size());
    whole.run(values.data(), at_once.data());
    EXPECT_EQ(at_once, copied);
  }
}

TEST(OneDnnTest, ErrorsNameWhatWasTried) {
  using dnnl::memory;
  const memory::desc a({2, 3}, memory::data_type::f32, memory::format_tag::ab);
  const memory::desc b({3, 2}, memory::data_type::f32, memory::format_tag::ab);
  try {
    const onednn::FormatCopy copy(a, b, 1);
    FAIL() << "shapes differ";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[onednn] making a reorder"), std::string::npos) << error.what();
  }
}

TEST(LruCacheTest, KeepsWhatWasUsedLast) {
  onednn::LruCache<int64_t, std::string> cache(2);
  int made = 0;
  const auto get = [&](int64_t key) {
    return cache.find_or_make(key, [&] {
      ++made;
      return std::to_string(key);
    });
  };
  const auto one = get(1);
  get(2);
  get(1);
  get(3);  // drops 2
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(made, 3);
  get(1);
  EXPECT_EQ(made, 3);
  get(2);
  EXPECT_EQ(made, 4);
  EXPECT_EQ(*one, "1");
  EXPECT_THROW(cache.find_or_make(9, []() -> std::string { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(cache.size(), 2u);  // a failed make leaves nothing behind
}

// What the last layers of a ResNet see of small images: oneDNN's AVX2 kernels for blocked images refuse some.
TEST(ConvPlan, NoPassOfASmallImageFallsToPlainLoops) {
  for (const int64_t size : {1, 2, 3, 4}) {
    const Conv2dShape shape = square(4, size, 64);
    for (const ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeights}) {
      const auto plan =
          cpu::conv_plan(pass, shape, DType::kF32, cpu::conv_layouts(shape, DType::kF32), false);
      const std::string& kernel = plan->variants.front().primitive.implementation();
      EXPECT_EQ(kernel.find("ref"), std::string::npos) << kernel << ", " << size << "x" << size;
    }
  }
}

}  // namespace
}  // namespace dlpipe::engine
