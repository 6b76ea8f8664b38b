#include "engine/core/kernel_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "base/text.h"
#include "engine/core/parallel.h"
#include "io/formats/json.h"

namespace dlpipe::engine {
namespace {

TEST(KernelTableTest, RemembersWhatTheRuleSaid) {
  KernelTable table;
  const uint64_t made = table.generation();
  int asked = 0;
  const auto rule = [&] {
    ++asked;
    return KernelChoice{"direct", 4, 1};
  };
  EXPECT_EQ(table.find_or_add("a", rule), (KernelChoice{"direct", 4, 1}));
  EXPECT_EQ(table.find_or_add("a", rule), (KernelChoice{"direct", 4, 1}));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(table.generation(), made);
}

TEST(KernelTableTest, WhatIsSavedAndLoadedDecides) {
  KernelTable table;
  table.set("conv b", {"winograd", 16, 1});
  table.set("conv a", {"direct", 32, 4});
  const std::string text = table.save();
  KernelTable other;
  const uint64_t made = other.generation();
  ASSERT_TRUE(other.load(text).ok());
  EXPECT_EQ(other.save(), text);
  EXPECT_NE(other.generation(), made);
  const auto never = []() -> KernelChoice { throw std::logic_error("the table has it"); };
  EXPECT_EQ(other.find_or_add("conv b", never), (KernelChoice{"winograd", 16, 1}));
  const formats::Json json = *formats::Json::parse(text);
  EXPECT_EQ(json["isa"].as_string(), isa_name(kernel_isa()));
  EXPECT_EQ(json["library"].as_string(), kernel_library());
  EXPECT_EQ(json["choices"].members().front().first, "conv a");  // sorted: the same choices, the same bytes
}

TEST(KernelTableTest, RefusesWhatItCannotUse) {
  KernelTable table;
  EXPECT_EQ(table.load("{").code(), ErrorCode::kCorrupt);
  EXPECT_EQ(table.load("{}").code(), ErrorCode::kCorrupt);
  EXPECT_EQ(table.load(R"({"version":99,"choices":{}})").code(), ErrorCode::kUnsupported);
  const auto load = [&](const std::string& choices) {
    return table.load(
        concat(R"({"version":1,"library":")", kernel_library(), R"(","choices":{)", choices, "}}"));
  };
  EXPECT_EQ(load(R"("a":{"kernel":"direct","images":4})").code(), ErrorCode::kCorrupt);
  const Status zero =
      load(R"("a":{"kernel":"direct","images":1,"parts":1},"b":{"kernel":"direct","images":0,"parts":1})");
  EXPECT_EQ(zero.code(), ErrorCode::kCorrupt);
  EXPECT_NE(zero.message().find("'b'"), std::string::npos) << zero.message();
  EXPECT_EQ(table.size(), 0u);  // nothing was taken
}

// oneDNN 3 has no Winograd and other speeds; and equal choices give other bits.
TEST(KernelTableTest, TakesNothingFromAnotherOneDnn) {
  KernelTable table;
  table.set("conv a", {"winograd", 16, 1});
  std::string text = table.save();
  text.replace(text.find(kernel_library()), kernel_library().size(), "oneDNN 1.2.3");
  KernelTable other;
  const Status status = other.load(text);
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_NE(status.message().find("oneDNN 1.2.3"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(kernel_library()), std::string::npos) << status.message();
  EXPECT_EQ(other.size(), 0u);
}

TEST(KernelTableTest, AThreadsOwnTableIsAskedBySlicesOnOtherThreadsToo) {
  KernelTable own;
  KernelTable& of_process = kernel_table();
  std::atomic<int> others{0};
  {
    const UseKernelTable use(&own);
    EXPECT_EQ(&kernel_table(), &own);
    parallel_slices(64, [&](int64_t) { others += &kernel_table() == &own ? 0 : 1; });
  }
  EXPECT_EQ(others, 0);
  EXPECT_EQ(&kernel_table(), &of_process);
  parallel_slices(64, [&](int64_t) { others += &kernel_table() == &of_process ? 0 : 1; });
  EXPECT_EQ(others, 0);
}

TEST(KernelTableTest, NoTwoTablesHaveAGenerationInCommon) {
  KernelTable a, b;
  std::set<uint64_t> seen = {a.generation(), b.generation()};
  for (KernelTable* table : {&a, &b, &a}) {
    table->set("key", {"direct", 1, 1});
    EXPECT_TRUE(seen.insert(table->generation()).second);
  }
  EXPECT_EQ(seen.size(), 5u);
}

}  // namespace
}  // namespace dlpipe::engine
