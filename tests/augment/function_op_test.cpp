// Ops whose code is a function known at run time.
#include "augment/function_op.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "dlpipe/augment.h"

namespace dlpipe::augment {
namespace {

void add_values(uint8_t* pixels, int64_t height, int64_t width, int64_t channels, uint64_t key,
                const double* p) {
  for (int64_t i = 0; i < height * width * channels; ++i)
    pixels[i] = static_cast<uint8_t>(pixels[i] + static_cast<uint8_t>(p[0]) + (p[1] > 0 ? key & 0xff : 0));
}
void nothing(uint8_t*, int64_t, int64_t, int64_t, uint64_t, const double*) {}

FunctionOp op() {
  return {"add_values", "adds", add_values, "add_1", {{"by", 3}, {"keyed", 0}}};
}

std::vector<uint8_t> run(const Chain& chain, int64_t position = 0) {
  std::vector<uint8_t> in(4 * 5 * 3);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i);
  ChainPlan plan;
  throw_if_error(chain.plan({5, 4, 3}, {1, 0, position, 0}, plan));
  std::vector<uint8_t> out(in.size());
  ChainScratch scratch;
  throw_if_error(chain.apply(plan, {in.data(), 5, 4, 3, 15}, {out.data(), 5, 4, 3, 15}, scratch));
  return out;
}

TEST(FunctionOp, RunsInAChainWithItsParameters) {
  OpRegistry registry = OpRegistry::builtin();
  throw_if_error(add_function_op(op(), registry));
  const auto plain = run(value_or_throw(Chain::parse("add_values", registry)));
  const auto ten = run(value_or_throw(Chain::parse("add_values(by=10)", registry)));
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i], i + 3);
    EXPECT_EQ(ten[i], i + 10);
  }
  const Chain flipped = value_or_throw(Chain::parse("add_values(by=10) hflip(p=1)", registry));
  EXPECT_EQ(flipped.find_random(), nullptr) << "a function may ignore its random number";
  EXPECT_EQ(run(flipped)[0], 12 + 10);
  EXPECT_EQ(run(value_or_throw(Chain::parse("add_values(p=0)", registry)))[7], 7);
}

TEST(FunctionOp, DefaultsKeepAllTheirDigits) {
  FunctionOp third = op();
  third.name = third.code = "add_third";
  third.parameters = {{"by", 1.0 / 3}, {"keyed", 1e-7}};
  OpRegistry registry = OpRegistry::builtin();
  throw_if_error(add_function_op(third, registry));
  const std::string text = value_or_throw(Chain::parse("add_third", registry)).canonical();
  EXPECT_NE(text.find("by=0.3333333333333333,keyed=1e-07"), std::string::npos) << text;
}

TEST(FunctionOp, EverySampleHasItsKey) {
  OpRegistry registry = OpRegistry::builtin();
  throw_if_error(add_function_op(op(), registry));
  const Chain chain = value_or_throw(Chain::parse("add_values(keyed=1)", registry));
  EXPECT_EQ(run(chain, 1), run(chain, 1));
  EXPECT_NE(run(chain, 1), run(chain, 2));
}

TEST(FunctionOp, ItsCodeIsPartOfTheChainsText) {
  OpRegistry registry = OpRegistry::builtin();
  throw_if_error(add_function_op(op(), registry));
  const std::string text = value_or_throw(Chain::parse("add_values", registry)).canonical();
  EXPECT_NE(text.find("code=add_1"), std::string::npos) << text;
  FunctionOp other = op();
  other.code = "add_2";
  OpRegistry later = OpRegistry::builtin();
  throw_if_error(add_function_op(other, later));
  EXPECT_NE(value_or_throw(Chain::parse("add_values", later)).canonical(), text);
}

TEST(FunctionOp, WhatCannotBeIsRefused) {
  OpRegistry registry = OpRegistry::builtin();
  const auto error = [&](const FunctionOp& wrong) { return add_function_op(wrong, registry).message(); };
  const auto with = [](auto change) {
    FunctionOp changed = op();
    change(changed);
    return changed;
  };
  EXPECT_NE(error(with([](auto& o) { o.name = "rrc"; })).find("dlpipe's own"), std::string::npos);
  EXPECT_NE(error(with([](auto& o) { o.name = "a b"; })).find("name"), std::string::npos);
  EXPECT_NE(error(with([](auto& o) { o.function = nullptr; })).find("no function"), std::string::npos);
  EXPECT_NE(error(with([](auto& o) { o.code = ""; })).find("code"), std::string::npos);
  EXPECT_NE(error(with([](auto& o) {
              o.parameters = {{"a", 1}, {"a", 2}};
            })).find("parameter 'a'"),
            std::string::npos);
  EXPECT_NE(error(with([](auto& o) { o.parameters = {{"p", 1}}; })).find("parameter 'p'"), std::string::npos);
  throw_if_error(add_function_op(op(), registry));
  throw_if_error(add_function_op(op(), registry));  // once more is fine
  EXPECT_NE(error(with([](auto& o) { o.function = nothing; })).find("another version"), std::string::npos);
  EXPECT_NE(
      Chain::parse("add_values(code=none_such)", registry).status().message().find("leave the parameter out"),
      std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
