// Helpers for op records: errors of shape rules in the form "[op] expected ..., got ...; do ...", and inputs for benchmarks.
// Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "dlpipe/op.h"

namespace dlpipe::engine {

/// Throws Error kMisuse "[op] message".
[[noreturn]] void reject(std::string_view op, const std::string& message);
/// "f32 [2,3]", with the layout if it isn't plain.
std::string describe(const TensorSpec& spec);

void expect_inputs(std::string_view op, std::span<const TensorSpec> inputs, size_t least, size_t most);
void expect_floating(std::string_view op, const TensorSpec& spec, std::string_view what);
void expect_dtype(std::string_view op, const TensorSpec& spec, DType dtype, std::string_view what);
void expect_rank(std::string_view op, const TensorSpec& spec, int rank, std::string_view what);
/// Checks an attribute: no size is below 0.
void expect_sizes(std::string_view op, const Shape& shape);
void expect_shape(std::string_view op, const TensorSpec& spec, const Shape& shape, std::string_view what);
/// `axis` counted from the front; negative ones count from the end. Throws Error unless it is one of `rank` axes.
int checked_axis(std::string_view op, int axis, int rank);
/// Checks an attribute that counts from the front: it is one of `rank` axes.
void expect_axis(std::string_view op, int axis, int rank);

/// Inputs of realistic sizes: the record's own or, if it has none, its first sample with a longer leading axis
/// if the op's shape rule allows that.
std::vector<OpSample> bench_samples(const OpRecord& record);

/// For OpRecord::bench: the first of `samples` with other inputs; its attributes must fit any shape.
std::vector<OpSample> large_sample(std::vector<OpSample> samples, std::vector<TensorSpec> inputs);

}  // namespace dlpipe::engine
