#include "run/config/values.h"

#include <gtest/gtest.h>

#include <string>

#include "dlpipe/log.h"
#include "dlpipe/op.h"

namespace dlpipe::run {
namespace {

std::string& logged() {
  static std::string text;
  return text;
}

TEST(Precision, Tf32ChangesNothingOnTheHostAndSaysSo) {
  const LogFunction former =
      set_log_function([](LogLevel, std::string_view message) { logged() += message; });
  EXPECT_FALSE(take_tf32(false, cpu_device()));
  EXPECT_EQ(logged(), "");
  EXPECT_FALSE(take_tf32(true, cpu_device()));
  set_log_function(former);
  EXPECT_NE(logged().find("--tf32"), std::string::npos) << logged();
  EXPECT_NE(logged().find("--device cuda"), std::string::npos) << logged();
}

TEST(Precision, Tf32IsTheThreadsAndEndsWithItsScope) {
  EXPECT_FALSE(engine::tf32_allowed());
  {
    const engine::UseTf32 use(true);
    EXPECT_TRUE(engine::tf32_allowed());
    {
      const engine::UseTf32 not_here(false);
      EXPECT_FALSE(engine::tf32_allowed());
    }
    EXPECT_TRUE(engine::tf32_allowed());
  }
  EXPECT_FALSE(engine::tf32_allowed());
}

TEST(Precision, TheHostHasNoCudnnToDoWithoutAndSaysWhatToDo) {
  EXPECT_EQ(*take_cudnn(false, cpu_device()), engine::Cudnn::kAuto);
  const Status status = take_cudnn(true, cpu_device()).status();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  for (const char* part : {"--no-cudnn", "--device cuda"})
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(Precision, TheHostTrainsInAllButF16AndSaysWhatToDo) {
  for (const char* name : {"f32", "bf16"}) {
    EXPECT_EQ(*training_dtype(name, cpu_device()), *parse_dtype(name));
    EXPECT_EQ(*inference_dtype(name, cpu_device()), *parse_dtype(name));
  }
  const Status status = training_dtype("f16", cpu_device()).status();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_NE(status.message().find("--dtype bf16"), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find("--device cuda") != std::string::npos, cuda_device(0).ok())
      << status.message();
  EXPECT_EQ(*inference_dtype("f16", cpu_device()), DType::kF32);
  EXPECT_FALSE(inference_dtype("f17", cpu_device()).ok());
  for (const char* name : {"f64", "i64"})  // which tensors may have
    EXPECT_NE(inference_dtype(name, cpu_device()).status().message().find("known: f32, bf16, f16"),
              std::string::npos)
        << name;
}

TEST(Precision, ACompiledModelRunsOnTheCpuAlone) {
  EXPECT_EQ(*compiled_dtype("f32"), DType::kF32);
  EXPECT_EQ(*compiled_dtype("bf16"), DType::kBF16);
  for (const char* name : {"f16", "f64", "u8"}) {
    const Status status = compiled_dtype(name).status();
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    EXPECT_NE(status.message().find("on the CPU in f32 or bf16"), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find("--device"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace dlpipe::run
