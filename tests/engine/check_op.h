// Every check that an op's record makes possible, driven by its samples.
#pragma once

#include "dlpipe/op.h"

namespace dlpipe::engine {

/// For each of the record's samples:
///  1. the reference's backward against central differences of its forward, in f64;
///  2. the reference in f32 and the cpu kernels in f32 against the reference in f64, forward and backward;
///  3. the cpu kernels in bf16, and in f16 where they take it, against f64 on the same (rounded) values;
///  4. each layout that the record lists, on the samples with images that fit it, against plain;
///  5. the cpu kernels with 1, 2 and 3 engine threads, bit for bit;
///  6. the cpu kernels on each instruction set down to the baseline: bit for bit, or within the tolerances
///     where they don't promise that (Kernels::same_bits_on_every_isa);
///  7. that the cpu kernels, where there are some, take at least one sample in f32 and one in bf16: what they
///     don't take, the reference computes.
/// Failures are gtest's, with op, sample and element in the message. Values are keyed by the sample's number.
void check_op(const OpRow& row);
/// The same for a built-in op.
void check_op(const char* name);

/// Number 2 and 3 for other kernels of a built-in op, on plain tensors in host memory: those of CUDA over a
/// simulated grid. At least one sample has to be theirs. `samples`: others than the record's.
void check_kernels(const char* name, const Kernels& kernels, std::vector<OpSample> (*samples)() = nullptr);
/// The same for a built-in op's kernels on a CUDA device, tensors there.
void check_on_device(const char* name, Device& device, std::vector<OpSample> (*samples)() = nullptr);

/// gtest failures, `what` in them, unless shapes are equal and elements within the tolerance of `expected`'s: NaN where
/// that is NaN, equal infinities.
void expect_near(const Tensor& got, const Tensor& expected, const Tolerance& tolerance,
                 const std::string& what);

/// Of the record, for inputs of `dtype`.
const Tolerance& tolerance_of(const OpRecord& record, DType dtype);

}  // namespace dlpipe::engine
