// How shape rules say no: one way to write "[op] expected ..., got ...; do ...". Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

/// Throws Error kMisuse "[op] message".
[[noreturn]] void reject(std::string_view op, const std::string& message);
/// "f32 [2,3]", with the layout where it isn't plain.
std::string describe(const TensorSpec& spec);

void expect_inputs(std::string_view op, std::span<const TensorSpec> inputs, size_t least, size_t most);
void expect_floating(std::string_view op, const TensorSpec& spec, std::string_view what);
void expect_dtype(std::string_view op, const TensorSpec& spec, DType dtype, std::string_view what);
void expect_rank(std::string_view op, const TensorSpec& spec, int rank, std::string_view what);
/// Of an attribute: no size is below 0.
void expect_sizes(std::string_view op, const Shape& shape);
void expect_shape(std::string_view op, const TensorSpec& spec, const Shape& shape, std::string_view what);
/// `axis` counted from the front; negative ones count from the end. Error unless it is one of `rank` axes.
int checked_axis(std::string_view op, int axis, int rank);
/// Of an attribute, which counts from the front: one of `rank` axes.
void expect_axis(std::string_view op, int axis, int rank);

}  // namespace dlpipe::engine
